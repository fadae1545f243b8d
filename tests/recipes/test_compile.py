"""A training whose layers are compiled is the same training."""

import shutil

import pytest
import torch

from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtcourse.recipes.recorded import FewShapes, RecordedUpdate
from nmtlib.data.batching import make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.trainer import Recipe, Trainer

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.0, norm="pre", tied="all")
EXAMPLES = [make_example([4 + n % 16] * (1 + n % 27), [5] * (1 + n % 25)) for n in range(100)]
SETTINGS = TrainingSettings(max_tokens=128, precision="fp32", device="cpu")
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
compile_as_torch = torch.compile


@pytest.fixture(autouse=True)
def fresh():
    """No compilation is left of another test."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def losses(compile="layers", most=8):
    """The losses of some recorded updates."""
    torch.manual_seed(0)
    loss = RecipeLoss(CourseRecipe(recorded=True, compile=compile))
    recipe = Recipe(loss=loss, update=RecordedUpdate(), loader=FewShapes)
    trainer = Trainer(Transformer(MODEL), EXAMPLES, EXAMPLES, SETTINGS, None, recipe)
    trainer.model.train()
    plan, loader = trainer.loader.plan(seed=1)[:most], trainer.loader
    return [
        trainer.update(loader.load([rows]), loader.labels([rows])).floats().loss_per_token
        for rows in plan
    ]


@pytest.mark.slow
def test_each_kind_of_layer_is_compiled_once_whatever_the_shapes(monkeypatch):
    expected, graphs = losses("no"), []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def counted(function, *, dynamic):
        return compile_as_torch(function, backend=count, dynamic=dynamic, fullgraph=True)

    def compiled(layer, *, dynamic):
        layer._compiled_call_impl = counted(layer._call_impl, dynamic=dynamic)

    monkeypatch.setattr(torch, "compile", counted)
    monkeypatch.setattr(torch.nn.Module, "compile", compiled)
    assert losses() == pytest.approx(expected, rel=1e-6)
    assert len(graphs) == 3, "encoder layer, decoder layer, loss"


@pytest.mark.nightly  # a minute of compiling; the graphs that are compiled are tested above
@pytest.mark.slow
@pytest.mark.skipif(not COMPILER, reason="torch.compile needs a C++ compiler")
def test_with_torchs_compiler_the_losses_are_the_same():
    assert losses() == pytest.approx(losses("no"), rel=1e-4)
