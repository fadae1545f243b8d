"""Sentences without translations: back-translation makes pairs of them.  Sennrich et al. 2016."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple
from unicodedata import category

from nmtlib.data.corpora import MULTI30K, Source
from nmtlib.data.corpus import SPLITS, Corpus
from nmtlib.errors import did_you_mean, require_one_of
from nmtlib.files import text_lines

CHINESE = "[\u3400-\u9fff]"


def comparable(text: str) -> str:
    """What two sentences have in common that differ in case, spaces or punctuation alone.

    Marks on letters, such as the vowel signs of Hindi, are kept.  Chinese may be segmented or not.

    >>> comparable("Zwei  Hunde, im Schnee.") == comparable("zwei Hunde im Schnee")
    True
    >>> comparable("我 喜@@ 欢 猫 。")
    '我喜欢猫'
    >>> comparable("की") == comparable("का")
    False
    """
    words = re.sub(r"[\W_]+", _gap, text.casefold()).strip()
    return re.sub(f"(?<={CHINESE}) (?={CHINESE})", "", words)


def _gap(match: re.Match[str]) -> str:
    """What `comparable` keeps between two letters: the marks on the first, and a space for more."""
    between, marks = match[0], ""
    if match.start():  # marks at the beginning have no letter
        marks = "".join(takewhile(lambda char: category(char).startswith("M"), between))
    return marks if len(marks) == len(between) else f"{marks} "


class Sentences(NamedTuple):
    """Different sentences of one language, and how many were left out for which reason."""

    new: list[str]
    left_out: dict[str, int]


def kept_apart(lines: Iterable[str], corpus: Corpus, language: str) -> Sentences:
    """The lines that are new: no line twice, and none that is in a split of the corpus.

    What is tested on must not be trained on, and what has a translation needs no other.
    Sentences are compared by `comparable`.  Raises ValueError for a language that the corpus lacks.
    """
    languages = corpus.source_language, corpus.target_language
    require_one_of("language", languages, language)
    side = ("source", "target")[languages.index(language)]
    splits = {
        comparable(getattr(pair, side)): f"in {split}"
        for split in SPLITS
        for pair in getattr(corpus, split)
    }
    new: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    for line in lines:
        key = comparable(line)
        if not key:
            left_out["without a word"] += 1
        elif key in splits:
            left_out[splits[key]] += 1
        elif key in new:
            left_out["twice"] += 1
        else:
            new[key] = line
    return Sentences(list(new.values()), dict(left_out))


@dataclass(frozen=True, kw_only=True)
class MonolingualText(Source):
    """Published sentences of several languages, none of which is translated.

    `texts` has the files of each language.  What is also in the corpus `apart_from` is left out.
    """

    texts: dict[str, list[str]]
    apart_from: Source

    def read(self, folder: Path) -> Corpus:
        """Raises ValueError: there are no pairs."""
        raise ValueError(
            f"{self.name} has no pairs, only sentences without translations; make pairs of them "
            f"with: nmtlib backtranslate RUN --text {self.name} --out FILE.tsv"
        )

    def sentences(self, language: str, root: str | Path | None = None) -> Sentences:
        """The new sentences of a language; files of the text and the corpus are fetched first."""
        require_one_of(f"the language of {self.name}", self.texts, language)
        folder, apart = self.fetch(root), self.apart_from
        corpus = apart.read(apart.fetch(root))
        files = self.texts[language]
        lines = (line.strip() for file in files for line in text_lines(folder / file))
        return kept_apart(lines, corpus, language)

    def findings(self, root: str | Path | None) -> list[str]:
        """How many sentences of each language there are, and what was left out of them.

        Without the corpus that they are compared with, only that it is missing.
        """
        corpus, lines = self.apart_from, []
        if not corpus.complete(root):
            return [
                f"note: what is in {corpus.name} is left out, and counting it needs that corpus; "
                f"fetch it with: nmtlib data fetch {corpus.name}"
            ]
        for language in self.texts:
            new, left_out = self.sentences(language, root)
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
            lines.append(f"{language}: {len(new):,} sentences; left out: {reasons or 'none'}")
        return lines


# Five descriptions of each picture in each language, written by people who saw no other.  Only the
# training part: that of the test pictures holds every English sentence of Multi30k's test set.
CAPTIONS = MonolingualText(
    name="multi30k-captions",
    licence=MULTI30K.licence,
    pairs=(),
    reader=lambda folder: {},
    megabytes=5.6,
    folder="multi30k/captions",
    home=MULTI30K.home.replace("task1", "task2"),
    mirror=MULTI30K.mirror.replace("task1", "task2"),
    texts={side: [f"train.{n}.{side}.gz" for n in range(1, 6)] for side in ("de", "en")},
    apart_from=MULTI30K,
    files={
        "train.1.de.gz": "0002241b52aba5160c08d644ea0d64a9bf46a2dfffcf619c9e3cdaa55b357004",
        "train.1.en.gz": "a0e057f07a9733199c0d755d77f6d583dc6f40a3180734b1130a216e2fdf3a3b",
        "train.2.de.gz": "ac7c29258b90aec0b64d677c5bfc831fc402e6296d0aa9cc7a3433ddbff85c37",
        "train.2.en.gz": "d79dd70a9eafb2d1fe40151621278c4ae69b3c148c5052a53d7c7a41bf3ba023",
        "train.3.de.gz": "ec5e6508813814aa31311b34e26e24f903dd7701f8d0668313259b7f975d7aa0",
        "train.3.en.gz": "86e16fdcc699bcb6bca0f87c3cf1051f7de5ee3674dd588cedc5200194282749",
        "train.4.de.gz": "bcee8ac6eb47d8a7dc8cff47d9a0fbd80b4363cfda22021bacd297f9604221a4",
        "train.4.en.gz": "3771b84e010ad6197806d2a1188cb07c12149e3e0d178dd5966dee5763733686",
        "train.5.de.gz": "dccb0ca6ff25e0b1f0d385f59fb809184e0db89622d88371725e3ec46d43bfc0",
        "train.5.en.gz": "73988689307fe836994eae59735dc840c15da9775455fa76e6ed22606a042a91",
    },
)
TEXTS = [CAPTIONS]


def sentences(name: str, language: str, *, root: str | Path | None = None) -> Sentences:
    """The sentences of a text in one language, fetched first where they are missing.

    Raises ValueError for an unknown name or language.
    """
    texts = {text.name: text for text in TEXTS}
    if name not in texts:
        raise ValueError(
            f"unknown text {name!r}{did_you_mean(name, texts)}; there is {', '.join(texts)}"
        )
    return texts[name].sentences(language, root)
