"""What the debugging clinic needs beside the catalogue of bugs: trainings, a patient, a map.

Which bugs there are and which checks find them, `nmtcheck` knows; here are the keys alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch.nn import functional as F

from nmtcourse.teaching.learning import Loop, Recipe, small_model
from nmtcourse.teaching.style import COLOURS
from nmtlib.data.batching import Batch, Example, collate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.sections import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training.loss import measure_all
from nmtlib.training.trainer import Trainer

# What one sees -> the bugs of the catalogue to think of first.
SYMPTOMS = {
    "the loss becomes NaN": ["mask-padded-queries", "mask-infinity-nan"],
    "a splendid loss,\nworthless translations": [
        "causal-mask-off-by-one",
        "mask-fill-small",
        "target-not-shifted",
    ],
    "the loss rests\non a floor": [
        "cross-attention-ignores-memory",
        "pairs-misaligned",
        "mask-inverted",
    ],
    "training and validation\ndisagree from the start": [
        "causal-mask-training-only",
        "train-mode-in-evaluation",
        "dropout-default",
    ],
    "another batch size,\nother numbers": [
        "loss-not-divided",
        "mean-of-batch-means",
        "accumulation-not-divided",
        "schedule-per-micro-batch",
    ],
    "the same sentence in\nother company, other logits": [
        "cross-attention-no-padding-mask",
        "heads-without-transpose",
    ],
    "a good validation loss,\nstammering translations": [
        "decoding-position-zero",
        "wrong-start-symbol",
    ],
    "a larger beam\nbrings little, or harm": [
        "cache-not-reordered",
        "length-penalty-sign",
        "beam-stops-early",
    ],
    "too few parameters,\nor too many": [
        "layers-share-weights",
        "tying-copies",
        "parameters-counted-per-level",
    ],
    "saved and loaded,\nit is another model": ["rebuilt-with-defaults", "last-weights-saved"],
    "a score too good\nto be true": [
        "vocabulary-from-test",
        "reference-length-leaks",
        "bleu-of-strings",
    ],
}


def cure(diff: str) -> str:
    """The way back: a diff that plants a bug, turned round into one that removes it.

    >>> print(cure("@@\\n-mask = causal\\n+mask = None\\n loss = f(mask)"))
    @@
    -mask = None
    +mask = causal
     loss = f(mask)
    """
    turned: list[str] = []
    for is_change, group in groupby(diff.splitlines(), _changes):
        lines = list(group)
        if is_change:
            ill = ["-" + line[1:] for line in lines if line.startswith("+")]
            lines = ill + ["+" + line[1:] for line in lines if line.startswith("-")]
        turned += lines
    return "\n".join(turned)


def _changes(line: str) -> bool:
    """Whether a line of a diff is one that goes or comes."""
    return line[:1] in ("-", "+") and line[:4] not in ("--- ", "+++ ")


def learn(
    translator: Translator,
    train: Sequence[Example],
    held_out: Sequence[Example],
    *,
    seed: int,
    updates: int = 150,
    every: int = 25,
) -> tuple[Translator, tuple[list[int], list[float]]]:
    """A small model after some updates, ready to translate, and its curve of validation losses.

    Neither dropout nor smoothing blurs the loss.  The curve is the update and the NLL in nats.
    """
    model = small_model(translator, seed=seed, dropout=0.0)
    loop = Loop(model, train, Recipe(updates=updates, seed=seed, smoothing=0.0, dropout=0.0))
    places, losses = [], []
    for update in range(1, updates + 1):
        loop.step()
        if update % every == 0:
            places.append(update)
            losses.append(measure_all(model, held_out).nll_per_token)
    return Translator(model.eval(), translator.source, translator.target), (places, losses)


def learn_in_parts(
    translator: Translator, batches: Sequence[Sequence[Example]], parts: int, *, seed: int
) -> tuple[list[float], list[float]]:
    """Loss (nats) and learning rate of each update of a small model, one update for a batch.

    Each batch comes in so many parts, whose gradients are accumulated.
    """
    settings = TrainingSettings(
        learning_rate=4e-3, warmup=30, label_smoothing=0.0, schedule="inverse-sqrt", device="cpu"
    )
    model, losses, rates = small_model(translator, seed=seed, dropout=0.0), [], []
    with TemporaryDirectory() as folder:
        data = batches[0], batches[0]  # not read: each update is given its sentences
        trainer = Trainer(model.train(), *data, settings, folder, report=lambda line: None)
        for batch in batches:
            micro_batches = [collate(batch[part::parts]) for part in range(parts)]
            losses.append(trainer.update(micro_batches).nll_per_token)
            rates.append(trainer.optimizer.param_groups[0]["lr"])
    return losses, rates


@torch.no_grad()
def validation_epoch(model: Transformer, batches: Sequence[Batch]) -> float:
    """The loss of some batches as a patient of the clinic reports it."""
    total = 0.0
    for batch in batches:
        logits = model.eval()(batch.source, batch.decoder_input)  # (B, T, V)
        flat = logits.flatten(0, 1), batch.labels.flatten()
        total += float(F.cross_entropy(*flat, ignore_index=PAD, reduction="sum"))
    return total / sum(len(batch.source) for batch in batches)


def draw_map(rows: Iterable[tuple[str, str, str]]) -> Axes:
    """Draw symptom, suspect and check in three columns; rows of one symptom follow each other."""
    rows = list(rows)
    _, ax = plt.subplots(figsize=(7.0, 0.25 * len(rows) + 0.5))
    for place, title in ((0.0, "what you see"), (0.3, "suspects"), (0.99, "found by the check")):
        ax.text(
            place,
            -1.2,
            title,
            weight="bold",
            family="DejaVu Sans",
            ha="right" if place > 0.9 else "left",
        )
    for number, (symptom, group) in enumerate(groupby(enumerate(rows), lambda row: row[1][0])):
        places = [place for place, _ in group]
        colour = COLOURS[number % len(COLOURS)]
        middle = (places[0] + places[-1]) / 2
        ax.text(0.0, middle, symptom, va="center", fontsize=8)
        for place in places:
            _, suspect, check = rows[place]
            ax.plot([0.255, 0.29], [middle, place], color=colour, linewidth=1.0)
            ax.text(0.3, place, suspect, va="center", fontsize=7)
            ax.text(0.99, place, check, va="center", ha="right", fontsize=6.5, family="monospace")
        ax.axhline(places[-1] + 0.5, color="#E0E0E0", linewidth=0.8)
    ax.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -1.8))
    ax.axis("off")
    return ax
