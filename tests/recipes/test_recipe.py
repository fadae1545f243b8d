"""The recipe of the course: what it adds to a loss and a run; options are checked."""

from dataclasses import replace

import pytest
import torch

from nmtcourse.recipes.losses import distance_to_teacher
from nmtcourse.recipes.muon import Muon
from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss, read_recipe
from nmtlib.data.batching import collate, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training.loss import compute_loss
from nmtlib.training.trainer import Recipe, Trainer

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(15, 15, d_model=16, n_heads=2, d_ff=32, dropout=0.0, **LAYERS)
ROWS = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13], [4]]
EXAMPLES = [make_example(row, row[::-1]) for row in ROWS]


def make_model(dropout=0.0):
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, dropout=dropout)).double().train()


def compute(model, batch, *, smoothing=0.0, teacher=None, **options):
    """The loss of a recipe with these options."""
    loss = RecipeLoss(CourseRecipe(**options), [teacher] if teacher else [])
    return loss(model, batch, TrainingSettings(label_smoothing=smoothing))


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


def alike(first, second):
    return first.floats() == pytest.approx(second.floats(), abs=1e-10)


def test_without_r_drop_there_is_one_pass_and_nothing_else(monkeypatch):
    monkeypatch.setattr(
        "nmtcourse.recipes.recipe.disagreement", lambda *_: pytest.fail("a second pass")
    )
    model, batch, seen = make_model(0.3), collate(EXAMPLES), []
    model.register_forward_hook(lambda module, given, logits: seen.append(len(logits)))
    found = []
    for make in (compute, lambda *_, smoothing: compute_loss(model, batch, smoothing)):
        torch.manual_seed(5)
        loss, totals = make(model, batch, smoothing=0.1)
        found.append([loss, *totals, *gradients(model, loss)])
    assert seen == [len(ROWS)] * 2 and all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_teacher_takes_its_share_of_the_loss_and_learns_nothing():
    model, teacher, batch = make_model(), make_model(0.3), collate(EXAMPLES)
    torch.nn.init.normal_(next(teacher.parameters()))
    torch.manual_seed(5)
    said = teacher(batch.source, batch.decoder_input)
    alone, totals = compute(model, batch, smoothing=0.2)
    torch.manual_seed(5)  # nothing is dropped in the model, so the teacher drops the same
    loss, taught_totals = compute(model, batch, smoothing=0.2, teacher=teacher, teacher_weight=0.3)
    distance = distance_to_teacher(model(batch.source, batch.decoder_input), said, batch.labels)
    assert torch.allclose(loss, 0.7 * alone + 0.3 * distance) and not torch.allclose(loss, alone)
    assert taught_totals.loss == loss and taught_totals[1:] == totals[1:]
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_teacher_and_r_drop_go_together():
    model, teacher, batch = make_model(), make_model(), collate(EXAMPLES)
    torch.nn.init.normal_(next(teacher.parameters()))
    taught = {"smoothing": 0.1, "teacher": teacher, "teacher_weight": 0.3}
    loss, totals = compute(model, batch, r_drop=2.0, **taught)
    once, totals_once = compute(model, batch, **taught)  # no dropout: both passes are the same
    assert torch.allclose(loss, once) and alike(totals, totals_once)


def test_r_drop_is_half_the_loss_of_the_paper():
    model, batch, alpha = make_model(0.3), collate(EXAMPLES), 3.0
    torch.manual_seed(5)
    loss, totals = compute(model, batch, r_drop=alpha)
    torch.manual_seed(5)
    logits = model(torch.cat([batch.source] * 2), torch.cat([batch.decoder_input] * 2))
    real = batch.labels != PAD
    first, second = (half[real].log_softmax(-1) for half in logits.chunk(2))
    nll = -sum(
        half.gather(-1, batch.labels[real][:, None]).sum() for half in (first, second)
    )  # eq. 3
    kl = ((first.exp() - second.exp()) * (first - second)).sum() / 2  # eq. 2
    expected = (nll + alpha * kl) / 2  # half of eq. 4
    assert kl > 0.01 and torch.allclose(loss, expected, atol=1e-10)
    for a, b in zip(gradients(model, loss), gradients(model, expected), strict=True):
        assert torch.allclose(a, b, atol=1e-10)
    assert (
        torch.allclose(totals.nll, nll / 2) and totals.labels == real.sum() and totals.loss == loss
    )
    right = (logits.argmax(-1) == batch.labels.repeat(2, 1))[real.repeat(2, 1)]
    assert totals.correct == right.sum() / 2


HOW = {"learning_rate": 5e-3, "warmup": 5, "precision": "fp32", "device": "cpu"}
SETTINGS = TrainingSettings(epochs=2, max_tokens=64, accumulate=2, average=2, **HOW)


def copying(count=60, seed=0):
    """A language in which a translation repeats its source."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 8, (count,), generator=generator).tolist()
    rows = [torch.randint(4, 15, (size,), generator=generator).tolist() for size in sizes]
    return [make_example(row, row) for row in rows]


def make_trainer(
    folder=None, *, teachers=(), train=None, dropout=0.1, settings=SETTINGS, **options
):
    torch.manual_seed(settings.seed)
    recipe, model = CourseRecipe(**options), Transformer(replace(CONFIG, dropout=dropout))
    hooks = {"optimizer": Muon} if recipe.optimizer == "muon" else {}
    hooks = Recipe(loss=RecipeLoss(recipe, teachers), **hooks)
    split = train or copying(), copying(20, seed=1)
    return Trainer(model, *split, settings, folder, hooks, report=lambda line: None)


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def test_the_weight_of_the_teachers_reaches_an_update():
    found = []
    for weight in (0.2, 0.9, 0.9):
        torch.manual_seed(3)
        trainer = make_trainer(teachers=[Transformer(CONFIG)], teacher_weight=weight)
        trainer.update([collate(copying(3))])
        found.append(weights(trainer))
    assert same(*found[1:]) and not same(*found[:2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "other", [{"r_drop": 2.0}, {"optimizer": "muon"}, {"teachers": ["a", "b"]}]
)
def test_what_changes_an_update_reaches_it_and_resumes_bit_for_bit(tmp_path, monkeypatch, other):
    def make(name, **options):
        torch.manual_seed(9)
        teachers = [Transformer(CONFIG) for _ in options.pop("teachers", ())]
        return make_trainer(tmp_path / name, teachers=teachers, **options)

    whole, without = make("whole", **other), make("without")
    whole.fit(), without.fit()
    assert not same(weights(whole), weights(without))
    monkeypatch.setattr(Trainer, "wants_to_stop", lambda self: self.progress.updates >= 4)
    make("stopped", **other).fit()
    monkeypatch.undo()
    resumed = make("stopped", **other)
    resumed.resume()
    assert 0 < resumed.progress.updates < whole.progress.updates
    resumed.fit()
    assert same(weights(whole), weights(resumed))


def test_each_batch_asks_one_of_the_teachers_with_dropout():
    teachers, asked = [Transformer(CONFIG).eval() for _ in range(3)], []
    before = [parameter.clone() for parameter in teachers[-1].parameters()]
    for number, teacher in enumerate(teachers):
        teacher.register_forward_hook(
            lambda module, given, logits, number=number: asked.append((number, module.training))
        )
    trainer = make_trainer(teachers=teachers)
    for _ in range(20):
        trainer.update([collate(rows) for rows in (copying(3), copying(2))])
    assert len(asked) == 40 and {number for number, _ in asked} == {0, 1, 2}
    assert all(training for _, training in asked)
    assert all(map(torch.equal, before, teachers[-1].parameters()))


def test_accumulation_does_not_change_an_update_with_r_drop():
    def one_update(batches):
        settings = replace(SETTINGS, grad_clip=1e9)
        trainer = make_trainer(train=data, dropout=0.0, settings=settings, r_drop=3.0)
        trainer.model.double()
        trainer.update([collate([data[i] for i in batch]) for batch in batches])
        return weights(trainer)

    data = copying(12)
    whole, parts = one_update([range(12)]), one_update([range(1), range(1, 12)])
    assert all(torch.allclose(whole[name], parts[name], atol=1e-9) for name in whole)


def test_an_option_that_is_unknown_or_wrong_is_named():
    assert read_recipe({"name": "course"}) == CourseRecipe() == read_recipe({})
    options = {"name": "course", "r_drop": 3, "teachers": ["a"], "optimizer": "muon"}
    assert read_recipe(options) == CourseRecipe(r_drop=3.0, teachers=["a"], optimizer="muon")
    for options, message in (
        ({"name": "corse"}, r"unknown name 'corse' \(did you mean course\?\)"),
        ({"r_drop": 3.0}, "unknown name ''"),
        ({"name": "course", "rdrop": 1.0}, r"recipe.rdrop is unknown \(did you mean r_drop\?\)"),
        ({"name": "course", "r_drop": "3"}, "recipe.r_drop should be a valid number, not '3'"),
        ({"name": "course", "r_drop": float("inf")}, "recipe.r_drop"),
        *(({"name": "course", "teacher_weight": v}, "weight") for v in (0.0, 1.1)),
        *(({"name": "course", "teachers": v}, "recipe.teachers") for v in ([" "], [3])),
        ({"name": "course", "synthetic": ["\0"]}, "recipe.synthetic"),
        ({"name": "course", "synthetic_ratio": 0.0}, "recipe.synthetic_ratio"),
        ({"name": "course", "optimizer": "sgd"}, "recipe.optimizer should be 'adam' or 'muon'"),
        ({"name": "course", "compile": "yes"}, "recipe.compile"),
    ):
        with pytest.raises(ValueError, match=message):
            read_recipe(options)
