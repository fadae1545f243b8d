"""A run that several tests of models which translate together, or look words up, begin with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.settings import CorpusSettings
from nmtlib.training.checkpoint import save_checkpoint


@pytest.fixture
def spoiled_run(tmp_path) -> Callable[..., Path]:
    """Makes a run of the shipped toy model, its weights off by `noise`, perhaps of other pairs."""

    def make(noise: float, corpus: CorpusSettings | None = None) -> Path:
        shipped, folder = Translator.load("toy-de-en"), tmp_path / "spoiled"
        settings = replace(shipped.settings, corpus=corpus or shipped.settings.corpus)
        run = Run.create(folder, settings, shipped.source, shipped.target)
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in shipped.model.parameters():
                parameter += noise * torch.randn_like(parameter)
        notes = {"weights": "epoch 1", "validation_nll": 1.0, "identity": run.digests()}
        save_checkpoint(run.model_file, shipped.model, **notes)
        run.history_file.write_text(Run("nmtlib/trained/toy-de-en").history_file.read_text())
        return folder

    return make
