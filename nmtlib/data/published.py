"""The corpora that are published as plain files: their addresses, checksums and formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmtlib.data.corpus import Corpus, Pair, from_files, from_tsv
from nmtlib.data.vocab import Vocab

GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class Published:
    """A corpus of plain files: its folder in the cache, its public address, pairs a split, SHA-256
    a file.
    """

    folder: str
    home: str
    pairs: tuple[int, int, int]
    read: Callable[[Path], Corpus]
    sha256: dict[str, str]


def read_published(name: str, folder: Path) -> Corpus:
    """One of the `PUBLISHED` corpora from its folder.  Raises ValueError where its files do not
    fit.
    """
    corpus, expected = PUBLISHED[name].read(folder), PUBLISHED[name].pairs
    given = tuple(len(split) for split in (corpus.train, corpus.validation, corpus.test))
    if given != expected:
        raise ValueError(
            f"{folder}: {given} pairs to train, validate and test; expected {expected}"
        )
    return corpus


def _read_multi30k(folder: Path) -> Corpus:
    def pairs(part: str) -> list[Pair]:
        return from_files(folder / f"{part}.de.gz", folder / f"{part}.en.gz")

    return Corpus(
        "multi30k-de-en", "de", "en", pairs("train"), pairs("val"), pairs("test_2016_flickr")
    )


def _read_cmn(folder: Path) -> Corpus:
    splits = [from_tsv(folder / f"{part}.txt") for part in ("training", "validation", "testing")]
    tokens = (_token_list(folder, "en"), _token_list(folder, "cn"))
    return Corpus("cmn-en-zh", "en", "zh", *splits, vocabularies=tokens)


def _token_list(folder: Path, side: str) -> list[str]:
    """The published tokens in the order of their ids, which are also given the other way round."""
    forth, back = (
        json.loads((folder / f"{table}_{side}.json").read_bytes())
        for table in ("word2int", "int2word")
    )
    if {str(number): token for token, number in forth.items()} != back:
        raise ValueError(
            f"{folder}: word2int_{side}.json and int2word_{side}.json contradict each other"
        )
    if sorted(forth.values()) != list(range(len(forth))):
        raise ValueError(
            f"{folder / f'word2int_{side}.json'}: ids must be 0 .. {len(forth) - 1}, each once"
        )
    return Vocab(
        sorted(forth, key=forth.get)
    ).tokens  # Vocab refuses a list without the specials in front


PUBLISHED = {
    "multi30k-de-en": Published(
        "multi30k",
        f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw",
        (29_000, 1_014, 1_000),
        _read_multi30k,
        {
            "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        },
    ),
    "cmn-en-zh": Published(
        "cmn-eng-simple",
        f"{GITHUB}/XiZhong17203/Translation-Transformer/3d1245747ed381d1b42d75ef08e869778f84a9f8/cmn-eng-simple",
        (18_000, 500, 2_636),
        _read_cmn,
        {
            "training.txt": "f96538346f6b2f80e85fd50bc6b597f660cdaeb174010cf0e429d1964fbd31a3",
            "validation.txt": "e856b9cd61891bf8ffd11260ad029703d179c4eb2539059869550b64f758db99",
            "testing.txt": "636cb804ef58195971ef24c2d914a8fdc49452c25ed346a54a18e9d7aafe6e3d",
            "word2int_en.json": "2d817a4e1c1e46527180ab560cf11d5a2a675a96578120403fa7e52bdcd3d010",
            "word2int_cn.json": "95797a3bc6aa9dce84f54ca052899a94030dc1870397a4971b47939a1ac522c9",
            "int2word_en.json": "7961777907862660aecb98fad2dde08ad20c1a1928b6fb40300c3dff8e7e6550",
            "int2word_cn.json": "53ef7d4a5bbc43521382dcba1ec0468979721b831b7af7684aa0f74b3c44d3b3",
        },
    ),
}

# The test files of iwslt14-de-en as the campaign of 2016 released them once more.
IWSLT16_SHA256 = {
    "IWSLT16.TED.dev2010.de-en.de.xml": "669c478b2c76f8457fb78f87fd3a6db2d84d47bb635b178bcd7233facb20fd00",
    "IWSLT16.TED.dev2010.de-en.en.xml": "6c65bd89a391a0c3ce855e04169b05eba49a40c9189149dd60a20b62ad51bcb1",
    "IWSLT16.TED.tst2010.de-en.de.xml": "26a5f366f2f90c05f39f32f4923cde7ef40cc1d91701630912c95486197fc264",
    "IWSLT16.TED.tst2010.de-en.en.xml": "39861d2c211341aa83664c153a307489aa4b57408ec2c59cfcb1adb10c7786d0",
    "IWSLT16.TED.tst2011.de-en.de.xml": "9ea773ecd3235ed60c7b24a9ed0a78360ebf3c433e1a04f8793ce5cacd343abf",
    "IWSLT16.TED.tst2011.de-en.en.xml": "f722f875a666c536c2bc905fd808ee9eb435dd7ba33bdd6f7596992dd9c0c6e3",
    "IWSLT16.TED.tst2012.de-en.de.xml": "f020f769a8e63a91990ff89ea6f40f7416d32bd8f331fe3cc2bc4137b5c99ef0",
    "IWSLT16.TED.tst2012.de-en.en.xml": "d6afe2c04f84833ecdb293fe9b8ad7ad87b1a04d1397106cb3fb14aa8d788555",
    "IWSLT16.TEDX.dev2012.de-en.de.xml": "cf5a009eef1c79f172c0a1291a15f0d1d6e2376fbf1db3063789c7b758cbe5b3",
    "IWSLT16.TEDX.dev2012.de-en.en.xml": "67fcee46297011117c4a39508b7270277a4d949596398c341a6614cab7948214",
}
