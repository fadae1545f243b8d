"""What needs a process of its own: signals, closed streams, other encodings, too little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from workplace import SENTENCE, Case, Outcome, apart, start

TRANSLATE = ("translate", "run")
LONG = ("train", "own.toml", "--out", "new", "--set", "training.epochs=1000000000")
SHORT = ("train", "own.toml", "--out", "new", "--set", "training.epochs=3")
NEW = ("new/*",)


def process(given: str, arguments: tuple, play: Callable, says="", status=1, **rest) -> Case:
    """A command in a process of its own."""
    return Case("processes", given, arguments, says, status, play=play, slow=True, **rest)


def collect(running: subprocess.Popen, started: float) -> Outcome:
    """What a process answers that is about to end."""
    try:
        out, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        return Outcome(None, "", "", time.monotonic() - started, "it did not end")
    texts = [(data or b"").decode("utf-8", "replace") for data in (out, err)]
    return Outcome(running.returncode, *texts, time.monotonic() - started)


def interrupted(case: Case, number: int = signal.SIGINT, ready: str = "") -> Outcome:
    """Send a signal as soon as the process has printed `ready`, or waits for input."""
    started = time.monotonic()
    running = start(case)
    if ready:
        while line := running.stdout.readline():
            if ready.encode() in line:
                break
    else:
        running.stdin.write(f"{SENTENCE}\n".encode())
        running.stdin.flush()
        time.sleep(8)  # it waits for more
    running.send_signal(number)
    return collect(running, started)


def twice(case: Case) -> Outcome:
    """Start the same command twice at once; the outcome is that of the one that was refused."""
    started = time.monotonic()
    both = [start(case), start(case)]
    ends = [collect(one, started) for one in both]
    won = [end for end in ends if end.status == 0]
    lost = [end for end in ends if end.status != 0]
    if len(won) != 1:
        return Outcome(None, "", "", 0, f"{len(won)} of two did it: {[end.err for end in ends]}")
    return lost[0]


def piped(case: Case) -> Outcome:
    """Nobody reads what the process prints."""
    started = time.monotonic()
    running = start(case)
    running.stdout.close()
    running.stdout = None
    _, err = running.communicate(case.stdin, timeout=60)
    return Outcome(running.returncode, "", err.decode(), time.monotonic() - started)


def small(case: Case) -> Outcome:
    """Two gigabytes of address space."""
    import resource

    limit = 2 * 2**30
    bound = partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))
    return apart(case, preexec_fn=bound)


CLOSED = {"stdin": None, "preexec_fn": partial(os.close, 0)}
WESTERN = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LINE = SENTENCE.encode()
BIG = ("model.d_model=4096", "model.d_ff=65536", "model.n_encoder_layers=6")
TRAINING = partial(interrupted, ready="epoch   1")
CASES = [
    process("Ctrl-C while it waits for sentences", TRANSLATE, interrupted, "interrupted", 130),
    process(
        "Ctrl-C while it trains", LONG, partial(interrupted, ready="epoch   1"), "", 0, makes=NEW
    ),
    process(
        "SIGTERM while it trains",
        LONG,
        partial(TRAINING, number=signal.SIGTERM),
        "",
        0,
        makes=NEW,
    ),
    process("standard input is closed", TRANSLATE, partial(apart, **CLOSED), "standard input"),
    process("nobody reads the output", TRANSLATE, piped, "", 1, stdin=LINE, lines=0),
    process(
        "input in UTF-8 where the system has cp1252",
        TRANSLATE,
        apart,
        "\n",
        0,
        lines=0,
        stdin=b"der hund l\xc3\xa4uft heute .\n",
        environment=WESTERN,
    ),
    process(
        "input in UTF-8 where the system has ASCII",
        TRANSLATE,
        apart,
        "\n",
        0,
        lines=0,
        stdin=b"der hund l\xc3\xa4uft heute .\n",
        environment=ASCII,
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
    process("two trainings in one folder at once", SHORT, twice, "", makes=NEW),
    process(
        "too little memory",
        ("train", "own.toml", "--out", "new", *(p for v in BIG for p in ("--set", v))),
        small,
        "memory",
    ),
    process("python -m nmtlib", ("train", "nonsense"), apart, "the presets are"),
]
CASES = CASES if sys.platform == "linux" else []
