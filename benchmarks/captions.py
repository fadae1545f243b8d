"""From captions without translations to the German-English model that ships with the course.

    python benchmarks/captions.py [--out RUNS]

Five steps, each one command of nmtlib, and hours of two cores in all: a model for the other
direction translates the English captions; a teacher trains on what it wrote; the teacher translates
the German captions; the small model of the preset multi30k-de-en-small trains on both; it is
stored.  What is finished is not made again, and a training that was stopped goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from checkpoints import store
from shared import parser, require_finished, say

from nmtcourse import main as cli
from nmtlib.run import SHIPPED, Run

PRESET = "multi30k-de-en"
PLAIN = {"recipe.r_drop": 0.0, "dropout": 0.2}
OTHER_WAY = {"corpus.name": "multi30k-en-de", "epochs": 12, **PLAIN}
TEACHER = {"recipe.synthetic_ratio": 3.0, "epochs": 8, "warmup": 1000, "average": 3, **PLAIN}


def steps(out: Path) -> Iterator[list[str]]:
    """The commands in their order."""
    backward, forward = out / "backward.tsv", out / "forward.tsv"
    translate = ["--text", "multi30k-captions", "--out"]
    yield training(PRESET, out / "en-de", OTHER_WAY)
    yield ["backtranslate", str(out / "en-de"), *translate, str(backward)]
    yield training(PRESET, out / "teacher", {"recipe.synthetic": [str(backward)], **TEACHER})
    yield ["backtranslate", str(out / "teacher"), "--forward", *translate, str(forward)]
    both = {"recipe.synthetic": [str(backward), str(forward)]}
    yield training(f"{PRESET}-small", out / "student", both)


def training(preset: str, folder: Path, changes: dict) -> list[str]:
    """The command that trains a preset with changed settings, or goes on with it."""
    if Run(folder).state_file.is_file():
        return ["train", "--resume", "--out", str(folder)]
    sets = [part for key, value in changes.items() for part in ("--set", f"{key}={toml(value)}")]
    return ["train", preset, *sets, "--out", str(folder)]


def toml(value: object) -> str:
    """A value as a TOML file has it."""
    return value if isinstance(value, str) else json.dumps(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run each step; raises SystemExit where one fails, KeyboardInterrupt where it is stopped."""
    options = parser(__doc__)
    options.add_argument("--out", type=Path, default=Path("runs/captions"), metavar="RUNS")
    out = options.parse_args(arguments).out
    for command in steps(out):
        say(f"nmtlib {' '.join(command)}")
        if failed := cli.main(command):
            raise SystemExit(failed)
        if command[0] == "train":  # after Ctrl-C it returns 0, too
            require_finished(Run(command[-1]))
    say(json.dumps(store(out / "student", SHIPPED / PRESET), indent=2))


if __name__ == "__main__":
    main()
