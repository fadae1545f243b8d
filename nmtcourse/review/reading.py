"""A training log, whatever wrote it, as records (what was measured at one moment) and facts."""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

# What a name in a log means, by its words; the first that fits.
KEYS = {
    "": r"\b(?:scale|best|smooth\w*|time|wall|sec\w*|hours?|rank|size|norm|gnorm|clip)\b",
    "nll": r"\bnll\b",
    "perplexity": r"\b(?:ppl|perplexity)\b",
    "accuracy": r"\bacc\w*\b",
    "bleu": r"\bbleu\w*\b",
    "rate": r"\b(?:lr|l r|learning rate)\b",
    "loss": r"\b(?:loss|xent|cost|cross entropy|ce)\b",
    "update": r"\b(?:num updates|updates?|steps?|up|iter\w*)\b",
    "epoch": r"\bep(?:och)?s?\b",
}
VALIDATION = re.compile(r"\b(?:val\w*|dev|eval\w*)\b", re.I)
TEST = re.compile(r"\btest\b", re.I)
MEASURES = ("loss", "nll", "perplexity", "accuracy")
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
NAME = r"[A-Za-z][\w./]*(?:[ -][A-Za-z][\w./]*)*?"
PAIR = re.compile(rf"({NAME})[\s:=|\[('\"]*(?<![A-Za-z])({NUMBER})(?!\w)")
# A line that computes rather than reports.
CODE = re.compile(
    r"^\s*\w+\s*=\s*[\d.]+\s*(?:#|$)|\w\(\w|[{}$]|%[a-z]"
    r"|^\s*(?:def|class|import|from|for|if|return)\b"
)
NUM = r"(\d[\d,]*(?:\.\d+)?)"
FACTS = {  # what a text states beside its records: by the first pattern, where it is last
    "warmup": [rf"NoamOpt\([^,]+,\s*[\d.]+,\s*{NUM}", rf"warm[-_ ]?up\w*['\"]?\s*[:=]?\s*{NUM}"],
    "smoothing": [r"smoothing['\"]?\s*[:=]?\s*(0?\.\d+)"],
    "epochs": [rf"epochs?\s*=\s*{NUM}", rf"(?<![\d.,]){NUM} ?(?:代|轮|epochs?\b)"],
    "batch": [rf"(?m)^\s*batch_?size\s*=\s*{NUM}", rf"batch_?size\s*[=:]\s*{NUM}"],
    "pairs": [rf"number of samples\W+{NUM}", rf"train_data\W+{NUM}", rf"{NUM} training pairs"],
    "vocabulary": [rf"target = {NUM}", rf"dictionary: {NUM} types"],
    "turn": [
        rf"第\s*{NUM}\s*个\s*epoch[^\n]{{0,20}}验证集",
        rf"validation[^\n.]{{0,60}}(?:rise|increas)[^\n.]{{0,30}}epoch\s*{NUM}",
    ],
    "ratio": [rf"\bratio\s*=\s*{NUM}"],
    "bleu": [rf"BLEU4?\b(?!\W{{0,4}}\{{)[^\n\d{{]{{0,12}}{NUM}"],
}
KINDS = {  # facts in words, by what is in the text
    "program": {
        "sacreBLEU": r"sacrebleu|\btok:\w+|nrefs:",
        "NLTK": r"nltk",
        "torchtext": r"torchtext.*bleu",
        "fairseq or multi-bleu": r"BLEU4? = [\d.]+,? [\d.]+/",
    },
    "reduction": {
        "sum": r"reduction\s*=\s*['\"]sum|size_average\s*=\s*False",
        "mean": r"CrossEntropyLoss\(|reduction\s*=\s*['\"]mean",
    },
    "divided": {"tokens": r"/\s*[\w.]*(?:n_?tokens|total_tokens)"},
    "pictures": {"yes": r"!\[.*(?:loss|ppl)"},
    "alike": {"yes": r"same sentence|句子都是一样"},
    "batches": {"yes": r"batch_?size[^\n]*(?<!\d)32(?!\d)[^\n]*loss[^\n]*(?<!\d)128(?!\d)"},
    "corpus": {"29,000": r"multi30k"},
}
WRITTEN = re.compile(
    r"^\W*(?:H-\d+\s+-[\d.]+|(?:translat|predict|hypothes)\w*[\d ]*:|PRED \d+:|model {3,})\s*(.+)",
    re.I,
)
EXPECTED = re.compile(
    r"^\W*(?:T-\d+|(?:target|reference|standard)(?: answer)?[\d ]*:|GOLD \d+:|reference  )\s*(.+)",
    re.I,
)


class Record(NamedTuple):
    """What was measured at one moment of 'train' or 'validation', by the keys of `KEYS`."""

    split: str
    values: dict[str, float]


@dataclass
class Log:
    """Everything that could be read: records in their order, facts, and translations."""

    name: str
    records: list[Record] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)

    def series(self, split: str, key: str) -> list[tuple[str, float]]:
        """The values of a measure, each with its epoch or update in words."""
        series = []
        for number, record in enumerate((r for r in self.records if r.split == split), start=1):
            if key in record.values and math.isfinite(record.values[key]):
                unit = next((u for u in ("epoch", "update") if u in record.values), "")
                when = f"{unit} {record.values[unit]:,g}" if unit else f"record {number}"
                series.append((when, record.values[key]))
        return series

    def updates(self) -> float | None:
        """How many updates were made; a count that begins again each epoch is added up."""
        if (known := self.facts.get("updates")) is not None:
            return known
        total = last = 0.0
        for record in self.records:
            step = record.values.get("update", last)
            total, last = total + (last if step < last else 0.0), step
        pairs, batch, epochs = (self.facts.get(key, 0) for key in ("pairs", "batch", "epochs"))
        updates = math.ceil(pairs / batch) * epochs if batch else 0
        return total + last or updates or None


def read(path: Path) -> Log:
    """The log in a run folder or a file.  Raises ValueError where it holds no number to review."""
    log = Log(str(path))
    if path.is_dir():
        read_run(log, path)
    elif "tfevents" in path.name:
        read_events(log, path)
    elif not path.is_file():
        raise FileNotFoundError(f"{path}: no such run, log or table")
    else:
        read_text(log, path.name, path.read_text("utf-8", errors="replace"))
    if not any((log.records, log.facts, log.outputs)):
        raise ValueError(
            f"{path}: no loss, perplexity or score was recognised; expected a run folder, "
            "history.csv, trainer_state.json, a table with named columns, or printed lines"
        )
    return log


def read_run(log: Log, folder: Path) -> None:
    """Read the history, settings and vocabulary of a run of nmtlib, or a trainer's state."""
    tables = [folder / name for name in ("history.csv", "trainer_state.json")]
    if not (table := next(filter(Path.is_file, tables), None)):
        raise ValueError(f"{folder} has no history.csv and no trainer_state.json")
    read_text(log, table.name, table.read_text("utf-8"))
    if (file := folder / "settings.json").is_file():
        training = json.loads(file.read_text("utf-8"))["training"]
        log.facts |= {"warmup": training["warmup"] * (training["schedule"] != "constant")}
        log.facts |= {"smoothing": training["label_smoothing"], "epochs": training["epochs"]}
    if (file := folder / "target.json").is_file():
        data = json.loads(file.read_text("utf-8"))
        tokens = data.get("tokens") or data.get("vocab") or []
        log.facts |= {"vocabulary": len(tokens)} if tokens else {}
    for file in sorted(folder.glob("*.json")):
        data = parsed(file.read_text("utf-8"))
        score = data.get("scores", data) if isinstance(data, dict) else {}
        if isinstance(score, dict) and isinstance(score.get("bleu"), float):
            log.facts |= {"bleu": score["bleu"], "program": "sacreBLEU"}
    if (file := folder / "samples.txt").is_file():
        read_outputs(log, file.read_text("utf-8"))


def read_events(log: Log, path: Path) -> None:
    """Read the scalars of a TensorBoard file.  Raises ModuleNotFoundError without tensorboard."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{path} is a file of TensorBoard, and tensorboard is not installed; export its "
            "scalars as CSV, or: pip install tensorboard"
        ) from None
    events = EventAccumulator(str(path))
    events.Reload()
    for tag in events.Tags()["scalars"]:
        rows = ({"step": event.step, tag: event.value} for event in events.Scalars(tag))
        log.records += records_of(rows)


def read_text(log: Log, name: str, text: str) -> None:
    """Read a table, JSON, JSON lines, or what a program printed."""
    lines = text.splitlines()
    if text.lstrip()[:1] in ("{", "[") and (data := parsed(text)) is not None:
        rows = data.get("log_history", data) if isinstance(data, dict) else data
        log.records += records_of(rows if isinstance(rows, list) else [rows])
        return
    rows = [re.match(r"(.*?)(\{\s*['\"].*\})", line) for line in lines]
    objects = [(row[1], parsed(row[2])) for row in rows if row]
    if objects := [pair for pair in objects if isinstance(pair[1], dict)]:
        log.records += records_of([pair[1] for pair in objects], [pair[0] for pair in objects])
    elif table := table_in(name, lines):
        log.records += records_of(table)
    else:
        log.records += printed_records(lines)
    read_facts(log, text)


def parsed(text: str) -> Any:
    """The value of a text in JSON or as Python prints it, None for any other text."""
    for read_value in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read_value(text.strip())
    return None


def table_in(name: str, lines: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table with named columns, none where it is no table."""
    head = lines[0] if lines else ""
    separator = max(",\t;", key=head.count)
    if re.search(r"[:=]\s*\d", head) or not any(map(meaning, head.split(separator))):
        if head.split(",") != ["Wall time", "Step", "Value"]:
            return []
    rows = list(csv.DictReader(lines, delimiter=separator))
    if rows and "Value" in rows[0]:  # TensorBoard writes the name of the scalar into the file's
        return [{"step": row["Step"], name: row["Value"]} for row in rows]
    return rows if all(None not in row for row in rows) else []


def meaning(name: str) -> str:
    """The key that a name means: 'loss' of valid_loss, '' for none."""
    words = re.sub(r"[_./\-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)).lower()
    return next((key for key, pattern in KEYS.items() if re.search(pattern, words)), "")


def split_of(name: str) -> str:
    """The split that a name or the beginning of a line speaks of, '' for none."""
    words = name.replace("_", " ").replace("/", " ")
    return "validation" if VALIDATION.search(words) else "test" if TEST.search(words) else ""


def records_of(rows: Iterable[Any], prefixes: Sequence[str] = ()) -> Iterator[Record]:
    """The records of rows of named numbers, one for each split that a row measures."""
    for number, row in enumerate(row for row in rows if isinstance(row, dict)):
        if "train_runtime" in row:  # the mean of the whole run
            continue
        around = split_of(prefixes[number]) if number < len(prefixes) else ""
        values = []
        for name, value in row.items():
            try:
                values.append((str(name), float(str(value).replace(",", ""))))
            except ValueError:
                continue
        yield from grouped(values, around or "train", {})


def grouped(
    values: Sequence[tuple[str, float]], around: str, carried: dict[str, float]
) -> Iterator[Record]:
    """The records of named numbers; `carried` keeps the epoch and update of earlier ones."""
    splits: dict[str, dict[str, float]] = {}
    for name, value in values:
        if (key := meaning(name)) in ("epoch", "update"):
            carried[key] = value
        elif key:
            splits.setdefault(split_of(name) or around, {}).setdefault(key, value)
    for split, measured in splits.items():
        if split != "test" or "bleu" in measured:
            yield Record(split, {**carried, **measured})


def printed_records(lines: Sequence[str]) -> Iterator[Record]:
    """The records in printed lines: numbers with a name before them."""
    carried: dict[str, float] = {}
    for line in (part for whole in lines for part in whole.split("\r")):
        pairs = [(m[1], float(m[2].replace(",", "")), m.start()) for m in PAIR.finditer(line)]
        pairs = [pair for pair in pairs if meaning(pair[0])]
        if pairs and not CODE.search(line):
            measures = [start for name, _, start in pairs if meaning(name) in MEASURES]
            before = split_of(line[: min(measures)]) if measures else ""
            yield from grouped([pair[:2] for pair in pairs], before or "train", carried)


def read_facts(log: Log, text: str) -> None:
    """Read settings, sizes, scores and translations that a text holds beside its records."""
    for name, patterns in FACTS.items():
        for pattern in patterns:
            for number in re.findall(pattern, text, re.I)[-1:]:
                log.facts.setdefault(name, float(number.replace(",", "")))
    for name, kinds in KINDS.items():
        for kind in (kind for kind, pattern in kinds.items() if re.search(pattern, text, re.I)):
            log.facts.setdefault(name, kind)
    if "corpus" in log.facts:
        log.facts.setdefault("pairs", float(log.facts["corpus"].replace(",", "")))
    read_outputs(log, text)


def read_outputs(log: Log, text: str) -> None:
    """Read the translations and references that a text shows."""
    for line in text.splitlines():
        if not CODE.search(line):
            log.outputs += [m[1].strip() for m in [WRITTEN.match(line)] if m]
            log.references += [m[1].strip() for m in [EXPECTED.match(line)] if m]
