"""What a run leaves to be read: a summary of its training, samples, and scores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmtlib.data.corpus import Pair
from nmtlib.files import write_atomically
from nmtlib.inference.translator import Translator
from nmtlib.run import SHIPPED, Run, named_runs
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import read_history


def training_summary(folder: str | Path) -> dict[str, Any]:
    """How a run was trained: the command, seed, epochs, minutes, speed, and which weights it kept.

    Without a log, as in the models that ship with the package, the command is None.
    """
    run = Run(folder)
    history = read_history(run.history_file)
    notes = read_checkpoint(run.weights_file())[2]
    return {
        "command": run.command(),
        "seed": run.settings().training.seed,
        "epochs": len(history),
        "updates": history[-1].updates,
        "minutes": round(history[-1].seconds / 60, 2),
        "tokens_per_second": round(statistics.median(r.tokens_per_second for r in history)),
        "weights": notes["weights"],
        "validation_perplexity": round(math.exp(notes["validation_nll"]), 3),
    }


def table_of_models() -> list[tuple[str, ...]]:
    """The models that can be loaded by name, in rows of text, headings first."""
    rows: list[tuple[str, ...]] = [
        ("model", "translates", "corpus", "epochs", "validation perplexity", "from")
    ]
    for name, run in named_runs().items():
        place = "nmtlib" if ships(run) else str(run.folder)
        try:
            corpus, summary = run.settings().corpus, training_summary(run.folder)
        except (OSError, ValueError) as error:
            rows.append((name, "", "", "", "", f"{place}, which cannot be loaded: {error}"))
            continue
        told = str(summary["epochs"]), f"{summary['validation_perplexity']:.2f}", place
        rows.append((name, "-".join(corpus.languages), corpus.name or "own files", *told))
    return rows


def ships(run: Run) -> bool:
    """Whether a run comes with the package, however its folder was given."""
    return run.folder.resolve().parent == SHIPPED.resolve()


def write_samples(run: Run, pairs: Sequence[Pair]) -> None:
    """Write translations of some validation sentences beside the weights."""
    translator = Translator.load(run.folder)
    limit = translator.model.config.max_length
    pairs = [p for p in pairs if len(translator.source.encode(p.source)) < limit]
    hypotheses = translator.translate([p.source for p in pairs])
    write_atomically(run.samples_file, "\n".join(format_samples(pairs, hypotheses)))


def format_samples(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> list[str]:
    """Source, translation and reference below each other, a blank line between sentences."""
    lines = []
    for pair, hypothesis in zip(pairs, hypotheses, strict=True):
        reference = "(the same)" if hypothesis == pair.target else pair.target
        lines += [
            f"source     {pair.source}",
            f"model      {hypothesis}",
            f"reference  {reference}",
            "",
        ]
    return lines
