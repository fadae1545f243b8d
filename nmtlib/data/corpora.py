"""The corpora of the course by name: to load and fetch, each in both directions."""

from __future__ import annotations

import json
import tomllib
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nmtlib.data.codec import Vocab
from nmtlib.data.corpus import SPLITS, Corpus, Pair, read_pairs
from nmtlib.data.source import Source
from nmtlib.errors import did_you_mean
from nmtlib.files import text_lines

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


@cache
def sources() -> list[Source]:
    """Ours, and those that packages register under the entry-point group `nmtlib.corpora`."""
    return [*TOYS, MULTI30K, CMN, *(p.load() for p in entry_points(group="nmtlib.corpora"))]


def names() -> list[str]:
    """The corpora in the order of the course; each can also be read the other way (`toy-en-de`).

    >>> names()[:3]
    ['toy-de-en', 'toy-en-zh', 'multi30k-de-en']
    """
    return [source.name for source in sources() if source.pairs]


def table(root: str | Path | None = None) -> list[tuple[str, ...]]:
    """The corpora in rows of text, headings first; 'here' are those with all files in the cache."""
    rows = [tuple("corpus train validation test download here licence".split())]
    for source in sources():
        sizes = [f"{size:,}" for size in source.pairs] or ["no pairs", "", ""]
        here = "yes" if source.complete(root) else "no"
        rows.append((source.name, *sizes, f"{source.megabytes:g} MB", here, source.licence))
    return rows


def find(name: str) -> Source:
    """The source of a corpus, whichever way it is read.  Raises ValueError for an unknown name."""
    known: dict[str, Source] = {}
    for source in sources():
        stem, *languages = source.name.rsplit("-", 2)
        known |= {source.name: source, "-".join([stem, *reversed(languages)]): source}
    if name not in known:
        raise ValueError(
            f"unknown corpus {name!r}{did_you_mean(name, known)}; "
            f"the corpora, each also reversed: {', '.join(names())}"
        )
    return known[name]


def load(name: str, *, root: str | Path | None = None) -> Corpus:
    """The corpus of that name; files that are missing in the cache folder `root` are fetched first.

    `root` is `cache_folder()` unless given.  Raises ValueError for an unknown name or a damaged
    file; FileNotFoundError, naming the address and the place, for one that cannot be fetched.
    """
    source = find(name)
    corpus = source.read(source.fetch(root))
    return corpus if name == source.name else corpus.reversed()


def fetch(name: str, *, root: str | Path | None = None) -> Path:
    """Download what is missing of a corpus; its folder.  Raises as `load` does."""
    return find(name).fetch(root)
