"""The record of a teacher: how sure it is, where dropout makes it think again, who was taught."""

import json

import pytest
import taught
import torch
from torch.nn import functional as F

from nmtcourse.teaching import chinese
from nmtcourse.teaching.taught import place_lines, recorded
from nmtlib.data.batching import collate
from nmtlib.data.corpus import Corpus
from nmtlib.inference.translator import Translator


@pytest.fixture(scope="module")
def teacher():
    return Translator.load("cmn-en-zh")


def test_what_is_recorded_is_measured_on_both_splits_and_repeats(tmp_path, monkeypatch):
    pairs = chinese.test_pairs()
    corpus = Corpus("cmn-en-zh", "en", "zh", pairs[:40], pairs[40:50])
    monkeypatch.setattr(taught, "load_corpus", lambda settings: corpus)
    monkeypatch.setattr(taught, "seeds", lambda preset: [{"preset": preset}])
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for output in (first, second):
        taught.main(["--output", str(output)])
    found, again = (json.loads(output.read_text("utf-8")) for output in (first, second))
    assert found["perplexity"] == again["perplexity"] and found["places"] == again["places"]
    assert found["teacher"] == "cmn-en-zh" and 0 < found["teacher_weight"] <= 1
    assert found["seeds"]["labels"] == [{"preset": "cmn-en-zh-small"}]
    for split in ("training", "validation"):
        assert 1 < found["perplexity"][split]["plain"] < found["perplexity"][split]["dropout"]
    assert len({row["source"] for row in found["places"]}) == len(found["places"])


def test_nothing_is_recorded_before_the_seeds_are_scored(tmp_path, monkeypatch):
    monkeypatch.setattr(taught, "seeds", lambda preset: [])
    with pytest.raises(ValueError, match="score the seeds of cmn-en-zh-small and cmn-en-zh-taught"):
        taught.main(["--output", str(tmp_path / "found.json")])
    assert not (tmp_path / "found.json").exists()


@torch.no_grad()
def test_perplexity_is_that_of_the_labels(teacher):
    pairs = chinese.test_pairs()[:6]
    examples = [teacher.example(pair.source, pair.target) for pair in pairs]
    total = count = 0.0
    for example in examples:
        batch = collate([example])
        logits = teacher.model(batch.source, batch.decoder_input)[0]
        total += float(F.cross_entropy(logits, batch.labels[0], reduction="sum"))
        count += batch.labels.numel()
    found = taught.perplexity(teacher.model, examples, dropout=False)
    assert found == pytest.approx(float(torch.tensor(total / count).exp()), rel=1e-4)
    assert not teacher.model.training


def test_the_places_shown_are_those_where_dropout_makes_a_sure_teacher_unsure():
    shown = recorded()["places"]
    assert shown
    for place in shown:
        plain, dropout = dict(place["plain"]), dict(place["dropout"])
        assert plain[place["label"]] > taught.SURE
        assert dropout.get(place["label"], 0) < taught.UNSURE
        lines = place_lines(place)
        assert len(lines) == 4 and place["label"] in lines[1] and place["source"] in lines[0]


def test_the_seeds_are_those_of_the_results():
    for name, preset in (("labels", taught.LABELS), ("taught", taught.TAUGHT)):
        assert recorded()["seeds"][name] == taught.seeds(preset)
