"""Two processes make the updates of one, with the weights and moments that it has."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from limits import NO_PROGRESS

from nmtlib.data.batching import make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.checkpoint import moments_of
from nmtlib.training.hardware import Processes
from nmtlib.training.parallel import gather_model, gather_moments, is_of_messages
from nmtlib.training.trainer import Recipe, Trainer, plain_update, require_shardable

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 24}
# One batch holds a single sentence, of which the second process has nothing.
EXAMPLES = [make_example([4 + n % 20] * (1 + n % 7), [5 + n % 9] * (1 + n % 5)) for n in range(41)]
EXAMPLES.append(make_example([4] * 23, [5] * 20))


HOW = {
    "sharded": {"shard": True},
    "sharded, computed again": {"shard": True, "checkpoint_activations": True},
}


def make_trainer(recipe: Recipe | None = None, processes: Any = None, **changes) -> Trainer:
    """In float64, so that sums in another order have the same first ten digits."""
    torch.manual_seed(0)
    config = TransformerConfig(30, 30, **SIZES, dropout=0.0, tied="all", positions="rotary")
    settings = {
        "max_tokens": 24,
        "accumulate": 3,
        "warmup": 2,
        "precision": "fp32",
        "device": "cpu",
    }
    model = Transformer(config).double()
    training = TrainingSettings(**{**settings, **changes})
    splits = EXAMPLES, EXAMPLES
    quiet = {"processes": processes, "report": lambda line: None}
    return Trainer(model, *splits, training, recipe=recipe or Recipe(), **quiet)


def train_one_epoch(trainer: Trainer) -> dict[str, torch.Tensor]:
    """All updates of an epoch, and what they leave: weights, moments, the sums of losses."""
    plan, losses = trainer.plan_epoch(), []
    trainer.model.train()
    for first in range(0, len(plan), trainer.settings.accumulate):
        batches = plan[first : first + trainer.settings.accumulate]
        totals = trainer.update(trainer.loader.load(batches), trainer.loader.labels(batches))
        losses.append(trainer.all_reduce(totals).loss)
    found = {"losses": torch.tensor(losses), "validation": torch.tensor(trainer.validate())}
    model, moments = trainer.model, moments_of(trainer.model, trainer.optimizer)
    if trainer.sharded:
        part = next(model.parameters()).to_local().numel()
        assert part < next(model.parameters()).numel(), "each process holds a part"
        model = gather_model(trainer.model, trainer.processes)
        moments = gather_moments(trainer.model, trainer.optimizer, trainer.processes)
    weights = dict(model.named_parameters()) if model else {}
    return {name: value.detach().double() for name, value in (found | weights | moments).items()}


def run_two(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """This file as a program in two processes; see `main`."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *torchrun, str(Path(__file__)), str(folder / "two.pt"), *arguments]
    root = Path(__file__).parents[2]
    # Where this process imports nmtlib from goes first: it may be a changed copy.
    paths = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(root), str(root / "tests")]
    paths = [path for path in paths if path]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    how = {"capture_output": True, "text": True, "env": environment, "timeout": NO_PROGRESS}
    return subprocess.run(command, **how)


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # Adam divides a gradient of rounding errors by their size: a key's bias has no other.
        loose = {"rtol": 1e-9, "atol": 5e-3 if name.endswith("key.bias") else 1e-9}
        torch.testing.assert_close(found[name], value, **loose, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["equal", *(pytest.param(how, marks=pytest.mark.nightly) for how in HOW)]
)
def test_two_processes_make_the_updates_of_one(how, tmp_path):
    done = run_two(tmp_path, how)
    assert done.returncode == 0, done.stderr
    trainer = make_trainer()
    plan = trainer.plan_epoch()
    assert min(map(len, plan)) == 1 and len(plan) % 3, "a share of nothing, an incomplete update"
    assert_equal(torch.load(tmp_path / "two.pt"), train_one_epoch(trainer))


def test_an_error_of_the_loss_is_not_taken_for_a_lost_process():
    processes = Processes(torch.device("cpu"))
    with pytest.raises(RuntimeError, match="shapes differ"), processes.exchange(is_of_messages):
        raise RuntimeError("shapes differ")
    assert not processes.lost


class OtherOptimizer(torch.optim.SGD):
    def __init__(self, model):
        super().__init__(model.parameters(), 0.1)


def test_what_was_never_tried_with_shards_is_refused():
    require_shardable(Recipe())
    for recipe in (Recipe(optimizer=OtherOptimizer), Recipe(update=plain_update)):
        with pytest.raises(ValueError, match=r"training\.shard=true works with Adam and plain"):
            require_shardable(recipe)
    assert not make_trainer(shard=True).sharded, "one process alone has nothing to share"
    cpu = torch.device("cpu")
    two = SimpleNamespace(count=2, rank=0, device=cpu, is_main=True, broadcast=lambda value: value)
    with pytest.raises(ValueError, match=r"training\.shard=true works with Adam and plain"):
        make_trainer(Recipe(optimizer=OtherOptimizer), two, shard=True)


def main() -> None:
    trainer = make_trainer(**HOW.get(sys.argv[2], {}))
    results = train_one_epoch(trainer)
    if trainer.processes.is_main:
        torch.save(results, sys.argv[1])
    trainer.processes.close()


if __name__ == "__main__":
    main()
