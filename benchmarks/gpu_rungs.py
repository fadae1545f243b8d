"""The rungs of `gpu.py`: a small model's training and decoding on a GPU, one change after another.

A small model on a large GPU waits: for operations to be started, for batches, for numbers that are
read back.  Each rung takes one of these away; what the cost model says stands beside the clock.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

from timing import seconds

# isort: split
import numpy as np
import torch

from nmtcourse.recipes.losses import losses_in_blocks
from nmtcourse.recipes.packed import PackedExamples
from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtcourse.teaching.cost import training_flops
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.data.batching import Batch, Example, make_example, pad
from nmtlib.inference.search import beam_search
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.sections import TrainingSettings
from nmtlib.specials import EOS, UNK
from nmtlib.training.hardware import Processes
from nmtlib.training.loss import Totals
from nmtlib.training.trainer import Trainer

Row = tuple[str, dict[str, Any]]  # a name, and what was measured
LAYERS = {"n_encoder_layers": 3, "n_decoder_layers": 3}
SMALL = TransformerConfig(
    6000, 6000, **LAYERS, d_model=256, n_heads=4, d_ff=1024, max_length=256, norm="pre", tied="all"
)
PAIRS = 4  # for each token of a batch: about 64 updates of the first rung, 8 of the last
# The loss of the core, and the one that takes its rows in blocks of 256, as a CPU likes it.
LOSSES, ROWS, BLOCK = (
    "nmtcourse.recipes.recipe.losses",
    "nmtcourse.recipes.losses.rows_at_once",
    256,
)


@dataclass(frozen=True)
class Rung:
    """One way to train; `size` is how many times as many tokens as at first a batch has."""

    precision: str = "bf16"
    blocks: bool = False  # the loss block by block
    packed: bool = True  # the corpus on the device
    size: int = 1
    compile: str = "no"


RUNGS = {
    "float32, as a CPU is fed": Rung("fp32", blocks=True, packed=False),
    "bfloat16": Rung(blocks=True, packed=False),
    "the loss in one block": Rung(packed=False),
    "the corpus on the device": Rung(),
    "batches eight times as large": Rung(size=8),
    "compiled, few shapes": Rung(size=8, compile="default"),
    "CUDA graphs": Rung(size=8, compile="reduce-overhead"),
}


class Constants(NamedTuple):
    """What the cost model knows of a device: seconds of a start, FLOP/s of large products."""

    start: float
    rates: dict[str, float]


def constants(device: torch.device, width: int) -> Constants:
    """Measured on work that is none of the rungs: many tiny additions, and a large product."""
    tiny, times, rates = torch.ones(8, device=device), 2000, {}

    def start_many() -> None:
        for _ in range(times):
            tiny.add_(1)

    seconds(start_many, device)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        x = torch.rand(width, width, device=device).to(dtype)
        took = min(seconds(lambda x=x: x @ x, device) for _ in range(5))
        rates[name] = 2 * width**3 / took
    return Constants(seconds(start_many, device) / times, rates)


def captions(config: TransformerConfig, count: int) -> list[Example]:
    """Pairs of random words, as long as those of Multi30k mostly are."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(8, 24, count)
    ids = [draw.integers(UNK + 1, config.source_vocab_size, (2, n)).tolist() for n in lengths]
    return [make_example(*pair) for pair in ids]


def train_rung(
    config: TransformerConfig, rung: Rung, device: torch.device, known: Constants, tokens: int
) -> dict[str, Any]:
    """Tokens/s of the updates of a rung, as predicted and as measured."""
    examples = captions(config, tokens * PAIRS)
    settings = TrainingSettings(max_tokens=tokens * rung.size, precision=rung.precision)
    torch.manual_seed(0)
    model, loss = Transformer(config).train(), RecipeLoss(CourseRecipe(compile=rung.compile))
    fed = PackedExamples(examples, device) if rung.packed else examples
    hooks: dict[str, Any] = {"processes": Processes(device), "loss": loss}
    with ExitStack() as stack:
        trainer = Trainer(model, fed, examples, settings, **hooks)
        if rung.blocks:
            stack.enter_context(mock.patch(LOSSES, losses_in_blocks))
            stack.enter_context(mock.patch(ROWS, lambda *_: BLOCK))
        loader = trainer.loader
        plan = loader.plan(seed=1)

        def updates() -> Totals:
            totals = Totals()
            for rows in plan:
                totals += trainer.update(loader.load([rows]), loader.labels([rows]))
            return totals.floats()

        updates()  # allocates and compiles
        took = seconds(updates, device)
        batch = loader.load(plan[:1])[0]
        started = started_by(trainer, loss, batch, rung)
    flops = training_flops(config, len(batch.source), batch.source.size(1), batch.labels.size(1))
    forecast = max(started * known.start, flops / known.rates[rung.precision])
    labels = loader.labels(plan)
    return {
        "target_tokens_per_second": round(labels / took, 1),
        "predicted_tokens_per_second": round(labels / len(plan) / forecast, 1),
        "operations_started": started,
    }


def started_by(trainer: Trainer, loss: RecipeLoss, batch: Batch, rung: Rung) -> int:
    """Operations that an update starts.

    A recorded model counts for two starts, forward and backward.  So does a compiled one, though a
    compiler makes more kernels than that: how many is not predicted.
    """
    compiled, loss.compiled = loss.compiled, trainer.model
    whole = ledger(lambda: trainer.update([batch], 1)).started
    loss.compiled = compiled
    if rung.compile == "no":
        return whole

    def model_alone() -> None:
        with torch.autocast(batch.source.device.type, torch.bfloat16):
            logits = trainer.model(batch.source, batch.decoder_input)
        logits.backward(logits.detach())

    return whole - ledger(model_alone).started + 2


def train_rungs(
    config: TransformerConfig, device: torch.device, known: Constants, tokens: int
) -> Iterator[Row]:
    """Every rung, one after the other; what does not run here says why."""
    for name, rung in RUNGS.items():
        try:
            yield name, train_rung(config, rung, device, known, tokens)
        except RuntimeError as error:  # too little memory, or no compiler
            yield name, {"failed": str(error).splitlines()[0]}


def decode_rungs(config: TransformerConfig, device: torch.device, sentences: int) -> Iterator[Row]:
    """Sentences/s of beam search with 1 and 5 hypotheses, in float32 and in bfloat16."""
    torch.manual_seed(0)
    model = Transformer(replace(config, embedding_init="normal")).to(device).eval()
    with torch.no_grad():
        model.output.bias[EOS] += 3.0  # or a random model never ends
    sources = [example.source for example in captions(config, sentences)]
    source = pad(sorted(sources, key=len)).to(device)
    for name, searched in {"float32": model, "bfloat16": copy.deepcopy(model).bfloat16()}.items():
        found = {}
        for beam in (1, 5):
            search = partial(beam_search, searched, source, beam)
            search()  # allocates
            speed = sentences / seconds(search, device)
            found[f"beam_{beam}_sentences_per_second"] = round(speed, 1)
        yield name, found
