"""The models that ship translate as well as their notes say, to the digit."""

import json
import shutil
from pathlib import Path

import pytest
from nightly import some

from nmtcourse.doctor.known import check
from nmtlib import evaluate, load, load_corpus
from nmtlib.run import SHIPPED
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import read_checkpoint

MODELS = sorted((path.name for path in SHIPPED.iterdir()), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(MODELS))
def test_a_shipped_model_has_the_score_of_its_notes(name):
    translator = load(name)
    corpus = translator.settings.corpus.name
    if not check(corpus).ok:
        pytest.skip(f"{corpus} is not in the cache; fetch it with: nmtlib data fetch {corpus}")
    notes = json.loads((SHIPPED / name / "notes.json").read_text("utf-8"))
    found, _ = evaluate(translator, load_corpus(corpus))
    assert round(found.scores.bleu, 2) == notes["as_shipped"]["test_bleu"]


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_says_how_it_was_trained(name):
    saved = read_checkpoint(SHIPPED / name / "model.safetensors")
    notes = json.loads((SHIPPED / name / "notes.json").read_text("utf-8"))
    assert saved.described().command == notes["command"]
    assert saved.header.weights == notes["weights"]
    # The run measured it in the precision of its machine.
    measured = notes["as_trained"]["validation_nll"]
    assert saved.header.validation_nll == pytest.approx(measured, abs=1e-3)
    read_by_people = Settings.load(SHIPPED / name / "settings.json")
    assert saved.described().settings == read_by_people


def test_words_of_a_shipped_model_cannot_be_exchanged(tmp_path):
    path = Path(shutil.copy(SHIPPED / "toy-de-en" / "model.safetensors", tmp_path))
    kept = path.read_bytes()
    assert kept.count(b'\\"dog\\", ') == 1
    path.write_bytes(kept.replace(b'\\"dog\\", ', b'\\"god\\", '))
    with pytest.raises(ValueError, match="damaged: it is not as it was written"):
        load(path)
