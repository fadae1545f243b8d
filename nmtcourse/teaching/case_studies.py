"""What notebook 13 shows: runs recorded station by station, and counts.

The numbers are recorded (benchmarks/README.md says how), so no corpus is needed.
The sentences of Multi30k that they quote are by Elliott et al. 2016.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmtcourse.teaching.language import say
from nmtcourse.teaching.style import COLOURS
from nmtcourse.teaching.training_pictures import draw_seeds, over
from nmtlib.data.corpus import Pair, read_pairs
from nmtlib.training.history import EpochRecord

RECORDED = Path(__file__).parent / "recorded"
STATIONS, FACTS = RECORDED / "german_english.json", RECORDED / "corpus_facts.json"
JUDGED = RECORDED / "judged.json"
CAPTIONS = Path(__file__).parent / "captions.tsv"  # 20 sentences of our own
CLEAR = 0.05  # p below it is more than luck
# What makes the first 40 German validation sentences hard: their numbers, found by reading them.
# A compound noun is long from ten letters on, in the form of the dictionary, without hyphens.
CONSTRUCTIONS = {
    "long compound noun": (3, 4, 5, 7, 9, 11, 13, 15, 21, 24, 29, 32, 33, 36, 38, 39),
    "separable verb": (3, 6, 18, 26, 36),
    "subordinate clause": (4, 5, 19, 36, 37),
    "turn of phrase": (4, 7, 11, 19, 28, 33),
}


@dataclass(frozen=True)
class Station:
    """One idea more than the station before: a run for each seed.

    A run has its seed, minutes, bleu, length_ratio and perplexity on the validation split, and
    perhaps its figures on test.  `gains` compares it by paired bootstrap with the run of the same
    seed at the station before: difference in BLEU, an interval from low to high, and p.
    """

    key: str
    idea: str
    settings: list[str]
    beam: int
    length_penalty: float
    parameters: int
    vocabularies: list[int]
    runs: list[dict[str, Any]]
    gains: list[dict[str, Any]]

    @property
    def bleus(self) -> list[float]:
        """BLEU of each seed."""
        return [run["bleu"] for run in self.runs]

    @property
    def mean(self) -> float:
        """The mean BLEU over the seeds."""
        return statistics.mean(self.bleus)

    @property
    def is_one_change(self) -> bool:
        """Whether it changed a single setting, or only the weights or the search of the last."""
        return len(self.settings) < 2


@dataclass(frozen=True)
class CaseStudy:
    """The stations in order, the histories of those that trained, and what systems said.

    `systems` has the lists source and reference beside those of the systems, 40 sentences each.
    """

    stations: list[Station]
    histories: dict[str, list[list[EpochRecord]]]
    systems: dict[str, list[str]]


def read_stations(path: str | Path = STATIONS) -> CaseStudy:
    """The recorded runs; keys that `Station` does not have are ignored."""
    stored = json.loads(Path(path).read_text("utf-8"))
    names = [field.name for field in fields(Station)]
    stations = [Station(**{name: row[name] for name in names}) for row in stored["stations"]]
    histories = {
        key: [[EpochRecord(**record) for record in history] for history in seeds]
        for key, seeds in stored["histories"].items()
    }
    return CaseStudy(stations, histories, stored["systems"])


def corpus_facts() -> dict[str, Any]:
    """What was counted in Multi30k and its captions."""
    return json.loads(FACTS.read_text("utf-8"))


def judged() -> dict[str, Any]:
    """What the shipped model made of the 40 quoted sentences ("said"), and how each was judged."""
    return json.loads(JUDGED.read_text("utf-8"))


def own_captions() -> list[Pair]:
    """Twenty German descriptions of imagined pictures, with an English reference."""
    return read_pairs([CAPTIONS])


def table(stations: Sequence[Station]) -> str:
    """A line for each station: BLEU by seed, the mean, and what the idea brought to each seed."""
    lines = [f"{'':<33}{'BLEU by seed':<20}{'mean':>5}   gain by seed (* p < {CLEAR})"]
    for station in stations:
        bleus = "  ".join(f"{bleu:4.1f}" for bleu in station.bleus)
        gains = "  ".join(
            f"{gain['difference']:+5.1f}{'*' if gain['p'] < CLEAR else ' '}"
            for gain in station.gains
        )
        line = f"{station.idea:<33}{bleus:<20}{station.mean:5.1f}   {gains}"
        lines.append(line.rstrip())
    return say("\n".join(lines))


def draw_gains(stations: Sequence[Station]) -> Axes:
    """What each station but the first gained for every seed, and if it changed one thing only."""
    ax = plt.subplots(figsize=(6.4, 3.2))[1]
    for single, label in ((True, "one change"), (False, "several changes at once")):
        rows = [(row, s) for row, s in enumerate(stations[1:]) if s.is_one_change is single]
        gains = [(gain["difference"], row) for row, s in rows for gain in s.gains]
        colour = COLOURS[0] if single else COLOURS[1]
        x, y = [gain for gain, _ in gains], [row for _, row in gains]
        ax.plot(x, y, "o" if single else "s", color=colour, alpha=0.7, label=say(label))
    ax.set_yticks(range(len(stations) - 1), [say(station.idea) for station in stations[1:]])
    ax.invert_yaxis()
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set(xlabel=say("gain over the row before, BLEU on the validation split"))
    ax.legend(loc="lower right")
    return ax


def draw_report(
    trainings: Mapping[str, Sequence[Sequence[EpochRecord]]], *, legend: str = ""
) -> Figure:
    """The four curves of a report: NLL above, perplexity below, training left, validation right.

    `trainings` has for each label the histories of its seeds, thin lines with a thick mean.  A
    point is an epoch, drawn at the mean number of updates that the seeds had made at its end.
    `legend` is the title of the legend: what the labels count.
    """
    ends = {
        key: [statistics.mean(r.updates for r in ended) for ended in zip(*histories, strict=True)]
        for key, histories in trainings.items()
    }
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.0), sharex=True)
    for row, (name, label) in enumerate({"nll": "loss (nats a token)", "perplexity": ""}.items()):
        for column, split in enumerate(("train", "validation")):
            figures = f"{split}_{name}"
            lines = {
                key: over(
                    ends[key],
                    [[getattr(record, figures) for record in history] for history in histories],
                )
                for key, histories in trainings.items()
            }
            ax = draw_seeds(lines, axes[row, column], yscale="log" if row else "linear")
            title = {"train": "training", "validation": "validation"}[split]
            ax.set_title("" if row else say(title))
        axes[row, 0].set_ylabel(say(label or name))
    for ax in axes[1]:
        ax.set_xlabel(say("updates"))
    for number, ax in enumerate(axes.flat):
        shown = ax.get_legend()
        if shown and number == 0 and legend:
            shown.set_title(legend)
        elif shown and number > 0:
            shown.remove()
    return figure
