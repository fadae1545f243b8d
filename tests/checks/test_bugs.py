"""The catalogue of silent bugs: each is described, planted, taken back, and caught."""

import inspect
import re
import sys
import traceback
import types
from pathlib import Path

import pytest
import torch
from mutation import fail
from nightly import some

from nmtcheck import ours, run_checks
from nmtcourse.bugs import BUGS, Bug, edited, get, plant, planting
from nmtlib.data import batching
from nmtlib.inference import search
from nmtlib.model import attention, embeddings, layers, transformer

ROOT = Path(__file__).parents[2]
KEYS = [bug.key for bug in BUGS]
PLANTED = [bug for bug in BUGS if bug.edits]


def everything() -> dict[tuple[str, str], object]:
    """Every object that a module or class of nmtlib holds, by its place."""
    places = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in planting.PLANTED_IN:
            for key, value in vars(module).items():
                places[name, key] = value
                if isinstance(value, type) and value.__module__ == name:
                    places |= {
                        (f"{name}:{value.__qualname__}", k): v for k, v in vars(value).items()
                    }
    return places


def changes(before: dict, after: dict) -> set[tuple[str, str]]:
    return {
        place for place in before.keys() | after.keys() if before.get(place) is not after.get(place)
    }


def test_the_catalogue_is_complete():
    assert [bug.number for bug in BUGS] == list(range(1, len(BUGS) + 1)), "take the next number"
    assert len(set(KEYS)) == len(BUGS), "each bug has a key of its own"
    assert sum(bool(bug.edits) for bug in BUGS) >= 50


def test_every_bug_is_described():
    for bug in BUGS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", bug.key)
        assert bug.title[0].isupper() or bug.title.startswith("backward()")
        for text in (bug.symptom, bug.cure):
            assert len(text) > 40 and text.endswith(".")
        assert len(bug.source) > 10
        assert bool(bug.edits) != bool(bug.why_not)
        assert bug.caught_by or bug.tests, "name a check, or a unit test of nmtlib"


def test_the_diff_shows_the_change():
    for bug in BUGS:
        lines = bug.diff().splitlines()
        assert any(re.match(r"\+(?!\+\+)|-(?!--)", line) for line in lines)
        assert sum(line.startswith("--- nmtlib/") for line in lines) == len(
            {edit.where for edit in bug.edits}
        )


@pytest.mark.nightly
def test_planting_replaces_only_what_it_names_and_leaving_restores_the_very_objects():
    for bug in BUGS:
        before = everything()
        with bug.plant():
            changed = changes(before, everything())
            for edit in bug.edits:
                module, _, path = edit.where.partition(":")
                cls, _, name = path.rpartition(".")
                assert (f"nmtlib.{module}:{cls}" if cls else f"nmtlib.{module}", name) in changed
            assert {name for _, name in changed} == {
                re.split("[:.]", edit.where)[-1] for edit in bug.edits
            }
        assert not changes(before, everything())


def test_planting_changes_behaviour_for_every_module_that_imported_the_function():
    ids = torch.tensor([[5, 6, 0]])
    with plant("mask-inverted"):
        assert attention.padding_mask(ids).flatten().tolist() == [False, False, True]
        assert transformer.padding_mask is attention.padding_mask
        assert not attention.target_mask(ids)[
            ..., :2
        ].any()  # it calls padding_mask through its own module
    assert attention.padding_mask(ids).flatten().tolist() == [True, True, False]


def test_a_block_that_raises_leaves_the_code_clean():
    before = everything()
    with pytest.raises(KeyError, match="from the block"), plant("attention-no-scale"):
        raise KeyError("from the block")
    assert not changes(before, everything())


def test_bugs_can_be_nested_even_in_one_function():
    before, q = everything(), torch.tensor([[[8.0], [0.0]]])
    right = attention.scaled_dot_product_attention(q, q, q)
    with plant("attention-softmax-axis"):
        outer = attention.scaled_dot_product_attention(q, q, q)
        function = attention.scaled_dot_product_attention
        with edited("model.attention:scaled_dot_product_attention", ") @ value", ") @ value * 2"):
            assert torch.equal(attention.scaled_dot_product_attention(q, q, q), 2 * outer)
        assert attention.scaled_dot_product_attention is function
    assert not torch.allclose(outer, right)
    assert torch.equal(attention.scaled_dot_product_attention(q, q, q), right)
    assert not changes(before, everything())


NORM = "inference.search:length_norm"
REFUSED = [
    (NORM, "no such text", "", "0 times, expected once"),
    (NORM, "penalty", "", "4 times, expected once"),
    (NORM, "return ((5", "return (5", "length_norm is no longer Python with this change"),
    ("inference.search:closing", "x: x * y", "x: x / y", "closes over"),
    ("inference.search:nothing", "a", "b", "no nmtlib.inference.search:nothing"),
    ("model.layers:Nothing.forward", "a", "b", "no nmtlib.model.layers:Nothing.forward"),
    ("model.layers:F.nothing", "a", "b", "no nmtlib.model.layers:F.nothing"),
]


def test_what_cannot_be_planted_is_refused_and_leaves_the_code_clean(monkeypatch):
    def outer(y=2):
        return lambda x: x * y

    monkeypatch.setattr(search, "closing", outer(), raising=False)
    edits = get("length-penalty-sign").edits
    twice = Bug(1, "twice", "Twice", "", "", "", "", edits=(*edits, *edits))
    before = everything()
    for *edit, said in REFUSED:
        with pytest.raises(ValueError, match=said), edited(*edit):
            pass
    with pytest.raises(ValueError, match="another bug changes the same line"), twice.plant():
        pass
    assert not changes(before, everything())
    with plant("length-penalty-sign"):
        with pytest.raises(ValueError, match="0 times"), plant("length-penalty-sign"):
            pass
        assert search.length_norm(7, 1.0) == 0.5, "the first one stays"


def test_a_module_that_is_first_imported_inside_the_block_does_not_keep_the_bug(monkeypatch):
    late = types.ModuleType("nmtlib.late")
    clean = search.length_norm
    with plant("length-penalty-sign"):
        late.norm = search.length_norm
        monkeypatch.setitem(sys.modules, "nmtlib.late", late)
        assert late.norm(7, 1.0) == 0.5
    assert late.norm is clean


def test_a_name_that_the_reader_imported_in_a_notebook_gets_the_bug_too(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "my_norm", search.length_norm, raising=False)
    with plant("length-penalty-sign"):
        assert sys.modules["__main__"].my_norm(7, 1.0) == 0.5
    assert sys.modules["__main__"].my_norm(7, 1.0) == 2.0


def test_properties_static_methods_super_and_decorators_survive():
    batch = batching.collate([batching.make_example([5, 6], [7, 8])])
    with plant("target-not-shifted"):
        assert batch.decoder_input.tolist() == batch.labels.tolist()
    embedding = embeddings.TokenEmbedding(5, 4)
    with plant("embedding-not-scaled"), plant("pad-row-trained"):
        assert torch.equal(embedding(torch.tensor([3])), embedding.weight[[3]])
        assert embeddings.TokenEmbedding(5, 4).padding_idx is None
    with plant("beam-stops-early"):
        assert isinstance(search.beam_search, types.FunctionType)
        assert inspect.unwrap(search.beam_search).__name__ == "beam_search"
    assert isinstance(inspect.getattr_static(batching.Batch, "decoder_input"), property)


def test_the_planted_source_can_be_read_and_the_diff_too():
    bug = get("feed-forward-identity")
    diff = bug.diff()
    with bug.plant():
        assert "return self.dropout(x)" in inspect.getsource(layers.FeedForward.forward)
        assert bug.diff() == diff
        with edited("model.layers:FeedForward.forward", "self.dropout(x)", "self.dropout(y)"):
            assert bug.diff() == diff
    assert (
        not planting._clean
    )  # or an old source would be shown after the function itself has changed
    assert "return self.dropout(x)" not in inspect.getsource(layers.FeedForward.forward)
    assert "+    return self.dropout(x)" in diff and diff.startswith(
        "--- nmtlib/model/layers.py  FeedForward.forward"
    )


def test_a_traceback_shows_the_planted_line():
    feed_forward = layers.FeedForward(4, 8)
    with plant("attribute-name-differs"), pytest.raises(AttributeError) as caught:
        feed_forward(torch.zeros(1, 4))
    assert "return self.project(" in "".join(traceback.format_exception(caught.value))


def test_a_bug_that_cannot_be_planted_says_why():
    bug = Bug(1, "none", "None", "", "", "", "", why_not="there is no such line")
    with (
        pytest.raises(
            ValueError, match="'none' cannot be planted in nmtlib: there is no such line"
        ),
        bug.plant(),
    ):
        pass
    assert bug.diff() == ""


def test_an_unknown_key_names_the_closest():
    assert get("pad-in-loss").number == 32
    with pytest.raises(ValueError, match="did you mean attention-no-scale"):
        get("atention-no-scale")
    with pytest.raises(ValueError, match="keys are in nmtcourse.bugs.BUGS"):
        plant("§§§")


def alarms(bug):
    with bug.plant():
        report = run_checks(ours(), only=bug.caught_by, time_limit=10)
    return sorted(result.check.id for result in report.failed)


SUBJECTS = {}
for bug in PLANTED:
    if bug.caught_by:
        SUBJECTS.setdefault(bug.caught_by[0].split(".")[0], []).append(bug)


@pytest.mark.slow
@pytest.mark.parametrize("subject", some(SUBJECTS, every=3))
def test_every_bug_sets_off_the_alarms_that_it_names(subject):
    bug = SUBJECTS[subject][0]
    assert alarms(bug) == sorted(bug.caught_by), bug.key


@pytest.mark.nightly
def test_the_other_bugs_do_so_too():
    silent = {
        bug.key: found
        for first, *others in SUBJECTS.values()
        for bug in others
        if (found := alarms(bug)) != sorted(bug.caught_by)
    }
    assert not silent


TESTED = {bug.key: bug.tests for bug in PLANTED if bug.tests}


@pytest.mark.slow
@pytest.mark.parametrize("key", some(TESTED, every=9))
def test_a_bug_of_one_function_fails_the_unit_tests_that_it_names(key):
    assert all(fail([test], key) for test in TESTED[key])


def test_the_named_unit_tests_are_there():
    for tests in TESTED.values():
        for test in tests:
            file, _, name = test.partition("::")
            assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8"), test
