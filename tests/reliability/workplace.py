"""Where a bad input is tried: a folder with a tiny corpus and two tiny runs, and what came out."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from nmtlib import cli

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

ROOT = Path(__file__).parents[2]
SECONDS = 20.0  # for one case, on a busy machine; most take some hundredths
MEMORY = 4 * 2**30  # bytes that a case may take beyond what the process has

GERMAN = ("der hund", "die katze", "das kind", "die frau"), ("läuft", "schläft", "singt")
ENGLISH = ("the dog", "the cat", "the child", "the woman"), ("runs", "sleeps", "sings")
TIMES = (("heute", "today"), ("hier", "here"), ("nie", "never"))
SENTENCE = "der hund schläft heute ."
PRESET = """
[corpus]
source_language = "de"
target_language = "en"
train = ["train.tsv"]
validation = ["validation.tsv"]
test = ["test.tsv"]

[tokenizer]
kind = "whitespace"

[model]
d_model = 16
n_heads = 2
n_encoder_layers = 1
n_decoder_layers = 1
d_ff = 32
max_length = 20
norm = "pre"

[training]
epochs = 2
max_tokens = 128
learning_rate = 5e-3
warmup = 5
average = 2
precision = "fp32"
device = "cpu"

[decoding]
beam = 2
"""


@dataclass(frozen=True)
class Outcome:
    """What a command answered.  `wrong` is a traceback, where there is one."""

    status: int | None
    out: str
    err: str
    seconds: float
    wrong: str = ""


@dataclass(frozen=True)
class Case:
    """One bad input: what is given, how, and what must be answered.

    `arguments` are those of `nmtlib`; `files` are written and `damage` is done before, in the
    folder where the command runs.  `says` is a part of the answer, which is one line on stderr, or
    `lines` of them, or where `printed` on stdout.  A status of 0 means odd, but fine; what is
    written then is `makes`.  `play` runs the command otherwise, `slow` in a process of its own.
    """

    category: str
    given: str
    arguments: tuple[str, ...]
    says: str = ""
    status: int | tuple[int, ...] = 1
    files: Mapping[str, bytes] = field(default_factory=dict)
    damage: Callable[[Path], object] | None = None
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    lines: int = 1
    printed: bool = False
    makes: tuple[str, ...] = ()
    play: Callable[[Case], Outcome] | None = None
    slow: bool = False

    @property
    def statuses(self) -> tuple[int, ...]:
        """The exit statuses that are right."""
        return self.status if isinstance(self.status, tuple) else (self.status,)

    @property
    def name(self) -> str:
        """What distinguishes the case from all others."""
        return f"{self.category}: {self.given}: {' '.join(self.arguments)[:80]}"


class TooSlow(BaseException):
    """A case did not end in time; nothing in the package catches this."""


class Workplace:
    """A folder that is as before for each case."""

    def __init__(self, folder: Path):
        """Make the corpus and the runs: `run` is finished, `half` was killed after one epoch."""
        self.folder = folder
        rows = [
            f"{s[0]} {v[0]} {t[0]} .\t{s[1]} {v[1]} {t[1]} .\n"
            for s, v, t in itertools.product(
                zip(GERMAN[0], ENGLISH[0], strict=True),
                zip(GERMAN[1], ENGLISH[1], strict=True),
                TIMES,
            )
        ]
        splits = {"test": rows[::7], "validation": rows[3::7], "train": rows}
        for split, lines in splits.items():
            (folder / f"{split}.tsv").write_bytes("".join(lines).encode())
        for side, column in (("de", 0), ("en", 1)):
            text = "".join(row.strip().split("\t")[column] + "\n" for row in rows)
            (folder / f"train.{side}").write_bytes(text.encode())
        (folder / "own.toml").write_bytes(PRESET.encode())
        with within(folder), contextlib.redirect_stdout(io.StringIO()):
            self.train()
        self.before = contents(folder)

    def train(self) -> None:
        """The two runs."""
        from nmtlib.experiment import train
        from nmtlib.presets import load_settings

        settings = load_settings("own.toml")
        train("run", settings)

        def kill(trainer):
            raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            train("half", settings.with_value("training.epochs", 3), after_epoch=kill)

    def restore(self) -> None:
        """Everything as it was before the first case."""
        for name, data in contents(self.folder).items():
            if name not in self.before:
                (self.folder / name).unlink()
            elif data != self.before[name]:
                (self.folder / name).write_bytes(self.before[name])
        wanted = {self.folder / parent for name in self.before for parent in Path(name).parents}
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_symlink() or (path.is_dir() and path not in wanted):
                path.unlink() if path.is_symlink() else path.rmdir()
        for name in self.before.keys() - contents(self.folder).keys():
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.before[name])

    def play(self, case: Case) -> tuple[Outcome, list[str]]:
        """Try a case; returns what came out, and what is wrong with it."""
        with within(self.folder):
            try:
                for name, data in case.files.items():
                    Path(name).parent.mkdir(parents=True, exist_ok=True)
                    Path(name).write_bytes(data)
                if case.damage:
                    case.damage(self.folder)
                before = contents(self.folder)
                outcome = (case.play or call)(case)
                after = contents(self.folder)
            finally:
                self.restore()
        return outcome, [*judge(case, outcome), *changes(case, before, after)]


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder with what they hold."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextlib.contextmanager
def within(folder: Path) -> Iterator[None]:
    """Run the block in another current folder."""
    old = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(old)


def call(case: Case) -> Outcome:
    """Run the command in this process, with streams, environment, time and memory of its own."""
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (case.stdin, b"", b"")]
    status, wrong, started = None, "", time.monotonic()
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
    return Outcome(status, *texts, time.monotonic() - started, wrong)


def apart(case: Case, **options) -> Outcome:
    """Run the command in a process of its own, for what would stop or end this one."""
    started = time.monotonic()
    process = start(case, **options)
    try:
        out, err = process.communicate(case.stdin or None, timeout=3 * SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Outcome(None, "", "", time.monotonic() - started, "it did not end")
    texts = [(data or b"").decode("utf-8", "replace") for data in (out, err)]
    return Outcome(process.returncode, *texts, time.monotonic() - started)


def start(case: Case, **options) -> subprocess.Popen:
    """The process of a command; `options` are those of Popen."""
    command = [sys.executable, "-m", "nmtlib", *case.arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options = {**pipes, "env": {**environment, **case.environment}, **options}
    return subprocess.Popen(command, **options)


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """A time after which TooSlow is raised, and a bound for memory, where the system has them."""
    threads = torch.get_num_threads()
    if resource is None:
        yield
        return

    def late(number, frame):
        raise TooSlow

    old_handler = signal.signal(signal.SIGALRM, late)
    old_limit = resource.getrlimit(resource.RLIMIT_AS)
    used = used_memory()
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, old_limit[1]))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, old_limit)
        signal.signal(signal.SIGALRM, old_handler)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(True)  # TooSlow may have come between off and on


def used_memory() -> int:
    """The address space of this process in bytes; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def judge(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with an answer, as sentences; none where it is right."""
    if outcome.wrong:
        return [outcome.wrong]
    found = []
    if outcome.status not in case.statuses:
        found.append(f"status {outcome.status}, expected {case.status}")
    lines = outcome.err.splitlines()
    if outcome.status == 2 and lines and lines[0].startswith("usage: "):
        lines = lines[-1:]
        lines[0] = lines[0].replace("nmtlib ", "nmtlib: ", 1)  # argparse: "nmtlib train: error: …"
    said = outcome.out if outcome.status == 0 or case.printed else "\n".join(lines)
    if 0 not in case.statuses and not case.printed and len(lines) != case.lines:
        found.append(f"{len(lines)} lines on stderr, expected {case.lines}")
    if 0 in case.statuses and len(lines) > case.lines:
        found.append(f"{len(lines)} lines on stderr, expected at most {case.lines}")
    if any(not line.startswith("nmtlib: ") for line in lines):
        found.append("a line on stderr does not start with 'nmtlib: '")
    if outcome.status != 0 and not case.printed and lines and len(lines[0]) < 25:
        found.append("the line explains nothing")
    if any(len(line) > 2_000 for line in lines):
        found.append("a line is longer than anybody reads")
    if case.says not in said:
        found.append(f"{case.says!r} is not said")
    if outcome.seconds > (3 * SECONDS if case.slow else SECONDS):
        found.append(f"it took {outcome.seconds:.0f} s")
    return found + ([f"stderr: {outcome.err[-1500:]}"] if found else [])


def changes(case: Case, before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What happened to files that should not have."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        locked = name.endswith("/.lock") and name.replace(".lock", "settings.json") in before
        if locked or any(Path(name).match(pattern) for pattern in case.makes):
            continue
        if name not in after:
            found.append(f"lost: {name}")
        elif name not in before:
            found.append(f"left behind: {name}")
        elif Path(name).name == "log.txt" and after[name].startswith(before[name]):
            continue
        elif before[name] != after[name]:
            found.append(f"changed: {name}")
    return found
