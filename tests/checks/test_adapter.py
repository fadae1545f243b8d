"""The adapter of our own parts is complete and follows the modules at the moment of the call."""

from dataclasses import fields

import pytest
import torch

from nmtcheck import CHECKS, Adapter, Sizes, ours
from nmtlib.inference import search
from nmtlib.model import attention


def test_nothing_is_missing_in_our_own_adapter():
    adapter = ours()
    assert [f.name for f in fields(adapter) if getattr(adapter, f.name) is None] == [
        "source_eos",
        "run",
    ]
    needed = {part for check in CHECKS.values() for part in check.needs}
    assert {part for part in needed if not adapter.has(part)} == {"run"}


def test_every_part_is_used_by_some_check_and_documented():
    used = {p for check in CHECKS.values() for part in check.needs for p in part.split("|")}
    facts = {
        "name",
        "where",
        "pad",
        "bos",
        "eos",
        "first_word",
        "source_bos",
        "source_eos",
        "strict",
    }
    assert {f.name for f in fields(Adapter)} - used - facts == {"logits"}  # which every model has


def test_parts_are_looked_up_when_they_are_called(monkeypatch):
    adapter = ours()
    monkeypatch.setattr(
        attention, "scaled_dot_product_attention", lambda *given, **options: "planted"
    )
    assert adapter.attention(None, None, None, None, 0.0) == "planted"
    monkeypatch.setattr(search, "greedy_search", lambda *given, **options: "planted")
    assert adapter.greedy(None, None, 5) == "planted"


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_design_is_that_of_the_model(norm):
    adapter = ours(norm, "learned", "target")
    model = adapter.make_model(Sizes(n_layers=1))
    found = model.config.norm, model.config.positions, model.config.tied
    assert found == (norm, "learned", "target")
    assert not adapter.has("fixed_positions") and ours().has("fixed_positions")
    logits = model(torch.tensor([[4, 2]]), torch.tensor([[1]]))
    assert logits.shape == (1, 1, Sizes().target_vocab_size)


def test_a_part_is_missing_when_it_is_none_or_a_fact_is_not_true():
    adapter = Adapter(make_model=lambda sizes: None, resizable=False)
    assert adapter.has("make_model") and not adapter.has("resizable") and not adapter.has("beam")
    assert adapter.has("beam|make_model") and not adapter.has("fit|epoch")
    with pytest.raises(ValueError, match="an adapter has no part 'transformer'"):
        adapter.has("epoch|transformer")
