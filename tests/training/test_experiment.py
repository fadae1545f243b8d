"""`train` from Python: a corpus in memory, a resume, and a trainer without a folder."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import nmtlib
from nmtlib.data.batching import make_example
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus
from nmtlib.experiment import train
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import MultiHeadAttention
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.settings import CorpusSettings, Settings, TrainingSettings
from nmtlib.training.checkpoint import load_model
from nmtlib.training.loss import compute_loss, smoothed_loss
from nmtlib.training.trainer import Recipe, Trainer

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
SETTINGS = Settings().changed(
    {
        "model": SIZES,
        "tokenizer": {"kind": "whitespace"},
        "training": {"epochs": 2, "max_tokens": 256, "warmup": 2, "precision": "fp32"},
    }
)
EXAMPLES = [make_example([4 + i % 9, 5], [4 + i % 9, 5]) for i in range(30)]


def quiet(line):
    pass


@pytest.fixture(scope="module")
def corpus():
    pairs = load_corpus("toy-de-en").train[:50]
    return Corpus.from_pairs(pairs[:40], pairs[40:], languages=("de", "en"))


def test_pairs_in_memory_are_trained_on_and_their_languages_are_kept(corpus, tmp_path):
    history = train(tmp_path / "run", SETTINGS, corpus=corpus, report=quiet)
    assert len(history) == 2
    translator = Translator.load(tmp_path / "run")
    assert translator.settings.corpus.languages == ("de", "en")
    assert len(translator.translate([corpus.train[0].source])) == 1
    with pytest.raises(ValueError, match="pairs in memory.* as corpus="):
        evaluate(translator, split="validation")
    assert evaluate(translator, corpus, "validation")[0].scores.sentences == 10


@pytest.mark.parametrize(("spinning", "threads"), [(True, 2), (True, 1), (False, 2)])
def test_threads_that_spin_are_named(spinning, threads, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("nmtlib.SPINNING", spinning)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    lines = []
    train(tmp_path / "run", SETTINGS, corpus=corpus, minutes=1e-9, report=lines.append)
    assert ("OMP_WAIT_POLICY" in " ".join(lines)) == (spinning and threads == 2)


def test_a_resume_of_pairs_in_memory_needs_them_again_and_the_same_ones(corpus, tmp_path):
    whole = train(tmp_path / "whole", SETTINGS, corpus=corpus, report=quiet)
    train(tmp_path / "run", SETTINGS, corpus=corpus, minutes=1e-9, report=quiet)
    with pytest.raises(ValueError, match="pairs in memory.* as corpus="):
        train(tmp_path / "run", resume=True, report=quiet)
    other = Corpus.from_pairs(corpus.train[1:], corpus.validation, languages=("de", "en"))
    with pytest.raises(ValueError, match="corpus changed since it was written"):
        train(tmp_path / "run", resume=True, corpus=other, report=quiet)
    history = train(tmp_path / "run", resume=True, corpus=corpus, report=quiet)
    assert [r.validation_nll for r in history] == [r.validation_nll for r in whole]


def test_a_run_is_either_new_or_resumed(tmp_path):
    for options in ({}, {"settings": SETTINGS, "resume": True}):
        with pytest.raises(ValueError, match="either settings"):
            train(tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()


def make_trainer(run=None, **hooks):
    torch.manual_seed(0)
    settings = TrainingSettings(epochs=2, max_tokens=64, precision="fp32", device="cpu")
    model = Transformer(TransformerConfig(20, 20, **SIZES))
    return Trainer(model, EXAMPLES, EXAMPLES[:9], settings, run, Recipe(**hooks), report=quiet)


def test_a_trainer_without_a_run_writes_nothing_and_learns_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = make_trainer()
    history = trainer.fit()
    assert len(history) == 2 and not any(tmp_path.iterdir())
    with pytest.raises(ValueError, match="without a run .* cannot be resumed"):
        trainer.resume()
    saved = make_trainer(run=tmp_path / "run").fit()
    assert [r.validation_nll for r in saved] == [r.validation_nll for r in history]
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_loss_and_the_examples_of_an_epoch_come_from_outside():
    asked, batches = [], []

    def loss(model, batch, settings):
        batches.append(len(batch.source))
        return compute_loss(model, batch, 0.3)

    def examples(epoch):
        asked.append(epoch)
        return EXAMPLES[: 10 * (epoch + 1)]

    history = make_trainer(loss=loss, examples=examples).fit()
    assert asked == [0, 0, 1] and sum(batches) == 10 + 20
    assert history[0].train_loss > history[0].train_nll, "smoothed as the loss says"


def test_training_leaves_the_random_numbers_of_its_caller_alone(corpus, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(tmp_path / "run", SETTINGS, corpus=corpus, report=quiet)
    settings = TrainingSettings(epochs=1, max_tokens=64, precision="fp32", device="cpu")
    with torch.random.fork_rng():
        model = Transformer(TransformerConfig(20, 20, **SIZES))
    Trainer(model, EXAMPLES, EXAMPLES[:5], settings, report=quiet).fit()
    assert torch.equal(torch.rand(3), expected)


def test_the_loss_that_a_page_shows_trains(tmp_path, corpus, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "core.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    histories = []

    def train_few_pairs(folder, preset, **how):
        how |= {"corpus": corpus, "report": quiet}
        histories.append(train(folder, SETTINGS, **how))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nmtlib, "train", train_few_pairs, raising=False)
    exec(block, {})
    ((first, last),) = histories
    assert first.train_loss < first.train_nll and last.validation_nll < first.validation_nll


def test_a_recipe_can_be_made_of_what_is_trained_on(corpus, tmp_path):
    seen, lines = [], []

    def make_recipe(material):
        seen.append(material)
        material.report(f"{len(material.training)} pairs as ids")
        return Recipe(examples=lambda epoch: material.training[: 10 * (epoch + 1)])

    train(tmp_path / "run", SETTINGS, corpus=corpus, recipe=make_recipe, report=lines.append)
    assert seen[0].corpus is corpus and len(seen[0].validation) == 10
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    assert "40 pairs as ids" in lines[0] and "40 pairs as ids" in log
    with pytest.raises(ValueError, match="recipe= made 7; expected a Recipe"):
        train(tmp_path / "other", SETTINGS, corpus=corpus, recipe=lambda material: 7)
    assert not (tmp_path / "other").exists()


def test_settings_with_a_recipe_are_not_trained_without_one(corpus, tmp_path):
    settings = SETTINGS.changed({"recipe": {"r_drop": 3.0}})
    with pytest.raises(ValueError, match=r"section \[recipe\].* or pass recipe="):
        train(tmp_path / "run", settings, corpus=corpus, report=quiet)
    assert not (tmp_path / "run").exists()


def test_a_run_says_where_its_corpus_was_read_and_not_where_other_settings_say(corpus, tmp_path):
    few = replace(load_corpus("toy-en-de"), train=load_corpus("toy-en-de").train[:40])
    settings = SETTINGS.changed({"corpus": {"name": "toy-de-en"}})
    train(tmp_path / "read", settings, corpus=few, minutes=1e-9, report=quiet)
    assert Run(tmp_path / "read").settings().corpus == CorpusSettings("toy-en-de")
    train(tmp_path / "in-memory", settings, corpus=corpus, minutes=1e-9, report=quiet)
    assert Run(tmp_path / "in-memory").settings().corpus == CorpusSettings("", "de", "en")


class Sharper(MultiHeadAttention):
    def weighted_values(self, query, keys, values, mask, start):
        return super().weighted_values(2 * query, keys, values, mask, start)


def test_a_run_with_an_attention_of_ones_own_is_loaded_with_it_alone(corpus, tmp_path):
    how = {"corpus": corpus, "report": quiet}
    history = train(tmp_path / "run", SETTINGS, attention=Sharper, **how)
    plain = train(tmp_path / "plain", SETTINGS, **how)
    assert history[-1].validation_nll != plain[-1].validation_nll
    sentences = [pair.source for pair in corpus.validation]
    translator = Translator.load(tmp_path / "run", attention=Sharper)
    assert len(translator.translate(sentences)) == 10
    evaluation = evaluate(translator, corpus, "validation")[0]
    best = min(record.validation_perplexity for record in history)
    assert evaluation.perplexity <= best * (1 + 1e-6), "an average may be better"
    for load in (
        lambda: Translator.load(tmp_path / "run"),
        lambda: load_model(tmp_path / "run" / "model.safetensors"),
        lambda: train(tmp_path / "run", resume=True, **how),
        lambda: train(
            tmp_path / "more",
            SETTINGS.changed({"training": {"init_from": tmp_path / "run"}}),
            **how,
        ),
    ):
        with pytest.raises(ValueError, match="was trained with attention=Sharper, not with"):
            load()
    with pytest.raises(ValueError, match="with nmtlib's own attention, not with attention=Sharper"):
        Translator.load(tmp_path / "plain", attention=Sharper)


def doubled(model, batch, settings):
    loss, totals = smoothed_loss(model, batch, settings)
    return 2 * loss, totals


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-2)


def test_a_run_with_a_loss_of_ones_own_goes_on_with_it_alone(corpus, tmp_path):
    how = {"corpus": corpus, "report": quiet}
    train(tmp_path / "run", SETTINGS, recipe=Recipe(loss=doubled), minutes=1e-9, **how)
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"recipe\.loss = doubled, not with nmtlib's own"):
        train(tmp_path / "run", resume=True, **how)
    other = Recipe(loss=doubled, optimizer=sgd)
    with pytest.raises(ValueError, match=r"recipe\.optimizer = nmtlib's own, not with sgd"):
        train(tmp_path / "run", resume=True, recipe=other, **how)
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before
    assert train(tmp_path / "run", resume=True, recipe=Recipe(loss=doubled), **how)


class Alone(MultiHeadAttention):
    """Its sum is its own, so nobody can record its weights."""

    def weighted_values(self, query, keys, values, mask, start):
        return values.mean(dim=2, keepdim=True).expand_as(query)


def test_an_attention_that_records_nothing_is_told(corpus, tmp_path):
    train(tmp_path / "run", SETTINGS, corpus=corpus, attention=Alone, report=quiet)
    translator = Translator.load(tmp_path / "run", attention=Alone)
    with pytest.raises(ValueError, match="Alone records no weights"):
        translator.attention(corpus.validation[0].source, corpus.validation[0].target)
