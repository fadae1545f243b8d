"""The formats of the corpora that are published as plain files, on tiny files written here."""

import gzip
import json
import re
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from nmtlib.data.corpora import SOURCES
from nmtlib.data.corpus import Pair
from nmtlib.data.published import CMN, MULTI30K, PublishedCorpus
from nmtlib.data.vocab import SPECIALS, Vocab

TINY = {"multi30k": replace(MULTI30K, pairs=(2, 1, 1)), "cmn": replace(CMN, pairs=(2, 1, 1))}


@pytest.fixture
def multi30k(tmp_path):
    text = {
        "train": "Ein Hund.\nZwei, drei.\u2028 \n",
        "val": "VAL\n",
        "test_2016_flickr": "Test\n",
    }
    for part, lines in text.items():
        for side in ("de", "en"):
            (tmp_path / f"{part}.{side}.gz").write_bytes(
                gzip.compress(lines.replace(".", side).encode())
            )
    return tmp_path


def table(*tokens):
    return {token: number for number, token in enumerate([*SPECIALS, *tokens])}


def write_tables(folder, side, forth, back=None):
    back = {str(number): token for token, number in forth.items()} if back is None else back
    (folder / f"word2int_{side}.json").write_text(json.dumps(forth), encoding="utf-8")
    (folder / f"int2word_{side}.json").write_text(json.dumps(back), encoding="utf-8")


@pytest.fixture
def cmn(tmp_path):
    (tmp_path / "training.txt").write_text("re@@ sted .\t他 。 \n hi\t好\n", encoding="utf-8")
    (tmp_path / "validation.txt").write_text("hi .\t好 。\n", encoding="utf-8")
    (tmp_path / "testing.txt").write_text("hi\t你 好\n", encoding="utf-8")
    write_tables(tmp_path, "en", table("hi", ".", "re@@", "sted"))
    write_tables(tmp_path, "cn", dict(reversed(table("好", "。", "他").items())))
    return tmp_path


def test_multi30k_is_raw_text_in_its_published_splits(multi30k):
    corpus = TINY["multi30k"].read(multi30k)
    assert (corpus.name, corpus.source_language, corpus.target_language) == (
        "multi30k-de-en",
        "de",
        "en",
    )
    # Neither lower-cased nor tokenized; only the blanks around a line go.
    assert corpus.train == [Pair("Ein Hundde", "Ein Hunden"), Pair("Zwei, dreide", "Zwei, dreien")]
    assert corpus.validation == [Pair("VAL", "VAL")] and corpus.test == [Pair("Test", "Test")]
    assert corpus.vocabularies is None


def test_sides_of_unequal_length_are_refused(multi30k):
    (multi30k / "train.en.gz").write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(ValueError, match="line 2: .*train.en.gz has ended"):
        TINY["multi30k"].read(multi30k)


@pytest.mark.parametrize("name", TINY)
def test_another_number_of_pairs_than_published_is_refused(name, request):
    folder = request.getfixturevalue(name)
    with pytest.raises(ValueError, match=r"\(2, 1, 1\) pairs .* expected \(2, 1, 2\)"):
        replace(TINY[name], pairs=(2, 1, 2)).read(folder)


def test_cmn_keeps_its_subword_marks_and_brings_its_vocabularies(cmn):
    corpus = TINY["cmn"].read(cmn)
    assert (corpus.name, corpus.source_language, corpus.target_language) == (
        "cmn-en-zh",
        "en",
        "zh",
    )
    assert corpus.train == [Pair("re@@ sted .", "他 。"), Pair("hi", "好")]
    english, chinese = map(Vocab, corpus.vocabularies)
    # The tables' own numbers, in whatever order the file lists them.
    assert english.encode("hi re@@ rested".split()) == [4, 6, 3]
    assert chinese.encode("好 他".split()) == [4, 6]


@pytest.mark.parametrize("side", ["en", "cn"])
@pytest.mark.parametrize(
    ("forth", "back", "message"),
    [
        (
            table("hi"),
            {**{str(n): t for t, n in table("hi").items()}, "4": "ho"},
            "contradict each other",
        ),
        (table("hi"), {str(n): t for t, n in table("hi", "ho").items()}, "contradict each other"),
        ({**table(), "hi": 5}, None, "ids must be 0 .. 4, each once"),
        ({**table(), "hi": -1}, None, "ids must be 0 .. 4"),
        ({t: 4 - n for t, n in table("hi").items()}, None, "a vocabulary starts with"),
    ],
    ids=["other token", "one more", "gap", "negative", "specials not first"],
)
def test_inconsistent_vocabularies_are_refused(cmn, side, forth, back, message):
    write_tables(cmn, side, forth, back)
    with pytest.raises(ValueError, match=message):
        TINY["cmn"].read(cmn)


def test_an_id_given_twice_is_refused(cmn):
    twice = {**table("hi"), "ho": 4}
    write_tables(cmn, "en", twice, {str(number): token for token, number in twice.items()})
    with pytest.raises(ValueError, match=r"ids must be 0 \.\. 5, each once"):
        TINY["cmn"].read(cmn)


def test_every_file_has_a_pinned_https_address_and_a_full_checksum(tmp_path):
    sums = []
    for source in (source for source in SOURCES if isinstance(source, PublishedCorpus)):
        address = urlsplit(source.home)
        assert address.scheme == "https", f"{source.name}: {source.home} is not https"
        if address.hostname == "raw.githubusercontent.com":
            commit = address.path.split("/")[3]
            assert re.fullmatch("[0-9a-f]{40}", commit), f"{source.name}: {commit} is no commit"
        files = {file.path.name for file in source.files(tmp_path)}
        assert files >= {file for split in source.splits.values() for file in split}
        sums += [line.split()[0] for line in source.checksums.splitlines()]
    assert all(len(s) == 64 and set(s) <= set("0123456789abcdef") for s in sums)
    assert len(set(sums)) == len(sums)
