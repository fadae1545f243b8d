"""A run is scored by what it translates, within its budget, and leaderboards are merged."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from runs_on_disk import set_anew

from nmtcourse.main import main
from nmtcourse.projects import capstone as scoring
from nmtcourse.projects.capstone import (
    CHALLENGES,
    POSSIBLE,
    Entry,
    add_line,
    capstone,
    leaderboard,
    read_lines,
)
from nmtlib.run import SHIPPED, Run
from nmtlib.training.history import read_history, write_history

ENTRY = Entry("ann", "toy-de-en", 90.0, 14.0, 0.9, 1_000_000, "tok:none", "a" * 64)
ENTRY = replace(ENTRY, seal=ENTRY.sealed())


@pytest.fixture
def run(tmp_path):
    """A copy of the model that the package ships, which was trained within the budget."""
    return shutil.copytree(SHIPPED / "toy-de-en", tmp_path / "run")


def with_time(run, **seconds):
    """Change the times of a run's history."""
    path = run / "history.csv"
    write_history(path, [replace(record, **seconds) for record in read_history(path)])


@pytest.mark.nightly
def test_a_run_is_scored_and_stands_on_the_board_once(run, tmp_path, capsys):
    board = tmp_path / "boards" / "ann.jsonl"
    command = ["homework", "capstone", str(run), "--name", " ann ", "--board", str(board)]
    assert main(command) == main(command) == 0
    (entry,) = read_lines([board])
    assert (entry.name, entry.corpus) == ("ann", "toy-de-en")
    assert 0 < entry.points <= POSSIBLE and entry.minutes <= CHALLENGES["toy-de-en"].minutes
    assert f"BLEU {entry.bleu:.2f} ({entry.signature})" in capsys.readouterr().out


@pytest.mark.parametrize("times", [{"seconds": 70}, {"seconds": 90, "busy_seconds": 70}])
def test_a_training_beyond_the_budget_is_refused(run, times):
    with_time(run, **times)
    with pytest.raises(ValueError, match="the budget is 1: train again with --minutes 1"):
        capstone(run, "ann")


def test_a_busy_machine_costs_no_minutes(run):
    with_time(run, seconds=900, busy_seconds=30)
    assert scoring._within_the_rules(Run(run))[1] == 0.5


def test_other_corpora_and_what_is_no_run_are_refused(run, tmp_path):
    set_anew(run / "model.safetensors", "corpus.name", "toy-en-zh")
    with pytest.raises(ValueError, match="toy-en-zh; the capstone accepts multi30k-de-en"):
        capstone(run, "ann")
    with pytest.raises(ValueError, match="--name"):
        capstone(run, " ")
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        capstone(tmp_path, "ann")


def test_help_from_outside_the_budget_is_refused(run, tmp_path, capsys):
    board = tmp_path / "board.jsonl"
    given = {"training.init_from": "toy", "recipe.teachers": ["toy"], "recipe.synthetic": ["a.tsv"]}
    for key, value in given.items():
        set_anew(run / "model.safetensors", key, value)  # settings.json says nothing of it
    assert main(["homework", "capstone", str(run), "--name", "ann", "--board", str(board)]) == 1
    told = capsys.readouterr().err
    assert all(f"{key} = {json.dumps(value)}" in told for key, value in given.items())
    assert f"train again without {' and '.join(given)}" in told and not board.exists()


def test_a_higher_mark_has_more_points():
    for challenge in CHALLENGES.values():
        marks = sorted(challenge.marks)
        points = [challenge.points(mark) for mark in marks]
        assert points == sorted(set(points)) and points[-1] == POSSIBLE
        assert challenge.points(marks[0] - 0.01) == 0 and challenge.points(100) == POSSIBLE


def test_boards_are_merged_by_the_best_run_of_each_name():
    lines = leaderboard(
        [
            ENTRY,
            replace(ENTRY, bleu=95.0, model="b" * 64),
            replace(ENTRY, name="ben", bleu=93.0),
            replace(ENTRY, name="cleo", bleu=93.0, minutes=0.5, model="c" * 64),
        ]
    ).splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["ann", "cleo", "ben"]
    assert "95.00" in lines[1] and lines[4:] == ["the same weights: ann, ben"]


def test_a_damaged_board_is_named(tmp_path, capsys):
    board = tmp_path / "board.jsonl"
    board.write_text(json.dumps(vars(ENTRY)) + "\n{}\n", "utf-8")
    assert main(["homework", "leaderboard", str(board)]) == 1
    assert "board.jsonl, line 2, is not an entry" in capsys.readouterr().err
    assert main(["homework", "leaderboard", str(tmp_path / "none")]) == 1
    assert "there is no leaderboard" in capsys.readouterr().err


def resealed(**changes):
    """The entry with other values, as the command would have written it."""
    entry = replace(ENTRY, **changes)
    return replace(entry, seal=entry.sealed())


def line_of(**changes):
    """A line of a board."""
    return json.dumps({**vars(ENTRY), **changes}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bleu": "9"}, "bleu should be a valid number, not '9'"),
        ({"minutes": float("nan")}, "minutes must be finite"),
        ({"parameters": 10**400}, "parameters must be finite"),
        ({"age": 9}, "age Unexpected keyword"),
    ],
)
def test_a_line_with_other_values_is_named(changes, said, tmp_path, capsys):
    board = tmp_path / "board.jsonl"
    board.write_text(f"{line_of()}\n{line_of(**changes)}\n", "utf-8")
    assert main(["homework", "leaderboard", str(board)]) == 1
    told = capsys.readouterr().err
    assert f"{board}, line 2, is not an entry" in told and said in told


@pytest.mark.parametrize(("mark", "end"), [("", ""), ("", "\n  \n"), ("\ufeff", "\r\n")])
def test_a_board_from_any_editor_is_read_and_added_to(mark, end, tmp_path):
    board, ben = tmp_path / "board.jsonl", resealed(name="ben\u2028", model="b" * 64)
    board.write_bytes(f"{mark}{line_of()}{end}".encode())
    add_line(board, ben)
    add_line(board, ben)
    add_line(board, ENTRY)
    assert read_lines([board]) == [ENTRY, ben]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "{} is a folder; give the name of a file"),
        ("foreign.jsonl", "{} is there already and is no leaderboard"),
        ("foreign.jsonl/b.jsonl", "is a file, not a folder"),
    ],
)
def test_a_board_that_cannot_grow_is_refused_first(name, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scoring, "capstone", lambda *given: pytest.fail("scored in vain"))
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_bytes("Jörg".encode("latin-1"))
    board = tmp_path / name
    assert main(["homework", "capstone", "run", "--name", "ann", "--board", str(board)]) == 1
    assert said.format(board) in capsys.readouterr().err
    assert foreign.read_bytes() == "Jörg".encode("latin-1")


@pytest.mark.parametrize(
    "entry",
    [
        replace(ENTRY, bleu=99.5, points=20.0),  # by hand, with a seal of other numbers
        resealed(points=20.0),
        resealed(minutes=2.0),
        resealed(corpus="other"),
    ],
)
def test_a_line_that_capstone_has_not_written_is_refused(entry, tmp_path):
    board = tmp_path / "board.jsonl"
    board.write_text(json.dumps(vars(entry)) + "\n", "utf-8")
    with pytest.raises(ValueError, match="line 1, is not an entry: not written by"):
        read_lines([board])


def test_two_writers_lose_no_line(tmp_path):
    board, entries = tmp_path / "board.jsonl", [resealed(name=f"n{n}") for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: add_line(board, entry), entries))
    assert sorted(e.name for e in read_lines([board])) == sorted(e.name for e in entries)


def test_a_run_that_cannot_be_scored_is_told_what_to_do(run):
    with_time(run, seconds=63)
    with pytest.raises(ValueError, match="The 3 seconds beyond it are probably the last update"):
        capstone(run, "ann")
    (run / "history.csv").unlink()
    with pytest.raises(ValueError, match="has not finished an epoch.*--resume.*smaller model"):
        capstone(run, "ann")
