"""Where a bad input is tried: a folder with a tiny corpus and two tiny runs."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from case import Case, Outcome, changes, judge
from running import call
from tiny import PRESET, sentence_pairs


class Workplace:
    """A folder that is as before for each case."""

    def __init__(self, folder: Path):
        """Make the corpus and the runs: `run` is finished, `half` was killed after one epoch."""
        self.folder = folder
        rows = [f"{german}\t{english}\n" for german, english in sentence_pairs()]
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
        from nmtcourse.curves import draw_curves
        from nmtlib.experiment import train
        from nmtlib.presets import load_settings
        from nmtlib.training.history import read_history

        settings = load_settings("own.toml")
        train("run", settings)
        draw_curves("run/curves.png", read_history(Path("run/history.csv")), "run")  # as `nmtlib`

        def kill(trainer):
            raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            train("half", settings.changed({"training": {"epochs": 3}}), after_epoch=kill)

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
