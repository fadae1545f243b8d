"""The models that ship translate as well as their notes say, to the digit."""

import json
import shutil

import pytest
from nightly import some

from nmtcourse.doctor.known import check
from nmtlib import evaluate, load, load_corpus
from nmtlib.run import SHIPPED, Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import weights_notes

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
def test_a_shipped_model_has_a_digest_of_all_that_it_depends_on(name):
    run = Run(SHIPPED / name)
    identity = weights_notes(run.model_file).identity
    assert identity.keys() == {"settings", "source.json", "target.json", "corpus"}
    assert identity.items() >= run.digests().items()


def test_exchanged_words_of_a_shipped_model_are_refused(tmp_path):
    run = shutil.copytree(SHIPPED / "toy-de-en", tmp_path / "toy-de-en")
    codec = json.loads((run / "target.json").read_text("utf-8"))
    codec["tokens"][4:6] = codec["tokens"][5], codec["tokens"][4]
    (run / "target.json").write_text(json.dumps(codec, ensure_ascii=False), "utf-8")
    with pytest.raises(ValueError, match="target.json changed"):
        load(run)


@pytest.mark.parametrize("key", ["corpus", "training.seed", "tokenizer.size"])
def test_settings_of_another_run_are_refused(key, tmp_path):
    run = shutil.copytree(SHIPPED / "toy-de-en", tmp_path / "toy-de-en")
    mine, value = Settings.load(run / "settings.json"), 7
    if key == "corpus":  # the toys have the same sizes: nothing else tells them apart
        key, value = "corpus.name", "toy-en-zh"
    (run / "settings.json").write_text(mine.with_value(key, value).to_json(), "utf-8")
    with pytest.raises(ValueError, match="settings changed"):
        load(run)
    mine = mine.with_value("decoding.beam", 1).with_value("training.device", "cpu")
    (run / "settings.json").write_text(mine.to_json(), "utf-8")
    assert load(run).translate(["der Hund schläft ."]) == ["the dog sleeps ."]
