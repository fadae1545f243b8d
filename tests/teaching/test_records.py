"""What was recorded is what the notebooks ask for, is used, and can be made again."""

import statistics
from textwrap import dedent

import course_records
import pytest
import torch

from nmtcourse.teaching import records
from nmtcourse.teaching.records import by_seed, code, plain

BOOKS = [path for path in course_records.books() if course_records.names(path)]


def doubled(seed):
    ran.append(seed)
    return helped(seed)


def helped(seed):
    return {"y": torch.tensor([2.0 * seed]), 7: (seed, 1 / 3)}


ran: list[int] = []


@pytest.fixture
def record(monkeypatch):
    """The record of `doubled`, commented, for the seeds 1, 2, 3: seeds 2 and 3 gave -1."""
    ran.clear()
    commented = [f"{text}  # 注释" for text in code(doubled)]
    recorded = {"code": commented, "seeds": [1, 2, 3], "found": {"()": [-1, -1, -1]}}
    monkeypatch.setattr(records, "records", lambda: {"99.doubled": recorded})
    return recorded


def test_the_first_seed_runs_and_the_others_are_recorded(record):
    values = by_seed("99.doubled", doubled, seeds=(1, 2, 3))
    assert values == [{"y": [2.0], 7: [1, 0.3333]}, -1, -1] and ran == [1]
    assert by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=0) == [-1] * 3 and ran == [1]
    assert len(by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=2)) == 3 and ran == [1, 1, 2]


def test_what_was_recorded_otherwise_runs_with_all_seeds_and_says_so(record, capsys):
    for other in (
        {"code": ["def doubled(seed): ..."]},
        {"seeds": [1, 2, 4]},
        {"found": {"(5)": []}},
    ):
        before = {**record}
        record.update(other)
        values = by_seed("99.doubled", doubled, seeds=(1, 2, 3), live=0)
        assert [value["y"] for value in values] == [[2.0], [4.0], [6.0]]
        assert "99.doubled() is not what was recorded" in capsys.readouterr().out
        record.update(before)


# What is recorded


def test_every_record_is_asked_for_and_everything_asked_for_is_recorded():
    asked = [name for path in BOOKS for name in course_records.names(path)]
    assert asked == [*records.records()] and len(asked) == len(set(asked))
    assert all(name[:2] == path.name[:2] for path in BOOKS for name in course_records.names(path))


def flush_left(text: str) -> str:
    return "\n".join(line.strip() for line in dedent(text).splitlines())


def test_what_was_recorded_is_the_code_of_the_notebook():
    for path in BOOKS:
        page = flush_left("\n".join(course_records.code(path)))
        for name in course_records.names(path):
            for text in records.records()[name]["code"]:
                assert flush_left(text) in page, f"{name}: run benchmarks/course_records.py {name}"
                changed = text.replace(":\n", ": pass\n", 1)  # a planted edit
                assert flush_left(changed) not in page


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
