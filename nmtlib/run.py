"""A run folder holds everything about one training; `Run` alone knows the names of its files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nmtlib.data.codec import Codec
from nmtlib.files import write_atomically
from nmtlib.presets import load_settings
from nmtlib.settings import Settings

PARTS = "*.????????.part"  # what `write_atomically` leaves where it is killed


def newest_run(stem: Path) -> Path:
    """Of the runs in `stem`, `stem`-2, `stem`-3, …, the folder of the one that was saved last.

    Raises FileNotFoundError where there is none.
    """
    numbered = re.compile(rf"{re.escape(stem.name)}(-\d+)?")
    folders = [path for path in stem.parent.glob("*") if numbered.fullmatch(path.name)]
    runs = [run for run in map(Run, folders) if run.settings_file.is_file()]
    if not runs:
        raise FileNotFoundError(f"there is no run {stem} to resume; start one without --resume")
    return max(runs, key=Run.saved_at).folder


class Run:
    """The folder of one training run.

    `settings.json`, `source.json` and `target.json` (the codecs) are there from the beginning,
    `log.txt` and `last.safetensors` (all that a resume needs) soon after; each epoch adds
    `epoch-NNN.safetensors` (the last few are kept, for averaging), a row of `history.csv` and,
    where it validates best so far, `best.safetensors`; the end brings `model.safetensors`,
    `curves.png` and `samples.txt`, and each evaluation its scores.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.settings_file = self.folder / "settings.json"
        self.log_file = self.folder / "log.txt"
        self.lock_file = self.folder / ".lock"
        self.last_file = self.folder / "last.safetensors"
        self.best_file = self.folder / "best.safetensors"
        self.model_file = self.folder / "model.safetensors"
        self.history_file = self.folder / "history.csv"
        self.curves_file = self.folder / "curves.png"
        self.samples_file = self.folder / "samples.txt"

    @classmethod
    def create(cls, folder: str | Path, settings: Settings, source: Codec, target: Codec) -> Run:
        """Write what a run begins with.  Raises FileExistsError where there is something already.

        The settings are written last: a folder without them is a start that was interrupted before
        anything was trained, and may be started again.
        """
        run = cls(folder)
        run.require_free()
        run.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(run.codec_file("source"), source.to_json())
        write_atomically(run.codec_file("target"), target.to_json())
        write_atomically(run.settings_file, settings.to_json())
        return run

    def require_free(self) -> None:
        """Raise FileExistsError where the folder holds more than a start that was interrupted."""
        there = set(self.folder.iterdir()) if self.folder.exists() else set()
        if not all(map(self._is_of_a_start, there)):
            raise FileExistsError(
                f"{self.folder} is there already and not empty; nothing is overwritten: continue "
                f"it with --resume, or choose another --out"
            )

    def _is_of_a_start(self, path: Path) -> bool:
        """Whether a start that was interrupted before its settings were written left a file."""
        if path in (self.codec_file("source"), self.codec_file("target")):
            try:
                Codec.load(path)
            except (ValueError, OSError):  # somebody's own file of that name
                return False
            return True
        ours = ("source.json", "target.json", "settings.json")
        part = path.is_file() and any(path.match(PARTS.replace("*", name)) for name in ours)
        return part or path == self.lock_file

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
            for name in ("*.safetensors", "*.json", "*.csv", "*.png", "*.txt"):
                for part in self.folder.glob(PARTS.replace("*", name)):
                    part.unlink(missing_ok=True)
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                self.lock_file.unlink()
            lock.release()
            with suppress(OSError):  # where nothing was written: it would block the next try
                self.folder.rmdir()

    def codec_file(self, side: str) -> Path:
        """The file of the codec of one side, 'source' or 'target'."""
        return self.folder / f"{side}.json"

    def epoch_file(self, epoch: int) -> Path:
        """The weights after one epoch, counted from 1."""
        return self.folder / f"epoch-{epoch:03d}.safetensors"

    def weights_file(self) -> Path:
        """The weights to translate with: those chosen at the end, until then the best epoch's.

        Raises FileNotFoundError before the first epoch has ended.
        """
        for path in (self.model_file, self.best_file):
            if path.is_file():
                return path
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

    def require_corpus_of(self, preset: str) -> None:
        """Raise ValueError where the run does not train on the corpus of a preset.

        The other settings may differ from those of the preset: they were given with --set.
        """
        wanted, found = load_settings(preset).corpus, self.settings().corpus
        if (wanted.name, wanted.train) != (found.name, found.train):
            raise ValueError(
                f"{self.folder} is no run of {preset}: it trains on {found.name or found.train}, "
                f"not on {wanted.name or wanted.train}; to resume it, leave out the preset and "
                f"give --resume --out {self.folder}"
            )

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of source and target.  Raises ValueError where a file is damaged."""
        return Codec.load(self.codec_file("source")), Codec.load(self.codec_file("target"))

    def codec_digests(self) -> dict[str, str]:
        """SHA-256 of both codec files: with other words in it, every text would be nonsense."""
        files = [self.codec_file(side) for side in ("source", "target")]
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def saved_at(self) -> float:
        """When the run was last saved, or started where it was not: seconds since 1970."""
        saved = self.last_file if self.last_file.is_file() else self.settings_file
        return saved.stat().st_mtime

    def can_resume(self) -> bool:
        """Whether there is a state to resume from.

        Without one training starts anew, which is right only where nothing was trained: raises
        ValueError where there are weights or a history that it would overwrite.
        """
        if self.last_file.is_file():
            return True
        there = [p for p in (self.model_file, self.best_file, self.history_file) if p.exists()]
        there += self.folder.glob("epoch-*.safetensors")
        if there:
            raise ValueError(
                f"{self.folder} holds {there[0].name} but no {self.last_file.name}, so it "
                f"cannot be resumed; starting anew would overwrite it: train into another --out"
            )
        return False

    def require_untrained(self) -> None:
        """Raise FileExistsError or ValueError where a run has left something in the folder."""
        if self.can_resume():
            raise FileExistsError(
                f"{self.folder} holds a training already, and nothing is overwritten: resume it, "
                f"or choose another folder"
            )

    def reporting(self, report: Callable[[str], None]) -> Callable[[str], None]:
        """A function that reports a line and appends it to the log of the run."""

        def both(line: str) -> None:
            report(line)
            with open(self.log_file, "a", encoding="utf-8") as file:
                file.write(line + "\n")

        return both

    def command(self) -> str | None:
        """The command that started the run; None where it keeps no log."""
        if not self.log_file.is_file():
            return None
        return self.log_file.read_text("utf-8").partition("\n")[0].removeprefix("$ ")
