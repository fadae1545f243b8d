"""Corpora of the toy grammar, written to files and broken in a known way."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmtcourse.corpora import load_corpus
from nmtcourse.main import main
from nmtlib.data.corpus import Pair

Sides = list[tuple[str, str]]
SIZES = {"train": 1_600, "validation": 100, "test": 100}


def sides(pairs: Sequence[Pair], count: int) -> Sides:
    return [(pair.source, pair.target) for pair in pairs[:count]]


def toy(name: str = "toy-de-en", **sizes: int) -> dict[str, Sides]:
    """The first pairs of each split of a bundled corpus, by the name of the split."""
    corpus = load_corpus(name)
    return {s: sides(getattr(corpus, s), n) for s, n in (SIZES | sizes).items()}


@dataclass
class Own:
    """A reader's own corpus: `splits` by name, written to `folder` in two files each."""

    folder: Path
    splits: dict[str, Sides] = field(default_factory=toy)
    tags: tuple[str, str] = ("de", "en")
    encoding: str = "utf-8"
    ends: str = "\n"
    tokenizer: str = 'kind = "whitespace"'

    def write(self) -> Path:
        """Write text files and settings; returns the settings."""
        first, second = self.tags
        rows = ["[corpus]", f'source_language = "{first}"', f'target_language = "{second}"']
        for name, pairs in self.splits.items():
            files = [f"{name}.a", f"{name}.b"]
            for side, file in enumerate(files):
                text = "".join(pair[side] + self.ends for pair in pairs)
                (self.folder / file).write_bytes(text.encode(self.encoding))
            rows.append(f"{name} = {files}")
        return self.settings(rows)

    def settings(self, rows: list[str]) -> Path:
        path = self.folder / "own.toml"
        path.write_text("\n".join([*rows, "[tokenizer]", self.tokenizer]) + "\n", "utf-8")
        return path

    def change(self, split: str, side: int, how: Callable[[str], str], *lines: int) -> Own:
        """Change one side of some lines (from 1), or of all; returns this."""
        for number in lines or range(1, len(self.splits[split]) + 1):
            pair = list(self.splits[split][number - 1])
            pair[side] = how(pair[side])
            self.splits[split][number - 1] = (pair[0], pair[1])
        return self

    def change_both(self, split: str, how: Callable[[str], str], *lines: int) -> Own:
        return self.change(split, 0, how, *lines).change(split, 1, how, *lines)


def run(*arguments: Any) -> tuple[int, str]:
    """Exit status and output of an nmtlib command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main([str(argument) for argument in arguments])
    return status, out.getvalue()


def check(path: Path, *options: Any) -> tuple[int, str]:
    return run("data", "check", path, *options)


def row(text: str, words: str) -> str:
    """The row of the table that has some words, with what is below it."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if words in line and line[:1].isalpha()), None)
    assert first is not None, f"no row with {words!r} in:\n{text}"
    last = next((i for i in range(first + 1, len(lines)) if not lines[i].startswith(" ")), None)
    return "\n".join(lines[first:last])


def levels(text: str) -> list[str]:
    """The levels of the rows that are more than notes."""
    return [
        w for line in text.splitlines() if (w := line.partition(" ")[0]) in ("wrong", "warning")
    ]


def nothing(text: str) -> bool:
    return levels(text) == []
