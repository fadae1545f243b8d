"""The capstone: train a translation model within a few minutes and score its BLEU.

A leaderboard is a file of JSON lines, one for each scored run; several files can be read together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from nmtlib.errors import require
from nmtlib.files import decoded_lines, write_atomically
from nmtlib.settings import explain

if TYPE_CHECKING:
    from nmtlib.run import Run

SLACK = 1.01  # the update during which the time runs out is completed
POSSIBLE = 20.0
LATE = (
    ". The {:.0f} seconds beyond it are probably the last update, which is slow on this machine; "
    "--minutes a little lower, or smaller batches, leaves time for it"
)


@dataclass(frozen=True)
class Challenge:
    """A corpus: minutes of training, and the points for each BLEU threshold on its test split.

    A minute is one in which every thread computes: other programs on the machine cost nothing.
    """

    minutes: float
    marks: dict[float, float]

    def points(self, bleu: float) -> float:
        """The points of the highest threshold reached."""
        return max([points for mark, points in self.marks.items() if bleu >= mark], default=0.0)


CHALLENGES = {
    "multi30k-de-en": Challenge(10, {15: 5, 25: 10, 32: 14, 36: 17, 38: POSSIBLE}),
    "toy-de-en": Challenge(1, {20: 5, 60: 10, 90: 14, 97: 17, 99: POSSIBLE}),
}


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Entry:
    """A scored run: a line of a leaderboard.  `model` is the SHA-256 of its weights.

    Raises ValueError for a number that is negative or not finite.
    """

    name: str
    corpus: str
    bleu: float
    points: float
    minutes: float
    parameters: int
    signature: str
    model: str
    seal: str = ""

    def __post_init__(self) -> None:
        for name in ("bleu", "points", "minutes", "parameters"):
            value = getattr(self, name)
            # Compared, not asked for `isfinite`: JSON has integers that no float can hold.
            require(0 <= value <= 1e15, name, "finite and at least 0", value)

    def sealed(self) -> str:
        """A checksum of all other fields, which shows a line that was changed by hand."""
        fields = {name: value for name, value in asdict(self).items() if name != "seal"}
        text = json.dumps(["nmtlib homework capstone", fields], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def require_written_by_capstone(self) -> None:
        """Raise ValueError for a line that the command cannot have written."""
        challenge = CHALLENGES.get(self.corpus)
        if (
            challenge is None
            or self.seal != self.sealed()
            or self.points != challenge.points(self.bleu)
            or self.minutes > challenge.minutes * SLACK
        ):
            raise ValueError(
                "not written by `nmtlib homework capstone`, or changed since; score the run again"
            )


def capstone(folder: str | Path, name: str) -> Entry:
    """Score a run of `nmtlib train` on the test split of its corpus.

    Raises FileNotFoundError if the folder is not a run, and ValueError for a corpus without a
    challenge, for a run over budget, or one trained with outside help.
    """
    from nmtcourse.corpora import load_corpus
    from nmtlib.inference.evaluate import evaluate
    from nmtlib.inference.translator import Translator
    from nmtlib.run import Run

    require(bool(name.strip()), "--name", "the name of the person who trained it", name)
    run = Run(folder)
    challenge, minutes = _within_the_rules(run)
    translator = Translator.load(run.folder)
    corpus = translator.settings.corpus
    evaluation, _ = evaluate(translator, load_corpus(corpus.name), "test")
    scores = evaluation.scores
    entry = Entry(
        name=name.strip(),
        corpus=corpus.name,
        bleu=round(scores.bleu, 2),
        points=challenge.points(round(scores.bleu, 2)),
        minutes=minutes,
        parameters=evaluation.parameters,
        signature=scores.signature,
        model=hashlib.sha256(run.weights_file().read_bytes()).hexdigest(),
    )
    return replace(entry, seal=entry.sealed())


def _within_the_rules(run: Run) -> tuple[Challenge, float]:
    """The challenge and the minutes of a run; ValueError if it broke a rule."""
    from nmtlib.training.checkpoint import describe_run
    from nmtlib.training.history import read_history

    settings = run.settings()
    if run.history_file.exists():  # what the weights were trained with, whatever the file says now
        settings = describe_run(run).settings
    corpus, training = settings.corpus, settings.training
    challenge = CHALLENGES.get(corpus.name)
    if challenge is None or corpus.train:
        raise ValueError(
            f"{run.folder} was trained on {corpus.name or 'files of its own'}; the capstone "
            f"accepts {' and '.join(CHALLENGES)}: train on one of them"
        )
    # Each brings in training that the history does not count.
    help_of_others = {
        "training.init_from": training.init_from,
        "recipe.teachers": settings.recipe.get("teachers"),
        "recipe.synthetic": settings.recipe.get("synthetic"),
    }
    used = {name: value for name, value in help_of_others.items() if value}
    if used:
        help_used = " and ".join(f"{name} = {json.dumps(value)}" for name, value in used.items())
        raise ValueError(
            f"{run.folder} was trained with {help_used}; the capstone expects new weights trained "
            f"on {corpus.name} alone, within the budget: train again without "
            f"{' and '.join(used)}"
        )
    if not run.history_file.exists():
        raise ValueError(
            f"{run.folder} has not finished an epoch, so it has no weights to score: continue "
            f"it with nmtlib train --resume, within {challenge.minutes:g} minutes, or train "
            "a smaller model whose epoch ends in time"
        )
    last = read_history(run.history_file)[-1]
    # An older history has the wall clock alone, which is never less.
    minutes = round((last.busy_seconds or last.seconds) / 60, 2)
    if minutes > challenge.minutes * SLACK:
        over = 60 * (minutes - challenge.minutes)
        late = ""
        if minutes <= 1.25 * challenge.minutes:
            late = LATE.format(over)
        raise ValueError(
            f"{run.folder} was trained for {minutes:g} minutes; the budget is "
            f"{challenge.minutes:g}: train again with --minutes {challenge.minutes:g}{late}"
        )
    return challenge, minutes


def board_lines(path: Path) -> list[str]:
    """The lines of a leaderboard; none if the file does not exist.

    Raises ValueError that names file and line if a line is not UTF-8.
    """
    if not path.exists():
        return []
    with open(path, "rb") as file:
        return list(decoded_lines(file, str(path)))


def add_line(path: Path, entry: Entry) -> None:
    """Append an entry to a leaderboard, unless it is already there.

    Raises ValueError if an existing entry cannot be read.
    """
    line = json.dumps(asdict(entry), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)  # of the lock, too
    with FileLock(path.with_name(f".{path.name}.lock"), timeout=60):  # a second writer waits
        lines = board_lines(path)
        if line not in lines:
            lines.append(line)
            write_atomically(path, "\n".join(lines) + "\n")


def read_lines(paths: Iterable[Path]) -> list[Entry]:
    """All entries of some leaderboards.

    Raises FileNotFoundError or ValueError, which names the invalid line.
    """
    entries = []
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no leaderboard {path}")
        for number, line in enumerate(board_lines(path), start=1):
            if not line.strip():
                continue
            try:
                entry = TypeAdapter(Entry).validate_json(line, strict=True)
                entry.require_written_by_capstone()
            except ValueError as error:
                why = str(error)
                if isinstance(error, ValidationError):
                    why = explain(error)
                raise ValueError(f"{path}, line {number}, is not an entry: {why}") from None
            entries.append(entry)
    return entries


def leaderboard(entries: Sequence[Entry]) -> str:
    """A table of the best run of each name and corpus, with a line for shared weights."""
    best: dict[tuple[str, str], Entry] = {}
    owners: dict[str, set[str]] = {}
    for entry in sorted(entries, key=_rank):
        best.setdefault((entry.corpus, entry.name), entry)
        owners.setdefault(entry.model, set()).add(entry.name)
    lines = [
        f"{'corpus':<16} {'name':<20} {'BLEU':>6} {'points':>6} {'minutes':>7} {'M weights':>9}"
    ]
    lines += [
        f"{e.corpus:<16} {e.name:<20} {e.bleu:>6.2f} {e.points:>6g} {e.minutes:>7.2f} "
        f"{e.parameters / 1e6:>9.1f}"
        for e in best.values()
    ]
    shared = [sorted(names) for names in owners.values() if len(names) > 1]
    return "\n".join([*lines, *(f"the same weights: {', '.join(names)}" for names in shared)])


def _rank(entry: Entry) -> tuple[Any, ...]:
    """Higher BLEU first; of equal ones, the shorter training first."""
    return entry.corpus, -entry.bleu, entry.minutes, entry.name
