"""The corpora and the formats that the course knows: those of the core, and more."""

from __future__ import annotations

from pathlib import Path

from nmtcourse.formats.readers import read
from nmtcourse.recipes.iwslt import IWSLT14
from nmtcourse.recipes.monolingual import CAPTIONS
from nmtlib.data import corpora
from nmtlib.data.corpora import Source
from nmtlib.data.corpus import Corpus, Readers
from nmtlib.settings import CorpusSettings

SOURCES = (*corpora.SOURCES, IWSLT14, CAPTIONS)
READERS: Readers = dict.fromkeys(("csv", "json", "jsonl", "tmx", "xlf", "xliff"), read)


def names() -> list[str]:
    """The corpora that can be trained on, as `nmtlib.data.corpora.names`."""
    return corpora.names(SOURCES)


def find(name: str) -> Source:
    """The source of a corpus, or of a text without translations.  Raises ValueError for others."""
    return corpora.find(name, SOURCES)


def load_corpus(corpus: str | CorpusSettings, *, root: str | Path | None = None) -> Corpus:
    """The corpus of a name or of settings, as `nmtlib.load_corpus`."""
    return corpora.load_corpus(corpus, root=root, sources=SOURCES, readers=READERS)
