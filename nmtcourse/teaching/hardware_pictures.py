"""Pictures of notebook 12: memory over a step, number formats, fingerprints, roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmtcourse.teaching.hardware_lab import Timeline
from nmtcourse.teaching.language import say
from nmtcourse.teaching.records import common_note
from nmtcourse.teaching.style import COLOURS, LINES, SEQUENTIAL, WIDTH

MIB = 2**20
SHADES = ("#EAF2F8", "#FDF2E9", "#E9F7EF", "#F5EEF8", "#F4F4F4")
# of different lightness, so that grey paper tells them apart
FIELDS = {"sign": "#1A1A1A", "exponent (how large)": "#E69F00", "mantissa (how exact)": "#0072B2"}


def memory_of_a_step(run: Timeline, lasting: Mapping[str, int], *, title: str = "") -> Figure:
    """Memory through a step: what is there all the time as bands, what comes and goes above."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    x, base = np.arange(len(run.levels) + 1), 0.0
    for number, (name, size) in enumerate(lasting.items()):
        top = base + size / MIB
        ax.fill_between(x, base, top, label=name, color=COLOURS[number], alpha=0.85, lw=0)
        ax.plot(x, np.full(len(x), top), color="white", lw=1)  # a seam, also on grey paper
        base = top
    levels = base + np.array([0, *run.levels]) / MIB
    colour = COLOURS[len(lasting)]
    ax.fill_between(x, base, levels, label=say("comes and goes"), color=colour, alpha=0.85, lw=0)
    starts = sorted((start, name) for name, start in run.marks.items())
    ends = [start for start, _ in starts[1:]] + [len(x)]
    high = levels.max() * 1.16
    for number, ((start, name), end) in enumerate(zip(starts, ends, strict=True)):
        ax.axvspan(start, end, color=SHADES[number % len(SHADES)], zorder=0)
        ax.text((start + end) / 2, high * 0.985, say(name), ha="center", va="top", fontsize=8)
    ax.set(xlim=(0, len(x) - 1), ylim=(0, high), title=title)
    ax.set(xlabel=say("changes of memory, one after the other"), ylabel=say("memory (MiB)"))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
    return figure


def number_formats(formats: Mapping[str, tuple[int, int]]) -> Figure:
    """{name: (bits of the exponent, bits of the mantissa)} as rows of cells, one for each bit."""
    figure, ax = plt.subplots(figsize=(WIDTH, 0.6 + 0.5 * len(formats)))
    colours = list(FIELDS.values())
    for row, (name, (exponent, mantissa)) in enumerate(formats.items()):
        kinds = [0] + [1] * exponent + [2] * mantissa
        for line, kind in enumerate(kinds):
            ax.bar(line, 0.7, 0.92, bottom=-row - 0.35, color=colours[kind])
        ax.text(-1, -row, name, ha="right", va="center")
        label = say(f"{exponent} + {mantissa} bits")
        ax.text(len(kinds) + 0.2, -row, label, ha="left", va="center", fontsize=8)
    for line, (name, colour) in enumerate(FIELDS.items()):
        ax.bar(1 + 12 * line, 0.3, 0.92, bottom=0.72, color=colour)
        ax.text(2 + 12 * line, 0.75, say(name), ha="left", fontsize=8)
    ax.set(xlim=(-5, 38), ylim=(-len(formats) + 0.4, 1.1))
    ax.axis("off")
    return figure


def fingerprints(
    table: Mapping[str, Sequence[float]], healthy: Mapping[str, Sequence[float]], columns: list[str]
) -> Figure:
    """Rows of numbers; the darker a cell, the more times it differs from that of the healthy."""
    rows = list(table)
    values = np.array([table[name] for name in rows], dtype=float)
    normal = np.array([healthy[name] for name in rows], dtype=float)
    times = np.abs(np.log10((values + 1e-9 + (normal == 0)) / (normal + 1e-9 + (normal == 0))))
    figure, ax = plt.subplots(figsize=(WIDTH, 0.8 + 0.42 * len(rows)))
    ax.imshow(times, cmap=SEQUENTIAL, vmin=0, vmax=1.5, aspect="auto")
    for row, column in np.ndindex(*values.shape):
        dark = times[row, column] > 0.8
        ax.text(
            column,
            row,
            _short(values[row, column]),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
        )
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return figure


def against_formula(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], y_label: str
) -> Figure:
    """{x label: {"formula", "measured", "floor": (x, y)}}: curve, points and a grey area below."""
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 2.9), sharey=True)
    for ax, (label, points) in zip(axes, panels.items(), strict=True):
        ax.plot(*points["formula"], label=say("formula"))
        ax.plot(*points["measured"], "o", label=say("measured"))
        x, y = points["floor"]
        ax.fill_between(x, 0, y, color="#D5D5D5", lw=0, label=say("weights and moments"))
        ax.set(xlabel=say(label), ylim=(0, None), xlim=(0, None))
    axes[0].set_ylabel(y_label)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def seeds(curves: Mapping[str, Sequence[Sequence[float]]], every: int, *, title: str = "") -> Axes:
    """{way: a curve for each seed}: thin lines, and a thick one for their mean.

    Each point is the mean of `every` updates.  The legend says which seeds were recorded.
    """
    _, ax = plt.subplots(figsize=(6.0, 3.2))
    for number, (way, losses) in enumerate(curves.items()):
        smooth = np.array(losses).reshape(len(losses), -1, every).mean(axis=-1)
        x = every * np.arange(1, smooth.shape[1] + 1)
        look = {"color": COLOURS[number], "ls": LINES[number % len(LINES)]}
        for curve in smooth:
            ax.plot(x, curve, lw=0.7, alpha=0.7, **look)
        ax.plot(x, smooth.mean(axis=0), label=way, lw=2.4, **look)
    ax.set(xlabel=say("update"), ylabel=say("training loss (nats)"), title=title)
    ax.grid(True)
    ax.legend(title=common_note(curves.values()))
    return ax


def ring(history: Sequence, *, title: str = "") -> Figure:
    """States of a ring, (devices, chunks) each: how many devices a chunk contains by now."""
    figure, axes = plt.subplots(1, len(history), figsize=(WIDTH, 2.0), sharey=True)
    n = len(history[0])
    for step, (ax, state) in enumerate(zip(axes, history, strict=True)):
        ax.imshow(state, cmap=SEQUENTIAL, vmin=0, vmax=1.2 * n)
        for row, column in np.ndindex(n, n):
            value = int(state[row, column])
            colour = "white" if value > 0.7 * n else "black"
            ax.text(column, row, value, ha="center", va="center", fontsize=8, color=colour)
        kind = "start" if not step else "sum" if step < n else "copy"
        ax.set(title=say(f"{step}: {kind}"), xticks=range(n), yticks=range(n))
    axes[0].set_ylabel(say("device"))
    axes[len(history) // 2].set_xlabel(say("chunk of the gradients"))
    figure.suptitle(title)
    return figure


def _short(value: float) -> str:
    """A count, a large number, or a share, in few letters."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.2f}"
