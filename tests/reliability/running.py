"""Run a command, in this process or in one of its own, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from case import SECONDS, Case, Outcome
from limits import NO_PROGRESS

from nmtcourse import main as cli

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

ROOT = Path(__file__).parents[2]
MEMORY = 4 * 2**30  # bytes that a case may take beyond what the process has


class TooSlow(BaseException):
    """A case did not end in time; nothing in the package catches this."""


def call(case: Case) -> Outcome:
    """Run the command in this process, with streams, environment, time and memory of its own."""
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (case.stdin, b"", b"")]
    status, wrong = None, ""
    old_streams, old_environment = (sys.stdin, sys.stdout, sys.stderr), dict(os.environ)
    old_path = list(sys.path)
    with limits(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        try:
            sys.stdin, sys.stdout, sys.stderr = streams
            os.environ.update(case.environment)
            status = cli.main(list(case.arguments))
        except SystemExit as end:
            status = end.code
        except TooSlow:
            wrong = "it did not end"
        except BaseException:
            wrong = traceback.format_exc()
        finally:
            sys.stdin, sys.stdout, sys.stderr = old_streams
            os.environ.clear()
            os.environ.update(old_environment)
            sys.path[:] = old_path
    texts = []
    for stream in streams[1:]:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    texts[1] += "".join(f"{warning.message}\n" for warning in caught)
    return Outcome(status, *texts, wrong)


def apart(case: Case, **options) -> Outcome:
    """Run the command in a process of its own, for what would stop or end this one."""
    return collect(start(case, **options), case.stdin or None)


def collect(process: subprocess.Popen, stdin: bytes | None = None) -> Outcome:
    """What a process answers that is about to end."""
    try:
        out, err = process.communicate(stdin, timeout=NO_PROGRESS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Outcome(None, "", "", "it did not end")
    texts = [(data or b"").decode("utf-8", "replace") for data in (out, err)]
    return Outcome(process.returncode, *texts)


def start(case: Case, **options) -> subprocess.Popen:
    """The process of a command; `options` are those of Popen."""
    command = [sys.executable, "-m", "nmtcourse", *case.arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options = {**pipes, "env": {**environment, **case.environment}, **options}
    # What a shell starts in the background ignores Ctrl-C, and its children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Raise TooSlow after some processor time, and bound the memory, where the system can."""
    threads = torch.get_num_threads()
    if resource is None:
        yield
        return

    def late(number, frame):
        raise TooSlow

    old_handler = signal.signal(signal.SIGPROF, late)
    old_limit = resource.getrlimit(resource.RLIMIT_AS)
    used = used_memory()
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, old_limit[1]))
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, old_limit)
        signal.signal(signal.SIGPROF, old_handler)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(True)  # TooSlow may have come between off and on


def used_memory() -> int:
    """The address space of this process in bytes; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()
