"""A report reads well in a terminal and in a notebook, and says what to do."""

from dataclasses import replace
from html.parser import HTMLParser

from nmtlib.checks import CHECKS, Report, Result, ours, run_checks
from nmtlib.checks.report import NO_PART

GOOD = Result(CHECKS["attention.scale"], "passed", "scores are divided by 2.828", seconds=0.01)
BAD = Result(
    CHECKS["masks.causal"],
    "failed",
    "3 <of> 4 places are wrong",
    "The triangle & its diagonal.",
    0.02,
)
BROKEN = Result(
    CHECKS["model.shape"], "error", "AttributeError: no norm3, at mine.py:3", "The exception.", 0.1
)
SLOW = Result(
    CHECKS["decoding.greedy"], "timeout", "stopped in greedy after 20 s", "An endless loop.", 20
)
LEFT = Result(CHECKS["beam.scores"], "skipped", NO_PART + "beam")
OPEN = Result(CHECKS["training.best_kept"], "skipped", "nothing can be told")
MIXED = Report(
    "mine",
    (GOOD, BAD, BROKEN, replace(BROKEN, check=CHECKS["model.double"]), SLOW, OPEN, LEFT),
    21.0,
)


def test_verdicts_are_counted_apart():
    assert [len(part) for part in (MIXED.passed, MIXED.failed, MIXED.skipped)] == [1, 4, 2]
    assert not MIXED.ok and Report("mine", (GOOD, LEFT), 1.0).ok
    assert not Report("mine", (LEFT,), 1.0).ok, "nothing was shown to hold"
    assert MIXED.summary == "mine: 1 passed, 4 failed, 2 skipped in 21.0 s"


def test_the_terminal_shows_aligned_columns_and_help_for_failures_only():
    lines = str(MIXED).splitlines()
    starts = [line for line in lines if line[:1].strip() and not line.startswith("mine:")]
    assert [line.split()[:2] for line in starts] == [
        ["passed", "attention.scale"],
        ["FAILED", "masks.causal"],
        ["ERROR", "model.shape"],
        ["ERROR", "model.double"],
        ["TIMEOUT", "decoding.greedy"],
        ["skipped", "training.best_kept"],
        ["skipped", "1"],
    ]
    column = starts[0].index("scores are")
    assert all(line[column - 1] == " " and line[column] != " " for line in starts[:-1])
    assert max(map(len, lines)) <= 120
    help_lines = lines[lines.index(starts[1]) + 1 : lines.index(starts[2])]
    text = " ".join(line.strip() for line in help_lines)
    assert (
        "likely cause: The triangle & its diagonal." in text
        and "read: notebooks/06_masking.ipynb" in text
    )
    assert lines.index(starts[1]) == 1, "what passed takes one line"
    assert lines[-1] == MIXED.summary


def test_one_exception_is_told_once():
    text = str(MIXED)
    assert text.count("no norm3") == 1 and "the same exception as in model.shape" in text


def test_checks_of_missing_parts_are_told_in_one_line():
    many = Report("mine", (GOOD, LEFT, replace(LEFT, measured=NO_PART + "beam, make_model")), 1.0)
    assert "2 checks of parts that the adapter does not have: beam, make_model" in str(many)
    assert "2 checks of parts" in many._repr_html_() and "parts that" not in str(
        Report("mine", (GOOD,), 1.0)
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.names, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        assert {name for name, _ in attributes} <= {"style"}, "inline styles only"
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_notebook_shows_a_table_with_inline_styles():
    tags = Tags()
    tags.feed(MIXED._repr_html_())
    assert not tags.open and tags.names.count("tr") == 7
    assert not {"script", "link", "img", "style"} & set(tags.names)
    for said in (
        "3 <of> 4 places are wrong",
        "The triangle & its diagonal.",
        "06_masking",
        MIXED.summary,
    ):
        assert said in tags.text


def test_a_real_report_is_whole():
    report = run_checks(ours(), only="loss")
    assert report.ok and str(report).count("passed") == len(report.results) + 1
    assert report.seconds >= sum(r.seconds for r in report.results) > 0
