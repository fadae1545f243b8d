"""A report reads well in a terminal and as data, and says what to do."""

import json
import re
from dataclasses import replace

from torch import Tensor, nn

from nmtcheck import CHECKS, Adapter, Report, Result, ours, run_checks
from nmtcheck.adapter import Sizes
from nmtcheck.report.relations import RELATIONS, related
from nmtcheck.report.report import NO_PART
from nmtcourse.bugs import BUGS

GOOD = Result(CHECKS["inside.scale"], "passed", "scores are divided by 2.828", seconds=0.01)
BAD = Result(
    CHECKS["inside.future"],
    "failed",
    "3 <of> 4 places are wrong",
    "The triangle & its diagonal.",
    0.02,
    printed="\n".join(f"line {n}" for n in range(30)),
    repairable=True,
)
LATER = Result(CHECKS["masks.future_in_training"], "failed", "token 2 moves", "The mask.")
BROKEN = Result(
    CHECKS["model.shape"], "error", "KeyError: norm3; raised in line 3 of mine.py (f)", seconds=0.1
)
AGAIN = replace(BROKEN, check=CHECKS["model.double"])
SLOW = Result(
    CHECKS["search.words"], "timeout", "stopped in translate after 20 s", "An endless loop.", 20
)
LEFT = Result(CHECKS["run.rates"], "skipped", NO_PART + "run")
OPEN = Result(CHECKS["positions.table"], "skipped", "nothing can be told")
EVERY = [GOOD, BAD, LATER, BROKEN, AGAIN, SLOW, OPEN, LEFT]
MIXED = Report(
    "mine", related(EVERY, lambda causes, name: "" if name == LATER.check.id else None), 21.0
)


def test_distinct_causes_are_counted_and_what_follows_is_not():
    assert [len(part) for part in (MIXED.passed, MIXED.failed, MIXED.skipped)] == [1, 5, 2]
    found = [finding.check.id for finding in MIXED.findings]
    assert found == ["model.shape", "inside.future", "search.words"], "most fundamental first"
    followers = [[f.check.id for f in MIXED.followers(finding)] for finding in MIXED.findings]
    assert followers == [["model.double"], ["masks.future_in_training"], []]
    summary = "mine: 3 findings (2 more failures follow), 1 passed, 2 skipped in 21.0 s"
    assert MIXED.summary == summary


def test_a_report_is_good_when_something_holds_and_nothing_fails():
    assert not MIXED.ok and Report("mine", (GOOD, LEFT), 1.0).ok
    assert not Report("mine", (LEFT,), 1.0).ok, "nothing was shown to hold"


def test_a_failure_follows_where_the_repair_of_another_lets_its_check_pass():
    """Two faults of one model: each is a finding, whatever a list says of their kinds."""

    class Moved(nn.Module):
        """nmtlib's model, its logits moved by the size of the batch."""

        def __init__(self, sizes: Sizes):
            super().__init__()
            self.own = ours().make_model(sizes)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            return self.own(source, target) + 0.1 * len(source)

    bug = next(bug for bug in BUGS if bug.key == "causal-mask-off-by-one")
    with bug.plant():
        report = run_checks(Adapter(make_model=Moved), only=["inside", "masks", "model"])
    followers = {f.check.id: [x.check.id for x in report.followers(f)] for f in report.findings}
    assert {"inside.future", "model.batch_invariance"} <= followers.keys()
    assert "masks.future_in_evaluation" in followers["inside.future"]


def test_what_follows_leads_to_findings_and_never_in_a_circle():
    for name, relation in RELATIONS.items():
        seen, waiting = set(), list(relation.get("follows", ()))
        while waiting:
            before = waiting.pop()
            assert before in CHECKS and before != name, f"{name} follows from itself"
            if before not in seen:
                seen.add(before)
                waiting += RELATIONS.get(before, {}).get("follows", ())
        assert name in CHECKS
    every = [Result(check, "failed", id) for id, check in CHECKS.items()]
    roots = {result.check.id for result in related(every) if not result.follows}
    assert {result.follows for result in related(every)} - {""} <= roots
    stuck = [replace(r, verdict="timeout", follows="search.words") for r in every]
    assert any(not result.follows for result in related(stuck)), "one of a circle is a finding"


def test_the_terminal_leads_with_findings_and_gives_help_for_each():
    lines = str(MIXED).splitlines()
    assert lines[0] == MIXED.summary
    starts = [line.split()[:2] for line in lines[1:] if line[:1].strip()]
    assert starts == [
        ["ERROR", "your"],
        ["FAILED", "inside.future"],
        ["TIMEOUT", "search.words"],
        ["passed", "inside.scale"],
        ["skipped", "positions.table"],
        ["skipped", "1"],
    ]
    begin = next(n for n, line in enumerate(lines) if "inside.future" in line)
    text = " ".join(line.strip() for line in lines[begin : begin + 12])
    for said in (
        "measured: 3 <of> 4 places",
        "fits: The triangle & its diagonal.",
        "read: notebooks/06_masking.ipynb",
        "follow: masks.future_in_training",
        "printed: line 0 | line 1 | line 2 … and 27 more lines",
    ):
        assert said in re.sub(r" +", " ", text), text
    assert max(len(line) for line in lines if "import" not in line) <= 120


def test_one_exception_is_told_once():
    text = str(MIXED)
    assert text.count("norm3") == 1 and re.search("follow: +model.double", text)
    assert "model.shape" not in text, "an exception stands under no check's name"


def test_checks_of_missing_parts_are_told_in_one_line():
    many = Report("mine", (GOOD, LEFT, replace(LEFT, measured=NO_PART + "run, make_model")), 1.0)
    assert "2 checks of parts that the adapter does not have: make_model, run" in str(many)
    assert "parts that" not in str(Report("mine", (GOOD,), 1.0))


def test_the_data_are_those_of_the_report():
    data = json.loads(MIXED.to_json())
    assert [finding["check"] for finding in data["findings"]] == [
        finding.check.id for finding in MIXED.findings
    ]
    assert data["findings"][0]["follow"] == ["model.double"] and not data["ok"]
    assert data["findings"][1]["fits"] == "The triangle & its diagonal."
    assert data["findings"][0]["title"] == "your code" and "cause" not in data["findings"][0]
    assert len(data["results"]) == len(MIXED.results)


def test_a_real_report_is_whole():
    report = run_checks(ours(), only="masks")
    assert report.ok and str(report).count("passed") == len(report.results) + 1
    assert report.seconds >= sum(r.seconds for r in report.results) > 0
