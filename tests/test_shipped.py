"""The models that ship translate as well as their notes say, to the digit."""

import json

import pytest
from nightly import some

from nmtcourse.doctor.known import check
from nmtlib import evaluate, load, load_corpus
from nmtlib.run import SHIPPED

MODELS = sorted((path.name for path in SHIPPED.iterdir()), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(MODELS, by=lambda name: name[:3] == "toy"))
def test_a_shipped_model_has_the_score_of_its_notes(name):
    translator = load(name)
    corpus = translator.settings.corpus.name
    if not check(corpus).ok:
        pytest.skip(f"{corpus} is not in the cache; fetch it with: nmtlib data fetch {corpus}")
    notes = json.loads((SHIPPED / name / "notes.json").read_text("utf-8"))
    found, _ = evaluate(translator, load_corpus(corpus))
    assert round(found.scores.bleu, 2) == notes["as_shipped"]["test_bleu"]
