"""A corpus as it is published: which files it needs, how they are fetched and checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from nmtlib.data.corpus import Corpus

TIMEOUT, RETRIES = 20.0, 2  # seconds without an answer; further attempts


def cache_folder() -> Path:
    """The folder of the corpora: `$NMTLIB_DATA`, otherwise `nmtlib` in the user's cache folder."""
    if not (chosen := os.environ.get("NMTLIB_DATA")):
        import pooch  # only here: it takes a quarter of a second

        chosen = pooch.os_cache("nmtlib")
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        raise ValueError(
            f"the corpora would be in {chosen}, but there is no such home folder; set the "
            "environment variable NMTLIB_DATA to a folder for them"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus by name.  In all methods `root` is the cache, `cache_folder()` unless given.

    `files` are those below the address `home` with their SHA-256, or '-' where none is published.
    `reader` makes the splits, and other fields of a `Corpus`, from the folder of the files.
    """

    name: str  # ends with both languages: toy-de-en
    licence: str
    pairs: Sequence[int]  # in train, validation and test
    reader: Callable[[Path], dict[str, Any]]
    megabytes: float = 0.0
    folder: str = ""
    home: str = ""
    mirror: str = ""  # a second address, asked where the first fails and the SHA-256 is published
    files: dict[str, str] = field(default_factory=dict, repr=False)

    def paths(self, root: str | Path | None) -> list[Path]:
        """Where the files belong."""
        return [self.place(root) / file for file in self.files]

    def place(self, root: str | Path | None) -> Path:
        """The folder of the files."""
        folder = Path(self.folder)
        return folder if folder.is_absolute() else Path(root or cache_folder()) / folder

    def complete(self, root: str | Path | None = None) -> bool:
        """Whether every file is there; whether it is intact `wrong` can tell."""
        return all(path.exists() for path in self.paths(root))

    def fetch(self, root: str | Path | None = None) -> Path:
        """Download what is missing, verify what is there, and return the folder that holds it.

        Raises ValueError for a damaged file, FileNotFoundError for one that cannot be fetched.
        """
        for path in self.paths(root):
            if not path.exists():
                self._download(path)
            elif wrong := self.wrong(path):
                raise ValueError(f"{path}: {wrong}; delete this file and fetch {self.name} again")
        return self.place(root)

    def read(self, folder: Path) -> Corpus:
        """The corpus from the folder of its files."""
        _, source, target = self.name.rsplit("-", 2)
        return Corpus(self.name, source, target, **self.reader(folder))

    def wrong(self, path: Path) -> str:
        """What is wrong with the contents of a file, '' if nothing is."""
        expected, given = self.files[path.name], sha256(path.read_bytes()).hexdigest()
        return "" if expected in ("-", given) else f"its SHA-256 is {given}, expected {expected}"

    def _download(self, path: Path) -> None:
        """Fetch one file, which appears under its name whole and verified, or not at all."""
        import pooch

        pooch.get_logger().setLevel("WARNING")
        known = {path.name: self.files[path.name].removeprefix("-") or None}
        downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
        errors: dict[str, Exception] = {}  # by address
        for home in filter(None, [self.home, self.mirror if known[path.name] else ""]):
            keeper = pooch.create(path.parent, f"{home}/", registry=known, retry_if_failed=RETRIES)
            try:
                keeper.fetch(path.name, downloader=downloader)
                path.chmod(0o644)  # a part file of pooch is for its owner alone
                return
            except (ValueError, OSError) as error:
                if isinstance(error, OSError) and error.errno:  # those of the network have none
                    why = f"could not write {path} ({error.strerror}): make room or set NMTLIB_DATA"
                    raise OSError(error.errno, why) from error
                errors[f"{home}/{path.name}"] = error
        told = "; ".join(f"{url}: {error}" for url, error in errors.items())
        if all(isinstance(error, ValueError) for error in errors.values()):
            raise ValueError(f"{path.name} is not the expected file and was not kept: {told}")
        raise FileNotFoundError(
            f"{path} is missing and could not be fetched ({told}).  Get {' or '.join(errors)} "
            f"and save it as {path}, or set NMTLIB_DATA to a folder that holds "
            f"{self.folder}/{path.name}"
        )
