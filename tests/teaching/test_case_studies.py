"""The records of notebook 13 say what they hold, and its pictures show it."""

import json
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from nmtcourse.teaching import case_studies
from nmtcourse.teaching.case_studies import (
    Station,
    draw_gains,
    draw_report,
    read_stations,
    table,
)
from nmtlib.training.history import EpochRecord


def station(key, bleus, gains=()):
    """A station whose seeds have these BLEUs, and these (difference, p)."""
    runs = [{"seed": seed, "bleu": bleu, "minutes": 1.0} for seed, bleu in enumerate(bleus, 1)]
    told = [{"difference": d, "low": d - 1, "high": d + 1, "p": p} for d, p in gains]
    return Station(key, f"idea {key}", ["x=1"], 1, 1.0, 100, [10, 10], runs, told)


def history(scale):
    names = EpochRecord.__dataclass_fields__
    return [
        EpochRecord(**{**dict.fromkeys(names, scale / epoch), "epoch": epoch, "updates": epoch})
        for epoch in (1, 2, 3)
    ]


STATIONS = [
    station("a", (30.0, 31.0, 32.0)),
    station("b", (33.0, 34.0, 35.0), [(3.0, 0.01)] * 3),
    station("c", (32.0, 33.0, 34.0), [(-1.0, 0.01)] * 3),
    station("d", (32.5, 34.0, 35.5), [(0.5, 0.01), (1.0, 0.01), (1.5, 0.3)]),
]


def test_the_table_has_every_seed_and_marks_what_is_clear():
    lines = table(STATIONS).splitlines()
    assert len(lines) == 5 and lines[2].split()[:6] == ["idea", "b", "33.0", "34.0", "35.0", "34.0"]
    assert lines[2].count("*") == 3 and lines[4].count("*") == 2 and "*" not in lines[1]


def test_the_gains_are_drawn_for_every_seed_by_what_was_changed():
    several = replace(STATIONS[2], settings=["x=1", "y=2"])
    one, many, _ = draw_gains([*STATIONS[:2], several]).lines
    assert list(one.get_xdata()) == [3.0] * 3 and list(one.get_ydata()) == [0] * 3
    assert list(many.get_xdata()) == [-1.0] * 3 and list(many.get_ydata()) == [1] * 3
    plt.close("all")


def test_the_report_has_four_curves_over_the_seeds():
    figure = draw_report({"words": [history(1.0), history(2.0), history(3.0)]})
    assert [len(ax.lines) for ax in figure.axes] == [1, 1, 1, 1]
    assert list(figure.axes[0].lines[0].get_ydata()) == pytest.approx([2.0, 1.0, 2 / 3])
    plt.close("all")


def test_the_report_is_drawn_over_updates_also_where_seeds_made_different_numbers():
    later = [replace(record, updates=3 * record.updates) for record in history(1.0)]
    figure = draw_report({"words": [history(1.0), later]})
    assert [list(ax.lines[-1].get_xdata()) for ax in figure.axes] == [[2, 4, 6]] * 4
    assert figure.axes[2].get_xlabel() == "updates"
    plt.close("all")


def test_stations_are_read_with_what_else_their_file_may_hold(tmp_path):
    path = tmp_path / "stations.json"
    rows = [{**vars(one), "later": 1} for one in STATIONS]
    epochs = {"a": [[vars(record) for record in history(1.0)]]}
    path.write_text(json.dumps({"stations": rows, "histories": epochs, "systems": {"source": []}}))
    study = read_stations(path)
    assert study.stations == STATIONS and study.histories["a"][0] == history(1.0)
    assert replace(study.stations[0], key="z") != STATIONS[0]


def test_the_counts_are_of_a_whole_corpus():
    facts = case_studies.corpus_facts()
    for language, count in facts["captions"].items():
        assert count["kept"] + sum(count["left_out"].values()) == count["lines"] == 145_000
        words = facts["words"][language]
        assert words["vocabulary"] == words["different"] - words["once"] + 4
        assert facts["pieces"][language]["test_unknown"] == 0 < words["test_unknown"]


def test_a_bad_teacher_harms_and_a_good_one_helps_in_each_seed():
    runs = case_studies.teachers()["runs"]
    assert [run["seed"] for run in runs] == [1, 2, 3]
    arms = ("no synthetic pairs", "from the young teacher", "from the shipped teacher")
    for none, young, shipped in ([run[arm][1] for arm in arms] for run in runs):
        assert young < none - 2 and shipped > none + 2
    first = {run[arms[1]][0] > run[arms[0]][0] for run in runs}
    assert first == {True, False}, "at one synthetic pair for each real one, the seeds disagree"
    assert len(case_studies.draw_teachers().lines) == 2
    plt.close("all")


def test_every_quoted_sentence_is_judged_once():
    judged = case_studies.judged()
    assert sorted(n for group in judged["kinds"].values() for n in group) == list(range(40))
    assert len(judged["said"]) == 40


def test_own_captions_are_pairs_that_are_not_in_the_quoted_sentences():
    own = case_studies.own_captions()
    assert len({pair.source for pair in own}) == 20
    assert all(pair.source[-1] == pair.target[-1] == "." for pair in own)


def test_constructions_name_sentences_that_are_quoted():
    numbers = [n for group in case_studies.CONSTRUCTIONS.values() for n in group]
    assert set(numbers) <= set(range(40))


def test_a_long_compound_noun_has_ten_letters_or_more():
    others = {"Parasailing", "Kopfhörern"}  # no compound; nine letters in the dictionary
    words = [re.findall(r"[\w-]+", text) for text in read_stations().systems["source"]]
    long = {
        number
        for number, sentence in enumerate(words)
        for word in set(sentence) - others
        if word[0].isupper() and len(word.replace("-", "")) >= 10
    }
    assert set(case_studies.CONSTRUCTIONS["long compound noun"]) == long


REFERENCES = [f"the {n} dogs run over a green field with a ball ." for n in range(40)]
WORSE = [  # other words, and too short
    text.replace("green", "red").replace(" with a ball", "") if n % 2 else text
    for n, text in enumerate(REFERENCES)
]
