"""The corpora of the course by name: where each is published, how to fetch, check and load it."""

from __future__ import annotations

import difflib
import errno
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nmtlib.data import iwslt
from nmtlib.data.corpus import SPLITS, Corpus
from nmtlib.data.download import ChecksumError, Verify, cache_folder, download, verify_sha256
from nmtlib.data.published import IWSLT16_SHA256, PUBLISHED, read_published

TOY = ("toy-de-en", "toy-en-zh")
IWSLT = "iwslt14-de-en"


class MissingFile(FileNotFoundError):
    """A file of a corpus is neither in the cache nor to be had right now."""


@dataclass(frozen=True)
class Report:
    """What `check` found: `ok` when the corpus can be loaded as it is, and one line for each
    finding.
    """

    ok: bool
    lines: list[str]


def names() -> list[str]:
    """The corpora in the order of the course; each can also be read the other way (`toy-en-de`,
    ...).

    >>> names()
    ['toy-de-en', 'toy-en-zh', 'multi30k-de-en', 'cmn-en-zh', 'iwslt14-de-en']
    """
    return [*TOY, *PUBLISHED, IWSLT]


def load(name: str, *, root: str | Path | None = None) -> Corpus:
    """The corpus of that name, from the cache folder `root`; files that are missing are fetched
    first.

    `root` is `download.cache_folder()` unless given.  Raises ValueError for an unknown name or a
    damaged file, and MissingFile (a FileNotFoundError) that says what to get from where and where
    to put it when a file is missing and cannot be fetched.
    """
    base = _base(name)
    if base in TOY:
        from nmtlib.toy import load_toy

        corpus = load_toy(base)
    else:
        folder = fetch(base, root=root)
        corpus = iwslt.read_corpus(folder) if base == IWSLT else read_published(base, folder)
    return corpus if name == base else corpus.reversed()


def fetch(name: str, *, root: str | Path | None = None, progress: bool = True) -> Path:
    """Download what is missing of a corpus, verify what is there, and return the folder that holds
    it.

    Writes nothing when nothing is missing; a toy corpus has no files.  Raises as `load` does.
    """
    base, root = _base(name), _root(root)
    if base in TOY:
        return root
    if base == IWSLT:
        folder = root / "iwslt"
        if iwslt.missing_files(folder):
            _get(base, iwslt.URL, folder / iwslt.ARCHIVE, iwslt.verify_archive, progress)
        return folder
    published = PUBLISHED[base]
    for file, sha256 in published.sha256.items():
        path = root / published.folder / file
        if not path.exists():
            _get(
                base,
                f"{published.home}/{file}",
                path,
                partial(verify_sha256, expected=sha256),
                progress,
            )
            continue
        try:
            verify_sha256(path, sha256)
        except ChecksumError as error:
            raise ChecksumError(f"{error}; delete this file and fetch {base} again") from None
    return root / published.folder


def check(name: str, *, root: str | Path | None = None) -> Report:
    """Report, without touching the network, which files of a corpus are there and intact, and its
    sizes.
    """
    base, root = _base(name), _root(root)
    if base in TOY:
        return Report(
            True, ["nothing to download: the program generates this corpus", *_sizes(load(base))]
        )
    if base == IWSLT:
        return _check_iwslt(root / "iwslt")
    published = PUBLISHED[base]
    states = [
        _state(root / published.folder / file, sha256, f"{published.home}/{file}")
        for file, sha256 in published.sha256.items()
    ]
    lines = [line for _, line in states]
    if not all(ok for ok, _ in states):
        return Report(False, [*lines, f"fetch it with: nmtlib data fetch {base}"])
    try:
        corpus = read_published(base, root / published.folder)
    except ValueError as error:
        return Report(False, [*lines, f"wrong     {error}"])
    return Report(True, lines + _sizes(corpus))


def leaked(corpus: Corpus) -> set[int]:
    """The positions (from 0) of the test pairs whose source sentence also stands in the training
    set.
    """
    seen = {pair.source for pair in corpus.train}
    return {number for number, pair in enumerate(corpus.test) if pair.source in seen}


def _base(name: str) -> str:
    """The name that the registry knows: `multi30k-en-de` is `multi30k-de-en` read the other way."""
    known = {}
    for base in names():
        stem, source, target = base.split("-")
        known |= {base: base, f"{stem}-{target}-{source}": base}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?  " if near else ""
        raise ValueError(
            f"unknown corpus {name!r}; {hint}the corpora, each also reversed: {', '.join(names())}"
        )
    return known[name]


def _root(root: str | Path | None) -> Path:
    return cache_folder() if root is None else Path(root)


def _get(name: str, url: str, path: Path, verify: Verify, progress: bool) -> None:
    try:
        download(url, path, verify, progress=progress)
    except OSError as error:
        read_only = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if not (isinstance(error, ConnectionError) or read_only):
            raise
        raise MissingFile(
            _where_from(name, url, path, f" and could not be fetched ({error})")
        ) from error


def _where_from(name: str, url: str, path: Path, reason: str = "") -> str:
    inside = Path(*path.parts[-2:])
    return (
        f"{name}: {path} is missing{reason}.  Get {url} and save it as {path}, "
        f"or set the environment variable NMTLIB_DATA to a folder that holds {inside.as_posix()}"
    )


def _state(path: Path, sha256: str | None, url: str) -> tuple[bool, str]:
    if not path.exists():
        return False, f"missing   {path} (from {url})"
    try:
        if sha256:
            verify_sha256(path, sha256)
    except ChecksumError as error:
        return False, f"wrong     {error}"
    return True, f"ok        {path}" + ("" if sha256 else " (no published checksum)")


def _sizes(corpus: Corpus) -> list[str]:
    lines = [
        f"{name}: {len(corpus.split(name)):,} pairs" for name in SPLITS if getattr(corpus, name)
    ]
    if leak := leaked(corpus):
        lines.append(
            f"note: the source of {len(leak):,} test pairs also stands in the training set"
        )
    return lines


def _check_iwslt(folder: Path) -> Report:
    """As `check`; the test files can be there without the training archive."""
    try:
        release = iwslt.read_release(folder)
    except ValueError as error:
        return Report(False, [f"wrong     {error}"])
    if (folder / iwslt.ARCHIVE).is_file():
        states = [(True, f"ok        {folder / iwslt.ARCHIVE} (identified by its contents)")]
    else:
        paths = [folder / iwslt.UNPACKED / file for file in sorted(release)]
        states = [_state(path, IWSLT16_SHA256.get(path.name), iwslt.URL) for path in paths]
    lines, ok = [line for _, line in states], all(ok for ok, _ in states)
    missing = iwslt.missing_files(folder)
    lines += [f"missing   {folder / iwslt.UNPACKED / file}" for file in missing]
    try:
        if not missing:
            pairs = len(iwslt.training_pairs(release))
            corpus = iwslt.read_corpus(folder)
            dropped = pairs - len(corpus.train) - len(corpus.validation)
            note = f"note: {dropped:,} of {pairs:,} training pairs are left out for their lengths"
            return Report(ok, [*lines, *_sizes(corpus), note])
        if not any(file.endswith(".xml") for file in missing):
            lines.append(f"test: {len(iwslt.evaluation_pairs(release)):,} segments")
    except ValueError as error:
        return Report(False, [*lines, f"wrong     {error}"])
    advice = _where_from(IWSLT, iwslt.URL, folder / iwslt.ARCHIVE)
    return Report(False, [*lines, f"missing   the archive with the training pairs.  {advice}"])
