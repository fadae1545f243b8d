"""The formats of the corpora that are published as plain files, on tiny files written here."""

import gzip
import json
import re
from urllib.parse import urlsplit

import pytest

from nmtcourse.corpora import SOURCES
from nmtlib.data.codec import Vocab
from nmtlib.data.corpora import CMN, MULTI30K
from nmtlib.data.corpus import Pair
from nmtlib.specials import SPECIALS


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


def write_table(folder, side, ids):
    (folder / f"word2int_{side}.json").write_text(json.dumps(ids), encoding="utf-8")


@pytest.fixture
def cmn(tmp_path):
    (tmp_path / "training.txt").write_text("re@@ sted .\t他 。 \n hi\t好\n", encoding="utf-8")
    (tmp_path / "validation.txt").write_text("hi .\t好 。\n", encoding="utf-8")
    (tmp_path / "testing.txt").write_text("hi\t你 好\n", encoding="utf-8")
    write_table(tmp_path, "en", table("hi", ".", "re@@", "sted"))
    write_table(tmp_path, "cn", dict(reversed(table("好", "。", "他").items())))
    return tmp_path


def test_multi30k_is_raw_text_in_its_published_splits(multi30k):
    corpus = MULTI30K.read(multi30k)
    assert (corpus.name, corpus.target_language) == ("multi30k-de-en", "en")
    # Neither lower-cased nor tokenized; only the blanks around a line go.
    assert corpus.train == [Pair("Ein Hundde", "Ein Hunden"), Pair("Zwei, dreide", "Zwei, dreien")]
    assert corpus.validation == [Pair("VAL", "VAL")] and corpus.test == [Pair("Test", "Test")]
    assert corpus.vocabularies is None


def test_cmn_keeps_its_subword_marks_and_brings_its_vocabularies(cmn):
    corpus = CMN.read(cmn)
    assert (corpus.name, corpus.target_language) == ("cmn-en-zh", "zh")
    assert corpus.train == [Pair("re@@ sted .", "他 。"), Pair("hi", "好")]
    english, chinese = map(Vocab, corpus.vocabularies)
    # The tables' own numbers, in whatever order the file lists them.
    assert english.encode("hi re@@ rested".split()) == [4, 6, 3]
    assert chinese.encode("好 他".split()) == [4, 6]


def test_a_vocabulary_without_the_specials_in_front_is_refused(cmn):
    write_table(cmn, "cn", {token: 4 - number for token, number in table("hi").items()})
    with pytest.raises(ValueError, match="a vocabulary starts with"):
        CMN.read(cmn)


def test_every_file_has_a_pinned_https_address_and_a_full_checksum():
    sums = []
    for source in (source for source in SOURCES if source.files):
        address = urlsplit(source.home)
        assert address.scheme == "https", f"{source.name}: {source.home} is not https"
        if address.hostname == "raw.githubusercontent.com":
            commit = address.path.split("/")[3]
            assert re.fullmatch("[0-9a-f]{40}", commit), f"{source.name}: {commit} is no commit"
        if source.name != "iwslt14-de-en":  # whose checksum nobody published
            sums += source.files.values()
    assert all(len(s) == 64 and set(s) <= set("0123456789abcdef") for s in sums)
    assert len(set(sums)) == len(sums)
