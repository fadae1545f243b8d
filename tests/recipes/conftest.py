"""Runs that several tests begin with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs_on_disk import write_run

from nmtcourse.recipes.recipe import train
from nmtlib.data.corpora import load_corpus
from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.settings import CorpusSettings, Settings

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    pairs = load_corpus("toy-de-en").train[:60]
    for name, part in (("train", pairs[:50]), ("other", pairs[20:]), ("validation", pairs[50:])):
        lines = [f"{pair.source}\t{pair.target}\n" for pair in part]
        (folder / f"{name}.tsv").write_text("".join(lines), "utf-8")
    corpus = {split: [str(folder / f"{split}.tsv")] for split in ("train", "validation")}
    corpus |= {"source_language": "de", "target_language": "en"}
    training = {"epochs": 1, "max_tokens": 256, "learning_rate": 1e-2, "warmup": 2}
    sections = {"corpus": corpus, "model": SMALL, "training": training}
    return Settings().changed({**sections, "tokenizer": {"size": 200}})


@pytest.fixture(scope="module")
def first(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    train(folder, settings, report=lambda line: None)
    return Run(folder)


@pytest.fixture
def spoiled_run(tmp_path) -> Callable[..., Path]:
    """Makes a run of the shipped toy model, its weights off by `noise`, perhaps of other pairs."""

    def make(noise: float, corpus: CorpusSettings | None = None) -> Path:
        shipped, folder = Translator.load("toy-de-en"), tmp_path / "spoiled"
        settings = replace(shipped.settings, corpus=corpus or shipped.settings.corpus)
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in shipped.model.parameters():
                parameter += noise * torch.randn_like(parameter)
        run = write_run(folder, shipped.model, settings, shipped.source, shipped.target)
        run.history_file.write_text(Run("nmtlib/trained/toy-de-en").history_file.read_text())
        return folder

    return make
