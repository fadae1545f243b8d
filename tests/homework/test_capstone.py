"""A run is scored by what it translates, within its budget, and leaderboards are merged."""

import json
import shutil
from dataclasses import replace

import pytest

from nmtlib.cli import main
from nmtlib.homework.capstone import CHALLENGES, POSSIBLE, Entry, capstone, leaderboard, read_lines
from nmtlib.inference.translator import SHIPPED

ENTRY = Entry("ann", "toy-de-en", 90.0, 14.0, 0.9, 1_000_000, "tok:none", "a" * 64)


@pytest.fixture
def run(tmp_path):
    """A copy of the model that the package ships, which was trained within the budget."""
    return shutil.copytree(SHIPPED / "toy-de-en", tmp_path / "run")


def with_more_time(run, factor):
    """Multiply the seconds of a run's history."""
    head, *rows = (run / "history.csv").read_text("utf-8").splitlines()
    split = [row.split(",") for row in rows]
    made = [",".join([*r[:2], str(float(r[2]) * factor), *r[3:]]) for r in split]
    (run / "history.csv").write_text("\n".join([head, *made]) + "\n", "utf-8")


@pytest.mark.slow
def test_a_run_is_scored_and_stands_on_the_board_once(run, tmp_path, capsys):
    board = tmp_path / "boards" / "ann.jsonl"
    command = ["homework", "capstone", str(run), "--name", " ann ", "--board", str(board)]
    assert main(command) == main(command) == 0
    (entry,) = read_lines([board])
    assert (entry.name, entry.corpus) == ("ann", "toy-de-en")
    assert 0 < entry.points <= POSSIBLE and entry.minutes <= CHALLENGES["toy-de-en"].minutes
    assert f"BLEU {entry.bleu:.2f} ({entry.signature})" in capsys.readouterr().out


def test_a_training_beyond_the_budget_is_refused(run):
    with_more_time(run, 1.2)
    with pytest.raises(ValueError, match="the budget is 1: train anew with --minutes 1"):
        capstone(run, "ann")


def test_other_corpora_and_what_is_no_run_are_refused(run, tmp_path):
    settings = json.loads((run / "settings.json").read_text("utf-8"))
    settings["corpus"]["name"] = "toy-en-zh"
    (run / "settings.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(ValueError, match="toy-en-zh; the capstone has marks for multi30k-de-en"):
        capstone(run, "ann")
    with pytest.raises(ValueError, match="--name"):
        capstone(run, " ")
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        capstone(tmp_path, "ann")


@pytest.mark.parametrize("challenge", CHALLENGES.values(), ids=CHALLENGES)
def test_a_higher_mark_has_more_points(challenge):
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
    assert "board.jsonl, line 2, is no entry" in capsys.readouterr().err
    assert main(["homework", "leaderboard", str(tmp_path / "none")]) == 1
    assert "there is no leaderboard" in capsys.readouterr().err
