"""A compiled training is the same training; one compilation serves its few shapes."""

import shutil

import pytest
import torch
from torch import nn

from nmtcourse.recipes.few_shapes import few_shapes
from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtlib.data.batching import make_example
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.sections import TrainingSettings
from nmtlib.training.trainer import Trainer

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.0, norm="pre", tied="all")
EXAMPLES = [make_example([4 + n % 16] * (1 + n % 27), [5] * (1 + n % 25)) for n in range(100)]
SETTINGS = TrainingSettings(max_tokens=128, precision="fp32", device="cpu")
COMPILED = CourseRecipe(compile="default")
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
compile_as_torch = torch.compile


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No compilation is left of another test, and embeddings look as little at ids as on a GPU."""
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def losses(recipe=COMPILED, most=8):
    """The losses of some updates, and the shapes that their batches are filled up to."""
    torch.manual_seed(0)
    trainer = Trainer(Transformer(MODEL), EXAMPLES, EXAMPLES, SETTINGS, loss=RecipeLoss(recipe))
    loader, found, shapes = trainer.loader, [], set()
    trainer.model.train()
    for rows in loader.plan(seed=1)[:most]:
        (batch,) = loader.load([rows])
        shapes.add(tuple(few_shapes(batch, SETTINGS.max_tokens, MODEL.max_length).source.shape))
        found.append(trainer.update([batch], loader.labels([rows])).floats().loss_per_token)
    return found, shapes


@pytest.fixture
def expected():
    """What the same batches give without a compiler."""
    return losses(CourseRecipe())


def test_one_graph_is_all_that_is_compiled_whatever_the_shapes(expected, monkeypatch):
    graphs, asked = [], []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def watched(model, mode, dynamic):
        asked.append(mode)
        return compile_as_torch(model, backend=count, dynamic=dynamic, fullgraph=True)

    monkeypatch.setattr(torch, "compile", watched)
    found, shapes = losses()
    assert found == pytest.approx(expected[0], rel=1e-6)
    assert asked == ["default"] and len(graphs) == 1 < len(shapes)


@pytest.mark.nightly  # a minute of compiling; the graph that is compiled is tested above
@pytest.mark.slow
@pytest.mark.skipif(not COMPILER, reason="torch.compile needs a C++ compiler")
def test_with_torchs_compiler_the_losses_are_the_same(expected):
    found, _ = losses()
    assert found == pytest.approx(expected[0], rel=1e-4)


def test_on_a_device_that_is_no_cpu_the_model_is_one_graph():
    """The way of a GPU, on "meta": no part of the model falls back to Python."""
    graphs = []
    with torch.device("meta"):
        model = Transformer(MODEL).train()
    backend = lambda graph, inputs: graphs.append(graph) or graph.forward  # noqa: E731
    run = compile_as_torch(model, backend=backend, dynamic=True, fullgraph=True)
    for shape in ((16, 8), (8, 16), (5, 24)):
        ids = torch.zeros(shape, dtype=torch.long, device="meta")
        assert run(ids, ids).shape == (*shape, 20)
    assert len(graphs) == 1
