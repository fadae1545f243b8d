"""The corpora of the course by name: to load, fetch and check, each in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nmtlib.data.corpus import SPLITS, Corpus, Pair
from nmtlib.data.download import cache_folder
from nmtlib.data.iwslt import IWSLT14
from nmtlib.data.monolingual import CAPTIONS, Sentences
from nmtlib.data.published import CMN, MULTI30K
from nmtlib.data.source import CorpusSource, Report, Source, SourceFile
from nmtlib.errors import did_you_mean
from nmtlib.files import text_lines

BUNDLED = Path(__file__).parent / "bundled"  # the toy corpora, written by `nmtlib.toy.bundle`


@dataclass(frozen=True)
class ToyCorpus(CorpusSource):
    """A corpus that comes with the package: there is nothing to download."""

    licence: str = "MIT (generated)"
    pairs: tuple[int, int, int] = (20_000, 1_000, 1_000)

    def files(self, folder: Path) -> list[SourceFile]:
        """None."""
        return []

    def read(self, folder: Path) -> Corpus:
        """The corpus, with a challenge split and gold alignments."""
        splits: dict = {split: list(_bundled(self.name, split)) for split in SPLITS}
        return Corpus(self.name, self.source_language, self.target_language, **splits)


@cache  # a third of a second for what is asked for again and again
def _bundled(name: str, split: str) -> tuple[Pair, ...]:
    pairs = []
    for line in text_lines(BUNDLED / f"{name}.{split}.tsv.gz"):
        source, target, links = line.split("\t")
        alignment = tuple((int(s), int(t)) for s, t in (x.split("-") for x in links.split()))
        pairs.append(Pair(source, target, alignment))
    return tuple(pairs)


# In the order of the course.  To add a corpus, add its object.
SOURCES = [ToyCorpus("toy-de-en"), ToyCorpus("toy-en-zh"), MULTI30K, CMN, IWSLT14]
TEXTS = [CAPTIONS]  # sentences without translations


def names() -> list[str]:
    """The corpora in the order of the course; each can also be read the other way (`toy-en-de`).

    >>> names()[:3]
    ['toy-de-en', 'toy-en-zh', 'multi30k-de-en']
    """
    return [source.name for source in SOURCES]


def table(root: str | Path | None = None) -> list[tuple[str, ...]]:
    """The corpora in rows of text, headings first; 'here' are those with all files in the cache."""
    rows = [tuple("corpus train validation test download here licence".split())]
    for source in (*SOURCES, *TEXTS):
        here = "yes" if source.complete(Path(root or cache_folder())) else "no"
        download = f"{source.megabytes:g} MB"
        rows.append((source.name, *source.sizes(), download, here, source.licence))
    return rows


def load(name: str, *, root: str | Path | None = None) -> Corpus:
    """The corpus of that name; files that are missing in the cache folder `root` are fetched first.

    `root` is `download.cache_folder()` unless given.  Raises ValueError for an unknown name or a
    damaged file, and FileNotFoundError, which says what to get from where and where to put it,
    when a file is missing and cannot be fetched.
    """
    source = find(name)
    corpus = source.load(Path(root or cache_folder()))
    return corpus if name == source.name else corpus.reversed()


def sentences(name: str, language: str, *, root: str | Path | None = None) -> Sentences:
    """The sentences of a text in one language, fetched first where they are missing.

    None of them stands in the corpus that the text is kept apart from: see `MonolingualText`.
    Raises ValueError for an unknown name or language, and as `load` does.
    """
    texts = {text.name: text for text in TEXTS}
    if name not in texts:
        raise ValueError(
            f"unknown text {name!r}{did_you_mean(name, texts)}; there is {', '.join(texts)}"
        )
    return texts[name].sentences(Path(root or cache_folder()), language)


def fetch(name: str, *, root: str | Path | None = None) -> Path:
    """Download what is missing of a corpus and return its folder.  Raises as `load` does."""
    return find_any(name).fetch(Path(root or cache_folder()))


def check(name: str, *, root: str | Path | None = None) -> Report:
    """Which files of a corpus are there and intact, and its sizes; without touching the network."""
    return find_any(name).check(Path(root or cache_folder()))


def leaked(corpus: Corpus) -> set[int]:
    """The positions (from 0) of the test pairs whose source also stands in the training set."""
    return corpus.leaked()


def find_any(name: str) -> Source:
    """A corpus, or a text without translations.  Raises ValueError for an unknown name."""
    return {text.name: text for text in TEXTS}.get(name) or find(name)


def find(name: str) -> CorpusSource:
    """The source of a corpus, whichever way it is read.  Raises ValueError for an unknown name."""
    known: dict[str, CorpusSource] = {}
    for source in SOURCES:
        stem = source.name.rsplit("-", 2)[0]
        backwards = f"{stem}-{source.target_language}-{source.source_language}"
        known |= {source.name: source, backwards: source}
    if name in [text.name for text in TEXTS]:
        raise ValueError(
            f"{name} has no pairs, only sentences without translations; make pairs of them with: "
            f"nmtlib backtranslate RUN --text {name} --out FILE.tsv"
        )
    if name not in known:
        raise ValueError(
            f"unknown corpus {name!r}{did_you_mean(name, known)}; "
            f"the corpora, each also reversed: {', '.join(names())}"
        )
    return known[name]
