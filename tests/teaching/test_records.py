"""What was recorded is what the notebooks ask for, is used, and can be made again."""

import json
import re
import statistics
from textwrap import dedent

import course_records
import nbformat
import pytest
import torch

from nmtcourse.teaching import records
from nmtcourse.teaching.records import by_seed, code, plain

BOOKS = [path for path in course_records.books() if course_records.names(path)]
SOURCE = "from nmtcourse.teaching.records import by_seed\n\n\ndef half(x):\n    return x / 2"
ASKS = """def curve(n, seed):
    return {"y": [half(seed)] * n}

found = by_seed("99.curve", curve, 2)"""


# Asking for seeds


def doubled(seed):
    ran.append(seed)
    return helped(seed)


def helped(seed):
    return {"y": torch.tensor([2.0 * seed]), 7: (seed, 1 / 3)}


ran: list[int] = []


@pytest.fixture
def record(monkeypatch):
    """The record of `doubled` with the seeds 1, 2 and 3, which says that seeds 2 and 3 gave -1."""
    ran.clear()
    kept = {"code": code(doubled), "seeds": [1, 2, 3], "found": {"()": [-1, -1, -1]}}
    monkeypatch.setattr(records, "records", lambda: {"99.doubled": kept})
    return kept


def test_the_first_seed_runs_and_the_others_are_recorded(record):
    found = by_seed("99.doubled", doubled, seeds=(1, 2, 3))
    assert found == [{"y": [2.0], 7: [1, 0.3333]}, -1, -1] and ran == [1]
    assert by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=0) == [-1] * 3 and ran == [1]
    assert len(by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=2)) == 3 and ran == [1, 1, 2]


@pytest.mark.parametrize(
    "other", [{"code": ["def doubled(seed): ..."]}, {"seeds": [1, 2, 4]}, {"found": {"(5)": [0]}}]
)
def test_what_was_recorded_otherwise_runs_with_all_seeds_and_says_so(record, other, capsys):
    record |= other
    found = by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=0)
    assert [one["y"] for one in found] == [[2.0], [4.0], [6.0]] and ran == [1, 2, 3]
    assert "99.doubled() is not what was recorded" in capsys.readouterr().out


def test_the_code_of_a_function_holds_what_it_needs_of_its_page(monkeypatch):
    before = code(doubled)
    assert [text.partition("(")[0] for text in before] == ["def doubled", "def helped"]
    monkeypatch.setitem(globals(), "helped", plain)  # of another module: not of this page
    assert code(doubled) == before[:1]


class Page:
    def method(self):
        return doubled


part = lambda: 1  # noqa: E731  (a name of the page that a function may have for its own use)


def on_page():
    part = Page()
    return part.method()


def test_the_code_of_a_class_is_that_of_its_methods():
    heads = [text.partition("(")[0] for text in code(on_page)]
    assert heads == ["def on_page", "def method", "def doubled", "def helped"]


# Making records


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one notebook that asks for one record."""
    cells = [nbformat.v4.new_code_cell(text) for text in (SOURCE, ASKS, "raise SystemExit")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "99_a.ipynb")
    monkeypatch.setattr(course_records, "NOTEBOOKS", tmp_path)
    return tmp_path / "seeds.json"


def test_the_cells_run_with_all_seeds_up_to_the_last_that_asks(course):
    course_records.main(["--output", str(course)])
    (made,) = records.read(course)["records"].values()
    assert made["found"] == {"(2)": [{"y": [0.0, 0.0]}, {"y": [0.5, 0.5]}, {"y": [1.0, 1.0]}]}
    assert made["seeds"] == [0, 1, 2] and made["machine"]["torch"]
    assert [text.split("(")[0] for text in made["code"]] == ["def curve", "def half"]
    assert records.by_seed is by_seed


def test_a_record_that_is_not_named_stays_and_one_that_nobody_asks_for_goes(course):
    course_records.main(["--output", str(course)])
    text = json.loads(course.read_text("utf-8"))
    text["records"] = {"99.curve": {"old": 1}, "98.gone": {"old": 1}}
    course.write_text(json.dumps(text), "utf-8")
    with pytest.raises(ValueError, match=r"no notebook asks for 99\.curves; try 99\.curve"):
        course_records.main(["99.curves", "--output", str(course)])
    assert json.loads(course.read_text("utf-8")) == text
    course_records.main(["99.curve", "--output", str(course)])
    assert [*records.read(course)["records"]] == ["99.curve"]


# What is recorded


def test_every_record_is_asked_for_and_everything_asked_for_is_recorded():
    asked = [name for path in BOOKS for name in course_records.names(path)]
    assert asked == [*records.records()] and len(asked) == len(set(asked))
    assert all(name[:2] == path.name[:2] for path in BOOKS for name in course_records.names(path))


@pytest.mark.parametrize("name", records.records())
def test_a_record_says_what_made_it(name):
    record = records.records()[name]
    assert re.fullmatch(r"python benchmarks/course_records\.py( \d\d\.\w+)*", record["command"])
    assert {"torch", "nmtlib", "processor", "threads"} <= set(record["machine"])
    assert len(set(record["seeds"])) >= 3 and record["found"]
    assert all(len(gave) == len(record["seeds"]) for gave in record["found"].values())


def flush_left(text: str) -> str:
    return "\n".join(line.strip() for line in dedent(text).splitlines())


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_what_was_recorded_is_the_code_of_the_notebook(path):
    page = flush_left("\n".join(course_records.code(path)))
    for name in course_records.names(path):
        for text in records.records()[name]["code"]:
            assert flush_left(text) in page, f"{name}: run benchmarks/course_records.py {name}"
            changed = text.replace(":\n", ": pass\n", 1)  # a planted edit
            assert flush_left(changed) not in page


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_no_stored_output_was_made_without_the_record(path):
    assert "is not what was recorded" not in path.read_text("utf-8")


def test_the_file_is_small():
    assert records.RECORDED.stat().st_size < 500_000


def numbers(found):
    """All numbers of what a seed gave, in their order."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [number for one in found for number in numbers(one)]
    return [] if isinstance(found, str) else [float(found)]


def agree(made, recorded) -> bool:
    """Whether two seeds' numbers are alike; another processor rounds otherwise."""
    mine, theirs = numbers(made), numbers(recorded)
    if len(mine) != len(theirs):
        return False
    off = statistics.median(abs(a - b) for a, b in zip(mine, theirs, strict=True))
    return off <= 0.02 * statistics.mean(map(abs, theirs))


def test_numbers_that_were_touched_do_not_agree():
    one = {"y": [1.0, 2.0, 3.0], "said": "two books"}
    assert agree(one, one) and agree({"y": [1.01, 2.0, 3.0]}, one)
    assert not agree({"y": [1.1, 2.1, 3.1]}, one) and not agree({"y": [1.0, 2.0]}, one)


@pytest.mark.nightly
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_recorded_seed_can_be_made_again_and_the_notebook_holds_with_it(path):
    """The second seed of every record runs again; the cells assert their claims on it."""
    made_again = []

    def remade(name, function, *arguments, seeds=(0, 1, 2), live=1):
        recorded = records.records()[name]["found"][records.key(arguments)]
        made = plain(function(*arguments, seeds[1]))
        assert agree(made, recorded[1]), f"{name}{records.key(arguments)} gives other numbers"
        made_again.append(name)
        return [recorded[0], made, *recorded[2:]]

    course_records.run(path, remade)
    assert set(made_again) == set(course_records.names(path))
