"""Kill -9 at every file operation of a small training: can it be taken up, to the same result?

    python benchmarks/kills.py               # every point, several minutes
    python benchmarks/kills.py --every 10    # each tenth; writes no file unless --out is given
    python benchmarks/kills.py --every 10 --first 3  # the fourth and each tenth after it

A training is forked once for each operation on its run folder (a file opened for writing, renamed
or removed, a folder made or removed) and killed just before it; where a file is opened under its
own name, once more with the writing half done.  Then `train --resume` must succeed, or where there
is nothing to resume the same `train` again: otherwise the run is *stuck*.  It is *stale* where what
it ends with, apart from measured times, is not what an undisturbed training ends with.  Some
resumed trainings are killed once more.  Writes results/kills.json; exit status 1 where a run is
stuck or stale.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nmtlib.experiment  # noqa: F401  (once, before all forks)

# isort: split
import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.figure  # noqa: F401
import torch
from killing import Point, fork, trace

from nmtlib.run import Run
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import read_history

RESULT = Path(__file__).parent / "results" / "kills.json"
NOUNS, VERBS, TIMES = ("hund", "katze", "kind"), ("läuft", "singt"), ("heute", "hier", "nie")
PAIRS = [
    (f"{noun} {verb} {time}", f"{time[::-1]} {noun[::-1]} {verb[::-1]}")
    for noun in NOUNS
    for verb in VERBS
    for time in TIMES
]
PRESET = """
[corpus]
source_language = "de"
target_language = "en"
train = ["train.tsv"]
validation = ["train.tsv"]
[tokenizer]
kind = "whitespace"
[model]
d_model = 8
n_heads = 2
n_encoder_layers = 1
n_decoder_layers = 1
d_ff = 8
max_length = 8
[training]
epochs = 3
max_tokens = 16
average = 2
save_updates = 2
learning_rate = 5e-3
warmup = 3
precision = "fp32"
device = "cpu"
[decoding]
beam = 1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill a training everywhere, take it up again, and write what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th point only")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="points to leave out")
    parser.add_argument("--again", type=int, default=8, metavar="N", help="resumes killed, too")
    parser.add_argument("--out", type=Path, help=f"default: {RESULT.name}, if all points are tried")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # a fork keeps one thread only
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), "utf-8")
        Path("own.toml").write_text(PRESET, "utf-8")
        result = kill_everywhere(options.every, options.again, options.first)
        os.chdir(Path(__file__).parent)
    command = " ".join(["python benchmarks/kills.py", *(arguments or sys.argv[1:])])
    versions = {name: version(name) for name in ("torch", "safetensors", "filelock")}
    result |= {"command": command, "versions": {"python": platform.python_version(), **versions}}
    print(json.dumps({key: result[key] for key in ("points", "recovered", "stuck", "stale")}))
    if path := options.out or (RESULT if options.every == 1 else None):
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 1 if result["stuck"] or result["stale"] else 0


def kill_everywhere(every: int, again: int, first: int = 0) -> dict[str, Any]:
    """What became of a training that was killed at each `every`-th point after the `first`."""
    undisturbed = Path("undisturbed")
    operations = trace(START, undisturbed)
    expected = ending(undisturbed)
    points = [Point(number) for number in range(1, len(operations) + 1)]
    points += [
        Point(n, True) for n, (_, name) in enumerate(operations, 1) if written_in_place(name)
    ]
    points = points[first::every]
    stuck, stale = [], []
    for number, point in enumerate(points):
        twice = [None, *(Point(k) for k in (1, 4, 9))] if number % max(again, 1) == 0 else [None]
        for second in twice:
            where = " ".join(operations[point.number - 1]) + (" (half)" if point.within else "")
            where += f", then operation {second.number} of the resumed" if second else ""
            try:
                found = ending(kill_and_resume(point, second))
            except Stuck as error:
                stuck.append({"killed_at": where, "says": str(error)})
                continue
            if wrong := [name for name in expected if found.get(name) != expected[name]]:
                stale.append({"killed_at": where, "differs": wrong})
            elif left := sorted(found.keys() - expected.keys()):
                stale.append({"killed_at": where, "left_behind": left})
    tried = sum(4 if number % max(again, 1) == 0 else 1 for number in range(len(points)))
    kinds = [event for event, _ in operations]
    return {
        "operations": {event: kinds.count(event) for event in sorted(set(kinds))},
        "points": tried,
        "recovered": tried - len(stuck) - len(stale),
        "stuck": stuck,
        "stale": stale,
    }


class Stuck(Exception):
    """A killed training can neither be resumed nor be started anew."""


START = ("train", "own.toml", "--out", "{}")
RESUME = ("train", "--resume", "--out", "{}")


def kill_and_resume(point: Point, second: Point | None) -> Path:
    """Kill a training, and its resumption where a second point is given; then let it end."""
    folder = Path("killed")
    shutil.rmtree(folder, ignore_errors=True)
    fork(START, folder, point)
    if second:
        fork(RESUME, folder, second)
    resumed, why = fork(RESUME, folder)
    if resumed != 0:
        started, why_not = fork(START, folder)
        if started != 0:
            raise Stuck(f"{why.strip()} | {why_not.strip()}")
    return folder


def written_in_place(name: str) -> bool:
    """Whether a file is opened under its own name, so that a kill can leave half of it."""
    return not name.endswith(".part") and name.endswith((".txt", ".png", ".csv", ".json"))


def ending(folder: Path) -> dict[str, Any]:
    """What a training ended with: each file but the log and measured times."""
    found: dict[str, Any] = {}
    run = Run(folder)
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            saved = read_checkpoint(path)
            numbers = {name: tensor.double().tolist() for name, tensor in saved.tensors.items()}
            header = saved.header.model_dump(exclude={"sha256"})
            found[path.name] = (saved.config, numbers, timeless(header))
        elif path == run.history_file:
            found[path.name] = [timeless(vars(record)) for record in read_history(path)]
        elif path not in (run.log_file, run.folder / "curves.png", run.lock_file):
            found[path.name] = path.read_bytes()
    curves = run.folder / "curves.png"
    found["log and curves"] = run.log_file.is_file() and curves.stat().st_size > 1000
    return found


def timeless(value: Any) -> Any:
    """The value without what a clock measured."""
    if isinstance(value, dict):
        times = ("seconds", "busy_seconds", "epoch_seconds", "tokens_per_second", "sha256")
        return {key: timeless(v) for key, v in value.items() if key not in times}
    return [timeless(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    raise SystemExit(main())
