"""Our own parts pass every check, every check finds a mistake, and what is odd is no mistake."""

import re
import time
from contextlib import nullcontext

import mistakes
import pytest
from mistakes import FAULTS, GUESSED, INSIDE
from nightly import some
from runs import FOUND, run
from runs import train as run_whole
from some_checks import ONLY
from test_programs import FOUND as PROGRAM_FAULTS

from nmtcheck import CHECKS, Adapter, Result, check, ours, run_checks
from nmtcheck.registry import CAUSES
from nmtcheck.report.relations import RELATIONS, reproduction
from nmtcourse.bugs import BUGS

OURS = ours()
# What nmtlib does not have: relative positions, a norm of its own, padding on the left, and a
# greedy search in its evaluation.
NOT_OURS = {"positions.relative", "layers.norms", "run.left_padding", "evaluation.ends"}


def test_every_check_finds_a_mistake():
    planted = {name for bug in BUGS for name in bug.caught_by}
    made = {name for _, name, _ in [*FAULTS, *INSIDE, *GUESSED]} | {*FOUND.values()}
    made |= {fault["check"] for fault in PROGRAM_FAULTS}
    assert planted | made == CHECKS.keys(), "plant a bug, or add an adapter to FAULTS"


def test_every_check_has_its_entry_and_every_entry_its_check():
    assert list(CAUSES) == list(CHECKS), "the table lists the checks in the order of their running"


@pytest.mark.slow
@pytest.mark.parametrize("name", some(sorted({*FOUND.values()}), every=4))
def test_the_mistakes_of_a_run_are_found(name):
    for mistake in (mistake for mistake, found in FOUND.items() if found == name):
        (result,) = run_checks(run(mistake), only=name).results
        assert result.verdict == "failed", f"{mistake}: {result.measured}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", some(sorted({name.split(".")[0] for _, name, _ in FAULTS}), every=4)
)
def test_a_kind_of_fault_is_found(subject):
    for adapter, name, phrase in FAULTS:
        if name.startswith(f"{subject}."):
            (finding,) = run_checks(adapter, only=name).findings
            assert finding.verdict == "failed" and finding.measured, finding
            assert phrase in f"{finding.measured} {finding.cause}", finding


@pytest.mark.slow
def test_a_script_that_exits_is_recorded():
    def run():
        run_whole("PAD counts")
        raise SystemExit

    (result,) = run_checks(Adapter(run=run), only="run.labels").results
    assert result.verdict == "failed", result.measured


@pytest.mark.slow
def test_a_script_that_fails_after_its_training_is_recorded():
    def run():
        run_whole("PAD counts")
        raise FileNotFoundError("checkpoints/best.pt")

    labels, kept = run_checks(Adapter(run=run), only=["run.labels", "run.kept"]).results
    assert labels.verdict == "failed", labels.measured
    assert kept.verdict == "skipped" and "checkpoints/best.pt" in kept.measured


@pytest.mark.slow
def test_what_was_not_seen_is_no_pass(monkeypatch):
    monkeypatch.setattr("nmtcheck.measure.tape.MOST", 20)
    (kept,) = run_checks(run("no copy"), only="run.kept").results
    assert kept.verdict == "skipped", kept.measured


@pytest.mark.slow
def test_our_own_parts_pass_every_check_and_quickly():
    started = time.process_time()
    report = run_checks(ours())
    assert {r.check.id for r in report.results if r.verdict != "passed"} == NOT_OURS
    assert time.process_time() - started < 20, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("only", ONLY)
def test_our_own_parts_pass_in_another_design_but_for_what_it_does_not_have(only):
    report = run_checks(ours(norm="post", positions="learned", tied="all"), seed=3, only=only)
    assert not report.failed, str(report)
    asked = {result.check.id for result in report.results}
    undecided = NOT_OURS | {"positions.table"}  # learned positions are added
    assert {r.check.id for r in report.skipped} == undecided & asked


def holds(printed):
    """Whether what three lines print is what they expect."""
    found, expected = printed.split(" expected: ")
    if expected.startswith("0.0 everywhere"):
        return set(re.findall(r"\d\.\d", found)) == {"0.0"}
    if expected.startswith(("0", "more than 0")):
        value = float(re.search(r"[-\d.]+(e-?\d+)?", found).group())
        return (abs(value) < 1e-4) == expected.startswith("0")
    return expected.strip("()") in found


@pytest.mark.parametrize("name", [n for n, about in RELATIONS.items() if "show" in about])
def test_three_lines_show_a_finding_again(name, capsys):
    bugs = [bug for bug in BUGS if name in bug.caught_by]
    made = OURS if bugs else next(adapter for adapter, found, _ in FAULTS if found == name)
    lines = reproduction(Result(CHECKS[name], "failed", ""), "", 0)
    assert len(lines) <= 3
    exec("\n".join(lines), {"adapter": OURS})
    assert holds(capsys.readouterr().out.strip())
    with bugs[0].plant() if bugs else nullcontext():
        try:
            exec("\n".join(lines), {"adapter": made})
        except AttributeError:  # such as that of a name that differs
            return
    assert not holds(capsys.readouterr().out.strip())


def test_checks_say_what_they_are():
    """Each states its property, its cause, its notebook and its parts."""
    for name, known in CHECKS.items():
        assert known.id == name and known.subject + "." == name[: len(known.subject) + 1]
        assert known.property.endswith(".") and known.cause.endswith(".") and known.needs
        assert known.notebook[:2].isdigit()


def test_a_check_needs_an_id_of_its_own_a_docstring_and_known_parts():
    about = {"cause": "None.", "notebook": "00_tour"}
    with pytest.raises(ValueError, match="two checks with the id 'model.shape'"):
        check("model.shape", "make_model")(test_checks_say_what_they_are)
    with pytest.raises(ValueError, match="needs a docstring"):
        check("model.new", "make_model", **about)(lambda adapter, seed: "")
    with pytest.raises(ValueError, match="no part 'make_modle'"):
        check("model.new", "make_modle", **about)(test_checks_say_what_they_are)
    with pytest.raises(ValueError, match="no entry in causes.toml"):
        check("model.new", "make_model")(test_checks_say_what_they_are)
    assert "model.new" not in CHECKS


def test_a_reader_can_add_a_check():
    @check("mine.seed", "make_model", cause="Chance.", notebook="00_tour")
    def seeded(adapter, seed):
        """The seed is even."""
        return f"seed {seed}"

    try:
        (result,) = run_checks(OURS, only="mine", seed=2).results
        assert (result.verdict, result.measured) == ("passed", "seed 2")
        assert (result.check.property, result.check.cause) == ("The seed is even.", "Chance.")
    finally:
        CHECKS.pop("mine.seed")


def test_a_report_knows_what_an_implementation_lacks():
    report = run_checks(Adapter())
    assert not report.passed and not report.failed and not report.ok
    assert len(report.skipped) == len(CHECKS)
    assert "make_model" in next(r.measured for r in report.skipped if r.check.id == "model.shape")


@pytest.mark.parametrize("said", some(mistakes.CONVENTIONS, every=4))
def test_another_convention_is_no_mistake(said):
    name, adapter = mistakes.CONVENTIONS[said]
    (result,) = run_checks(adapter, only=name).results
    assert result.verdict in ("passed", "skipped") and said in result.measured, result.measured
