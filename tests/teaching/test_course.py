"""The shipped models are the runs they claim to be; they translate the sentence of the course."""

import itertools
import json

import pytest
import torch

from nmtcourse.teaching import course
from nmtlib import experiment
from nmtlib.data import corpora
from nmtlib.presets import load_settings
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.loss import measure_all


@pytest.fixture(scope="module", params=course.DIRECTIONS)
def direction(request):
    return request.param


@pytest.fixture(scope="module")
def corpus(direction):
    return corpora.load_corpus(f"toy-{direction}")


@pytest.fixture(scope="module")
def translator(direction):
    return course.load_toy(direction)


def test_a_shipped_model_is_in_half_precision_and_as_good_as_its_notes_say(
    direction, translator, corpus
):
    folder = course.CHECKPOINTS / f"toy-{direction}"
    stored = read_checkpoint(folder / "model.safetensors").tensors
    assert {t.dtype for t in stored.values()} == {torch.float16}
    assert sum(f.stat().st_size for f in folder.iterdir()) < 2_500_000
    for name, parameter in translator.model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, stored[f"model.{name}"].float()), name
    assert not translator.model.training
    notes = json.loads((folder / "notes.json").read_text())
    examples = [translator.example(pair.source, pair.target) for pair in corpus.validation]
    loss = measure_all(translator.model, examples).nll_per_token
    assert loss == pytest.approx(notes["as_shipped"]["validation_nll"], abs=5e-4)
    trained, shipped = (notes[when]["test_bleu"] for when in ("as_trained", "as_shipped"))
    assert shipped == pytest.approx(trained, abs=0.05)
    assert notes["seed"] == translator.settings.training.seed
    assert notes["command"].startswith("nmtlib train toy-")


def test_the_sentence_of_the_course_is_new_to_the_models_and_translated_right(
    direction, translator, corpus
):
    pair = course.running_pair(direction)
    assert (pair.source, pair.target) == {
        "de-en": (course.GERMAN, course.ENGLISH),
        "en-zh": (course.ENGLISH, course.CHINESE),
    }[direction]
    assert translator.translate([pair.source]) == [pair.target]
    assert all(pair.source != p.source and pair.target != p.target for p in corpus.train)
    assert 6 <= len(pair.source.split()) <= 8
    links = itertools.combinations(pair.alignment, 2)
    crossed = {
        link
        for two in links
        if (two[0][0] - two[1][0]) * (two[0][1] - two[1][1]) < 0
        for link in two
    }
    assert len(crossed) >= 4, "there is no word order to see"


def test_untrained_is_the_model_that_the_training_starts_from(
    direction, corpus, tmp_path, monkeypatch
):
    class FirstUpdate(Exception):
        pass

    def trainer(model, *arguments, **options):
        seen.update({name: p.detach().clone() for name, p in model.named_parameters()})
        raise FirstUpdate

    seen = {}
    monkeypatch.setattr(experiment, "Trainer", trainer)
    monkeypatch.setattr(experiment, "load_corpus", lambda settings: corpus)
    with pytest.raises(FirstUpdate):
        experiment.train(tmp_path / "run", load_settings(f"toy-{direction}"), report=str)
    torch.manual_seed(1234)
    before = torch.random.get_rng_state()
    untrained = course.untrained_toy(direction)
    assert torch.equal(before, torch.random.get_rng_state()), "the reader's random numbers changed"
    assert seen.keys() == dict(untrained.model.named_parameters()).keys()
    for name, parameter in untrained.model.named_parameters():
        assert torch.equal(parameter, seen[name]), name
    pair = course.running_pair(direction)
    assert untrained.translate([pair.source], max_length=10) != [pair.target]
