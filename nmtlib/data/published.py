"""The corpora that are published as plain files: their addresses, checksums and formats."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nmtlib.data.corpus import Corpus, TextPairs
from nmtlib.data.download import verify_sha256
from nmtlib.data.source import CorpusSource, Source, SourceFile
from nmtlib.data.vocab import Vocab

GITHUB = "https://raw.githubusercontent.com"
MULTI30K_HOME = f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data"


@dataclass(frozen=True, kw_only=True)
class PublishedFiles(Source):
    """Text files below one public address; `checksums` is what `sha256sum` prints of them."""

    home: str
    checksums: str = field(repr=False)

    def files(self, folder: Path) -> list[SourceFile]:
        """Every file that has a checksum."""
        return [
            SourceFile(
                folder / file, f"{self.home}/{file}", partial(verify_sha256, expected=sha256)
            )
            for sha256, file in map(str.split, self.checksums.splitlines())
        ]


@dataclass(frozen=True, kw_only=True)
class PublishedCorpus(PublishedFiles, CorpusSource):
    """A corpus of published files.

    `splits` has for each split, in the order of `pairs`, one TSV file or a source and a target
    file, plain or gzipped.
    """

    splits: dict[str, list[str]]

    def read(self, folder: Path) -> Corpus:
        """The corpus.  Raises ValueError for another number of pairs than was published."""
        splits: dict = {
            split: list(TextPairs([folder / file for file in files]))
            for split, files in self.splits.items()
        }
        given = tuple(map(len, splits.values()))
        if given != self.pairs:
            raise ValueError(
                f"{folder}: {given} pairs to train, validate and test; expected {self.pairs}"
            )
        return Corpus(self.name, self.source_language, self.target_language, **splits)


class CmnCorpus(PublishedCorpus):
    """Sentences cut into subwords in advance, published with the vocabularies of both sides."""

    def read(self, folder: Path) -> Corpus:
        """The corpus.  Raises ValueError for contradictory vocabularies, too."""
        return replace(
            super().read(folder), vocabularies=(_tokens(folder, "en"), _tokens(folder, "cn"))
        )


def _tokens(folder: Path, side: str) -> list[str]:
    """The published tokens in the order of their ids, which are also given the other way round."""
    path = folder / f"word2int_{side}.json"
    ids = json.loads(path.read_bytes())
    tokens = json.loads((folder / f"int2word_{side}.json").read_bytes())
    if {str(number): token for token, number in ids.items()} != tokens:
        raise ValueError(f"{path} and int2word_{side}.json contradict each other")
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"{path}: ids must be 0 .. {len(ids) - 1}, each once")
    return Vocab(sorted(ids, key=ids.get)).tokens  # refuses a list without the specials in front


MULTI30K = PublishedCorpus(
    name="multi30k-de-en",
    licence="research and education, see multi30k/dataset on GitHub",
    pairs=(29_000, 1_014, 1_000),
    megabytes=1.3,
    folder="multi30k",
    home=f"{MULTI30K_HOME}/task1/raw",
    splits={
        "train": ["train.de.gz", "train.en.gz"],
        "validation": ["val.de.gz", "val.en.gz"],
        "test": ["test_2016_flickr.de.gz", "test_2016_flickr.en.gz"],
    },
    checksums="""\
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz""",
)

CMN = CmnCorpus(
    name="cmn-en-zh",
    licence="CC BY 2.0 FR (sentences of tatoeba.org)",
    pairs=(18_000, 500, 2_636),
    megabytes=1.8,
    folder="cmn-eng-simple",
    home=f"{GITHUB}/XiZhong17203/Translation-Transformer/"
    "3d1245747ed381d1b42d75ef08e869778f84a9f8/cmn-eng-simple",
    splits={
        "train": ["training.txt"],
        "validation": ["validation.txt"],
        "test": ["testing.txt"],
    },
    checksums="""\
f96538346f6b2f80e85fd50bc6b597f660cdaeb174010cf0e429d1964fbd31a3  training.txt
e856b9cd61891bf8ffd11260ad029703d179c4eb2539059869550b64f758db99  validation.txt
636cb804ef58195971ef24c2d914a8fdc49452c25ed346a54a18e9d7aafe6e3d  testing.txt
2d817a4e1c1e46527180ab560cf11d5a2a675a96578120403fa7e52bdcd3d010  word2int_en.json
95797a3bc6aa9dce84f54ca052899a94030dc1870397a4971b47939a1ac522c9  word2int_cn.json
7961777907862660aecb98fad2dde08ad20c1a1928b6fb40300c3dff8e7e6550  int2word_en.json
53ef7d4a5bbc43521382dcba1ec0468979721b831b7af7684aa0f74b3c44d3b3  int2word_cn.json""",
)
