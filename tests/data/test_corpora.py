"""The registry: names, fetching into a cache, checking it, and the real corpora where they are."""

import errno
import gzip
import hashlib
import io
import os
import sys
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from urllib.error import URLError
from urllib.parse import urlsplit

import pytest

from nmtlib.data import corpora, iwslt
from nmtlib.data import download as downloading
from nmtlib.data.corpora import check, fetch, leaked, load, names
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.published import PUBLISHED
from nmtlib.data.vocab import SPECIALS, Vocab

MULTI30K = "multi30k-de-en"
REVERSED = {
    "toy-en-de": "toy-de-en",
    "toy-zh-en": "toy-en-zh",
    "multi30k-en-de": "multi30k-de-en",
    "cmn-zh-en": "cmn-en-zh",
    "iwslt14-en-de": "iwslt14-de-en",
}


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    """No test reaches beyond this machine, and waiting for a server that is not there takes no
    time.
    """
    real = downloading.urlopen

    def guarded(request, **options):
        if urlsplit(request.full_url).hostname != "127.0.0.1":
            raise URLError("no network in tests")
        return real(request, **options)

    monkeypatch.setattr(downloading, "urlopen", guarded)
    monkeypatch.setattr(downloading.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


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
    for name in PUBLISHED[MULTI30K].sha256:
        data = gzip.compress(
            b"eins\nzwei\n" if name.startswith("train") else name.encode(), mtime=0
        )
        (folder / name).write_bytes(data)
        sums[name] = hashlib.sha256(data).hexdigest()
    tiny = replace(PUBLISHED[MULTI30K], home=address, pairs=(2, 1, 1), sha256=sums)
    monkeypatch.setitem(corpora.PUBLISHED, MULTI30K, tiny)
    monkeypatch.setattr(iwslt, "TEST_SETS", dict.fromkeys(iwslt.TEST_SETS, 1))
    monkeypatch.setattr(iwslt, "URL", f"{address}/de-en.tgz")
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


def unpack_iwslt(root, keep=lambda name: True):
    folder = root / "iwslt" / "de-en"
    folder.mkdir(parents=True)
    for name, data in iwslt_files().items():
        if keep(name):
            (folder / name).write_bytes(data)


def tree(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*")}


# Names


def test_the_names_stand_in_the_order_of_the_course():
    assert names() == ["toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh", "iwslt14-de-en"]


@pytest.mark.parametrize("use", [load, fetch, check])
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("multi30-de-en", "multi30k-de-en"),
        ("iwslt14-en-d", "iwslt14-en-de"),
        ("Toy-de-en", "toy-de-en"),
        ("qqq", None),
    ],
)
def test_an_unknown_name_is_refused_with_all_names_and_the_nearest(tmp_path, use, wrong, hint):
    with pytest.raises(ValueError) as caught:
        use(wrong, root=tmp_path)
    message = str(caught.value)
    assert repr(wrong) in message and all(name in message for name in names())
    assert (f"did you mean {hint!r}?" in message) if hint else ("did you mean" not in message)


@pytest.mark.parametrize(("turned", "base"), REVERSED.items())
def test_both_directions_share_the_same_files(tmp_path, turned, base, home, toy):
    assert check(turned, root=tmp_path) == check(base, root=tmp_path)
    if base != "cmn-en-zh":  # the one that is not served here
        assert fetch(turned, root=tmp_path) == fetch(base, root=tmp_path)


def test_loading_a_reversed_name_turns_every_pair(tmp_path, home):
    forth, back = load("multi30k-de-en", root=tmp_path), load("multi30k-en-de", root=tmp_path)
    assert (
        back == forth.reversed() and back.name == "multi30k-en-de" and back.target_language == "de"
    )
    assert back.test != forth.test


@pytest.fixture
def toy(monkeypatch):
    module = ModuleType("nmtlib.toy")
    module.load_toy = lambda name: Corpus(
        name, *name.split("-")[1:], train=[Pair("a", "b")] * 3, test=[Pair("c", "d")]
    )
    monkeypatch.setitem(sys.modules, "nmtlib.toy", module)


def test_toy_corpora_come_from_their_generator_and_need_no_file(tmp_path, toy):
    assert load("toy-en-zh", root=tmp_path).train == [Pair("a", "b")] * 3
    assert load("toy-zh-en", root=tmp_path).train == [Pair("b", "a")] * 3
    assert fetch("toy-zh-en", root=tmp_path) == tmp_path and not tree(tmp_path)
    report = check("toy-de-en", root=tmp_path)
    assert report.ok and report.lines[1:] == ["train: 3 pairs", "test: 1 pairs"]


# Fetching


def test_missing_files_are_fetched_once_and_then_only_read(tmp_path, home):
    root = tmp_path / "cache"
    corpus = load(MULTI30K, root=root)
    assert corpus.train == [Pair("eins", "eins"), Pair("zwei", "zwei")]
    before = tree(root)
    assert {path.name for path in before if path.is_file()} == set(PUBLISHED[MULTI30K].sha256)
    for file in home.iterdir():
        file.unlink()  # whatever is asked of the server now fails
    assert fetch(MULTI30K, root=root) == root / "multi30k"
    assert load(MULTI30K, root=root) == corpus and check(MULTI30K, root=root).ok
    assert tree(root) == before


def test_the_cache_is_where_the_environment_says(tmp_path, home, monkeypatch):
    monkeypatch.setenv("NMTLIB_DATA", str(tmp_path / "elsewhere"))
    assert fetch(MULTI30K) == tmp_path / "elsewhere" / "multi30k"
    assert load(MULTI30K, root=str(tmp_path / "elsewhere")) == load(MULTI30K)


@pytest.mark.parametrize("use", [load, fetch])
@pytest.mark.parametrize(
    ("name", "file", "address"),
    [
        ("multi30k-en-de", "multi30k/train.de.gz", f"{PUBLISHED[MULTI30K].home}/train.de.gz"),
        ("cmn-en-zh", "cmn-eng-simple/training.txt", f"{PUBLISHED['cmn-en-zh'].home}/training.txt"),
        ("iwslt14-de-en", "iwslt/de-en.tgz", iwslt.URL),
    ],
)
def test_without_network_the_error_says_what_to_get_from_where(tmp_path, use, name, file, address):
    with pytest.raises(FileNotFoundError) as caught:
        use(name, root=tmp_path)
    message = str(caught.value)
    assert f"Get {address} and save it as {tmp_path / file}" in message
    assert (
        f"NMTLIB_DATA to a folder that holds {file}" in message and "no network in tests" in message
    )
    assert not tree(tmp_path)


def test_wrong_bytes_from_the_server_stay_out_of_the_cache(tmp_path, home):
    (home / "val.en.gz").write_bytes(gzip.compress(b"changed"))
    with pytest.raises(
        ValueError, match=r"val\.en\.gz is not the expected file.*SHA-256 is .*, expected"
    ):
        load(MULTI30K, root=tmp_path / "cache")
    left = {path.name for path in tree(tmp_path / "cache") if path.is_file()}
    assert left == {"train.de.gz", "train.en.gz", "val.de.gz"}


def test_a_damaged_file_in_the_cache_is_named_and_not_overwritten(tmp_path, home):
    folder = fetch(MULTI30K, root=tmp_path)
    (folder / "val.de.gz").write_bytes(b"damaged")
    for use in (load, fetch):
        with pytest.raises(
            ValueError, match=r"val\.de\.gz: its SHA-256 is .*, expected .*; delete this file"
        ):
            use(MULTI30K, root=tmp_path)
    assert (folder / "val.de.gz").read_bytes() == b"damaged"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.EACCES, FileNotFoundError), (errno.EROFS, FileNotFoundError), (errno.ENOSPC, OSError)],
)
def test_a_read_only_cache_lacks_the_file_and_a_full_disk_is_what_it_is(
    tmp_path, home, monkeypatch, number, expected
):
    def fail(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(downloading.os, "fsync", fail)
    with pytest.raises(OSError) as caught:
        load(MULTI30K, root=tmp_path / "cache")
    assert isinstance(caught.value, FileNotFoundError) is (expected is FileNotFoundError)
    assert os.strerror(number) in str(caught.value)


# IWSLT


def test_the_iwslt_archive_is_fetched_and_read_in_place(tmp_path, home):
    root = tmp_path / "cache"
    corpus = load("iwslt14-en-de", root=root)
    assert corpus.name == "iwslt14-en-de" and (len(corpus.train), len(corpus.validation)) == (23, 1)
    assert [path.name for path in tree(root) if path.is_file()] == ["de-en.tgz"]
    report = check("iwslt14-de-en", root=root)
    assert report.ok and "train: 23 pairs" in report.lines and "test: 5 pairs" in report.lines
    assert "note: 2 of 26 training pairs are left out for their lengths" in report.lines


def test_an_archive_with_other_contents_is_not_kept(tmp_path, home):
    (home / "de-en.tgz").write_bytes(b"<html>moved</html>")
    with pytest.raises(ValueError, match="de-en.tgz is not the expected file"):
        load("iwslt14-de-en", root=tmp_path / "cache")
    assert not [path for path in tree(tmp_path / "cache") if path.is_file()]


def test_unpacked_iwslt_files_need_no_archive(tmp_path, home):
    unpack_iwslt(tmp_path / "cache")
    before = tree(tmp_path / "cache")
    (home / "de-en.tgz").unlink()
    assert len(load("iwslt14-de-en", root=tmp_path / "cache").test) == 5
    report = check("iwslt14-de-en", root=tmp_path / "cache")
    assert report.ok and tree(tmp_path / "cache") == before
    assert sum("no published checksum" in line for line in report.lines) == 12


def test_with_the_test_files_alone_check_counts_them_and_load_gives_the_steps(tmp_path, home):
    unpack_iwslt(tmp_path, lambda name: name.endswith(".xml"))
    (home / "de-en.tgz").unlink()
    report = check("iwslt14-de-en", root=tmp_path)
    text = "\n".join(report.lines)
    assert not report.ok and "test: 5 segments" in report.lines
    assert "missing   the archive with the training pairs" in text
    assert f"Get {iwslt.URL} and save it as {tmp_path / 'iwslt' / 'de-en.tgz'}" in text
    with pytest.raises(FileNotFoundError, match="HTTP 404.*Get http.*de-en.tgz"):
        load("iwslt14-de-en", root=tmp_path)


@pytest.mark.parametrize("missing", ["train.tags.de-en.en", "IWSLT14.TED.tst2011.de-en.en.xml"])
def test_check_names_the_iwslt_file_that_is_missing(tmp_path, missing):
    unpack_iwslt(tmp_path, lambda name: name != missing)
    report = check("iwslt14-de-en", root=tmp_path)
    assert not report.ok
    assert [line for line in report.lines if line.startswith("missing") and line.endswith(missing)]


def test_check_reports_iwslt_files_that_do_not_match(tmp_path, home):
    unpack_iwslt(tmp_path)
    (tmp_path / "iwslt/de-en/train.tags.de-en.de").write_bytes(b"ja\n")
    report = check("iwslt14-de-en", root=tmp_path)
    assert not report.ok and report.lines[-1].startswith(
        "wrong     train.tags.de-en.de has 1 lines"
    )
    (tmp_path / "iwslt" / "de-en.tgz").write_bytes(b"damaged")
    report = check("iwslt14-de-en", root=tmp_path)
    assert (
        not report.ok and len(report.lines) == 1 and "de-en.tgz: not a complete" in report.lines[0]
    )


def test_check_compares_the_test_files_of_2016_with_their_checksums(tmp_path):
    folder = tmp_path / "iwslt" / "de-en"
    folder.mkdir(parents=True)
    (folder / "IWSLT16.TED.dev2010.de-en.de.xml").write_bytes(b"changed")
    report = check("iwslt14-de-en", root=tmp_path)
    assert (
        not report.ok
        and report.lines[0].startswith("wrong ")
        and "expected 669c478b" in report.lines[0]
    )


def test_check_is_not_ok_while_a_checksum_is_wrong_even_if_all_files_fit(tmp_path, home):
    unpack_iwslt(tmp_path)
    for path in (tmp_path / "iwslt" / "de-en").glob("IWSLT14.*"):
        path.rename(path.with_name(path.name.replace("IWSLT14", "IWSLT16")))
    report = check("iwslt14-de-en", root=tmp_path)
    assert not report.ok and sum(line.startswith("wrong ") for line in report.lines) == 10
    assert "test: 5 pairs" in report.lines


# Checking


def test_check_tells_ok_missing_and_wrong_apart_without_fetching(tmp_path, home):
    report = check(MULTI30K, root=tmp_path / "cache")
    assert not report.ok and sum(line.startswith("missing ") for line in report.lines) == 6
    assert (
        "nmtlib data fetch multi30k-de-en" in report.lines[-1] and not (tmp_path / "cache").exists()
    )
    folder = fetch(MULTI30K, root=tmp_path / "cache")
    report = check(MULTI30K, root=tmp_path / "cache")
    assert report.ok and sum(line.startswith("ok ") for line in report.lines) == 6
    assert report.lines[-3:] == ["train: 2 pairs", "validation: 1 pairs", "test: 1 pairs"]
    data = (folder / "val.de.gz").read_bytes()
    (folder / "val.de.gz").write_bytes(b"wrong")
    report = check(MULTI30K, root=tmp_path / "cache")
    (line,) = [line for line in report.lines if line.startswith("wrong ")]
    assert not report.ok and "val.de.gz" in line
    for content in (b"wrong", data):
        assert hashlib.sha256(content).hexdigest() in line


def test_check_reports_files_that_are_intact_but_do_not_fit(tmp_path, home, monkeypatch):
    fetch(MULTI30K, root=tmp_path)
    monkeypatch.setitem(corpora.PUBLISHED, MULTI30K, replace(PUBLISHED[MULTI30K], pairs=(9, 1, 1)))
    report = check(MULTI30K, root=tmp_path)
    assert (
        not report.ok
        and report.lines[-1].startswith("wrong ")
        and "expected (9, 1, 1)" in report.lines[-1]
    )


def test_leaked_finds_test_sources_that_were_trained_on():
    train = [Pair("a", "x"), Pair("b", "y")]
    test = [Pair("c", "x"), Pair("a", "z"), Pair("b", "y"), Pair("a", "z")]
    corpus = Corpus("t-de-en", "de", "en", train=train, test=test)
    assert leaked(corpus) == {1, 2, 3}
    assert leaked(replace(corpus, train=[])) == set() == leaked(replace(corpus, test=[]))


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


@pytest.mark.parametrize("real", [MULTI30K], indirect=True)
def test_real_multi30k_is_raw_german_and_english(real):
    assert (len(real.train), len(real.validation), len(real.test)) == (29_000, 1_014, 1_000)
    german, english = (
        " ".join(side) for side in zip(*((p.source, p.target) for p in real.train), strict=True)
    )
    assert "ß" in german and "ß" not in english and german != german.lower()
    assert " the " in english and " der " in german and " ." not in english[:2000]


@pytest.mark.parametrize("real", ["cmn-en-zh"], indirect=True)
def test_real_cmn_is_covered_by_its_vocabularies_only_with_the_marks(real):
    assert (len(real.train), len(real.validation), len(real.test)) == (18_000, 500, 2_636)
    assert [len(table) for table in real.vocabularies] == [3_922, 3_775]
    english = Vocab(real.vocabularies[0])
    assert tuple(real.vocabularies[1][:4]) == SPECIALS
    tokens = [token for pair in real.test for token in pair.source.split() if token.endswith("@@")]
    marked = sum(token in english for token in tokens)
    stripped = sum(token.removesuffix("@@") in english for token in tokens)
    assert marked > 2 * stripped and marked > 0.8 * len(tokens)


@pytest.mark.parametrize("real", ["cmn-en-zh"], indirect=True)
def test_real_cmn_has_140_test_sentences_that_were_trained_on(real):
    found = {real.test[number].source for number in leaked(real)}
    assert len(found) == 140 and len({pair.source for pair in real.test}) == 2_617
    assert (
        "note: the source of 140 test pairs also stands in the training set"
        in check(real.name).lines
    )


def test_real_iwslt_test_files_are_counted_and_the_archive_asked_for():
    root = os.environ.get("NMTLIB_DATA")
    if not root or not (Path(root) / "iwslt" / "de-en").is_dir():
        pytest.skip("NMTLIB_DATA does not hold the unpacked IWSLT test files")
    before = tree(root)
    report = check("iwslt14-de-en")
    if report.ok:
        assert "test: 6,750 pairs" in report.lines
    else:
        assert "test: 6,750 segments" in report.lines
        with pytest.raises(FileNotFoundError, match="save it as .*de-en.tgz"):
            load("iwslt14-de-en")
    assert tree(root) == before
