"""PyTorch's Transformer with our weights says what ours says, and a wrong weight is seen."""

import pytest
import torch
from torch import nn

from nmtcourse.teaching.twin import tensor_pairs, torch_twin, twin_logits
from nmtlib.data import PAD, collate, make_example
from nmtlib.model import Transformer, TransformerConfig

SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 12, "dropout": 0.0}


def new_model(norm):
    torch.manual_seed(0)
    config = TransformerConfig(11, 13, norm=norm, n_encoder_layers=2, n_decoder_layers=1, **SIZES)
    model = Transformer(config).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def batch():
    return collate([make_example([4, 5, 6], [7, 8]), make_example([9], [10, 11, 12])])


@torch.no_grad()
def difference(ours, twin, batch):
    real = batch.labels != PAD
    expected = ours(batch.source, batch.decoder_input)[real]
    return (twin_logits(ours, twin, batch)[real] - expected).abs().max().item()


def test_the_twin_says_the_same_and_a_wrong_weight_is_seen(batch):
    for ours in map(new_model, ("post", "pre")):
        twin = torch_twin(ours)
        assert difference(ours, twin, batch) < 1e-9
        for _, weight in tensor_pairs(ours, twin):
            right = weight.data.clone()
            weight.data = weight.data + 0.1 * torch.randn_like(weight)
            assert difference(ours, twin, batch) > 1e-6
            weight.data = right
