"""The model equals torch's, is causal, ignores padding, and decodes step by step alike."""

import dataclasses
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nmtlib.model.attention import MultiHeadAttention, padding_mask, record_attention
from nmtlib.model.choices import CHOICES
from nmtlib.model.layers import DecoderState
from nmtlib.model.transformer import Transformer, TransformerConfig

SMALL = TransformerConfig(
    13, 17, d_model=16, n_heads=4, n_encoder_layers=2, n_decoder_layers=3, d_ff=24, max_length=20
)


def make(**changes) -> Transformer:
    torch.manual_seed(0)
    return Transformer(dataclasses.replace(SMALL, **changes)).double().eval()


def batch():
    source = torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [5, 2, 0, 0, 0]])
    target = torch.tensor([[1, 4, 5, 6], [1, 7, 0, 0], [1, 9, 10, 0]])
    return source, target


def torch_twin(model: Transformer) -> nn.Transformer:
    """torch's Transformer with the same weights; no closing norms where ours has none."""
    c = model.config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that pre-norm takes no shortcut through nested tensors
        sizes = c.d_model, c.n_heads, c.n_encoder_layers, c.n_decoder_layers, c.d_ff
        how = {"dropout": 0.0, "batch_first": True, "norm_first": c.norm == "pre"}
        twin = nn.Transformer(*sizes, **how).double().eval()
    if c.norm == "post":
        twin.encoder.norm = twin.decoder.norm = None
    else:
        twin.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        twin.decoder.norm.load_state_dict(model.decoder_norm.state_dict())

    def copy_attention(ours, theirs):
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.data = torch.cat([p.weight.data for p in parts])
        theirs.in_proj_bias.data = torch.cat([p.bias.data for p in parts])
        theirs.out_proj.load_state_dict(ours.output.state_dict())

    layers = [*twin.encoder.layers, *twin.decoder.layers]
    for ours, theirs in zip([*model.encoder, *model.decoder], layers, strict=True):
        copy_attention(ours.self_attention, theirs.self_attn)
        if hasattr(ours, "cross_attention"):
            copy_attention(ours.cross_attention, theirs.multihead_attn)
        theirs.linear1.load_state_dict(ours.feed_forward.fc1.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.fc2.state_dict())
        for number, residual in enumerate(ours.residuals, start=1):
            getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())
    return twin


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_logits_equal_torch_transformer_in_float64_with_padding(norm):
    model = make(norm=norm)
    for parameter in model.parameters():  # biases and norms that start at 0 and 1 would hide a swap
        nn.init.normal_(parameter, std=0.3)
    source, target = batch()
    twin = torch_twin(model)
    src_padding, tgt_padding = source == 0, target == 0
    out = twin(
        model.source_positions(model.source_embedding(source)),
        model.target_positions(model.target_embedding(target)),
        tgt_mask=~torch.ones(4, 4, dtype=torch.bool).tril(),
        src_key_padding_mask=src_padding,
        tgt_key_padding_mask=tgt_padding,
        memory_key_padding_mask=src_padding,
    )
    real = target != 0
    difference = (model(source, target) - model.output(out))[real]
    assert difference.abs().max() < 1e-10


def test_paper_size_model_has_the_known_number_of_parameters():
    table = Transformer(TransformerConfig.base(3922, 3775)).parameter_table()
    assert sum(table.values()) == 50_015_935


@pytest.mark.parametrize(("tied", "saved"), [("target", 17 * 16), ("all", 2 * 17 * 16)])
def test_a_tied_tensor_is_one_tensor_and_counted_once(tied, saved):
    untied, model = make(source_vocab_size=17), make(source_vocab_size=17, tied=tied)
    assert sum(untied.parameter_table().values()) - sum(model.parameter_table().values()) == saved
    with torch.no_grad():
        model.output.weight[5] += 1
    assert torch.equal(model.target_embedding.weight, model.output.weight)
    assert torch.equal(model.source_embedding.weight, model.output.weight) == (tied == "all")


@pytest.mark.parametrize("training", [True, False])
def test_a_future_token_and_more_padding_change_nothing(training):
    model = make(dropout=0.0).train(training)
    source, target = batch()
    changed = target.clone()
    changed[0, 2] = 11
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[0, :2], after[0, :2])
    assert not torch.allclose(before[0, 2], after[0, 2])
    wider = model(F.pad(source, (0, 3)), F.pad(target, (0, 2)))[:, :4]
    real = target != 0
    assert torch.allclose(before[real], wider[real], atol=1e-12)
    alone = model(source[1:2, :3], target[1:2, :2])
    assert torch.allclose(before[1:2, :2], alone, atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_step_by_step_decoding_equals_decoding_at_once(norm, positions):
    model = make(norm=norm, positions=positions)
    source, target = batch()
    state = model.start(source)
    assert isinstance(state, DecoderState)
    full = model(source, target)
    for position in range(target.size(1)):
        logits = model.step(target[:, position], state)
        real = target[:, position] != 0
        assert torch.allclose(logits[real], full[real, position], atol=1e-10)
        assert torch.equal(logits[real].argmax(-1), full[real, position].argmax(-1))


@pytest.mark.parametrize("embedding_init", ["xavier", "normal"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_first_loss_is_about_that_of_an_even_guess(norm, embedding_init):
    vocab, sizes = 4000, {"d_model": 128, "n_heads": 4, "n_encoder_layers": 2, "d_ff": 256}
    for tied in ("none", "all"):
        torch.manual_seed(1)
        config = TransformerConfig(vocab, vocab, **sizes, n_decoder_layers=2, norm=norm, tied=tied)
        model = Transformer(dataclasses.replace(config, embedding_init=embedding_init)).eval()
        source, target = torch.randint(4, vocab, (2, 16, 12)).unbind()
        with torch.no_grad():
            logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        size_one = tied == "all" and embedding_init == "normal"  # half of the logits' variance
        assert abs(loss - math.log(vocab) - size_one / 2) < 0.02 * math.log(vocab)


@pytest.mark.parametrize("vocab", [50, 5000])
def test_embeddings_that_start_normal_are_read_at_size_one_whatever_the_vocabulary(vocab):
    torch.manual_seed(1)
    sizes = {}
    for start in ("xavier", "normal"):
        model = make(source_vocab_size=vocab, d_model=64, embedding_init=start)
        sizes[start] = model.source_embedding(torch.arange(4, vocab)).square().mean().sqrt().item()
        assert not model.source_embedding.weight[0].any()
    assert sizes["normal"] == pytest.approx(1, rel=0.05)
    assert sizes["xavier"] == pytest.approx(math.sqrt(64 * 2 / (vocab + 64)), rel=0.05)


def test_linear_maps_can_start_as_those_of_torch():
    for each in make(d_model=64, linear_init="torch").modules():
        if isinstance(each, torch.nn.Linear):
            bound = each.in_features**-0.5  # torch's; Xavier's is sqrt(6 / (inputs + outputs))
            assert each.weight.abs().max().item() == pytest.approx(bound, rel=0.02)
            assert 0 < each.bias.abs().max() <= bound


def test_every_parameter_gets_a_gradient_and_the_pad_row_none_through_the_lookup():
    model = make(norm="post").train()
    source, target = batch()
    model(source, target).pow(2).mean().backward()
    for name, p in model.named_parameters():
        # A key's bias shifts all scores of a query alike, and softmax does not notice a shift.
        assert name.endswith("key.bias") or p.grad.abs().sum() > 0, name
    assert not model.source_embedding.weight.grad[0].any()


def test_the_computable_position_table_is_not_saved_but_follows_the_model():
    model = make()
    assert not [name for name in model.state_dict() if "table" in name]
    assert model.source_positions.table.dtype == torch.float64
    assert "source_positions.table" in dict(make(positions="learned").named_parameters())


def test_a_configuration_that_cannot_be_is_refused():
    for change, message in (
        ({"d_model": 18}, "multiple of n_heads"),
        ({"d_model": 0}, "d_model must be at least 1"),
        ({"n_encoder_layers": 1001}, "n_encoder_layers must be at least 1, at most 1,000"),
        ({"target_vocab_size": -1}, "target_vocab_size must be at least 0"),
        ({"dropout": 1.0}, "dropout must be a probability"),
        ({"tied": "all"}, "needs one joint vocabulary"),
        *(({n: "x"}, n) for n in ("norm", "positions", "tied", "embedding_init", "linear_init")),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(SMALL, **change)


def test_ids_outside_the_vocabulary_and_sentences_beyond_the_table_are_refused():
    model = make()
    source, target = batch()
    with pytest.raises(ValueError, match=r"ids are in 0\.\.13, but this embedding has 13 rows"):
        model(source.where(source != 9, 13), target)
    with pytest.raises(ValueError, match="longer than the position table of 20"):
        model(torch.full((1, 21), 4), target[:1])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_recomputed_activations_give_the_same_gradients_and_draw_the_same_dropout(dropout, norm):
    model = make(norm=norm, dropout=dropout, attention_dropout=dropout).train()
    runs = []
    for checkpointed in (False, True):
        model.checkpoint_activations = checkpointed
        model.zero_grad()
        torch.manual_seed(1)
        logits = model(*batch())
        logits.square().sum().backward()
        after = torch.rand(1)  # backward must not have moved the generator either
        runs.append((logits, after, *(p.grad for p in model.parameters())))
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(*runs, strict=True))


def test_each_layer_runs_again_in_backward_only_where_asked_and_only_while_training():
    model = make()
    calls = []
    for layer in (*model.encoder, *model.decoder):
        layer.feed_forward.register_forward_pre_hook(lambda module, inputs: calls.append(module))
    for checkpointed, training, expected in ((False, True, 5), (True, True, 10), (True, False, 5)):
        model.checkpoint_activations = checkpointed
        model.train(training)
        calls.clear()
        model(*batch()).sum().backward()
        assert len(calls) == expected


class Uniform(MultiHeadAttention):
    """Attends to all allowed keys alike."""

    def weighted_values(self, query, keys, values, mask, start):
        return super().weighted_values(torch.zeros_like(query), keys, values, mask, start)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_another_attention_takes_the_place_of_the_usual_one_everywhere(norm):
    torch.manual_seed(0)
    plain = make(norm=norm)
    model = Transformer(plain.config, attention=Uniform).double().eval()
    model.load_state_dict(plain.state_dict())
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert {type(m) for m in attentions} == {Uniform}
    assert len(attentions) == plain.config.n_encoder_layers + 2 * plain.config.n_decoder_layers
    source, target = batch()
    with torch.no_grad(), record_attention(model) as maps:
        logits = model(source, target)
    assert not torch.allclose(logits, plain(source, target))
    weights = maps["decoder.0.cross_attention"][0]  # (B, H, T, S)
    allowed = padding_mask(source).expand_as(weights).double()
    assert torch.allclose(weights, allowed / allowed.sum(dim=-1, keepdim=True))
    state = model.start(source)
    for position in range(target.size(1)):
        real = target[:, position] != 0
        step = model.step(target[:, position], state)
        assert torch.allclose(step[real], logits[real, position], atol=1e-10)
