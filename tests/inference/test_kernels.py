"""The quicker linear maps give torch's results, only while their block runs, and only where they
apply.
"""

import pytest
import torch
from torch import nn

from nmtlib.inference import search
from nmtlib.inference.kernels import bfloat16_linears, onednn_linears
from nmtlib.inference.search import beam_search
from nmtlib.model.transformer import Transformer, TransformerConfig

NO_ONEDNN = not (
    torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
CONFIG = TransformerConfig(
    9, 7, d_model=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, d_ff=16, max_length=40
)


def maps() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 40, bias=False)
    ).requires_grad_(False)


def replaced(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if "forward" in module.__dict__]


@pytest.mark.skipif(NO_ONEDNN, reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("shape", [(64,), (1, 64), (3, 5, 64)])
def test_onednn_gives_what_torch_gives(shape):
    model, x = maps(), torch.randn(*shape)
    expected = model(x)
    with onednn_linears(model):
        assert len(replaced(model)) == 2
        found = model(x)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-5)
    assert not replaced(model)


@pytest.mark.parametrize("shape", [(64,), (3, 5, 64)])
def test_bfloat16_stays_within_its_eight_bits_and_returns_float32(shape):
    model, x = maps(), torch.randn(*shape)
    expected = model(x)
    with bfloat16_linears(model):
        found = model(x)
    assert found.dtype == torch.float32 and not torch.equal(found, expected)
    assert (found - expected).abs().max() < 0.02 * expected.abs().max()
    assert not replaced(model)


@pytest.mark.parametrize("block", [onednn_linears, bfloat16_linears])
def test_other_types_and_other_linear_maps_are_left_alone(block):
    class Own(nn.Linear):
        pass

    with block(both := nn.Sequential(nn.Linear(4, 4).double(), Own(4, 4))):
        assert not replaced(both)


@pytest.mark.parametrize("block", [onednn_linears, bfloat16_linears])
def test_an_error_inside_the_block_leaves_the_model_as_it_was(block):
    model = maps()
    with pytest.raises(RuntimeError, match="inside"), block(model):
        raise RuntimeError("inside")
    assert not replaced(model)


def test_the_outer_block_prevails():
    model, x = maps(), torch.randn(2, 64)
    with bfloat16_linears(model):
        expected = model(x)
        with onednn_linears(model):
            assert torch.equal(model(x), expected)
        assert torch.equal(model(x), expected)


def test_weights_that_change_between_two_searches_count(monkeypatch):
    torch.manual_seed(1)
    model, source = Transformer(CONFIG).eval(), torch.tensor([[4, 5, 2]])
    first = beam_search(model, source, 2)[0][0]
    with torch.no_grad():
        model.output.bias[6] += 30
    changed = beam_search(model, source, 2)[0][0]
    monkeypatch.setattr(search, "onednn_linears", lambda model: torch.no_grad())
    assert changed.ids == beam_search(model, source, 2)[0][0].ids != first.ids
    assert changed.log_prob == pytest.approx(beam_search(model, source, 2)[0][0].log_prob, abs=1e-5)
