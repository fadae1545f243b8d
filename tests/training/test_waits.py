"""An update reads no number back: on a GPU, which works behind Python, each would be a wait.

There need not be a GPU to prove it.  Numbers read back are counted, and tensors on "meta" have no
values at all: whatever asks for one fails there.
"""

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtcourse.recipes.recorded import FewShapes, RecordedUpdate
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.data.batching import make_example
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.hardware import Processes
from nmtlib.training.loss import Totals, require_finite
from nmtlib.training.trainer import Recipe, Trainer

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.1, norm="pre", tied="all")
EXAMPLES = [make_example([4 + n % 16] * (1 + n % 7), [5] * (1 + n % 5)) for n in range(60)]


def make_trainer(device="cpu", accumulate=1, **options):
    settings = TrainingSettings(max_tokens=64, precision="bf16", accumulate=accumulate)
    hooks, processes = {}, Processes(torch.device(device))
    if options:
        hooks["loss"] = RecipeLoss(CourseRecipe(**options))
    if options.get("recorded"):
        hooks |= {"update": RecordedUpdate(), "loader": FewShapes}
    recipe = Recipe(**hooks)
    return Trainer(
        Transformer(MODEL), EXAMPLES, EXAMPLES, settings, None, recipe, processes=processes
    )


def updates(trainer, count=3):
    """Some updates as `run_epoch` makes them; the totals stay where they are."""
    loader, totals = trainer.loader, Totals()
    trainer.model.train()
    for rows in loader.plan(seed=1)[:count]:
        totals += trainer.update(loader.load([rows]), loader.labels([rows]))
        assert not trainer.must_stop()
    return totals


@pytest.fixture
def unchecked(monkeypatch):
    """Embeddings as on a GPU; on a CPU they compare the ids with the size of the table."""
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )


@pytest.mark.parametrize("changes", [{}, {"r_drop": 1.0, "accumulate": 2}, {"recorded": True}])
def test_an_update_reads_no_number_back(unchecked, changes):
    trainer = make_trainer(**changes)
    updates(trainer)  # the first makes Adam's moments
    book = ledger(lambda: updates(trainer))
    assert book.waits == 0 and book.started > 100


def test_an_update_works_where_no_number_can_be_read(monkeypatch):
    """The way of a GPU through model, loss and totals; fused Adam alone has no "meta"."""
    plain = partial(torch.optim.SGD, lr=0.1)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # nor has autocast
    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, **_: plain(parameters))
    trainer = make_trainer("meta")
    totals = updates(trainer)
    assert next(trainer.model.parameters()).device == trainer.device
    assert all(figure.device.type == "meta" for figure in totals)
    with pytest.raises(RuntimeError, match="meta tensors"):
        float(totals.loss)


def test_an_epoch_reads_its_totals_at_once_and_looks_at_all_weights_at_once():
    trainer = make_trainer()
    totals = updates(trainer)
    assert ledger(totals.floats).waits <= 1  # `tolist` reads all four without an operation
    assert ledger(lambda: require_finite(trainer.model, totals.floats(), when="now")).waits <= 3
