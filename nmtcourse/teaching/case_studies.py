"""What notebook 13 shows: trainings recorded station by station, counts, and a tiny IWSLT archive.

`benchmarks/stations.py` and `corpus_facts.py` wrote the records, so that nobody needs the corpora.
The sentences of Multi30k that they quote are by Elliott et al. 2016.
"""

from __future__ import annotations

import io
import json
import statistics
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmtcourse.recipes.iwslt import ARCHIVE, TEST_SETS, TRAINING, files_of
from nmtcourse.teaching.style import COLOURS
from nmtcourse.teaching.training_pictures import draw_seeds, over
from nmtlib.data.corpus import Pair, read_pairs
from nmtlib.training.history import EpochRecord

RECORDED = Path(__file__).parent / "recorded"
STATIONS, FACTS = RECORDED / "german_english.json", RECORDED / "corpus_facts.json"
TEACHERS, JUDGED = RECORDED / "teachers.json", RECORDED / "judged.json"
CAPTIONS = Path(__file__).parent / "captions.tsv"  # 20 sentences of our own
CLEAR = 0.05  # p below it is more than luck
VERDICTS = {"up": COLOURS[0], "down": COLOURS[1], "open": "0.7"}
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
    """One idea more than the station before: its trainings, a run for each seed.

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
    def verdict(self) -> str:
        """Where the gain is clear and of one sign for every seed "up" or "down", else "open"."""
        if not self.gains or any(gain["p"] >= CLEAR for gain in self.gains):
            return "open"
        signs = {gain["difference"] > 0 for gain in self.gains}
        return "open" if len(signs) > 1 else "up" if signs == {True} else "down"


@dataclass(frozen=True)
class CaseStudy:
    """The stations in order, the histories of those that trained, and what systems said.

    `systems` has the lists source and reference beside those of the systems, 40 sentences each.
    """

    stations: list[Station]
    histories: dict[str, list[list[EpochRecord]]]
    systems: dict[str, list[str]]


def read_stations(path: str | Path = STATIONS) -> CaseStudy:
    """What `benchmarks/stations.py` wrote; keys that it may add are passed over."""
    stored = json.loads(Path(path).read_text("utf-8"))
    names = [field.name for field in fields(Station)]
    stations = [Station(**{name: row[name] for name in names}) for row in stored["stations"]]
    histories = {
        key: [[EpochRecord(**record) for record in history] for history in seeds]
        for key, seeds in stored["histories"].items()
    }
    return CaseStudy(stations, histories, stored["systems"])


def corpus_facts() -> dict[str, Any]:
    """What `benchmarks/corpus_facts.py` counted."""
    return json.loads(FACTS.read_text("utf-8"))


def own_captions() -> list[Pair]:
    """Twenty German descriptions of pictures that nobody has taken, with an English reference."""
    return read_pairs([CAPTIONS])


def table(stations: Sequence[Station]) -> str:
    """A line for each station: BLEU by seed, the mean, and what the idea brought to each seed."""
    lines = [f"{'':<30}{'BLEU by seed':<20}{'mean':>5}   gain by seed (* p < {CLEAR})"]
    for station in stations:
        bleus = "  ".join(f"{bleu:4.1f}" for bleu in station.bleus)
        gains = "  ".join(
            f"{gain['difference']:+5.1f}{'*' if gain['p'] < CLEAR else ' '}"
            for gain in station.gains
        )
        line = f"{station.idea:<30}{bleus:<20}{station.mean:5.1f}   {gains}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def draw_waterfall(stations: Sequence[Station], ax: Axes | None = None) -> Axes:
    """A bar from the mean BLEU of each station to that of the next; a dot for every seed.

    Blue is up and orange is down, clearly and for every seed; grey is neither.
    """
    ax = ax if ax is not None else plt.subplots(figsize=(7.0, 0.9 + 0.42 * len(stations)))[1]
    rows = range(len(stations))
    means = [station.mean for station in stations]
    steps = [after - before for before, after in zip(means, means[1:], strict=False)]
    colours = [VERDICTS[station.verdict] for station in stations[1:]]
    ax.barh(rows[1:], steps, 0.6, left=means[:-1], color=colours, label="gain of the mean")
    ax.vlines(means[:-1], [r - 0.3 for r in rows[:-1]], [r + 1.3 for r in rows[:-1]], "0.5", lw=0.7)
    dots = [(bleu, row) for row, station in enumerate(stations) for bleu in station.bleus]
    ax.plot(*zip(*dots, strict=True), "o", color="0.15", markersize=3, label="BLEU of a seed")
    room = 0.06 * (max(b for b, _ in dots) - min(b for b, _ in dots) or 1.0)
    for row, station in enumerate(stations):
        told = f"{station.mean:.1f}" if not row else f"{steps[row - 1]:+.1f}"
        furthest = max([*station.bleus, *means[max(row - 1, 0) : row + 1]])
        ax.text(furthest + room / 2, row, told, va="center", fontsize=8)
    ax.set_yticks(rows, [station.idea for station in stations])
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set(xlabel="BLEU on the validation split (the axis does not begin at 0)")
    ax.grid(True, axis="x")
    ax.set_axisbelow(True)
    return ax


def draw_report(trainings: Mapping[str, Sequence[Sequence[EpochRecord]]]) -> Figure:
    """The four curves of a report: NLL above, perplexity below, training left, validation right.

    `trainings` has for each label the histories of its seeds, thin lines with a thick mean.  A
    point is an epoch, drawn at the mean number of updates that the seeds had made at its end.
    """
    ends = {
        key: [statistics.mean(r.updates for r in ended) for ended in zip(*histories, strict=True)]
        for key, histories in trainings.items()
    }
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.0), sharex=True, sharey="row")
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
            ax.set_title(
                {"train": "training", "validation": "validation"}[split] if not row else ""
            )
        axes[row, 0].set_ylabel(label or name)
    for ax in axes[1]:
        ax.set_xlabel("updates")
    for ax in axes.flat[1:]:
        if legend := ax.get_legend():
            legend.remove()
    return figure


def write_tiny_iwslt(folder: str | Path, pairs: Sequence[Pair], lines: int = 1_200) -> Path:
    """Pack an archive of the form of IWSLT'14, filled with other sentences; returns its path.

    One talk of `lines` lines to train on, and every test set in its published size; the pairs are
    taken again and again.  The folder is made.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    endless = cycle(pairs)
    files = dict(zip(TRAINING, _talk(list(islice(endless, lines))), strict=True))
    for name, size in TEST_SETS.items():
        files |= dict(zip(files_of(name), _test_set(list(islice(endless, size))), strict=True))
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(f"de-en/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return folder / ARCHIVE


def _talk(pairs: Sequence[Pair]) -> tuple[str, str]:
    """Both sides of a talk to train on, with the tags that the recipe drops or strips."""
    head = "<url>http://example.org</url>\n<speaker>Ada</speaker>\n<talkid>1</talkid>\n"
    titles = ("<title>Ein kleiner Vortrag</title>\n", "<title>A little talk</title>\n")
    german, english = ([p.source for p in pairs], [p.target for p in pairs])
    sides = zip(titles, (german, english), strict=True)
    left, right = (head + title + "\n".join(side) + "\n" for title, side in sides)
    return left, right


def _test_set(pairs: Sequence[Pair]) -> tuple[str, str]:
    """Both sides of a test set: numbered segments."""

    def xml(sentences: Sequence[str]) -> str:
        numbered = (f'<seg id="{n}"> {text} </seg>\n' for n, text in enumerate(sentences, 1))
        return f'<mteval>\n<doc docid="1">\n{"".join(numbered)}</doc>\n</mteval>\n'

    return xml([pair.source for pair in pairs]), xml([pair.target for pair in pairs])
