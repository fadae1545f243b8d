"""A recorded run is the eager run, update by update, and its batches hold the same sentences."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtcourse.recipes.recorded import FewShapes, RecordedUpdate, round_up, sum_gradients
from nmtlib.data.batching import collate, make_example
from nmtlib.model.embeddings import GENERATOR
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.hardware import Processes
from nmtlib.training.loss import compute_loss
from nmtlib.training.trainer import Recipe, Trainer

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.2, norm="pre", tied="all", max_length=40)
EXAMPLES = [make_example([4 + n % 16] * (1 + n % 27), [5] * (1 + n % 25)) for n in range(90)]
SENTENCES = st.lists(st.integers(4, 19), max_size=30)
DEVICES = ["cpu", *["cuda"] * torch.cuda.is_available()]
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=30)


class Tape(TorchDispatchMode):
    """What a CUDA graph is, on a CPU: the operations of one call, run again on the same tensors.

    Whatever Python reads during the recording, such as a learning rate, is never read again.
    """

    def __init__(self, function):
        super().__init__()
        self.operations = []
        before = GENERATOR.get().get_state()
        with self:
            function()
        GENERATOR.get().set_state(before)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        inputs = {id(x.untyped_storage()) for x in tensors((args, kwargs))}
        outputs = tensors(result)
        views = any(id(output.untyped_storage()) in inputs for output in outputs)
        if operation._schema.is_mutable or not views:
            self.operations.append((operation, args, kwargs or {}, outputs))
        return result

    def __call__(self):
        with torch.no_grad():
            for operation, args, kwargs, outputs in self.operations:
                results = tensors(operation(*args, **kwargs))
                if not operation._schema.is_mutable:
                    for output, result in zip(outputs, results, strict=True):
                        output.copy_(result)


def tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if torch.is_tensor(leaf)]


class Taped(RecordedUpdate):
    """Updates recorded as on a GPU: rehearsed, put back, and from then on only replayed."""

    def record(self, function, device, changed):
        before = [tensor.detach().clone() for tensor in changed]
        state = GENERATOR.get().get_state()
        function()  # the rehearsal
        tape = Tape(function)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        GENERATOR.get().set_state(state)
        return tape


def make_trainer(update=None, recipe=None, teachers=(), run=None, device="cpu", **changes):
    """A trainer on batches of few shapes, with the plain update unless it is given another."""
    torch.manual_seed(0)
    options = TrainingSettings(**{"max_tokens": 128, "precision": "fp32", "warmup": 9, **changes})
    recipe = replace(recipe or CourseRecipe(), recorded=bool(update))
    loss = RecipeLoss(recipe, teachers)
    if update:
        update.variant = loss.draw_teacher
    hooks = Recipe(loss=loss, loader=FewShapes, update=update)
    quiet = {"processes": Processes(torch.device(device)), "report": lambda line: None}
    return Trainer(Transformer(MODEL), EXAMPLES, EXAMPLES[:5], options, run, hooks, **quiet)


def losses(trainer, count=12):
    """The loss of each of some updates, and the weights after the last."""
    plan, each = trainer.loader.plan(seed=1), trainer.settings.accumulate
    groups = [plan[i : i + each] for i in range(0, len(plan), each)]
    trainer.model.train()
    found = [
        trainer.update(trainer.loader.load(group), trainer.loader.labels(group)).floats()
        for group in (groups * count)[:count]
    ]
    return found, [*trainer.model.parameters()]


UPDATES = [("cpu", Taped), *((device, RecordedUpdate) for device in DEVICES)]


@pytest.mark.parametrize(("device", "update"), UPDATES)
@pytest.mark.parametrize(
    "case", some(["plain", "bf16", "accumulate", "r_drop", "teachers"], every=2)
)
def test_a_recorded_run_equals_an_eager_one_update_by_update(device, update, case):
    recipe = CourseRecipe(r_drop=2.0) if case == "r_drop" else None
    recipe = CourseRecipe(teachers=["a", "b"]) if case == "teachers" else recipe
    teachers = [Transformer(MODEL).to(device) for _ in range(2)] if case == "teachers" else []
    changes = {"accumulate": {"accumulate": 3}, "bf16": {"precision": "bf16"}}.get(case, {})
    (expected, weights), (found, others) = (
        losses(make_trainer(each, recipe, teachers, device=device, **changes))
        for each in (None, update())
    )
    if device == "cpu":
        assert found == expected
        assert all(map(torch.equal, weights, others))
    else:  # a GPU adds some sums in another order each time
        rel = 1e-2 if case == "bf16" else 1e-4
        for update, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert one == pytest.approx(other, rel=rel), update
    assert len({totals.loss for totals in found}) > 6, "updates change the loss"


@pytest.mark.parametrize("device", DEVICES)
def test_a_resumed_run_is_the_undisturbed_one(tmp_path, device):
    whole = make_trainer(RecordedUpdate(), run=tmp_path / "whole", epochs=2, device=device)
    whole.fit()
    stopped = make_trainer(RecordedUpdate(), run=tmp_path / "parts", epochs=2, device=device)
    stopped.after_epoch = lambda trainer: trainer.stop_asked.set()
    assert len(stopped.fit()) == 1
    parts = make_trainer(RecordedUpdate(), run=tmp_path / "parts", epochs=2, device=device)
    parts.resume()
    parts.fit()
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0 if device == "cpu" else 1e-4)


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.integers(31, 400))
def test_each_sentence_is_once_in_an_epoch_in_one_shape_a_width(pairs, max_tokens):
    examples = [make_example(*pair) for pair in pairs]
    loader = FewShapes(examples, max_tokens, torch.device("cpu"))
    plan, shapes = loader.plan(seed=3), {}
    assert Counter(np.concatenate(plan).tolist()) == Counter(range(len(pairs)))
    for numbers in plan:
        (batch,) = loader.load([numbers])
        rows, width = batch.source.shape
        assert batch.target.shape == (rows, width + 1) and rows * width <= max_tokens
        assert shapes.setdefault(width, rows) == rows
        plain = collate([examples[number] for number in numbers])
        S, T = plain.source.size(1), plain.target.size(1)
        assert torch.equal(batch.source[: len(numbers), :S], plain.source)
        assert torch.equal(batch.target[: len(numbers), :T], plain.target)
        assert batch.labels.count_nonzero() == loader.labels([numbers])


def test_processes_share_a_batch_in_one_shape():
    """Its gradients add up to those of one process, which `sum_gradients` relies on."""
    model, sums, shapes = Transformer(MODEL).double().eval(), [], []
    for count in (1, 2, 3):
        total, parts = 0, []
        for rank in range(count):
            loader = FewShapes(EXAMPLES, 90, torch.device("cpu"), rank, count)
            (batch,) = loader.load([loader.plan(seed=4)[2]])
            parts.append(batch.source.shape)
            loss, _ = compute_loss(model, batch, 0.1)
            total += torch.cat(
                [part.flatten() for part in torch.autograd.grad(loss, [*model.parameters()])]
            )
        sums.append(total)
        shapes.append(parts)
    assert all(torch.allclose(sums[0], each, atol=1e-10) for each in sums)
    assert all(len({*parts}) == 1 for parts in shapes)


def test_gradients_are_summed_in_one_message_and_in_place(monkeypatch):
    processes, messages = Processes(torch.device("cpu")), []
    gradients = [torch.arange(6.0).view(2, 3), torch.ones(5)]
    sum_gradients(processes, gradients)  # one process alone sends nothing
    processes.count = 2

    def doubled(values):
        messages.append(values.numel())
        values *= 2

    monkeypatch.setattr(torch.distributed, "all_reduce", doubled)
    sum_gradients(processes, gradients)
    assert messages == [11] and gradients[1].tolist() == [2] * 5
    assert gradients[0].tolist() == [[0, 2, 4], [6, 8, 10]]


def test_widths_are_few_and_at_most_a_fourth_wider():
    lengths = np.arange(1, 1025)
    widths = np.unique(round_up(lengths))
    assert (round_up(lengths) >= lengths).all() and len(widths) <= 36
    assert all(b <= 1.26 * a or b - a == 4 for a, b in pairwise(widths))


def test_rows_without_a_sentence_change_neither_loss_nor_gradients():
    examples = [make_example([4] * n, [5 + n] * n) for n in (2, 6, 3, 1)]
    loader = FewShapes(examples, 100, torch.device("cpu"))
    (filled,) = loader.load(loader.plan())
    plain = collate(examples)
    model = Transformer(MODEL).double().eval()
    results = []
    for batch in (plain, filled):
        loss, totals = compute_loss(model, batch, 0.1)
        results.append([*totals, *torch.autograd.grad(loss, [*model.parameters()])])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=1e-10)
