"""What attentions of a training pass read is told from their weights and the ids."""

import pytest
import torch
from torch import Tensor

from nmtcheck.measure.attended import find_hidden_reads

PAD = 0
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, PAD, PAD]])
TARGET = torch.tensor([[1, 5, 6, 7], [1, 5, PAD, PAD]])
HEADS = 3


def attend(queries: Tensor, keys: Tensor, future: bool = False, hidden: bool = True) -> Tensor:
    """The weights (B * H, T, S) of attentions, masked as they should be, or not."""
    scores = torch.randn(len(queries), HEADS, queries.size(1), keys.size(1))
    if hidden:
        scores = scores.masked_fill((keys == PAD)[:, None, None], -1e9)
    if future:
        square = torch.ones(scores.shape[-2:], dtype=torch.bool)
        scores = scores.masked_fill(square.triu(1), -1e9)
    return scores.softmax(-1).flatten(0, 1)


def read(table: Tensor) -> dict[tuple[str, str], float]:
    """What is found of one table of weights."""
    found = find_hidden_reads([table], SOURCE, TARGET, PAD)
    return {(part, what): weight for part, what, weight in found}


def heads_first(table: Tensor) -> Tensor:
    """The same weights, all sentences of the first head in front."""
    return table.unflatten(0, (-1, HEADS)).transpose(0, 1).flatten(0, 1)


@pytest.mark.parametrize("order", [lambda x: x, heads_first])
def test_right_masks_hide_everything_in_either_order_of_heads(order):
    torch.manual_seed(0)
    assert read(order(attend(SOURCE, SOURCE))) == {("encoder", "PAD"): 0}
    assert read(order(attend(TARGET, SOURCE))) == {("cross", "PAD"): 0}
    decoder = read(order(attend(TARGET, TARGET, future=True)))
    assert decoder == {("decoder", "PAD"): 0, ("decoder", "the future"): 0}


def test_a_decoder_that_starts_with_pad_may_read_it():
    started = torch.cat([torch.full_like(TARGET[:, :1], PAD), TARGET[:, 1:]], dim=1)
    table = attend(TARGET, TARGET, future=True)  # which hides what is PAD in TARGET
    found = find_hidden_reads([table], SOURCE, started, PAD)
    assert all(weight == 0 for *_, weight in found)


def test_a_missing_mask_is_seen():
    torch.manual_seed(0)
    assert read(attend(TARGET, SOURCE, hidden=False))["cross", "PAD"] > 0.1
    assert read(attend(TARGET, TARGET))["decoder", "the future"] > 0.1


def test_a_table_of_another_shape_is_no_attention_of_these_sentences():
    assert not read(torch.rand(2, 4, 9)) and not read(torch.rand(3, 5, 5))
