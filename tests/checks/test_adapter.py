"""The adapter of nmtlib has every part, and every part is used by some check."""

from dataclasses import fields

import pytest

from nmtcheck import CHECKS, Adapter, ours
from nmtcheck.adapter import PARTS


def test_nothing_is_missing_in_our_own_adapter():
    adapter = ours()
    assert [f.name for f in fields(adapter) if getattr(adapter, f.name) is None] == ["given"]
    assert all(adapter.has(part) for check in CHECKS.values() for part in check.needs)


def test_every_part_is_used_by_some_check():
    used = {p for check in CHECKS.values() for part in check.needs for p in part.split("|")}
    facts = {"resizable", "fixed_positions", "scaled_embedding"}
    assert {*PARTS} - used == {"logits"}, "every model has it"
    assert used - {*PARTS} == facts <= {f.name for f in fields(Adapter)}


def test_a_part_is_missing_when_it_is_none_or_a_fact_is_not_true():
    adapter = Adapter(make_model=lambda sizes: None, resizable=False)
    assert adapter.has("make_model") and not adapter.has("resizable") and not adapter.has("run")
    assert adapter.has("run|make_model") and not adapter.has("run|epoch")
    with pytest.raises(ValueError, match="an adapter has no part 'transformer'"):
        adapter.has("epoch|transformer")
