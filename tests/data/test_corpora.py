"""The corpora: names, fetching into a cache, checking it, and the real corpora where they are."""

import gzip
import hashlib
import io
import os
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import pytest
import requests

from nmtcourse import corpora, listing
from nmtcourse.corpora import find, names
from nmtcourse.corpora import load_corpus as load
from nmtcourse.doctor.known import check
from nmtcourse.recipes import iwslt
from nmtlib.data.codec import Vocab
from nmtlib.data.corpora import BUNDLED, Source, load_corpus
from nmtlib.data.corpus import Pair
from nmtlib.specials import SPECIALS

MULTI30K = "multi30k-de-en"
REVERSED = {"toy-en-de": "toy-de-en", "toy-zh-en": "toy-en-zh", "cmn-zh-en": "cmn-en-zh"}
REVERSED |= {"multi30k-en-de": "multi30k-de-en", "iwslt14-en-de": "iwslt14-de-en"}


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    """No test reaches beyond this machine, and nothing waits before it tries again."""
    real = requests.get

    def guarded(url, **options):
        if urlsplit(url).hostname != "127.0.0.1":
            raise requests.ConnectionError("no network in tests")
        return real(url, **options)

    monkeypatch.setattr(requests, "get", guarded)
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def published_files():
    return list(find(MULTI30K).files)


def put(monkeypatch, name, **changes):
    """Change a corpus."""
    sources = [replace(s, **changes) if s.name == name else s for s in corpora.SOURCES]
    monkeypatch.setattr(corpora, "SOURCES", sources)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a tiny multi30k and a tiny IWSLT archive, served as their public homes."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    folder = tmp_path / "home"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    sums = {}
    for name in published_files():
        data = gzip.compress(
            b"eins\nzwei\n" if name.startswith("train") else name.encode(), mtime=0
        )
        (folder / name).write_bytes(data)
        sums[name] = hashlib.sha256(data).hexdigest()
    put(monkeypatch, MULTI30K, home=address, files=sums)
    monkeypatch.setattr(iwslt, "TEST_SETS", dict.fromkeys(iwslt.TEST_SETS, 1))
    put(monkeypatch, "iwslt14-de-en", home=address)
    with tarfile.open(folder / "de-en.tgz", "w:gz") as archive:
        for name, data in iwslt_files().items():
            member = tarfile.TarInfo(f"de-en/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    yield folder
    server.shutdown()
    server.server_close()


def iwslt_files():
    files = dict.fromkeys(
        ("train.tags.de-en.de", "train.tags.de-en.en"), b"ja\n" * 24 + b"ja ja ja\n\n"
    )
    files["train.tags.de-en.en"] = b"ja\n" * 26
    for name in iwslt.TEST_SETS:
        for side in ("de", "en"):
            files[f"IWSLT14.{name}.de-en.{side}.xml"] = b'<seg id="1"> Test </seg>\n'
    return files


def tree(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*")}


# Names


def test_an_unknown_name_is_refused_with_all_names_and_the_nearest(tmp_path):
    hints = {"multi30-de-en": "multi30k-de-en", "iwslt14-en-d": "iwslt14-en-de", "qqq": None}
    for use, (wrong, hint) in product((load, check), hints.items()):
        with pytest.raises(ValueError) as caught:
            use(wrong, root=tmp_path)
        message = str(caught.value)
        assert repr(wrong) in message and all(name in message for name in names())
        assert (f"did you mean {hint}?" in message) if hint else ("did you mean" not in message)


def test_both_directions_share_the_same_files(tmp_path, home):
    for turned, base in REVERSED.items():
        assert check(turned, root=tmp_path) == check(base, root=tmp_path)
        if base != "cmn-en-zh":  # the one that is not served here
            assert find(turned).fetch(tmp_path) == find(base).fetch(tmp_path)


def test_loading_a_reversed_name_turns_every_pair(tmp_path, home):
    forth, back = (load(name, root=tmp_path) for name in (MULTI30K, "multi30k-en-de"))
    assert back == forth.reversed() and back.test != forth.test
    assert (back.name, back.target_language) == ("multi30k-en-de", "de")


def test_toy_corpora_come_with_the_package_and_need_no_file(tmp_path):
    corpus = load("toy-en-zh", root=tmp_path)
    assert corpus.train[0].source.split() and load("toy-zh-en", root=tmp_path) == corpus.reversed()
    assert all(pair.alignment for pair in corpus.test), "gold alignments"
    assert find("toy-zh-en").fetch(tmp_path) == BUNDLED and not tree(tmp_path)
    report = check("toy-de-en", root=tmp_path)
    assert report.ok and not report.lines


def test_what_one_does_with_a_bundled_corpus_does_not_reach_the_next():
    load("toy-de-en").test.clear()
    assert len(load("toy-de-en").test) == 1_000


# Fetching


def test_missing_files_are_fetched_once_and_then_only_read(tmp_path, home):
    root = tmp_path / "cache"
    corpus = load(MULTI30K, root=root)
    assert corpus.train == [Pair("eins", "eins"), Pair("zwei", "zwei")]
    before = tree(root)
    assert {path.name for path in before if path.is_file()} == set(published_files())
    for file in home.iterdir():
        file.unlink()  # whatever is asked of the server now fails
    assert find(MULTI30K).fetch(root) == root / "multi30k"
    assert load(MULTI30K, root=root) == corpus and check(MULTI30K, root=root).ok
    assert tree(root) == before


def test_without_network_the_error_says_what_to_get_from_where(tmp_path):
    for name, file in (
        ("multi30k-en-de", "multi30k/train.de.gz"),
        ("cmn-en-zh", "cmn-eng-simple/training.txt"),
        ("iwslt14-de-en", "iwslt/de-en.tgz"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            load(name, root=tmp_path)
        message, address = str(caught.value), f"{find(name).home}/{Path(file).name}"
        assert f"Get {address}" in message and f"and save it as {tmp_path / file}" in message
        assert f"NMTLIB_DATA to a folder that holds {file}" in message
        assert "no network in tests" in message
        assert not [path for path in tree(tmp_path) if path.is_file()]


def test_a_damaged_file_in_the_cache_is_named_and_not_overwritten(tmp_path, home):
    folder = find(MULTI30K).fetch(tmp_path)
    (folder / "val.de.gz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="val.de.gz: its SHA-256 is .*; delete this file"):
        load(MULTI30K, root=tmp_path)
    assert (folder / "val.de.gz").read_bytes() == b"damaged"


# IWSLT


def test_the_iwslt_archive_is_fetched_and_read_in_place(tmp_path, home):
    root = tmp_path / "cache"
    corpus = load("iwslt14-en-de", root=root)
    assert corpus.name == "iwslt14-en-de" and (len(corpus.train), len(corpus.validation)) == (23, 1)
    assert [path.name for path in tree(root) if path.is_file()] == ["de-en.tgz"]
    report = check("iwslt14-de-en", root=root)
    assert (
        report.ok and "note: 2 of 26 training pairs are left out for their lengths" in report.lines
    )


# Checking


def test_complete_says_whether_all_files_are_there(tmp_path, home):
    for name in (MULTI30K, "iwslt14-en-de"):
        assert not find(name).complete(tmp_path)
        folder = find(name).fetch(tmp_path)
        assert find(name).complete(tmp_path)
        next(folder.iterdir()).unlink()
        assert not find(name).complete(tmp_path)
    assert find("toy-de-en").complete(tmp_path)


def test_every_corpus_says_what_it_is_and_under_which_terms():
    for source in (source for source in corpora.SOURCES if source.pairs):
        assert len(source.name.split("-")) >= 3, "a name ends with both languages"
        assert source.licence and min(source.pairs) > 0 and len(source.pairs) == 3
        assert (source.megabytes > 0) == bool(source.files)


def test_the_table_says_what_is_here(tmp_path, home):
    find(MULTI30K).fetch(tmp_path)
    rows = listing.table(tmp_path)
    here = {row[0]: row[rows[0].index("here")] for row in rows[1:]}
    assert list(here)[: len(names())] == names()
    assert {len(row) for row in rows} == {len(rows[0])}
    assert [name for name, there in here.items() if there == "yes"] == names()[:3]


def own_source():
    pairs = [Pair("one", "un")]
    splits = {"train": pairs, "validation": pairs, "notes": ["of our own"]}
    about = {"name": "own-en-fr", "licence": "none", "pairs": (1, 1, 0)}
    return Source(**about, reader=lambda folder: splits)


def test_a_corpus_of_ones_own_is_an_argument():
    corpus = load_corpus("own-fr-en", sources=[own_source()])
    assert corpus.train == [Pair("un", "one")] and corpus.notes == ["of our own"]
    with pytest.raises(ValueError, match="unknown corpus 'own-fr-en'"):
        load_corpus("own-fr-en")


def test_check_tells_ok_missing_and_wrong_apart_without_fetching(tmp_path, home):
    report = check(MULTI30K, root=tmp_path / "cache")
    assert not report.ok and sum(line.startswith("missing ") for line in report.lines) == 6
    assert (
        "nmtlib data fetch multi30k-de-en" in report.lines[-1] and not (tmp_path / "cache").exists()
    )
    folder = find(MULTI30K).fetch(tmp_path / "cache")
    report = check(MULTI30K, root=tmp_path / "cache")
    assert report.ok and sum(line.startswith("ok ") for line in report.lines) == 6
    data = (folder / "val.de.gz").read_bytes()
    (folder / "val.de.gz").write_bytes(b"wrong")
    report = check(MULTI30K, root=tmp_path / "cache")
    (line,) = [line for line in report.lines if line.startswith("wrong ")]
    assert not report.ok and "val.de.gz" in line
    for content in (b"wrong", data):
        assert hashlib.sha256(content).hexdigest() in line


def test_check_reports_files_that_are_intact_but_do_not_fit(tmp_path, home, monkeypatch):
    data = gzip.compress(b"eins\n", mtime=0)
    (find(MULTI30K).fetch(tmp_path) / "train.de.gz").write_bytes(data)
    sums = find(MULTI30K).files | {"train.de.gz": hashlib.sha256(data).hexdigest()}
    put(monkeypatch, MULTI30K, files=sums)
    report = check(MULTI30K, root=tmp_path)
    assert not report.ok and "train.de.gz has ended" in report.lines[-1]
    assert report.lines[-1].startswith("wrong ")


# The real corpora, where NMTLIB_DATA has them


@pytest.fixture
def real(request):
    name = request.param
    if not os.environ.get("NMTLIB_DATA"):
        pytest.skip("NMTLIB_DATA is not set: no real corpora")
    report = check(name)
    if not report.ok:
        pytest.skip(f"NMTLIB_DATA does not hold {name}: {report.lines[-1]}")
    before = tree(os.environ["NMTLIB_DATA"])
    yield load(name)
    assert tree(os.environ["NMTLIB_DATA"]) == before, "loading wrote into the cache"


# A folder need not hold every corpus: IWSLT's archive of 160,000 pairs is in few of them.
WANTED = [
    source.name
    for source in corpora.SOURCES
    if source.files and source.pairs and (source.complete() or not os.environ.get("NMTLIB_DATA"))
]


@pytest.mark.parametrize("real", WANTED, indirect=True)
def test_every_real_corpus_has_the_sizes_that_its_source_says(real):
    assert (len(real.train), len(real.validation), len(real.test)) == tuple(find(real.name).pairs)


@pytest.mark.parametrize("real", [MULTI30K], indirect=True)
def test_real_multi30k_is_raw_german_and_english(real):
    german, english = (
        " ".join(side) for side in zip(*((p.source, p.target) for p in real.train), strict=True)
    )
    assert "ß" in german and "ß" not in english and german != german.lower()
    assert " the " in english and " der " in german and " ." not in english[:2000]


@pytest.mark.parametrize("real", ["cmn-en-zh"], indirect=True)
def test_real_cmn_is_covered_by_its_vocabularies_only_with_the_marks(real):
    assert [len(table) for table in real.vocabularies] == [3_922, 3_775]
    english = Vocab(real.vocabularies[0])
    assert tuple(real.vocabularies[1][:4]) == SPECIALS
    tokens = [token for pair in real.test for token in pair.source.split() if token.endswith("@@")]
    marked = sum(token in english for token in tokens)
    stripped = sum(token.removesuffix("@@") in english for token in tokens)
    assert marked > 2 * stripped and marked > 0.8 * len(tokens)


@pytest.mark.parametrize("real", ["cmn-en-zh"], indirect=True)
def test_real_cmn_has_140_test_sentences_that_were_trained_on(real):
    found = {real.test[number].source for number in real.leaked()}
    assert len(found) == 140 and len({pair.source for pair in real.test}) == 2_617
