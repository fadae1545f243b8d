"""One picture of a corpus: how long its sentences are, and whether its lines go together."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from nmtcourse.doctor.diagnosis import Diagnosis
from nmtcourse.doctor.shifts import LEAST, correlation
from nmtcourse.doctor.survey import Survey
from nmtcourse.outputs import PICTURE_MARK
from nmtlib.files import write_output

WINDOWS = 40
MOST = 5_000  # points


def draw(diagnosis: Diagnosis, path: Path) -> None:
    """Write the picture of train as PNG or SVG.  Raises ValueError where there is no pair."""
    from matplotlib.figure import Figure

    survey = diagnosis.surveys.get("train")
    if survey is None or not survey.kept.any():
        raise ValueError("there is no pair to draw")
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    name = " ".join(Path(part).name for part in diagnosis.name.split())
    figure.suptitle(f"{name}: train, {int(survey.kept.sum()):,} pairs")
    _lengths(axes[0][0], survey)
    _plane(axes[0][1], survey)
    _ratios(axes[1][0], survey)
    _order(axes[1][1], survey)
    drawn, kind = io.BytesIO(), path.suffix.lower().removeprefix(".")
    creator = {"png": "Software", "svg": "Creator"}[kind]
    figure.savefig(drawn, format=kind, metadata={creator: PICTURE_MARK})
    write_output(path, drawn.getvalue())


def _lengths(ax: Any, survey: Survey) -> None:
    for side in ("source", "target"):
        words = survey.numbers[f"words_{side[0]}"][survey.kept]
        top = max(int(np.percentile(words, 99.5)), 5)
        edges = np.arange(0, top + 2, max(top // 60, 1)) - 0.5
        ax.hist(words.clip(0, top), bins=edges, histtype="step", label=side)
    ax.set(title="Lengths", xlabel="words in a sentence", ylabel="pairs")
    ax.legend()


def _plane(ax: Any, survey: Survey) -> None:
    rows = np.flatnonzero(survey.kept)
    rows = rows[:: max(len(rows) // MOST, 1)]
    x, y = (survey.numbers[f"chars_{side}"][rows] for side in "st")
    ax.scatter(x, y, s=3, alpha=0.3)
    ax.set(
        title=f"Both sides, correlation {correlation(np.log(x + 1.0), np.log(y + 1.0)):.2f}",
        xlabel="characters of the source",
        ylabel="characters of the target",
    )


def _ratios(ax: Any, survey: Survey) -> None:
    kept = survey.kept
    ratio = survey.numbers["chars_t"][kept] / np.maximum(survey.numbers["chars_s"][kept], 1)
    ax.hist(ratio.clip(0, np.percentile(ratio, 99.5)), bins=60)
    ax.axvline(float(np.median(ratio)), color="black", linewidth=1)
    ax.set(title="Length ratios", xlabel="target / source, in characters", ylabel="pairs")


def _order(ax: Any, survey: Survey) -> None:
    """The correlation of lengths along the file: it falls where the lines are out of step."""
    rows = np.flatnonzero(survey.kept)
    size = max(len(rows) // WINDOWS, LEAST)
    lengths = [np.log(survey.numbers[f"chars_{side}"][rows] + 1.0) for side in "st"]
    places = range(0, max(len(rows) - size // 2, 1), size)
    values = [correlation(*(side[i : i + size] for side in lengths)) for i in places]
    ax.plot([int(rows[i]) + 1 for i in places], values, marker=".")
    ax.set(
        title="Do the lines go together?",
        xlabel="line",
        ylabel="correlation of lengths",
        ylim=(-0.3, 1.05),
    )
    ax.axhline(0, color="grey", linewidth=1)
