"""PyTorch's Transformer with our weights says what ours says, and a wrong weight is seen."""

import pytest
import torch
from torch import nn

from nmtcourse.teaching.twin import tensor_pairs, torch_twin, twin_logits
from nmtlib.data import PAD, collate, make_example
from nmtlib.model import Transformer, TransformerConfig

SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 12, "dropout": 0.0}


@pytest.fixture(params=["post", "pre"])
def ours(request):
    layers = {"n_encoder_layers": 2, "n_decoder_layers": 1}
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(11, 13, norm=request.param, **SIZES, **layers)).double()
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


def test_the_twin_says_the_same(ours, batch):
    assert difference(ours, torch_twin(ours), batch) < 1e-9


def test_a_wrong_weight_is_seen(ours, batch):
    twin = torch_twin(ours)
    for _, their in tensor_pairs(ours, twin):
        kept = their.data.clone()
        their.data = their.data + 0.1 * torch.randn_like(their)
        assert difference(ours, twin, batch) > 1e-6
        their.data = kept
