"""A corpus as the registry knows it: what it is, and how it is fetched, checked and loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from nmtlib.data.corpus import SPLITS, Corpus
from nmtlib.data.download import Verify, download


@dataclass(frozen=True)
class Report:
    """What a check found: `ok` if the corpus can be loaded as it is, and one line a finding."""

    ok: bool
    lines: list[str]


@dataclass(frozen=True)
class SourceFile:
    """A file of a corpus: its place in the cache, its public address, and what verifies it."""

    path: Path
    url: str
    verify: Verify

    def status(self) -> str:
        """One line that starts with 'ok', 'missing' or 'wrong'."""
        if not self.path.exists():
            return f"missing   {self.path} (from {self.url})"
        try:
            self.verify(self.path.read_bytes(), str(self.path))
        except ValueError as error:
            return f"wrong     {error}"
        return f"ok        {self.path}"


@dataclass(frozen=True)
class Source(ABC):
    """Text that is fetched and checked by name.

    A subclass says which `files` it needs and what they hold.  In all methods `root` is the cache,
    the folder that holds the folders of the corpora.
    """

    name: str
    licence: str
    megabytes: float = 0.0  # to download
    folder: str = ""  # in the cache

    @abstractmethod
    def files(self, folder: Path) -> list[SourceFile]:
        """The files that must lie in the text's own folder."""

    @abstractmethod
    def findings(self, root: Path) -> list[str]:
        """What there is to say of the files, all of which are intact: one line each.

        Raises ValueError where they do not fit together.
        """

    @abstractmethod
    def sizes(self) -> tuple[str, str, str]:
        """What stands under train, validation and test in a table of all corpora."""

    def complete(self, root: Path) -> bool:
        """Whether every file is there; whether it is intact only `check` can tell."""
        return all(file.path.exists() for file in self.files(root / self.folder))

    def fetch(self, root: Path) -> Path:
        """Download what is missing, verify what is there, and return the folder that holds it.

        Raises ValueError for a damaged file, FileNotFoundError for one that cannot be fetched.
        """
        for file in self.files(root / self.folder):
            if not file.path.exists():
                download(file.url, file.path, file.verify)
            elif (status := file.status()).startswith("wrong"):
                finding = status.split(maxsplit=1)[1]
                raise ValueError(f"{finding}; delete this file and fetch {self.name} again")
        return root / self.folder

    def check(self, root: Path) -> Report:
        """Which files are there and intact, and what they hold; fetches nothing."""
        lines = [file.status() for file in self.files(root / self.folder)]
        lines = lines or ["nothing to download"]
        if any(line.startswith(("missing", "wrong")) for line in lines):
            return Report(False, [*lines, f"fetch it with: nmtlib data fetch {self.name}"])
        try:
            return Report(True, [*lines, *self.findings(root)])
        except ValueError as error:
            return Report(False, [*lines, f"wrong     {error}"])


@dataclass(frozen=True, kw_only=True)
class CorpusSource(Source):
    """A corpus that can be loaded by name; to add one, put its object into `corpora.SOURCES`.

    A subclass says which `files` the corpus needs and how to `read` them.  The name ends with both
    languages, such as toy-de-en.
    """

    pairs: tuple[int, int, int]  # to train, validate and test

    @property
    def source_language(self) -> str:
        """The language that is translated from, such as 'de'."""
        return self.name.split("-")[-2]

    @property
    def target_language(self) -> str:
        """The language that is translated into, such as 'en'."""
        return self.name.split("-")[-1]

    @abstractmethod
    def read(self, folder: Path) -> Corpus:
        """The corpus from its files.  Raises ValueError where they do not fit together."""

    def load(self, root: Path) -> Corpus:
        """The corpus, once missing files are fetched.  Raises as `fetch` and `read` do."""
        return self.read(self.fetch(root))

    def sizes(self) -> tuple[str, str, str]:
        """The numbers of pairs."""
        train, validation, test = (f"{size:,}" for size in self.pairs)
        return train, validation, test

    def findings(self, root: Path) -> list[str]:
        """The sizes of the splits, and what a reader of scores should know."""
        corpus = self.read(root / self.folder)
        sizes = {split: len(getattr(corpus, split)) for split in SPLITS}
        lines = [f"{split}: {size:,} pairs" for split, size in sizes.items() if size]
        lines += [f"note: {note}" for note in corpus.notes]
        if leaked := len(corpus.leaked()):
            lines.append(
                f"note: the source of {leaked:,} test pairs also stands in the training set"
            )
        return lines
