"""Kill -9 at every file operation of a small training: can it be taken up, to the same result?

    python benchmarks/kills.py               # every point, several minutes
    python benchmarks/kills.py --every 10    # each tenth; writes no file unless --out is given

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
import contextlib
import io
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nmtlib.experiment  # noqa: F401  (once, before all forks)

# isort: split
import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.figure  # noqa: F401
import torch

from nmtlib import cli
from nmtlib.run import Run
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import read_history

RESULT = Path(__file__).parent / "results" / "kills.json"
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
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


@dataclass(frozen=True)
class Point:
    """Where a training is killed: at its `number`-th operation, counted from 1, or within it."""

    number: int
    within: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill a training everywhere, take it up again, and write what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th point only")
    parser.add_argument("--again", type=int, default=8, metavar="N", help="resumes killed, too")
    parser.add_argument("--out", type=Path, help=f"default: {RESULT.name}, if all points are tried")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # a fork keeps one thread only
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), "utf-8")
        Path("own.toml").write_text(PRESET, "utf-8")
        result = kill_everywhere(options.every, options.again)
        os.chdir(Path(__file__).parent)
    command = " ".join(["python benchmarks/kills.py", *(arguments or sys.argv[1:])])
    versions = {name: version(name) for name in ("torch", "safetensors", "filelock")}
    result |= {"command": command, "versions": {"python": platform.python_version(), **versions}}
    print(json.dumps({key: result[key] for key in ("points", "recovered", "stuck", "stale")}))
    if path := options.out or (RESULT if options.every == 1 else None):
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 1 if result["stuck"] or result["stale"] else 0


def kill_everywhere(every: int, again: int) -> dict[str, Any]:
    """What became of a training that was killed at each `every`-th point."""
    undisturbed = Path("undisturbed")
    operations = trace(START, undisturbed)
    expected = ending(undisturbed)
    points = [Point(number) for number in range(1, len(operations) + 1)]
    points += [
        Point(n, True) for n, (_, name) in enumerate(operations, 1) if written_in_place(name)
    ]
    points = points[::every]
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


def trace(command: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """The operations that an undisturbed command does in the folder: what, and with which file."""
    status, said = fork(command, folder, log=Path("trace.txt"))
    if status != 0:
        raise SystemExit(f"the undisturbed training failed: {said}")
    lines = Path("trace.txt").read_text("utf-8").splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def written_in_place(name: str) -> bool:
    """Whether a file is opened under its own name, so that a kill can leave half of it."""
    return not name.endswith(".part") and name.endswith((".txt", ".png", ".csv", ".json"))


def fork(
    command: Sequence[str], folder: Path, point: Point | None = None, log: Path | None = None
) -> tuple[int, str]:
    """Run a command in a child that is killed at a point; its status (-9: killed), what it said."""
    said = Path("said.txt")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            with open(said, "w", encoding="utf-8") as errors, silence(errors):
                watch(folder.absolute(), point, log)
                status = cli.main([part.format(folder) for part in command])
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), said.read_text("utf-8")


@contextlib.contextmanager
def silence(errors: io.TextIOBase) -> Iterator[None]:
    """Send standard error to a file and standard output nowhere."""
    with (
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(errors),
    ):
        yield


def watch(folder: Path, point: Point | None, log: Path | None) -> None:
    """Count this process's operations in the folder, and kill it at a point."""
    number, busy = 0, False

    def hook(event: str, arguments: tuple) -> None:
        nonlocal number, busy
        if busy or event not in EVENTS or not (name := operation(event, arguments, folder)):
            return
        number += 1
        busy = True  # what follows is our own
        if log:
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{event} {name}\n")
        if point and number == point.number:
            if point.within:
                write_half(folder / name)
            os.kill(os.getpid(), signal.SIGKILL)
        busy = False

    sys.addaudithook(hook)


def operation(event: str, arguments: tuple, folder: Path) -> str:
    """The file in the folder that an event is about to change; '' where there is none."""
    path = arguments[0]
    if not isinstance(path, (str, os.PathLike)):
        return ""  # a number: a file that is open already
    if event == "open":
        _, mode, flags = arguments
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        if not (set("wax+") & set(mode) if mode else flags & changing):
            return ""
    place = Path(os.path.abspath(path))
    if place == folder:
        return "."
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else ""


def write_half(path: Path) -> None:
    """What a kill within a write can leave: an appended line without its end, half a file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("torn")


def ending(folder: Path) -> dict[str, Any]:
    """What a training ended with: each file but the log and measured times."""
    found: dict[str, Any] = {}
    run = Run(folder)
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            config, tensors, notes = read_checkpoint(path)
            numbers = {name: tensor.double().tolist() for name, tensor in tensors.items()}
            found[path.name] = (config, numbers, timeless(notes))
        elif path == run.history_file:
            found[path.name] = [timeless(vars(record)) for record in read_history(path)]
        elif path not in (run.log_file, run.curves_file, run.lock_file):
            found[path.name] = path.read_bytes()
    found["log and curves"] = run.log_file.is_file() and run.curves_file.stat().st_size > 1000
    return found


def timeless(value: Any) -> Any:
    """The value without what a clock measured."""
    if isinstance(value, dict):
        times = ("seconds", "epoch_seconds", "tokens_per_second", "sha256")
        return {key: timeless(v) for key, v in value.items() if key not in times}
    return [timeless(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    raise SystemExit(main())
