"""The corpora of the course by name: to load and fetch, each in both directions."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nmtlib.arguments import checked, instance
from nmtlib.data.codec import Vocab
from nmtlib.data.corpus import SPLITS, Corpus, Pair, Readers, read_pairs
from nmtlib.errors import did_you_mean
from nmtlib.files import text_lines
from nmtlib.settings import FILES, CorpusSettings

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
        return [self.folder_in(root) / file for file in self.files]

    def folder_in(self, root: str | Path | None) -> Path:
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
        return self.folder_in(root)

    def read(self, folder: Path) -> Corpus:
        """The corpus from the folder of its files."""
        _, source, target = self.name.rsplit("-", 2)
        return Corpus(self.name, source, target, **self.reader(folder))

    def wrong(self, path: Path) -> str:
        """What is wrong with the contents of a file, '' if nothing is."""
        expected, digest = self.files[path.name], sha256(path.read_bytes()).hexdigest()
        return "" if expected in ("-", digest) else f"its SHA-256 is {digest}, expected {expected}"

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
        reasons = "; ".join(f"{url}: {error}" for url, error in errors.items())
        if all(isinstance(error, ValueError) for error in errors.values()):
            raise ValueError(f"{path.name} is not the expected file and was not kept: {reasons}")
        raise FileNotFoundError(
            f"{path} is missing and could not be fetched ({reasons}).  Get {' or '.join(errors)} "
            f"and save it as {path}, or set NMTLIB_DATA to a folder that holds "
            f"{self.folder}/{path.name}"
        )


BUNDLED = Path(__file__).parent / "bundled"  # the toy corpora, written by `nmtcourse.toy.bundle`
PUBLISHED = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))


@cache  # reading takes a quarter of a second
def _bundled_pairs(path: Path) -> tuple[Pair, ...]:
    pairs = []
    for line in text_lines(path):
        source, target, links = line.split("\t")
        alignment = tuple((int(s), int(t)) for s, t in (x.split("-") for x in links.split()))
        pairs.append(Pair(source, target, alignment))
    return tuple(pairs)


def _read_bundled(name: str, folder: Path) -> dict[str, Any]:
    """The splits, with gold alignments and a challenge split."""
    return {split: [*_bundled_pairs(folder / f"{name}.{split}.tsv.gz")] for split in SPLITS}


def _read_multi30k(folder: Path) -> dict[str, Any]:
    files = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    ends = ("de.gz", "en.gz")
    return {s: read_pairs([folder / f"{name}.{end}" for end in ends]) for s, name in files.items()}


def _read_cmn(folder: Path) -> dict[str, Any]:
    """The splits and the published vocabularies: the tokens in the order of their ids."""
    ids = [json.loads((folder / f"word2int_{side}.json").read_bytes()) for side in ("en", "cn")]
    vocabularies = tuple(Vocab(sorted(side, key=side.get)).tokens for side in ids)
    files = {"train": "training", "validation": "validation", "test": "testing"}
    splits = {split: read_pairs([folder / f"{name}.txt"]) for split, name in files.items()}
    return {**splits, "vocabularies": vocabularies}


TOYS = [
    Source(
        name=name,
        licence="MIT (generated)",
        pairs=(20_000, 1_000, 1_000),
        folder=str(BUNDLED),
        reader=partial(_read_bundled, name),
    )
    for name in ("toy-de-en", "toy-en-zh")
]
MULTI30K = Source(name="multi30k-de-en", reader=_read_multi30k, **PUBLISHED["multi30k-de-en"])
CMN = Source(name="cmn-en-zh", reader=_read_cmn, **PUBLISHED["cmn-en-zh"])


SOURCES: Sequence[Source] = (*TOYS, MULTI30K, CMN)


def names(sources: Sequence[Source] = SOURCES) -> list[str]:
    """The corpora in the order of the course; each can also be read the other way (`toy-en-de`).

    >>> names()
    ['toy-de-en', 'toy-en-zh', 'multi30k-de-en', 'cmn-en-zh']
    """
    return [source.name for source in sources if source.pairs]


def find(name: str, sources: Sequence[Source] = SOURCES) -> Source:
    """The source of a corpus, whichever way it is read.  Raises ValueError for an unknown name."""
    known: dict[str, Source] = {}
    for source in sources:
        stem, *languages = source.name.rsplit("-", 2)
        known |= {source.name: source, "-".join([stem, *reversed(languages)]): source}
    if name not in known:
        others = "; in Python, nmtcourse.corpora knows more" if sources is SOURCES else ""
        raise ValueError(
            f"unknown corpus {name!r}{did_you_mean(name, known)}; "
            f"the corpora, each also reversed: {', '.join(names(sources))}{others}"
        )
    return known[name]


@checked(
    corpus=instance("the name of a corpus, or settings of one", str, CorpusSettings),
    root=instance("the name of a folder, as str or Path", str, Path, type(None)),
)
def load_corpus(
    corpus: str | CorpusSettings,
    *,
    root: str | Path | None = None,
    sources: Sequence[Source] = SOURCES,
    readers: Readers = MappingProxyType({}),
) -> Corpus:
    """The corpus of a name, or that of settings; missing files of a name are fetched first.

    `root` is the cache, `cache_folder()` unless given.  `sources` are the corpora that have a name,
    and `readers` those of files, as `read_pairs` takes them: `nmtcourse.corpora.load_corpus` knows
    more of both.  Raises ValueError for an unknown name, a damaged file, or settings with neither a
    name nor training and validation files, or both; FileNotFoundError, naming the address and the
    place, for a file that cannot be fetched.
    """
    settings = CorpusSettings(corpus) if isinstance(corpus, str) else corpus
    settings.require_one_origin()
    if settings.name:
        source = find(settings.name, sources)
        published = source.read(source.fetch(root))
        if settings.name != source.name:
            published = published.reversed()
        return replace(published, origin=settings)
    languages = settings.languages
    if all(languages) and not any(getattr(settings, split) for split in FILES):
        raise ValueError(
            "this run was trained on pairs in memory, which it does not keep; pass them again in "
            "Python, as corpus="
        )
    if not (settings.train and settings.validation and all(languages)):
        raise ValueError(
            "[corpus] needs a name, or source_language, target_language, train and validation "
            "(each one TSV file, or a source and a target file)"
        )
    splits: dict[str, Any] = {}
    for split in FILES:
        files = getattr(settings, split)
        if len(files) > 2:
            raise ValueError(f"[corpus] {split} is one TSV file or two text files, not {files}")
        if files:
            tags = settings.source_language, settings.target_language
            splits[split] = read_pairs(files, tags, readers)
    return Corpus("own", *languages, **splits, origin=settings)
