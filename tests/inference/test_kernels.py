"""The copy for translating gives torch's results, shares the weights, and has no gradients."""

import pytest
import torch
from torch import nn

from nmtcourse.recipes.bfloat16 import BFloat16Linear, in_bfloat16
from nmtlib.inference.kernels import HAS_ONEDNN, OneDnnLinear, convert
from nmtlib.inference.search import beam_search
from nmtlib.model.attention import record_attention
from nmtlib.model.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(
    7, 7, d_model=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, d_ff=16, max_length=40
)
SOURCE = torch.tensor([[4, 5, 2]])
one_dnn = pytest.mark.skipif(not HAS_ONEDNN, reason="torch without oneDNN")
both = pytest.mark.parametrize("quicken", [pytest.param(convert, marks=one_dnn), in_bfloat16])
QUICK = (OneDnnLinear, BFloat16Linear)


def maps() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 40, bias=False))


def make(**changes) -> Transformer:
    torch.manual_seed(1)
    return Transformer(TransformerConfig(**vars(CONFIG) | changes)).eval()


@one_dnn
@pytest.mark.parametrize("shape", [(64,), (1, 64), (3, 5, 64)])
def test_onednn_gives_what_torch_gives(shape):
    model, x = maps(), torch.randn(*shape)
    quick = convert(model)
    with torch.no_grad():
        found, expected = quick(x), model(x)
    assert [type(module) for module in quick] == [OneDnnLinear, nn.ReLU, OneDnnLinear]
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(64,), (3, 5, 64)])
def test_bfloat16_stays_within_its_eight_bits_and_returns_float32(shape):
    model, x = maps(), torch.randn(*shape)
    with torch.no_grad():
        found, expected = in_bfloat16(model)(x), model(x)
    assert found.dtype == torch.float32 and not torch.equal(found, expected)
    assert (found - expected).abs().max() < 0.02 * expected.abs().max()


@both
def test_other_types_and_other_linear_maps_stay(quicken):
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(4, 4).double(), Own(4, 4), nn.Linear(4, 4, device="meta"))
    assert not [m for m in quicken(model).modules() if isinstance(m, QUICK)]


@both
def test_the_model_that_is_given_stays_as_it_is(quicken):
    model = make()
    before, logits = [type(m) for m in model.modules()], model(SOURCE, SOURCE)
    quick = quicken(model)
    assert [m for m in quick.modules() if isinstance(m, QUICK)]
    assert [type(m) for m in model.modules()] == before
    assert torch.equal(model(SOURCE, SOURCE), logits) and logits.requires_grad


@both
def test_a_copy_refuses_gradients(quicken):
    for model in (maps(), maps().requires_grad_(False)):
        quick, x = quicken(model), torch.randn(2, 64)
        with torch.no_grad():
            quick(x)
        with pytest.raises(RuntimeError, match="has no gradients"):
            quick(x.requires_grad_())
    quick(torch.randn(2, 64))  # frozen weights, and an input that asks for none
    with pytest.raises(RuntimeError, match="has no gradients"):
        quicken(maps())(torch.randn(2, 64))


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_the_copy_shares_all_weights_and_tied_ones_stay_one(tied):
    model = make(tied=tied)
    quick = convert(model)
    assert {id(p) for p in quick.parameters()} == {id(p) for p in model.parameters()}
    assert (quick.output.weight is quick.target_embedding.weight) == (tied != "none")
    assert quick.parameter_table() == model.parameter_table()


def test_weights_that_change_in_place_reach_the_copy_in_float32_only():
    model = make()
    exact, rounded = convert(model), in_bfloat16(model)
    before = beam_search(model, SOURCE, 2)[0][0].ids
    with torch.no_grad():
        model.output.bias[6] += 30
    plain, quick, snapshot = (beam_search(m, SOURCE, 2)[0][0] for m in (model, exact, rounded))
    assert plain.ids == quick.ids != before and snapshot.ids != plain.ids
    assert quick.log_prob == pytest.approx(plain.log_prob, abs=1e-5)


def test_who_listens_to_the_model_hears_the_copy():
    model = make()
    quick = convert(model)
    with record_attention(model) as maps:
        beam_search(quick, SOURCE, 2)
    heard = maps["decoder.0.cross_attention"]
    assert heard and heard[0].shape == (1, 2, 1, 3)
    beam_search(quick, SOURCE, 2)
    assert len(maps["encoder.0.self_attention"]) == 1


def test_bfloat16_away_from_a_cpu_is_a_copy_and_leaves_the_model_alone():
    model = make().to("meta")
    copied = in_bfloat16(model)
    assert {p.dtype for p in copied.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
