"""Homework 09: early stopping, one update from several batches, a run that can be resumed."""

import contextlib
import errno
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, same
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import unchanged, unmoved
from nmtcourse.homework.signatures import Made, OneOf, Whole
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "09",
    "training",
    "Training",
    opening="""
    You write three parts of a good training loop: early stopping, one update from several small
    batches, and checkpoints from which a run resumes exactly.
    """,
    imports=(
        "import math\nfrom collections.abc import Callable\nfrom pathlib import Path\n"
        "from typing import Any\n\n"
        "import torch\nfrom torch import Tensor, nn"
    ),
)


@homework.task(
    "easy",
    "Early stopping",
    """
    Write a class that receives the validation loss after each epoch. `update(loss)` returns True if
    none of the last `patience` epochs was better than the best before them, otherwise False. Better
    means strictly lower; an epoch with NaN counts, but is never better, not even as the first.
    `best` is the number of the best epoch, counted from 0, or None if there is none yet.
    """,
    hints=(
        "What must be remembered between two epochs? Three numbers are enough.",
        "Compare with the best loss so far, not with the previous one.",
    ),
    read="notebook 09b, section 1",
    mistakes=r"""
    A loss is compared with that of the previous epoch, not with the best.
        self.epoch += 1 => self.epoch, self.lowest = self.epoch + 1, loss
    An equal loss counts as better.
        loss < self.lowest => loss <= self.lowest
    It stops one epoch too early.
        >= self.patience => > self.patience - 2
    It stops one epoch too late.
        >= self.patience => > self.patience
    The highest loss counts as the best.
        loss < self.lowest => loss > self.lowest
        math.inf => -math.inf
    `best` is the loss, not the number of the epoch.
        .lowest, self.best = loss, self.epoch => .lowest = self.best = loss; self.at = self.epoch
        since = self.best if self.best is not None else -1 => since = getattr(self, 'at', -1)
    Epochs are counted from 1.
        math.inf, 0 => math.inf, 1
        else -1 => else 0
    """,
    signature={"patience": Whole(1, 4)}
    | {"loss": OneOf(2.0, 3.0, 2.5, 2.0 - 1e-9, -1.0, 0.0, math.nan)},
    calls=12,
    shown=("best",),
)
class EarlyStopping:
    """Tell after each epoch whether the last `patience` epochs brought no improvement."""

    def __init__(self, patience: int):
        self.patience, self.best = patience, None
        ### BEGIN SOLUTION
        self.lowest, self.epoch = math.inf, 0
        ### END SOLUTION

    def update(self, loss: float) -> bool:
        """Record the loss of the next epoch; return True if training should stop."""
        ### BEGIN SOLUTION
        if loss < self.lowest:
            self.lowest, self.best = loss, self.epoch
        since = self.best if self.best is not None else -1
        waited = self.epoch - since
        self.epoch += 1
        return waited >= self.patience
        ### END SOLUTION


homework.promise(
    EarlyStopping,
    "It stops after exactly `patience` epochs that were no better than the best, and `best` is the "
    "number of the best epoch; an equal loss is no better, and NaN never is.",
    "Follow it by hand: patience 2, losses 3, 2, 2.5, 2.4.",
    worth=3,
)


class Small(nn.Module):
    """Two layers that learn, and one that the loss does not use."""

    def __init__(self, draw: Draw, old: bool = False):
        super().__init__()
        normal = partial(torch.randn, generator=draw.generator, dtype=draw.dtype)  # no zeros
        self.first, self.second = nn.Parameter(normal(4, 3)), nn.Parameter(normal(3))
        self.unused = nn.Parameter(draw.normal(2))
        self.tied = nn.ParameterDict({"first": self.first})
        for parameter in self.parameters() if old or draw.choose(4) == 3 else ():
            parameter.grad = torch.ones_like(parameter)


def squares(model: Small, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """The summed squared error of a batch, and its size."""
    x, y = batch
    return (torch.tanh(x @ model.first) @ model.second - y).square().sum(), len(y)


OPTIMIZERS = [partial(torch.optim.SGD, lr=0.5), partial(torch.optim.AdamW, lr=0.5)]
OPTIMIZERS += [partial(torch.optim.SGD, lr=0.5, momentum=0.9, weight_decay=0.1)]


def an_optimizer(draw: Draw, known: dict, kinds: list = OPTIMIZERS) -> torch.optim.Optimizer:
    """An optimizer of all weights of the model."""
    return draw.one_of(kinds)(known["model"].parameters())


def some_batches(draw: Draw) -> list[tuple[Tensor, Tensor]]:
    """Batches of different sizes, some of them empty."""
    sizes = [draw.size(1, 9), *draw.sizes(draw.size(0, 3), 0, 6, large=40)]
    # normal numbers without ties: a gradient of zeros may count as none
    normal = partial(torch.randn, generator=draw.generator)
    return [(draw.laid(normal(n, 4)), draw.laid(normal(n))) for n in sizes]


@homework.task(
    "medium",
    "One update from several batches",
    """
    `loss_sum(model, batch)` returns the loss of a batch **summed** over its tokens, and the number
    of these tokens. Update the model once from all batches. The gradient is that of the mean loss
    over all tokens of all batches; if its norm over all parameters together exceeds `max_norm`, it
    is scaled down to `max_norm`. Then the optimizer makes one step. Return the norm before scaling,
    as a float. Afterwards every `.grad` is None or zero. Parameters without a gradient stay
    unchanged. The model is float32 or float64, and the optimizer has all of its parameters.
    `nn.utils.clip_grad_norm_` is allowed.
    """,
    hints=(
        "In which order: sum, divide, clip, step, clear?",
        "The number of tokens is known only at the end; gradients can be divided then as well.",
    ),
    read="notebook 09, sections 2 and 5",
    mistakes=r"""
    The gradient is that of the sum: it is not divided by the number of tokens.
        g.div_(tokens) => pass
    The gradient is divided by the number of batches.
        g.div_(tokens) => g.div_(len(batches))
    The optimizer makes a step after each batch.
        tokens += count\n => tokens += count\n        optimizer.step()\n
    Each parameter is clipped by its own norm, not by the norm of all together.
        g.mul_(max_norm / norm) => g.mul_(min(1.0, max_norm / float(g.norm() + 1e-12)))
    Small gradients are scaled up to the limit.
        if norm > max_norm: => if True:
    The gradient is not clipped.
        if norm > max_norm: => if False:
    The norm after clipping is returned.
        return norm => return min(norm, max_norm)
    Gradients of an earlier update are included: they were not cleared.
        optimizer.zero_grad()\n    tokens => pass\n    tokens
    The gradients are not cleared afterwards.
        optimizer.step()\n    optimizer.zero_grad() => optimizer.step()
    The norms of the parameters are added up, not their squares.
        math.sqrt(sum(float(g.square().sum()) for g in grads))
        => sum(float(g.norm()) for g in grads)
    """,
    changes=("model", "optimizer"),
    signature={"model": Made(Small), "optimizer": Made(an_optimizer, needs=True)}
    | {"batches": Made(some_batches), "loss_sum": squares, "max_norm": OneOf(0.5, 0.01, 1e4, 1e9)},
)
def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list,
    loss_sum: Callable[[nn.Module, Any], tuple[Tensor, int]],
    max_norm: float,
) -> float:
    """One clipped update from all batches; returns the norm of the gradient before clipping."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    tokens = 0
    for batch in batches:
        loss, count = loss_sum(model, batch)
        loss.backward()
        tokens += count
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    for g in grads:
        g.div_(tokens)
    norm = math.sqrt(sum(float(g.square().sum()) for g in grads))
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm)
    optimizer.step()
    optimizer.zero_grad()
    return norm
    ### END SOLUTION


homework.promise(
    train_step,
    "Without clipping the step is that of the mean loss over all tokens of all batches.",
    "What do you divide by, and how often does the optimizer step?",
    worth=2,
    max_norm=1e9,
)
homework.promise(
    train_step,
    "With a low limit the whole gradient is clipped; a limit above the norm changes nothing; the "
    "result is the norm before, as a float.",
    "Which vector has the norm, and when is it scaled?",
    worth=2,
    max_norm=OneOf(0.01, 1e4, 0.5),
)
homework.promise(
    train_step,
    "Old gradients are ignored, and parameters without a gradient stay as they are.",
    "What is in `.grad` before the first batch, and after the step?",
    model=Made(partial(Small, old=True)),
)
homework.promise(
    train_step,
    "A loss of zero has a norm of zero, and leaves the weights as the optimizer does.",
    "What is the norm of a gradient of zeros?",
    draws=6,
    optimizer=Made(partial(an_optimizer, kinds=OPTIMIZERS[:1]), needs=True),
    loss_sum=lambda model, batch: (0 * squares(model, batch)[0], len(batch[1])),
)


@homework.task(
    "hard",
    "Stop and resume",
    """
    Write `save` and `load` such that a run that is stopped and resumed in a new process gives the
    same numbers, bit for bit, as an uninterrupted run. Dropout uses torch's global generator.
    `load` restores everything except gradients and modes into a new model and a new optimizer of
    the same kind and returns the step number. If the machine crashes while `save` writes, the
    previous file must stay intact. `torch.save` and `torch.load` are allowed.
    """,
    hints=(
        "Besides the weights, what changes from step to step?",
        ("Write to a temporary name first; `os.replace` or `Path.replace` then replaces the file."),
    ),
    read="notebook 09, section 6",
    mistakes=r"""
    The optimizer's state is lost: Adam's moments start again.
        optimizer.load_state_dict(kept["optimizer"]) => pass
    The generator's state is lost: dropout samples different numbers.
        torch.set_rng_state(kept["random"]) => pass
    The weights are saved but not restored.
        model.load_state_dict(kept["model"]) => pass
    The step number is lost.
        return kept["step"] => return 0
    The file is written in place: a crash leaves half a file.
        torch.save(kept, new) => torch.save(kept, path)
        new.replace(path) => pass
    The old file is deleted before the new one is written.
        torch.save(kept, new) => path.unlink(missing_ok=True); torch.save(kept, new)
    Saving itself draws a random number.
        "random": torch.get_rng_state() => "random": (torch.get_rng_state(), torch.rand(1))[0]
    The generator is seeded again instead of restored.
        torch.set_rng_state(kept["random"]) => torch.manual_seed(0)
    """,
    pure=False,
)
class Checkpoint:
    """Everything a run needs to resume, in one file."""

    @staticmethod
    def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Write the state of a run after `step` steps."""
        ### BEGIN SOLUTION
        kept = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "step": step,
        }
        new = path.with_name(path.name + ".new")
        torch.save(kept, new)
        new.replace(path)
        ### END SOLUTION

    @staticmethod
    def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Restore a saved state into model, optimizer and torch's generator; returns the step."""
        ### BEGIN SOLUTION
        kept = torch.load(path)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        torch.set_rng_state(kept["random"])
        return kept["step"]
        ### END SOLUTION


Run = tuple[nn.Module, torch.optim.Optimizer]


def beginning(draw: Draw, seed: int = 0) -> Run:
    """A model with dropout and buffers, in one of two types, and its optimizer."""
    torch.manual_seed(draw.value_seed % 1000 + seed)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    return model.to(draw.dtype), torch.optim.Adam(model.parameters(), lr=0.05)


def go_on(run: Run, steps: int) -> dict[str, Tensor]:
    """Some steps; returns weights and buffers."""
    model, optimizer = run
    x = torch.linspace(-1, 1, 30).reshape(6, 5).to(model[0].weight.dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def alike(found: dict[str, Tensor], expected: dict[str, Tensor], what: str) -> None:
    """Raise Finding where two states differ in a bit or in a type."""
    for name, tensor in expected.items():
        kind = found[name].dtype
        holds(kind == tensor.dtype, f"{what}, {name} is {kind}", f"{tensor.dtype}")
        gap = float((found[name].double() - tensor.double()).abs().max())
        measured = f"{what}, {name} differs by {gap:.4g}"
        holds(torch.equal(found[name], tensor), measured, "the same numbers, bit for bit")


@homework.check(
    Checkpoint, "Besides the weights, what changes from step to step?", worth=3, draws=6
)
def resumes_bit_for_bit(answer, draw: Draw):
    """Weights, buffers, moments, learning rate and random numbers are those of an uninterrupted
    run, and all of them are in the one file, which later files and runs do not change.
    """
    with tempfile.TemporaryDirectory() as folder:
        name = draw.one_of(["kept.pt", "kept", "run.best.pt"])
        draw.dtype = draw.one_of([torch.float64, torch.float32])
        path, run, steps = Path(folder) / name, beginning(draw), draw.one_of([2, 0, 1, 3])
        run[1].param_groups[0]["lr"] = 0.02  # as a schedule does
        at = go_on(run, steps)
        answer.save(path, *run, steps)
        path = path.rename(path.with_name("moved" + path.suffix))
        later = go_on(run, 2)
        answer.save(path.with_name("other.pt"), *run, steps + 2)
        for turn in ("first", "second"):
            again = beginning(draw, seed=1)
            again[0].train(turn == "first")[2].train()
            torch.rand(7)
            try:
                with unmoved(again[0]):
                    step = answer.load(path, *again)
            except (KeyError, FileNotFoundError) as error:
                measured = f"a file that was moved cannot be loaded: {type(error).__name__} {error}"
                holds(False, measured, "a file that can")
            again[0].train()
            same(step, steps, "the returned step")
            alike(again[0].state_dict(), at, f"loaded the {turn} time")
            alike(go_on(again, 2), later, f"loaded the {turn} time, two steps later")


@homework.check(Checkpoint, "Compare a run that saves with one that does not.", draws=3)
def does_not_disturb_the_training(answer, draw: Draw):
    """Saving does not affect the run."""
    with tempfile.TemporaryDirectory() as folder:
        expected = go_on(beginning(draw), 4)
        run = beginning(draw)
        run[0][0].weight.grad = torch.ones_like(run[0][0].weight)
        for number in range(4):
            found = go_on(run, 1)
            with unchanged(model=run[0], gradients=[p.grad for p in run[0].parameters()]):
                answer.save(Path(folder) / "kept.pt", *run, number)
        alike(found, expected, "in a run that saves")


@contextlib.contextmanager
def file_system_of_its_own(folder: Path) -> Iterator[None]:
    """A folder into which no file can be renamed from another one, as on a mounted drive."""

    def within(move: Callable) -> Callable:
        def moved(source: Any, target: Any, **options: Any) -> Any:
            homes = [Path(place).resolve().parent for place in (source, target)]
            if folder.resolve() in homes and homes[0] != homes[1]:
                why = "the checkpoint is on another file system than the temporary file"
                raise OSError(errno.EXDEV, why, str(source))
            return move(source, target, **options)

        return moved

    with mock.patch("os.replace", within(os.replace)), mock.patch("os.rename", within(os.rename)):
        yield


@homework.check(
    Checkpoint, "Which file exists if the machine crashes in the middle of `torch.save`?", draws=8
)
def survives_a_crash(answer, draw: Draw):
    """If writing fails half-way, the previous file is intact: a file is replaced as a whole."""
    gone = os.unlink
    lost: list[Any] = []

    def half(kept: Any, place: Any, *args: Any, **kwargs: Any) -> None:
        if hasattr(place, "write"):
            place.write(b"half")
        else:
            Path(place).write_bytes(b"half")
        raise OSError("the machine crashed")

    def unlink(place: Any, *args: Any, **kwargs: Any) -> None:
        lost.append(Path(place).name)
        gone(place, *args, **kwargs)

    with tempfile.TemporaryDirectory() as folder:
        name = draw.one_of(["kept.pt", "run.tmp", "run.new", "run"])
        path, run = Path(folder) / name, beginning(draw)
        with file_system_of_its_own(Path(folder)):
            answer.save(path, *run, 1)
        old, before = Path(folder) / "old", path.read_bytes()
        os.link(path, old)  # the same bytes under another name
        with mock.patch("os.unlink", unlink), mock.patch("os.remove", unlink):
            with file_system_of_its_own(Path(folder)):
                answer.save(path, *run, 2)
        kept = old.read_bytes() == before
        holds(kept, "the old file was written to, so a crash leaves half a file", "a new file")
        holds(path.name not in lost, "the old file was deleted before the new one is there", "both")
        with mock.patch("torch.save", half), contextlib.suppress(OSError):
            answer.save(path, *run, 3)
        holds(path.exists(), "no file exists after the crash", "the previous one")
        try:
            step = answer.load(path, *beginning(draw))
        except Exception as error:
            kind = type(error).__name__
            holds(False, f"after the crash the file cannot be loaded ({kind})", "a file that can")
        holds(step in (2, 3), f"the file of step {step} exists", "that of step 2")


@homework.question(
    "Which weights to keep",
    options=["Epoch 3.", "Epoch 4.", "Epoch 7."],
    hints=(
        "Pass the losses to your class, one by one.",
        "It is not the last epoch, nor the one with the lowest loss of all.",
    ),
    read="notebook 09b, section 1",
    uses=(EarlyStopping,),
)
def which_epoch_is_best(EarlyStopping) -> str:
    """
    The validation losses are 3.1, 2.4, 2.0, 1.9, 1.8, 1.9, 1.85, 2.0, 1.7, and the patience is 3.
    Which epoch, counted from 0, is `best` when **your** class stops?
    """
    stopping = EarlyStopping(3)
    for loss in (3.1, 2.4, 2.0, 1.9, 1.8, 1.9, 1.85, 2.0, 1.7):
        if stopping.update(loss):
            break
    return {3: "A", 4: "B", 7: "C"}.get(stopping.best, "?")
