"""Layers: the feed-forward is used, the residual carries the input, and norms stand where they
should.
"""

import pytest
import torch
from torch.nn import functional as F

from nmtlib.model.config import TransformerConfig
from nmtlib.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual


def config(norm: str) -> TransformerConfig:
    return TransformerConfig(d_model=8, n_heads=2, d_ff=12, dropout=0.0, norm=norm)


def test_feed_forward_is_two_linear_maps_around_a_relu_at_each_position_alone():
    layer = FeedForward(8, 12)
    x = torch.randn(2, 5, 8)
    expected = F.linear(
        F.relu(F.linear(x, layer.fc1.weight, layer.fc1.bias)), layer.fc2.weight, layer.fc2.bias
    )
    assert torch.allclose(layer(x), expected)
    assert torch.allclose(layer(x)[:, 3:4], layer(x[:, 3:4]), atol=1e-6)


def test_pre_norm_hands_the_input_on_unchanged_and_post_norm_normalises_the_sum():
    x = torch.randn(2, 5, 8) * 3 + 1
    silent = torch.zeros_like
    assert torch.equal(Residual(8, 0.0, "pre")(x, silent), x)
    normalised = Residual(8, 0.0, "post")(x, silent)
    assert torch.allclose(normalised, F.layer_norm(x, (8,)), atol=1e-6)


def test_the_sublayer_of_pre_norm_reads_normalised_input():
    x, seen = torch.randn(2, 5, 8) * 3 + 1, []
    Residual(8, 0.0, "pre")(x, lambda y: seen.append(y) or y)
    assert torch.allclose(seen[0], F.layer_norm(x, (8,)), atol=1e-6)


def test_dropout_acts_on_the_sublayer_and_never_on_the_residual():
    x = torch.ones(50, 8)
    residual = Residual(8, 0.5, "pre").train()
    out = residual(x, torch.ones_like)
    assert set(out.unique().tolist()) == {1.0, 3.0}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_layer_mixes_positions_and_obeys_its_mask(norm):
    torch.manual_seed(0)
    layer = EncoderLayer(config(norm))
    x = torch.randn(1, 4, 8)
    changed = x.clone()
    changed[0, 3] *= -1  # adding a constant would not do: the norm removes it
    assert not torch.allclose(layer(x)[0, 0], layer(changed)[0, 0])
    mask = torch.tensor([True, True, True, False])[None, None, None]
    assert torch.equal(layer(x, mask)[0, :3], layer(changed, mask)[0, :3])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_decoder_layer_reads_the_memory_it_may_see(norm):
    torch.manual_seed(0)
    layer = DecoderLayer(config(norm))
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 4, 8)
    mask = torch.tensor([True, True, True, False])[None, None, None]
    last, first = memory.clone(), memory.clone()
    last[0, 3] *= -1
    first[0, 0] *= -1
    out = layer(x, memory, None, mask)
    assert torch.equal(out, layer(x, last, None, mask))
    assert not torch.allclose(out, layer(x, first, None, mask))
