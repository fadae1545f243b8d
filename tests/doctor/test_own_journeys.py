"""Newcomers' odd files (benchmarks/own_journeys.py): the doctor reads each, and keeps its pairs."""

import json
import shlex

import own_journeys
import pytest
from broken_corpora import run
from nightly import some

from nmtcourse.corpora import load_corpus
from nmtlib.presets import load_settings

PAIRS = 200


AT_EACH_COMMIT = ("500", "2000", "7000")  # what the others have is in other tests, too


@pytest.mark.parametrize(
    "name", some(own_journeys.JOURNEYS, by=lambda name: name if name in AT_EACH_COMMIT else "")
)
def test_the_commands_of_the_page_keep_the_pairs_of_an_odd_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journey = own_journeys.JOURNEYS[name]
    corpus = load_corpus("toy-en-zh" if journey.corpus == "cmn-en-zh" else "toy-de-en")
    pairs = corpus.train[:PAIRS]
    journey.write(pairs)
    commands = [shlex.split(command)[1:] for command in journey.commands()[:3]]
    commands[1][commands[1].index("--split") + 1] = "20"
    run(*commands[0])
    _, fixed = run(*commands[1])
    if name == "500":  # in UTF-16 a line is no line of bytes
        assert f"{PAIRS} of {PAIRS} lines became pairs" in fixed
    status, text = run(*commands[2])
    assert status == 0 and "wrong" not in text, text
    copy = load_corpus(load_settings("clean/own.toml").corpus)
    assert (copy.source_language, copy.target_language) == (
        corpus.source_language,
        corpus.target_language,
    )
    splits = ("train", "validation", "test")
    written = {(pair.source, pair.target) for s in splits for pair in getattr(copy, s)}
    expected = {(pair.source, pair.target) for pair in pairs}
    lost = {"page": 1, "2000": 2}.get(name, 0)  # a blank side; cells that are nan
    assert len(expected) == PAIRS and written <= expected and len(written) == PAIRS - lost


def test_a_journey_is_recorded_with_every_line_and_its_best_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(own_journeys, "RECORD", tmp_path / "own-journeys.json")
    row = {"bleu": 20.0, "busy_minutes": 3.0, "set": []}
    by_hand = {"bleu": 21.0, "busy_minutes": 4.0, "set": ["dropout=0.2"]}
    for name in ("2000", "500"):
        own_journeys.keep({name: {"name": name, "by_default": row, "by_hand": []}})
    own_journeys.keep({"2000": {"name": "2000", "by_default": row, "by_hand": [by_hand]}})
    first, second = json.loads(own_journeys.RECORD.read_text("utf-8"))["journeys"]
    assert (first["name"], first["best"]["how"]) == ("500", "as the text asks")
    assert second["best"] == {"bleu": 21.0, "busy_minutes": 4.0, "how": "dropout=0.2"}


def test_a_command_is_followed_to_its_end():
    step = own_journeys.follow("nmtlib --version")
    assert step["status"] == 0 and step["lines"][0].startswith("nmtlib ") and step["seconds"] >= 0
    assert own_journeys.follow("nmtlib no-such-command")["status"] == 2
