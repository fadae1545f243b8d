"""Pictures of runs: one figure over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.axes import Axes

from nmtcourse.teaching.describe import VARIES
from nmtcourse.teaching.learning import Training
from nmtcourse.teaching.records import Runs, common_note
from nmtcourse.teaching.style import COLOURS, LINES, MARKERS

Curve = tuple[Sequence[float], Sequence[float]]  # x and y


def over(x: Sequence[float], runs: Sequence[Any], name: str = "") -> Runs:
    """Runs measured at the same places x, each as a curve (x, y) for `draw_seeds`.

    `name` is that of the curve among several that a run has.
    """
    curves = [(x, run[name] if name else run) for run in runs]
    return Runs(curves, getattr(runs, "recorded", ()))


def measured(runs: Sequence[Mapping[int, Any]], name: str = "", unit: float = 1) -> Runs:
    """Runs {updates: value}, or {updates: {name: value}}, each as a curve (x, y) for `draw_seeds`.

    `unit` is what one update counts on the x axis, such as the sentences of a batch.
    """
    curves = [
        ([n * unit for n in run], [value[name] if name else value for value in run.values()])
        for run in runs
    ]
    return Runs(curves, getattr(runs, "recorded", ()))


def curves_of(trainings: Sequence[Training], figure: str, x: str = "epochs") -> Runs:
    """One figure of several trainings, each as a curve (x, y) for `draw_seeds`."""
    points = [training.points for training in trainings]
    curves = [([getattr(p, x) for p in row], [getattr(p, figure) for p in row]) for row in points]
    return Runs(curves, getattr(trainings, "recorded", ()))


def draw_seeds(groups: Mapping[str, Sequence[Curve]], ax: Axes | None = None, **look: Any) -> Axes:
    """Draw for each label the mean of its seeds' curves (x, y) and, as a band, their range.

    The title of the legend says which seeds were recorded.  `look` is what `Axes.set` takes, such
    as xlabel.  Raises ValueError where the seeds of a label were not measured at the same places.
    """
    ax = ax if ax is not None else plt.subplots(figsize=(6.4, 3.2))[1]
    strokes, markers = cycle(LINES), cycle(MARKERS)  # so that grey paper tells curves apart
    for colour, (label, runs) in zip(COLOURS, groups.items(), strict=False):
        x = list(runs[0][0])
        if any(list(places) != x for places, _ in runs):
            raise ValueError(f"the curves of {label!r} have no common places on the x axis")
        y = np.concatenate([y for _, y in runs])
        look_of_line = {"color": colour, "linestyle": next(strokes), "markersize": 4}
        look_of_line["marker"] = next(markers) if len(x) <= 8 else ""
        whole = ("pi", 100)  # the band reaches from the lowest seed to the highest
        seaborn.lineplot(
            x=x * len(runs), y=y, errorbar=whole, label=label, legend=False, ax=ax, **look_of_line
        )
    ax.set(**look)
    ax.grid(True)
    if any(isinstance(runs, Runs) and len(runs.recorded) < len(runs) for runs in groups.values()):
        ax.figure.set_gid(VARIES)  # what was trained now has other digits on another processor
    note = common_note(groups.values())
    if len(groups) > 1:
        ax.legend(title=note)
    elif note:
        ax.legend(handles=[], title=note)
    return ax
