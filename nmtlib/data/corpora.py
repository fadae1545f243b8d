"""The corpora of the course by name: to load, fetch and check, each in both directions."""

from __future__ import annotations

import json
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nmtlib.data import iwslt
from nmtlib.data.corpus import SPLITS, Corpus, Pair, read_pairs
from nmtlib.data.source import Report, Source
from nmtlib.data.vocab import Vocab
from nmtlib.errors import did_you_mean
from nmtlib.files import text_lines

BUNDLED = Path(__file__).parent / "bundled"  # the toy corpora, written by `nmtcourse.toy.bundle`
GITHUB = "https://raw.githubusercontent.com"
MULTI30K_HOME = f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data"
CMN_HOME = f"{GITHUB}/XiZhong17203/Translation-Transformer/3d1245747ed381d1b42d75ef08e869778f84a9f8"


def read_splits(train: list, validation: list, test: list, folder: Path) -> dict[str, Any]:
    """The splits of a folder, each from one TSV file or from a source and a target file."""
    files = {"train": train, "validation": validation, "test": test}
    return {split: read_pairs([folder / name for name in files[split]]) for split in files}


def _read_cmn(folder: Path) -> dict[str, Any]:
    """The splits and the published vocabularies: the tokens in the order of their ids."""
    ids = [json.loads((folder / f"word2int_{side}.json").read_bytes()) for side in ("en", "cn")]
    vocabularies = tuple(Vocab(sorted(side, key=side.get)).tokens for side in ids)
    splits = read_splits(["training.txt"], ["validation.txt"], ["testing.txt"], folder)
    return {**splits, "vocabularies": vocabularies}


@cache  # a quarter of a second for what is asked for again and again
def _bundled_pairs(path: Path) -> tuple[Pair, ...]:
    pairs = []
    for line in text_lines(path):
        source, target, links = line.split("\t")
        alignment = tuple((int(s), int(t)) for s, t in (x.split("-") for x in links.split()))
        pairs.append(Pair(source, target, alignment))
    return tuple(pairs)


def _read_bundled(name: str, folder: Path) -> dict[str, Any]:
    return {split: [*_bundled_pairs(folder / f"{name}.{split}.tsv.gz")] for split in SPLITS}


TOYS = [
    Source(
        name=name,
        licence="MIT (generated)",
        pairs=(20_000, 1_000, 1_000),
        folder=str(BUNDLED),
        reader=partial(_read_bundled, name),  # with gold alignments and a challenge split
    )
    for name in ("toy-de-en", "toy-en-zh")
]
MULTI30K = Source(
    name="multi30k-de-en",
    licence="research and education, see multi30k/dataset on GitHub",
    pairs=(29_000, 1_014, 1_000),
    megabytes=1.3,
    folder="multi30k",
    home=f"{MULTI30K_HOME}/task1/raw",
    reader=partial(
        read_splits,
        ["train.de.gz", "train.en.gz"],
        ["val.de.gz", "val.en.gz"],
        ["test_2016_flickr.de.gz", "test_2016_flickr.en.gz"],
    ),
    checksums="""\
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz""",
)
CMN = Source(
    name="cmn-en-zh",
    licence="CC BY 2.0 FR (sentences of tatoeba.org)",
    pairs=(18_000, 500, 2_636),
    megabytes=1.6,
    folder="cmn-eng-simple",
    home=f"{CMN_HOME}/cmn-eng-simple",
    reader=_read_cmn,
    checksums="""\
f96538346f6b2f80e85fd50bc6b597f660cdaeb174010cf0e429d1964fbd31a3  training.txt
e856b9cd61891bf8ffd11260ad029703d179c4eb2539059869550b64f758db99  validation.txt
636cb804ef58195971ef24c2d914a8fdc49452c25ed346a54a18e9d7aafe6e3d  testing.txt
2d817a4e1c1e46527180ab560cf11d5a2a675a96578120403fa7e52bdcd3d010  word2int_en.json
95797a3bc6aa9dce84f54ca052899a94030dc1870397a4971b47939a1ac522c9  word2int_cn.json""",
)
IWSLT14 = Source(
    name="iwslt14-de-en",
    licence="CC BY-NC-ND 3.0 (talks of TED)",
    pairs=(160_239, 7_283, 6_750),
    megabytes=20.0,
    folder="iwslt",
    home="https://dl.fbaipublicfiles.com/fairseq/data/iwslt14",
    reader=iwslt.read,
    checksums=f"-  {iwslt.ARCHIVE}",
    verify=iwslt.read_archive,
)
SOURCES = [*TOYS, MULTI30K, CMN, IWSLT14]  # in the order of the course


@cache
def _registered() -> list[Source]:
    """What other packages register under the entry-point group `nmtlib.corpora`."""
    return [point.load() for point in entry_points(group="nmtlib.corpora")]


def names() -> list[str]:
    """The corpora in the order of the course; each can also be read the other way (`toy-en-de`).

    >>> names()[:3]
    ['toy-de-en', 'toy-en-zh', 'multi30k-de-en']
    """
    return [source.name for source in (*SOURCES, *_registered()) if source.pairs]


def table(root: str | Path | None = None) -> list[tuple[str, ...]]:
    """The corpora in rows of text, headings first; 'here' are those with all files in the cache."""
    rows = [tuple("corpus train validation test download here licence".split())]
    for source in (*SOURCES, *_registered()):
        sizes = [f"{size:,}" for size in source.pairs] or ["no pairs", "", ""]
        here = "yes" if source.complete(root) else "no"
        rows.append((source.name, *sizes, f"{source.megabytes:g} MB", here, source.licence))
    return rows


def find(name: str) -> Source:
    """The source of a corpus, whichever way it is read.  Raises ValueError for an unknown name."""
    known: dict[str, Source] = {}
    for source in (*SOURCES, *_registered()):
        stem, *languages = source.name.rsplit("-", 2)
        known[source.name] = source
        if source.pairs:
            known["-".join([stem, *reversed(languages)])] = source
    if name not in known:
        raise ValueError(
            f"unknown corpus {name!r}{did_you_mean(name, known)}; "
            f"the corpora, each also reversed: {', '.join(names())}"
        )
    return known[name]


def load(name: str, *, root: str | Path | None = None) -> Corpus:
    """The corpus of that name; files that are missing in the cache folder `root` are fetched first.

    `root` is `cache_folder()` unless given.  Raises ValueError for an unknown name or a damaged
    file, and FileNotFoundError, which says what to get from where and where to put it, when a file
    is missing and cannot be fetched.
    """
    source = find(name)
    corpus = source.load(root)
    return corpus if name == source.name else corpus.reversed()


def fetch(name: str, *, root: str | Path | None = None) -> Path:
    """Download what is missing of a corpus and return its folder.  Raises as `load` does."""
    return find(name).fetch(root)


def check(name: str, *, root: str | Path | None = None) -> Report:
    """Which files of a corpus are there and intact, and its sizes; without touching the network."""
    return find(name).check(root)
