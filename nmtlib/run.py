"""A run folder holds all about one run of training; `Run` alone knows the names of its files."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nmtlib.errors import did_you_mean, note
from nmtlib.files import append_line, names_a_file, write_atomically
from nmtlib.settings import Settings

SHIPPED = Path(__file__).parent / "trained"  # the runs that come with the package
RUNS = Path("runs")  # where `nmtlib train` puts others
WEIGHTS = ".safetensors"
# What `write_atomically` leaves of a file of a run where it is killed.
PART = re.compile(
    r"((settings|confidence|[\w.-]+-beam\d[\w.-]*)\.json|(log|samples)\.txt"
    r"|[\w.-]+-beam\d[\w.-]*\.txt|history\.csv|curves\.png"
    r"|(state|best|model|epoch-\d{3,})\.safetensors)\.[0-9a-f]{8}\.part"
)
# Settings and vocabularies once lay in files of their own.
BY_EARLIER = (
    "written by an earlier nmtlib, which kept vocabularies in source.json and target.json; read it "
    "with commit e806aa3f, or train again"
)
# The folders of an absolute path: /home/me/, C:\Users\My Name\, \\server\share\.
FOLDERS = re.compile(r"""(?<![\w.])(?:/[^\s"'=]*/|(?:[A-Za-z]:|\\)[\\/][^"'=]*[\\/])""")


def command_line() -> str:
    """The command that is running, without the paths of this machine."""
    program, *arguments = sys.argv
    path = Path(program)
    # python -m nmtlib runs nmtlib/__main__.py
    name = path.parent.name if path.name == "__main__.py" else path.name
    return shlex.join([name, *(FOLDERS.sub("", argument) for argument in arguments)])


def numbered(stem: Path) -> dict[int, Path]:
    """What exists of `stem`, `stem`-2, `stem`-3, …, by number in ascending order."""
    pattern = re.compile(rf"{re.escape(stem.name)}(?:-(\d+))?")
    paths = [*stem.parent.iterdir()] if stem.parent.is_dir() else []
    matches = [(pattern.fullmatch(path.name), path) for path in paths]
    return dict(sorted((int(match[1] or 1), path) for match, path in matches if match))


def newest_run(stem: Path) -> Path:
    """The run with the highest number of `stem`, `stem`-2, …; FileNotFoundError without any."""
    # Not by time: to evaluate, copy or unpack an older run makes its folder look newer.
    runs = [folder for folder in numbered(stem).values() if Run(folder).settings_file.is_file()]
    if not runs:
        raise FileNotFoundError(f"there is no run {stem} to resume; start one without --resume")
    if len(runs) > 1:
        note(f"resuming {runs[-1]}, the newest of {len(runs)}; for another: --resume --out DIR")
    return runs[-1]


def next_folder(stem: Path) -> Path:
    """`stem`, or if it exists `stem`-N with a number above all others: the newest is the last."""
    last = max(numbered(stem), default=0)
    return stem.with_name(f"{stem.name}-{last + 1}") if last else stem


class Run:
    """The folder of one training run.

    `settings.json` is there from the beginning, `log.txt` and `state.safetensors` (all that a
    resume needs) soon after; each epoch adds `epoch-NNN.safetensors` (the last few are kept, for
    averaging), a row of `history.csv` and, where it validates best so far, `best.safetensors`; the
    end brings `model.safetensors` and `samples.txt`, and each evaluation its scores.

    Each of the `.safetensors` holds settings and codecs too: it translates alone, under any name.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.settings_file = self.folder / "settings.json"
        self.log_file = self.folder / "log.txt"
        self.lock_file = self.folder / ".lock"
        self.state_file = self.folder / "state.safetensors"
        self.best_file = self.folder / "best.safetensors"
        self.model_file = self.folder / "model.safetensors"
        self.history_file = self.folder / "history.csv"
        self.samples_file = self.folder / "samples.txt"
        self.saved = ""  # the last save of this process

    @property
    def ships(self) -> bool:
        """Whether the run comes with the package, however its folder was given."""
        return self.folder.resolve().parent == SHIPPED.resolve()

    @classmethod
    def create(cls, folder: str | Path, settings: Settings) -> Run:
        """Write what a run begins with: its settings.  Raises as `require_free`."""
        run = cls(folder)
        run.require_free()
        run.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(run.settings_file, settings.to_json())
        return run

    def require_free(self) -> None:
        """Raise FileExistsError where the folder holds more than a start that was killed."""
        if not self.is_free():
            raise FileExistsError(
                f"{self.folder} is there already and not empty; nothing is overwritten: continue "
                f"it with --resume, or choose another --out"
            )

    def is_free(self) -> bool:
        """Whether the folder is missing, or holds only a start that was killed."""
        if not self.folder.exists():
            return True
        if not self.folder.is_dir():
            return False
        return all(
            path == self.lock_file or PART.fullmatch(path.name) for path in self.folder.iterdir()
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """No other process trains in this folder while the block runs.

        Raises FileExistsError where one does.  The lock ends with the process, however that ends.
        What a killed run left half written is removed, and so is a folder that stays empty.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.lock_file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FileExistsError(
                f"another training is running in {self.folder}; wait until it has ended, or "
                f"choose another --out"
            ) from None
        try:
            for path in self.folder.iterdir():
                if PART.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                self.lock_file.unlink()
            lock.release()
            with suppress(OSError):  # where nothing was written: it would block the next try
                self.folder.rmdir()

    def epoch_file(self, epoch: int) -> Path:
        """The weights after one epoch, counted from 1."""
        return self.folder / f"epoch-{epoch:03d}.safetensors"

    def weights_file(self, checkpoint: str = "") -> Path:
        """The weights to translate with: those chosen at the end, until then the best epoch's.

        `checkpoint` names others, such as "epoch-003".  Raises FileNotFoundError where they are not
        there, or before the first epoch has ended.
        """
        there = {path.stem: path for path in sorted(self.folder.glob("*.safetensors"))}
        files = {name: path for name, path in there.items() if path.is_file()}
        for name in (checkpoint,) if checkpoint else ("model", "best"):
            if name in files:
                return files[name]
        if checkpoint:
            have = ", ".join(files) or "none"
            raise FileNotFoundError(
                f"{self.folder} has no checkpoint {checkpoint!r}; it has {have}"
            )
        raise FileNotFoundError(
            f"{self.folder} holds no weights yet: its first epoch has not ended; continue with: "
            f"nmtlib train --resume --out {self.folder}"
        )

    def settings(self) -> Settings:
        """What the run was started with.  Raises FileNotFoundError where the folder is no run."""
        if not self.settings_file.is_file():
            raise FileNotFoundError(
                f"{self.folder} is not a run folder (it has no {self.settings_file.name}); "
                f"train one with: nmtlib train PRESET --out {self.folder}"
            )
        return Settings.load(self.settings_file)

    def state_digest(self) -> str:
        """SHA-256 of the header of `state_file`, which holds that of its tensors; '' without one.

        Not its time: a file system may round it, and `touch` changes it.
        """
        try:
            with open(self.state_file, "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                return hashlib.sha256(file.read(min(size, 2**27))).hexdigest()
        except OSError:
            return ""

    def require_present(self) -> None:
        """Raise FileNotFoundError unless the folder is there with what this process saved last.

        A folder that is deleted or moved while it trains must not be made anew: it would hold the
        end of a run without its beginning.
        """
        if not self.folder.is_dir() or (self.saved and self.saved != self.state_digest()):
            raise FileNotFoundError(
                f"{self.folder} was deleted, moved or replaced while it trained, so the run ends; "
                f"what was moved is sound: continue it with --resume --out and its new place"
            )

    def require_current(self) -> None:
        """Raise ValueError where an earlier nmtlib began the run, which cannot go on here."""
        if (self.folder / "last.safetensors").is_file():
            raise ValueError(f"{self.folder} was {BY_EARLIER}")

    def require_untrained(self) -> None:
        """Raise FileExistsError where a run has left weights or a history; make the folder."""
        if not self.folder.is_dir():  # each process asks, and one alone writes
            self.folder.mkdir(parents=True, exist_ok=True)
        if there := [*self.folder.glob("*.safetensors"), *self.folder.glob(self.history_file.name)]:
            raise FileExistsError(
                f"{self.folder} holds {there[0].name}, and nothing is overwritten; without "
                f"{self.state_file.name} it cannot be resumed: resume it, or choose another folder"
            )

    def reporting(self, report: Callable[[str], None]) -> Callable[[str], None]:
        """A function that reports a line and appends it to the log of the run."""

        def both(line: str) -> None:
            report(line)
            append_line(self.log_file, line)

        return both

    def command(self) -> str | None:
        """The command that started the run; None where it keeps no log."""
        log = self.log_file.read_text("utf-8") if self.log_file.is_file() else ""
        return log.partition("\n")[0].removeprefix("$ ") or None


def is_one_file(run: str | Path) -> bool:
    """Whether this is a file of weights, alone, and no run folder or name."""
    return Path(run).suffix == WEIGHTS and names_a_file(run)


def find_weights(run: str | Path, checkpoint: str = "") -> Path:
    """The weights to translate with: a file itself, or those of a run as `Run.weights_file` does.

    Raises FileNotFoundError as `find_run` and `Run.weights_file` do.
    """
    if is_one_file(run):
        if checkpoint:
            raise ValueError(
                f"{run} is one file of weights; for checkpoint={checkpoint!r} give the run folder"
            )
        return Path(run)
    return find_run(run).weights_file(checkpoint)


def named_runs() -> dict[str, Run]:
    """The runs that ship with the package and those in `RUNS`, by name; by path if it is taken."""
    runs: dict[str, Run] = {}
    for file in [*sorted(SHIPPED.glob("*/settings.json")), *sorted(RUNS.glob("*/settings.json"))]:
        folder = file.parent
        runs[str(folder) if folder.name in runs else folder.name] = Run(folder)
    return runs


def is_sentence(text: str) -> bool:
    """Whether a text looks like a sentence to translate, and not like the name of a run."""
    ends = text.endswith((".", "!", "?", "。", "！", "？"))
    return len(text.split()) > 1 or (ends and any(map(str.isalpha, text)))  # . is a folder


def find_run(run: str | Path) -> Run:
    """The run in a folder, or the one of that name.

    A shipped run goes before one trained here, and says so: the same name gives the same scores
    whatever the current folder is.
    """
    folder, named = Run(run), named_runs()
    if names_a_file(folder.settings_file) or names_a_file(folder.model_file):
        return folder
    if names_a_file(run):
        raise FileNotFoundError(
            f"{run} is one file, which translates; this needs the run folder that it comes from"
        )
    if str(run) not in named:
        name = str(run) if len(str(run)) <= 200 else f"{str(run)[:200]}…"
        if is_sentence(name):
            raise FileNotFoundError(
                f"{name!r} is not a run folder; to translate it, name a model with --model: "
                f"{', '.join(named)}"
            )
        itself = f"; to translate the word: nmtlib translate --model NAME {name}"
        raise FileNotFoundError(
            f"{name} is not a run folder{did_you_mean(name, named)}; train one with: "
            f"nmtlib train PRESET --out {name}; or take one of these: {', '.join(named)}"
            f"{itself if name.isalpha() else ''}"
        )
    if named[str(run)].ships and Run(own := RUNS / run).settings_file.is_file():
        note(f"{run} is the model that ships with nmtlib; for the one trained here give {own}")
    return named[str(run)]
