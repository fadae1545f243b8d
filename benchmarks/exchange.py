"""Seconds an update in two processes: our own sum of gradients, torch's engine, and shards.

    torchrun --standalone --nproc-per-node=2 benchmarks/exchange.py

The three take turns, batch by batch, so that what else the machine computes slows all alike.
Writes results/exchange.json.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from shared import RESULTS, say, write_result  # before torch, as it imports nmtlib first

# isort: split
import torch

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.recipes.recorded import sum_gradients
from nmtlib.data.batching import Batch, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.hardware import Processes
from nmtlib.training.loss import Totals
from nmtlib.training.trainer import Recipe, Trainer

SIZES = {"small (D 128, 2 layers)": {"d_model": 128, "d_ff": 512, "layers": 2}}
SIZES["default (D 256, 3 layers)"] = {"d_model": 256, "d_ff": 1024, "layers": 3}
VOCABULARY, MAX_TOKENS, ROUNDS = 4_000, 1_024, 12


def own_sum(trainer: Trainer, batches: Sequence[Batch], labels: int) -> Totals:
    """What `plain_update` was before: all gradients in one message after the backward pass."""
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.learning_rate(trainer.progress.updates)
    totals = Totals()
    for batch in batches:
        loss, sums = trainer.loss(trainer.model, batch, trainer.settings)
        (loss / labels).backward()
        totals += sums
    parameters = [*trainer.model.parameters()]
    sum_gradients(trainer.processes, [p.grad for p in parameters if p.grad is not None])
    torch.nn.utils.clip_grad_norm_(parameters, trainer.settings.grad_clip)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    return totals


def make_trainers(size: dict[str, int], processes: Processes) -> dict[str, Trainer]:
    """The same model, three times."""
    sizes = {"d_model": size["d_model"], "d_ff": size["d_ff"], "n_heads": 4}
    layers = dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), size["layers"])
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(4, 30, (3_000, 2), generator=random).tolist()
    examples = [make_example([5] * source, [6] * target) for source, target in lengths]
    trainers = {}
    for name in ("own sum", "DistributedDataParallel", "fully_shard"):
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(VOCABULARY, VOCABULARY, **sizes, **layers))
        settings = TrainingSettings(
            max_tokens=MAX_TOKENS, precision="fp32", device="cpu", shard=name == "fully_shard"
        )
        recipe = Recipe(update=own_sum) if name == "own sum" else Recipe()
        quiet = {"processes": processes, "report": lambda line: None}
        trainers[name] = Trainer(model, examples, examples[:8], settings, recipe=recipe, **quiet)
    return trainers


def seconds_of_updates(size: dict[str, int], processes: Processes) -> dict[str, list[float]]:
    """Of each way, by turns, on the same batches; the first round is not counted."""
    trainers = make_trainers(size, processes)
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    plan = trainers["own sum"].plan_epoch()[: ROUNDS + 1]
    for number, rows in enumerate(plan):
        for name, trainer in trainers.items():
            batches = trainer.loader.load([rows])
            trainer.model.train()
            processes.wait()
            began = time.perf_counter()
            trainer.update(batches, trainer.loader.labels([rows]))
            processes.wait()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def main() -> None:
    """Measure each size, and write what process 0 saw."""
    torch.set_num_threads(1)
    processes = Processes(torch.device("cpu"))
    found = {}
    for size, values in SIZES.items():
        seconds = seconds_of_updates(values, processes)
        medians = {name: round(statistics.median(times), 4) for name, times in seconds.items()}
        found[size] = {
            "median": medians,
            "least": {n: round(min(t), 4) for n, t in seconds.items()},
        }
        if processes.is_main:
            say(f"{size}: {found[size]}")
    if processes.is_main:
        result = {
            "command": f"torchrun --standalone --nproc-per-node=2 benchmarks/{command_line()}",
            "what": f"seconds an update, batches of {MAX_TOKENS} tokens, {ROUNDS} rounds by turns",
            "processes": processes.count,
            "seconds": found,
            "machine": describe_machine(torch.device("cpu")),
        }
        write_result(RESULTS / "exchange.json", result)
    processes.close()


if __name__ == "__main__":
    main()
