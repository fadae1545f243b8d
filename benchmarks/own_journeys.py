"""Newcomers with text of their own: odd files, the six commands of docs/own_text.md, no setting.

Each journey writes its input as people have it, types the commands of the page as they stand, and
records every line that they print, the seconds, and the BLEU: that of the newcomer's own test
split, and that of the corpus's test sentences, which are more.  With --set it trains the same copy
once more with settings of one's own, and records that score beside the first.

    python benchmarks/own_journeys.py 2000                      # the journey with 2,000 pairs
    python benchmarks/own_journeys.py 2000 --set dropout=0.2    # a training by hand beside it
    python benchmarks/own_journeys.py 2000 --expect             # what training expects today
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from own_sizes import keep as keep_size
from own_sizes import row_of, subsample
from shared import SHIPPED, parser, say, write_result

from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import describe_machine
from nmtcourse.recipes.own_text import plan_for
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.training.history import read_history

RECORD = SHIPPED / "own-journeys.json"
PROGRAM = Path(sys.executable).with_name("nmtlib")
EXPECTED = re.compile(r"(what )?BLEU (of other|to expect)")  # a line of a training's forecast
FORECAST = re.compile(r"about (\d+) min on this machine")


@dataclass(frozen=True)
class Journey:
    """What somebody has, and how many pairs are held out each for validation and for test."""

    corpus: str
    pairs: int
    form: str  # of the files, in words
    write: Callable[[Sequence[Pair]], None]  # into the present folder
    arguments: str  # of `nmtlib data check`, as its own advice completes them
    fixing: str  # what the advice adds to --fix
    held_out: int
    sentence: str  # to be translated

    def commands(self) -> list[str]:
        """The commands of docs/own_text.md for these files."""
        fix = f"--fix clean --split {self.held_out} {self.fixing}".strip()
        return [
            f"nmtlib data check {self.arguments}",
            f"nmtlib data check {self.arguments} {fix}",
            "nmtlib data check clean/own.toml --plot clean.png",
            "nmtlib train clean/own.toml --out runs/mine",
            "nmtlib evaluate runs/mine",
            f"nmtlib translate runs/mine {shlex.quote(self.sentence)}",
        ]


def write_plain(pairs: Sequence[Pair]) -> None:
    """Two files in UTF-8, as the page has them; one side is blank."""
    sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    sides[1][6] = " "
    for lines, name in zip(sides, ("mine.de", "mine.en"), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def write_powershell(pairs: Sequence[Pair]) -> None:
    """Two files as `>` of PowerShell 5 writes them: UTF-16 with a mark, lines that end in CRLF."""
    for side, name in (("source", "mine.de"), ("target", "mine.en")):
        text = "".join(f"{getattr(pair, side)}\r\n" for pair in pairs)
        Path(name).write_bytes("\ufeff".encode("utf-16-le") + text.encode("utf-16-le"))


def write_pandas(pairs: Sequence[Pair]) -> None:
    """A table as `to_csv("mine.tsv", sep="\\t")` of pandas writes it, with the column of its index.

    Some cells were empty when pandas read them: they say nan.
    """
    rows = ["\tGerman\tEnglish\n"]
    for number, pair in enumerate(pairs):
        target = "nan" if number % 100 == 50 else pair.target
        rows.append(f"{number}\t{pair.source}\t{target}\n")
    Path("mine.tsv").write_text("".join(rows), "utf-8")


def write_json_lines(pairs: Sequence[Pair]) -> None:
    """JSON lines as data sets of Hugging Face are saved: nested under `translation`."""
    entries = [
        {"id": str(number), "translation": {"en": pair.source, "zh": pair.target}}
        for number, pair in enumerate(pairs)
    ]
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    Path("mine.jsonl").write_text(lines, "utf-8")


def write_excel(pairs: Sequence[Pair]) -> None:
    """CSV as Excel saves it: a mark, CRLF, `sep=;`, a header, quotes, and breaks inside cells."""
    rows = ["sep=;", "No.;German;English;Remarks"]
    for number, pair in enumerate(pairs, start=1):
        cells = [side.replace('"', '""') for side in (pair.source, pair.target)]
        if number % 500 == 0:  # Alt+Enter
            cells = [cell.replace(" ", "\n", 1) for cell in cells]
        rows.append(f'{number};"{cells[0]}";"{cells[1]}";')
    Path("mine.csv").write_text("\ufeff" + "\r\n".join(rows) + "\r\n", "utf-8", newline="")


DOG = "Ein Hund läuft über eine grüne Wiese."
JOURNEYS = {
    "page": Journey(
        "toy-de-en",
        1_000,
        "two files in UTF-8",
        write_plain,
        "mine.de mine.en",
        "",
        100,
        "der Hund schläft .",
    ),
    "500": Journey(
        "multi30k-de-en",
        500,
        "two files in UTF-16 with CRLF, from PowerShell",
        write_powershell,
        "mine.de mine.en",
        "--encoding utf-16",
        50,
        DOG,
    ),
    "2000": Journey(
        "multi30k-de-en",
        2_000,
        "TSV of pandas with its index; 20 cells are nan",
        write_pandas,
        "mine.tsv",
        "",
        200,
        DOG,
    ),
    "7000": Journey(
        "cmn-en-zh",
        7_000,
        "JSON lines, nested under translation",
        write_json_lines,
        "mine.jsonl",
        "",
        500,
        "I love you.",
    ),
    "29000": Journey(
        "multi30k-de-en",
        29_000,
        "CSV of Excel: sep=;, quotes, breaks inside cells, two more columns",
        write_excel,
        "mine.csv",
        "",
        500,
        DOG,
    ),
}


def follow(command: str) -> dict[str, Any]:
    """Run a command in the present folder; its lines, status and seconds."""
    say(f"$ {command}")
    began, words = time.monotonic(), shlex.split(command)
    lines = []
    with subprocess.Popen(
        [str(PROGRAM), *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            say(f"  {lines[-1]}")
    seconds = round(time.monotonic() - began, 1)
    return {"command": command, "status": process.returncode, "seconds": seconds, "lines": lines}


def score(folder: Path, name: str, assignments: Sequence[str], test: Corpus) -> dict[str, Any]:
    """The row of a run on the corpus's test sentences, as benchmarks/own_sizes.py has it."""
    translator, history = Translator.load(folder), read_history(Run(folder).history_file)
    evaluation, hypotheses = evaluate(translator, test)
    settings = Run(folder).settings()
    plan = plan_for(load_corpus(settings.corpus).train)
    return row_of(name, plan, assignments, settings, history, evaluation, hypotheses)


def travel(name: str, journey: Journey, corpus: Corpus) -> None:
    """Write the input, type the commands, and record what came of it."""
    journey.write(corpus.train)
    steps = [follow(command) for command in journey.commands()]
    forecasts = [match for line in steps[3]["lines"] if (match := FORECAST.search(line))]
    own_scores = [line for line in steps[4]["lines"] if "BLEU" in line]
    row = score(Path("runs/mine"), journey.corpus, [], corpus)
    result = {
        "name": name,
        "corpus": journey.corpus,
        "pairs": journey.pairs,
        "form": journey.form,
        "held_out": journey.held_out,
        "forecast_minutes": int(forecasts[0][1]) if forecasts else None,
        "own_test": own_scores[0].strip() if own_scores else "",
        "by_default": row,
        "by_hand": [],
        "commands": steps,
        "own_toml": Path("clean/own.toml").read_text("utf-8").splitlines(),
    }
    keep({name: result})
    keep_size(row)


def expect_again(name: str) -> None:
    """Put what training expects today into the record of a journey: other journeys add to it."""
    step = follow("nmtlib train clean/own.toml --out runs/expected --minutes 0.01")
    shutil.rmtree("runs/expected")
    (today,) = (line for line in step["lines"] if EXPECTED.match(line))
    journeys = recorded()
    lines = journeys[name]["commands"][3]["lines"]
    journeys[name]["commands"][3]["lines"] = [
        today if EXPECTED.match(line) else line for line in lines
    ]
    keep(journeys)


def train_by_hand(name: str, journey: Journey, assignments: list[str], corpus: Corpus) -> None:
    """Train the copy of a journey with other settings, and record the score beside it."""
    folder = Path("runs") / "-".join(re.sub(r"[^\w.]+", "_", value) for value in assignments)
    changes = " ".join(shlex.join(["--set", value]) for value in assignments)
    step = follow(f"nmtlib train clean/own.toml --out {folder} {changes}")
    if step["status"]:
        raise SystemExit(step["status"])
    journeys = recorded()
    rows = [row for row in journeys[name]["by_hand"] if row["set"] != assignments]
    journeys[name]["by_hand"] = [*rows, score(folder, journey.corpus, assignments, corpus)]
    keep(journeys)


def recorded() -> dict[str, Any]:
    """The journeys of the record by their names."""
    rows = json.loads(RECORD.read_text("utf-8"))["journeys"] if RECORD.is_file() else []
    return {row["name"]: row for row in rows}


def keep(new: dict[str, Any]) -> None:
    """Put journeys into the record, in the order of `JOURNEYS`; say which training was best."""
    with FileLock(RECORD.with_name(f".{RECORD.name}.lock")):
        journeys = recorded() | new
        for row in journeys.values():
            best = max([row["by_default"], *row["by_hand"]], key=lambda training: training["bleu"])
            how = ", ".join(best["set"]) or "as the text asks"
            row["best"] = {"bleu": best["bleu"], "busy_minutes": best["busy_minutes"], "how": how}
        rows = [journeys[name] for name in JOURNEYS if name in journeys]
        result = {"command": "python benchmarks/own_journeys.py NAME", "journeys": rows}
        write_result(RECORD, result | {"machine": describe_machine()})


def main() -> None:
    """Make one journey, or train its copy by hand."""
    options = parser(__doc__)
    options.add_argument("name", choices=JOURNEYS)
    options.add_argument("--folder", type=Path, default=Path("build/journeys"))
    changes: dict[str, Any] = {"action": "append", "default": [], "dest": "assignments"}
    options.add_argument("--set", metavar="KEY=VALUE", help="change a setting", **changes)
    options.add_argument("--expect", action="store_true", help="only say again what to expect")
    given = options.parse_args()
    journey = JOURNEYS[given.name]
    corpus = subsample(journey.corpus, journey.pairs)
    folder = given.folder / given.name
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    if given.expect:
        expect_again(given.name)
    elif given.assignments:
        train_by_hand(given.name, journey, given.assignments, corpus)
    else:
        travel(given.name, journey, corpus)


if __name__ == "__main__":
    main()
