"""Each kind of mistake has a patient that gets its finding and its cause; each convention none."""

from functools import partial

import patients
import pytest
from mistakes import GUESSED, INSIDE
from nightly import some
from patients import PAD, epoch, stranger, translate

from nmtcheck import run_checks
from nmtcheck.adapter import Sizes
from nmtcheck.connect.ids import find_facts


def findings(adapter, *only):
    return run_checks(adapter, only=list(only)).findings


MODEL = ["inside", "positions", "masks", "model.device", "model.batch_invariance", "model.double"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "name", "cause"), some([*INSIDE, *GUESSED], by=lambda case: case[1])
)
def test_a_mistake_in_a_model_is_the_only_finding_and_its_cause_is_named(mistake, name, cause):
    found, *others = findings(
        stranger(mistake), *MODEL, "layers.no_dropout", "layers.cross_attention"
    )
    # Words that a mask of another sentence hides stay hidden where PAD is hidden as well.
    left = ["model.batch_invariance"] if mistake == "a mask of another" else []
    assert [each.check.id for each in others] == left, others
    assert found.check.id == name and cause in found.cause, found
    assert found.proved == ("the check passes" in found.cause) == ((mistake, name, cause) in INSIDE)


@pytest.mark.parametrize(
    ("mistake", "name"), [("no scale", "inside.scale"), ("small embeddings", "positions.balance")]
)
def test_a_model_of_one_size_is_checked_whatever_its_number_of_heads(mistake, name):
    sizes = Sizes(d_model=24, n_heads=3)
    for planted in ("", mistake):
        made = lambda _, planted=planted: patients.Stranger(sizes, planted)  # noqa: E731
        report = run_checks(stranger(make_model=made, resizable=False), only=name)
        assert [r.check.id for r in report.findings] == [name] * bool(planted), report
        assert report.findings or report.passed


# Loops


@pytest.mark.nightly
def test_a_healthy_loop_is_blamed_for_nothing_whatever_a_batch_is_asked_for():
    report = run_checks(stranger(epoch=epoch), only=["training", "run", "validation"])
    assert not report.failed and len(report.passed) >= 9, report


# Searches

BEAMS = [
    ("equal copies", "search.beams"),
    ("raw logits", "search.successors"),
    ("entry 0", "search.result"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "name"), some(BEAMS))
def test_a_mistake_in_a_beam_is_told_from_the_others(mistake, name):
    adapter = stranger(translate=partial(translate, width=3, mistake=mistake))
    for seed in (0, 1, 2):  # the verdict is no matter of chance
        (found,) = run_checks(adapter, only="search", seed=seed).findings
        assert found.check.id == name, found


@pytest.mark.slow
@pytest.mark.parametrize("mistake", some(["", "last selection"]))
def test_a_healthy_beam_is_blamed_for_nothing(mistake):
    adapter = stranger(translate=partial(translate, width=3, mistake=mistake))
    report = run_checks(adapter, only="search")
    assert not report.failed and len(report.passed) >= 6, report


CONVENTIONS = {
    "plain": {},
    "a beam": {"width": 4},
    "ids in a string": {"texts": True},
    "sources without EOS": {"end": ()},
    "sources with BOS alone": {"end": ()},
}


@pytest.mark.slow
@pytest.mark.parametrize("convention", some(CONVENTIONS))
def test_a_convention_of_a_translation_is_no_mistake(convention):
    adapter = stranger(translate=partial(translate, **CONVENTIONS[convention]))
    report = run_checks(adapter, only=["search", "decoding"])
    assert not report.failed, report
    assert ("source_eos=False" in report.note) == ("without" in convention or "alone" in convention)


def test_a_source_that_loses_its_end_is_found_where_training_is_known():
    told = stranger(translate=partial(translate, end=()), source_eos=True)
    (found,) = findings(told, "decoding.source_ids")
    assert "in training" in found.measured


# What is asked for, not assumed


@pytest.mark.slow
@pytest.mark.parametrize("way", some(patients.WAYS, every=3))
def test_how_a_model_is_called_is_found_out(way):
    adapter = stranger(make_model=patients.WAYS[way])
    facts = find_facts(adapter)
    assert way in facts.way and "is taken to be called with" in facts.note
    report = run_checks(adapter, only=["inside", "masks", "model.shape", "model.batch_invariance"])
    assert not report.failed and len(report.passed) >= 7, report


@pytest.mark.slow
def test_a_start_symbol_that_is_pad_is_no_padding():
    adapter = stranger(bos=PAD, eos=2, epoch=epoch)
    report = run_checks(adapter, only=["masks", "model", "run.labels"])
    assert not report.failed, report
