"""The adapter of our own parts is complete and follows the modules at the moment of the call."""

from dataclasses import fields

import pytest

from nmtcheck import CHECKS, Adapter, ours


def test_nothing_is_missing_in_our_own_adapter():
    adapter = ours()
    assert [f.name for f in fields(adapter) if getattr(adapter, f.name) is None] == [
        "source_eos",
        "given",
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
        "given",
        "file",
        "unsure",
        "assumed",
        "tried",
        "strict",
    }
    assert {f.name for f in fields(Adapter)} - used - facts == {"logits"}  # which every model has


def test_a_part_is_missing_when_it_is_none_or_a_fact_is_not_true():
    adapter = Adapter(make_model=lambda sizes: None, resizable=False)
    assert adapter.has("make_model") and not adapter.has("resizable") and not adapter.has("beam")
    assert adapter.has("beam|make_model") and not adapter.has("fit|epoch")
    with pytest.raises(ValueError, match="an adapter has no part 'transformer'"):
        adapter.has("epoch|transformer")
