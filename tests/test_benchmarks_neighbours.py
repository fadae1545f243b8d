"""The record of models that look words up: what is counted, what is shown, what stays."""

import json
from dataclasses import replace

import neighbours
import pytest
import torch

from nmtcourse.teaching.neighbours import parting_lines, recorded
from nmtlib.data.corpora import load
from nmtlib.inference.metrics import chrf
from nmtlib.inference.translator import Translator


@pytest.fixture
def spoiled(monkeypatch):
    """The shipped toy model, spoiled so that it errs, and a corpus of some pairs."""
    corpus = load("toy-de-en")
    corpus = replace(corpus, train=corpus.train[:80], test=[*corpus.train[:10], *corpus.test[:10]])
    translator = Translator.load("toy-de-en")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    monkeypatch.setattr(neighbours, "load_corpus", lambda settings: corpus)
    monkeypatch.setattr(neighbours.Translator, "load", lambda name: translator)
    monkeypatch.setattr(neighbours, "MODELS", {"toy-de-en": "toy-de-en"})
    return translator, corpus


def test_a_model_is_scored_twice_and_the_record_of_others_stays(spoiled, tmp_path):
    translator, corpus = spoiled
    output = tmp_path / "found.json"
    output.write_text(json.dumps({"models": [{"model": "other"}]}))
    neighbours.main(["--output", str(output)])
    other, found = json.loads(output.read_text("utf-8"))["models"]
    assert (other, found["model"]) == ({"model": "other"}, "toy-de-en")
    assert found["entries"] == sum(
        len(translator.example(pair.source, pair.target).target) - 1 for pair in corpus.train
    )
    assert found["looked_up"]["bleu"] > found["plain"]["bleu"]
    said = translator.translate([pair.source for pair in corpus.test])
    wrong = [i for i, pair in enumerate(corpus.test) if said[i] != pair.target]
    assert 0 < found["better"] <= len(wrong) and found["sentences"] == 20
    parts = found["by_distance"]
    assert [part["upto"] for part in parts] == sorted(part["upto"] for part in parts)
    for part in parts:
        assert 0 <= part["nearest_alone"] <= min(part["nearest"], 1 - part["model"]) + 1e-6
    assert parts[0]["nearest"] == 1, "half of the test pairs stand in the memory"
    shown = found["examples"]["better"]
    assert shown and all(neighbours.turned(example) for example in shown)
    for example in shown:
        scores = [
            chrf([example[key]], [example["reference"]]).score for key in ("plain", "looked_up")
        ]
        assert scores[0] < scores[1]
        assert all(example[key].startswith(example["before"]) for key in ("plain", "looked_up"))
        training = {pair.source: pair.target for pair in corpus.train}
        for entry in example["entries"]:
            assert training[entry["source"]].startswith(entry["before"])


@pytest.mark.parametrize(
    "alone, mixed, turned",
    [
        ((0.5, 0.3), (0.35, 0.5), True),
        ((0.5, 0.3), (0.4, 0.3), False),
        ((0.3, 0.5), (0.2, 0.6), False),
    ],
)
def test_a_choice_is_turned_where_the_second_token_becomes_the_likelier(alone, mixed, turned):
    assert neighbours.turned({"alone": alone, "mixed": mixed}) is turned


def test_what_is_recorded_can_be_shown():
    for model in ("cmn-en-zh", "multi30k-de-en"):
        found = recorded(model)
        for kind, better in {"better": True, "worse": False}.items():
            for example in found["examples"][kind]:
                source, alone, other, _, tokens, *entries = parting_lines(example)
                assert example["source"] in source and len(entries) == found["neighbours"]
                assert example["plain"] in alone and example["looked_up"] in other
                assert all(token in tokens for token in example["next"])
                scores = [
                    chrf([example[key]], [example["reference"]]).score
                    for key in ("plain", "looked_up")
                ]
                assert (scores[0] < scores[1]) is better
    with pytest.raises(ValueError, match="model must be one of cmn-en-zh, multi30k-de-en, not 'x'"):
        recorded("x")
