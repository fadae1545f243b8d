"""What needs a process of its own: signals, closed streams, other encodings, too little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

from case import SENTENCE, Case, Outcome
from readers import COMMANDS
from running import ROOT, apart, call, collect, start

try:
    import fcntl
    import termios
except ModuleNotFoundError:  # Windows, where these cases are left out
    fcntl = termios = None

TRANSLATE = ("translate", "run")
EXPORT = COMMANDS["export"]
LONG = ("train", "own.toml", "--out", "new", "--set", "training.epochs=1000000000")
SHORT = ("train", "own.toml", "--out", "new", "--set", "training.epochs=3")
NEW = ("new/*",)


def process(given: str, arguments: tuple, play: Callable, says="", status=1, **rest) -> Case:
    """A command in a process of its own."""
    return Case("processes", given, arguments, says, status, play=play, slow=True, **rest)


def interrupted(
    case: Case, number: int = signal.SIGINT, ready: str = "", made: str = ""
) -> Outcome:
    """Send a signal when the process has printed `ready`, `made` a file, or waits for input."""
    running = start(case)
    if made:
        while not os.path.exists(made) and running.poll() is None:
            time.sleep(0.05)
    elif ready:
        while line := running.stdout.readline():
            if ready.encode() in line:
                break
    else:
        running.stdin.write(f"{SENTENCE}\n".encode())
        running.stdin.flush()
        while pending(running.stdin):  # when it has read the sentence, it waits for more
            time.sleep(0.05)
    running.send_signal(number)
    return collect(running)


def pending(pipe: BinaryIO) -> int:
    """The bytes in a pipe that its other end has not read yet."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def twice(case: Case, fine: bool = False) -> Outcome:
    """Start the same command twice at once; the outcome is that of the one that was refused.

    Where it is `fine` that both succeed, one after the other, it may be that of the second.
    """
    both = [start(case), start(case)]
    ends = [collect(one) for one in both]
    won = [end for end in ends if end.status == 0]
    lost = [end for end in ends if end.status != 0]
    if fine and not lost:
        return won[1]
    if len(won) != 1:
        return Outcome(None, "", "", f"{len(won)} of two did it: {[end.err for end in ends]}")
    return lost[0]


def piped(case: Case) -> Outcome:
    """Nobody reads what the process prints."""
    running = start(case)
    running.stdout.close()
    running.stdout = None
    return collect(running, case.stdin)


def limited(case: Case, resource_name: str, limit: int) -> Outcome:
    """At most so many bytes: of address space, or in a file, as on a disk that is full."""
    import resource

    kind = getattr(resource, resource_name)
    return apart(case, preexec_fn=partial(resource.setrlimit, kind, (limit, limit)))


small = partial(limited, resource_name="RLIMIT_AS", limit=2 * 2**30)
full = partial(limited, resource_name="RLIMIT_FSIZE", limit=3_000)


def killed_before(case: Case) -> Outcome:
    """Kill an export halfway, see what it leaves, and export again."""
    dying = "import os, nmtcourse.recipes.export as e"
    dying += "; e.readme = lambda *given: os.kill(os.getpid(), 9)"
    code = f"{dying}\nfrom nmtcourse import main; main.main({list(case.arguments)})"
    before = set(os.listdir())
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    left = set(os.listdir()) - before
    if ended.returncode != -signal.SIGKILL or left != {".exported.part"}:
        return Outcome(None, "", "", f"status {ended.returncode}, left {left}")
    return call(case)


CLOSED = {"stdin": None, "preexec_fn": partial(os.close, 0)}
WESTERN = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LINE = SENTENCE.encode()
BIG = ("model.d_model=4096", "model.d_ff=65536", "model.n_encoder_layers=6")
TRAINING = partial(interrupted, ready="epoch   1")
STDIN = {"stdin": "der hund läuft heute .\n".encode(), "says": "\n", "status": 0, "lines": 0}
MINE = b"def make():\n    open('ready', 'w').close()\n    while True: pass\n"
SLOW_MODEL = b"""
import torch
class M(torch.nn.Module):
    def forward(self, s, t):
        open('ready', 'w').close()
        while True: torch.ones(2) + 1
make = M
"""
CASES = [
    process("Ctrl-C while it waits for sentences", TRANSLATE, interrupted, "interrupted", 130),
    process("Ctrl-C while it trains", LONG, TRAINING, "", 0, makes=NEW),
    process(
        "SIGTERM while it trains",
        LONG,
        partial(TRAINING, number=signal.SIGTERM),
        status=0,
        makes=NEW,
    ),
    *(
        process(
            f"Ctrl-C while {what} of nmtlib check runs",
            ("check", "mine.py:make", "--only", "masks"),
            partial(interrupted, made="ready"),
            "interrupted",
            130,
            files={"mine.py": code},
            makes=("__pycache__/*", "ready"),
        )
        for what, code in (("the function", MINE), ("a model", SLOW_MODEL))
    ),
    process("standard input is closed", TRANSLATE, partial(apart, **CLOSED), "standard input"),
    process("the output is not read", TRANSLATE, piped, "", 1, stdin=LINE, lines=0),
    process(
        "input in UTF-8 where the system has cp1252", TRANSLATE, apart, environment=WESTERN, **STDIN
    ),
    process(
        "input in UTF-8 where the system has ASCII", TRANSLATE, apart, environment=ASCII, **STDIN
    ),
    process(
        "an argument in UTF-8 where the system has ASCII",
        (*TRANSLATE, "der hund läuft heute ."),
        apart,
        "\n",
        0,
        lines=0,
        environment=ASCII,
    ),
    process("two trainings in one folder at once", SHORT, twice, makes=NEW),
    process(
        "two resume one training at once",
        COMMANDS["resume"],
        partial(twice, fine=True),
        status=(0, 1),
        makes=("half/*",),
    ),
    process("an export that was killed", EXPORT, killed_before, "", 0, makes=("exported/*",)),
    process("a full disk while it trains", SHORT, full, "make room", makes=NEW),
    process("a full disk while it resumes", COMMANDS["resume"], full, "make room"),
    process("a full disk while it exports", EXPORT, full, ""),
    process(
        "too little memory",
        ("train", "own.toml", "--out", "new", *(p for v in BIG for p in ("--set", v))),
        small,
        "memory",
    ),
    process("python -m nmtlib", ("train", "nonsense"), apart, "the presets are"),
]
CASES = CASES if sys.platform == "linux" else []
