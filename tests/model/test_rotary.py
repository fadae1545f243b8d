"""Rotary positions turn queries and keys of self-attention by their positions, and nothing else."""

import pytest
import torch

from nmtlib.model import MultiHeadAttention, RotaryAttention, Transformer, TransformerConfig
from nmtlib.model.attention import record_attention
from nmtlib.model.embeddings import sinusoidal_table
from nmtlib.model.rotary import RotaryPositions, rotate

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 8}
ROTARY = TransformerConfig(20, 20, **SIZES, max_length=12, positions="rotary")


def angles(length, size):
    table = sinusoidal_table(length, size).double()
    return table[:, 0::2], table[:, 1::2]


def test_a_vector_keeps_its_length_and_a_row_of_the_table_becomes_a_later_row():
    torch.manual_seed(0)
    sine, cosine = angles(30, 8)
    vectors = torch.randn(30, 8, dtype=torch.float64)
    turned = rotate(vectors, sine, cosine)
    assert torch.equal(turned[0], vectors[0]) and not torch.allclose(turned[1:], vectors[1:])
    assert torch.allclose(turned.norm(dim=-1), vectors.norm(dim=-1))
    table = sinusoidal_table(40, 8).double()
    moved = rotate(
        table[3].expand(30, 8), sine, cosine
    )  # the row of position 3, turned by 0, 1, ...
    assert torch.allclose(moved, table[3:33], atol=1e-6)


def test_scores_depend_on_the_distance_of_query_and_key_alone():
    torch.manual_seed(0)
    attention = RotaryAttention(16, 2, max_length=40).double().eval()
    query, key = torch.randn(2, 1, 2, 5, 8, dtype=torch.float64)
    scores = [
        attention.turn(query, start) @ attention.turn(key, start).transpose(-2, -1)
        for start in (0, 1, 30)
    ]
    for later in scores[1:]:  # the table is rounded to float32
        assert torch.allclose(scores[0], later, atol=1e-5)
    apart = attention.turn(query, 1) @ attention.turn(key, 0).transpose(-2, -1)
    assert not torch.allclose(scores[0], apart, atol=0.1)


def test_order_matters_in_self_attention_and_not_in_the_attention_to_the_memory():
    torch.manual_seed(0)
    attention = RotaryAttention(16, 2).eval()
    x, memory = torch.randn(2, 1, 6, 16)
    with torch.no_grad(), record_attention(attention) as maps:
        attention(x, memory, memory)
        attention(x, memory.flip(1), memory.flip(1))
        attention(x, x, x)
        attention(x.flip(1), x.flip(1), x.flip(1))
    there, turned, own, back = maps[""]
    assert torch.allclose(there, turned.flip(-1), atol=1e-6)
    assert not torch.allclose(own, back.flip(-2, -1), atol=1e-2)


def test_a_model_turns_its_self_attentions_alone_and_adds_nothing():
    model = Transformer(ROTARY)
    kinds = {
        name.rpartition(".")[2]: type(module)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    assert kinds == {"self_attention": RotaryAttention, "cross_attention": MultiHeadAttention}
    assert isinstance(model.source_positions, RotaryPositions)
    plain = Transformer(TransformerConfig(20, 20, **SIZES, max_length=12))
    assert model.state_dict().keys() == plain.state_dict().keys(), "the angles are computed"


class Sharper(RotaryAttention):
    def weighted_values(self, query, keys, values, mask, start):
        return super().weighted_values(2 * query, keys, values, mask, start)


def test_an_attention_of_ones_own_turns_too_and_decodes_alike():
    torch.manual_seed(0)
    model = Transformer(ROTARY, attention=Sharper).double().eval()
    source, target = (
        torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]),
        torch.tensor([[1, 4, 5], [1, 6, 7]]),
    )
    with torch.no_grad():
        logits, state = model(source, target), model.start(source)
        for position in range(3):
            step = model.step(target[:, position], state)
            assert torch.allclose(step, logits[:, position], atol=1e-10)


class Plain(MultiHeadAttention):
    pass


def test_what_would_not_turn_or_turns_unasked_is_refused():
    with pytest.raises(ValueError, match=r"positions='rotary' needs .* is derived .* unlike Plain"):
        Transformer(ROTARY, attention=Plain)
    table = TransformerConfig(20, 20, **SIZES)
    with pytest.raises(ValueError, match=r"positions='sinusoidal' needs .* not derived"):
        Transformer(table, attention=RotaryAttention)
    with pytest.raises(ValueError, match=r"d_model must be a multiple of 2 \* n_heads .12."):
        TransformerConfig(d_model=18, n_heads=6, positions="rotary")
    with pytest.raises(ValueError, match=r"tokens of a sentence must be at most max_length .12."):
        Transformer(ROTARY)(torch.full((1, 13), 4), torch.full((1, 2), 4))
