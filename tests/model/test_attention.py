"""Attention equals torch's in every path, respects masks, and can be recorded."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from nmtlib.model.attention import RECORDS, MultiHeadAttention, record_attention
from nmtlib.model.attention import scaled_dot_product_attention as attend
from nmtlib.model.transformer import Transformer, TransformerConfig


def tensors(batch=2, heads=3, targets=4, sources=5, size=8, seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    query = torch.randn(batch, heads, targets, size, dtype=dtype)
    key, value = torch.randn(2, batch, heads, sources, size, dtype=dtype)
    return query, key, value


def all_paths(query, key, value, mask=None):
    """The result by the fused kernel, by the formula, and by the path that training takes."""
    fused = attend(query, key, value, mask)
    written, weights = attend(query, key, value, mask, return_weights=True)
    trained = attend(query.clone().requires_grad_(), key, value, mask).detach()
    return fused, written, trained, weights


shapes = st.tuples(*(st.integers(1, most) for most in (3, 3, 6, 6)), st.sampled_from([2, 8]))


@settings(max_examples=40)
@given(shape=shapes, seed=st.integers(0, 1000), share=st.floats(0.2, 1.0))
def test_all_paths_equal_torch_whatever_the_shapes_and_masks(shape, seed, share):
    query, key, value = tensors(*shape, seed=seed)
    mask = torch.rand(query.shape[:-1] + key.shape[-2:-1]) < share
    mask[..., 0] |= ~mask.any(-1)  # torch leaves a row without any key undefined
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    *results, weights = all_paths(query, key, value, mask)
    for result in results:
        assert torch.allclose(result, expected, atol=1e-12)
    assert torch.allclose(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert not weights[~mask].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_query_that_may_attend_to_nothing_gets_zeros_in_every_path_and_finite_gradients(dtype):
    query, key, value = tensors(dtype=dtype)
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    mask[1, :, 2] = False
    for result in all_paths(query, key, value, mask)[:3]:
        assert not result[1, :, 2].any() and result.isfinite().all()
    query.requires_grad_()
    attend(query, key, value, mask).sum().backward()
    assert query.grad.isfinite().all()


def test_a_mask_that_is_not_bool_is_refused():
    with pytest.raises(ValueError, match="a mask is a bool tensor"):
        attend(*tensors(), torch.zeros(4, 5))


def test_dropout_removes_weights_and_keeps_the_mean():
    torch.manual_seed(0)
    query, key, _ = tensors(batch=64, heads=8)
    value = torch.ones(64, 8, 5, 8, dtype=torch.float64)
    result, weights = attend(query, key, value, dropout_p=0.5, return_weights=True)
    sums = weights.sum(-1)  # the weights shown are those before dropout
    assert torch.allclose(sums, torch.ones_like(sums))
    assert abs(result.mean() - 1) < 0.02 and result.std() > 0.1


def multi_head(d_model=16, n_heads=4, seed=0):
    torch.manual_seed(seed)
    ours = MultiHeadAttention(d_model, n_heads).double().eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True).double().eval()
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([p.weight.data for p in parts])
    theirs.in_proj_bias.data = torch.cat([p.bias.data for p in parts])
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    return ours, theirs


@pytest.mark.parametrize("n_heads", [1, 2, 8])
def test_equals_torch_multi_head_attention(n_heads):
    ours, theirs = multi_head(n_heads=n_heads)
    query, memory = torch.randn(2, 3, 16).double(), torch.randn(2, 5, 16).double()
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    expected, weights = theirs(
        query, memory, memory, key_padding_mask=~mask[:, 0, 0], average_attn_weights=False
    )
    with record_attention(ours) as maps:
        result = ours(query, memory, memory, mask)
    assert torch.allclose(result, expected, atol=1e-12)
    assert torch.allclose(maps[""][0], weights, atol=1e-12)


def test_recording_changes_no_result_and_ends_with_the_block():
    ours, _ = multi_head()
    model = nn.ModuleDict({"first": ours, "second": multi_head(seed=1)[0]})
    x = torch.randn(2, 5, 16).double()
    before = ours(x, x, x)
    with record_attention(model) as maps:
        inside = model["second"](ours(x, x, x), x, x)
    sizes = {name: [tuple(weights.shape) for weights in calls] for name, calls in maps.items()}
    assert sizes == dict.fromkeys(("first", "second"), [(2, 4, 5, 5)])
    assert torch.allclose(before, ours(x, x, x)) and inside.shape == x.shape
    assert len(maps["first"]) == 1, "nothing is recorded after the block"
    assert not RECORDS


def test_a_recorded_map_has_the_name_of_its_attention():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(13, 13, d_model=16, n_heads=4, d_ff=24)).eval()
    source, target = torch.tensor([[4, 5, 6, 7, 2]]), torch.tensor([[1, 8, 9]])
    with torch.no_grad(), record_attention(model) as maps:
        model(source, target)
    assert maps
    for name, (weights,) in maps.items():
        side, _, kind = name.split(".")
        queries = target if side == "decoder" else source
        keys = target if (side, kind) == ("decoder", "self_attention") else source
        assert weights.shape[2:] == (queries.size(1), keys.size(1)), name
        last = model.get_submodule(name).query.weight
        with record_attention(model) as again:
            kept = last.clone()
            last.data.mul_(3)
            model(source, target)
            last.data.copy_(kept)
        assert not torch.equal(again[name][0], weights), f"{name} is another attention"


def test_nested_recordings_each_get_all_that_happens_while_they_last():
    ours, _ = multi_head()
    x = torch.randn(2, 5, 16).double()
    with record_attention(ours) as outer:
        ours(x, x, x)
        with record_attention(ours) as inner:
            ours(x, x, x[:, :1].expand_as(x))
        ours(x, x, x)
    assert (len(outer[""]), len(inner[""])) == (3, 1) and inner[""][0] is outer[""][1]
    assert not RECORDS


def test_without_hooks_no_weights_are_worked_out(monkeypatch):
    ours, x = MultiHeadAttention(16, 4).eval(), torch.randn(1, 5, 16)
    fused, calls = F.scaled_dot_product_attention, []
    spy = lambda *given: calls.append(1) or fused(*given)  # noqa: E731
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    with torch.no_grad():
        ours(x, x, x)
        with record_attention(ours):
            ours(x, x, x)
    assert len(calls) == 1


def test_a_model_without_attention_and_a_size_that_does_not_divide_are_refused():
    ours, _ = multi_head()
    with pytest.raises(RuntimeError, match="inside"), record_attention(ours):
        raise RuntimeError("inside")
    assert not RECORDS, "a recording ends even where the block fails"
    with pytest.raises(ValueError, match="Linear holds no MultiHeadAttention"):
        record_attention(nn.Linear(2, 2)).__enter__()
    with pytest.raises(ValueError, match="multiple of n_heads .4., not 10"):
        MultiHeadAttention(10, 4)


@pytest.mark.slow
def test_torch_compile_reads_an_attention_in_one_graph():
    ours, x = MultiHeadAttention(16, 4).eval(), torch.randn(1, 5, 16)
    with torch.no_grad():
        assert torch._dynamo.explain(ours)(x, x, x).graph_break_count == 0
