"""True means may attend: to real tokens, and never to the future."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from nmtlib.model.attention import causal_mask, padding_mask, target_mask

batches = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=4).map(
    torch.tensor
)


@given(st.integers(1, 9))
def test_a_position_sees_itself_and_all_before_it(length):
    mask = causal_mask(length)
    assert mask.dtype == torch.bool and mask.shape == (1, 1, length, length)
    for query in range(length):
        for key in range(length):
            assert mask[0, 0, query, key] == (key <= query)


@given(batches)
def test_padding_is_what_holds_the_pad_id(ids):
    mask = padding_mask(ids)
    assert mask.shape == (len(ids), 1, 1, 4) and mask.dtype == torch.bool
    assert torch.equal(mask[:, 0, 0], ids != 0)
    assert torch.equal(padding_mask(ids, pad=3)[:, 0, 0], ids != 3)


@given(batches)
def test_a_target_position_sees_real_tokens_that_are_not_later(ids):
    mask = target_mask(ids)
    for row in range(len(ids)):
        for query in range(4):
            for key in range(4):
                assert mask[row, 0, query, key] == (key <= query and ids[row, key] != 0)
