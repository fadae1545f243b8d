"""The IWSLT'14 recipe on a tiny release of the same format, written here."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtcourse.recipes import iwslt
from nmtcourse.recipes.iwslt import IWSLT14, clean, count_tokens, read_archive, split
from nmtlib.data.corpus import Pair

TINY_SETS = {"TED.dev2010": 2, "TEDX.dev2012": 1}
TINY_SETS |= {"TED.tst2010": 3, "TED.tst2011": 1, "TED.tst2012": 2}
TALK = {
    "de": "<url>http://x</url>\n<keywords>Wort, a</keywords>\n"
    "<speaker>Ada</speaker>\n<talkid>7</talkid>\n"
    "<title>Ein Titel hier</title>\n<description>TED: Worum es geht</description>\n",
    "en": "<url>http://x</url>\n<keywords>word</keywords>\n<speaker>Ada</speaker>\n<talkid>7</talkid>\n"
    "<title>A title here</title>\n<description>TED: what it is about</description>\n",
}
END = '<reviewer href="x">R</reviewer>\n<translator href="y">T</translator>\n'
LINES = 60


@pytest.fixture(autouse=True)
def tiny_sets(monkeypatch):
    monkeypatch.setattr(iwslt, "TEST_SETS", TINY_SETS)


def xml(side, name, count):
    segments = "".join(
        f'<seg id="{n}"> {side} {name} Satz {n}: “R &amp; D”, it’s &lt;so&gt; </seg>\n'
        for n in range(1, count + 1)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="x">\n<doc docid="1">\n'
        f"<title>Titel, kein Segment</title>\n{segments}</doc>\n</srcset>\n</mteval>\n"
    ).encode()


def release(sets=None):
    """File name -> contents of a small release: one talk of 60 lines and all test sets."""
    files = {}
    for side in ("de", "en"):
        lines = "".join(f" Die Zeile {n} ist {side}. \n" for n in range(1, LINES + 1))
        files[f"train.tags.de-en.{side}"] = f"{TALK[side]}{lines}{END}".encode()
        for name, count in (sets or TINY_SETS).items():
            files[f"IWSLT14.{name}.de-en.{side}.xml"] = xml(side, name, count)
    return files


def pack(path, files, *extra, folder="de-en/"):
    """A .tgz of the files; `extra` are (TarInfo, contents or None) put in front."""
    path.parent.mkdir(parents=True, exist_ok=True)
    members = [(plain(folder + name, data), data) for name, data in files.items()]
    with tarfile.open(path, "w:gz") as archive:
        for member, data in [*extra, *members]:
            archive.addfile(member, None if data is None else io.BytesIO(data))
    return path


def plain(name, data=b"", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    return member


def read(tmp_path, files):
    """The corpus of an archive of these files."""
    return IWSLT14.read(pack(tmp_path / "de-en.tgz", files).parent)


def tree(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*")}


# The recipe


def test_the_whole_recipe(tmp_path):
    corpus = read(tmp_path, release())
    before = tree(tmp_path)
    assert IWSLT14.read(tmp_path) == corpus and tree(tmp_path) == before  # reading writes nothing
    languages = corpus.source_language, corpus.target_language
    assert corpus.name == "iwslt14-de-en" and languages == ("de", "en")
    titles = [("ein titel hier", "a title here"), ("ted: worum es geht", "ted: what it is about")]
    text = [Pair(*title) for title in titles]
    text += [Pair(f"die zeile {n} ist de.", f"die zeile {n} ist en.") for n in range(1, LINES + 1)]
    assert list(corpus.validation) == [text[22], text[45]]  # the 23rd and the 46th
    assert list(corpus.train) == [pair for pair in text if pair not in corpus.validation]
    expected = [(name, n) for name, count in TINY_SETS.items() for n in range(1, count + 1)]
    texts = [f"{name.lower()} satz {n}: “r & d”, it's <so>" for name, n in expected]
    assert list(corpus.test) == [Pair(f"de {text}", f"en {text}") for text in texts]


def test_apostrophes_are_straightened_in_the_test_files_only():
    files = release()
    files["train.tags.de-en.de"] = files["train.tags.de-en.en"] = "It’s A &amp; B\n".encode()
    assert iwslt.training_pairs(files) == [Pair("it’s a & b", "it’s a & b")]
    assert iwslt.segments('<seg id="4">It’s</seg>'.encode(), "x") == [(4, "it's")]


def test_other_folders_and_files_in_the_archive_do_not_matter_and_nothing_is_written(tmp_path):
    extra = [(plain("de-en/README", b"x"), b"x"), (plain("de-en", type=tarfile.DIRTYPE), None)]
    extra += [(plain(name, b"x"), b"x") for name in ("/etc/x", "../x", "de-en/../../x", "C:x")]
    for number, folder in enumerate(("", "./de-en/", "iwslt/de-en/")):
        path = pack(tmp_path / str(number) / "de-en.tgz", release(), *extra, folder=folder)
        before = tree(tmp_path)
        assert read_archive(path) == release() and tree(tmp_path) == before


# Cleaning and splitting

sentences = st.lists(
    st.sampled_from(["ja", "nein,", "--", "It's", "1,000", "a-b", "", "\u2028"]), max_size=6
).map(" ".join)
pairs = st.lists(st.builds(Pair, sentences, sentences), max_size=50)


@given(pairs)
def test_cleaning_keeps_exactly_the_pairs_of_fit_lengths(given_pairs):
    def fits(pair):
        a, b = count_tokens(pair.source), count_tokens(pair.target)
        return a > 0 and b > 0 and 2 * a <= 3 * b and 2 * b <= 3 * a

    assert clean(given_pairs) == [pair for pair in given_pairs if fits(pair)]
    turned = clean([pair.reversed() for pair in given_pairs])
    assert turned == [pair.reversed() for pair in clean(given_pairs)]


def test_the_limits_of_length_and_ratio():
    fit = [(1, 1), (2, 3), (4, 6), (175, 175), (117, 175)]
    unfit = [(0, 0), (0, 1), (2, 4), (4, 7), (175, 176), (176, 176), (116, 175)]
    for sizes in (*fit, *unfit):
        for a, b in (sizes, sizes[::-1]):
            pairs = [Pair("w " * a, "w " * b)]
            assert clean(pairs) == (pairs if sizes in fit else []), sizes


@given(st.lists(st.integers(), unique=True, max_size=100))
def test_every_23rd_pair_validates_and_none_is_lost(numbers):
    train, validation = split(numbers)
    assert [numbers.index(n) for n in validation] == list(range(22, len(numbers), 23))
    assert sorted(train + validation) == sorted(numbers)
    assert train == [n for n in numbers if n in train]


def test_tokens_are_counted_as_moses_cuts_them():
    texts = ["Hello , world !", "Hello, world!", "Yak-Hirte", "it's", "er... ja", "(a)", ""]
    assert [count_tokens(text) for text in texts] == [4, 4, 1, 2, 3, 3, 0]


# Files that do not fit


def test_unequal_training_files_are_refused_with_both_counts(tmp_path):
    for change in (lambda b: b + b"one more\n", lambda b: b.replace(b" Die Zeile 9 ist", b"<url>")):
        for side in ("de", "en"):
            files = release()
            files[f"train.tags.de-en.{side}"] = change(files[f"train.tags.de-en.{side}"])
            with pytest.raises(ValueError, match=r"has 6[123] lines of text, .* has 6[123];"):
                read(tmp_path, files)
    with pytest.raises(ValueError, match="has 0 lines"):
        iwslt.training_pairs(release() | dict.fromkeys(release(), b"<url>x</url>\n"))


def test_test_files_that_do_not_match_are_refused(tmp_path):
    name = "IWSLT14.TED.tst2010.de-en.en.xml"
    for change in (
        lambda b: b.replace(b'<seg id="2">', b'<seg id="5">'),
        lambda b: b"".join(line for line in b.splitlines(True) if b'id="2"' not in line),
        lambda b: b.replace(b"</doc>", b'<seg id="4"> one more </seg>\n</doc>'),
        lambda b: b"",
    ):
        files = release()
        with pytest.raises(ValueError, match="tst2010: .*expected 3 in each"):
            read(tmp_path, files | {name: change(files[name])})
    files = release(sets=TINY_SETS | {"TED.tst2010": 2})
    with pytest.raises(ValueError, match="2 German and 2 English segments; expected 3"):
        read(tmp_path, files)


BROKEN = """<seg id="2"> open
closed </seg>
<seg id="2"> a </seg><seg id="3"> b </seg>
<seg> a </seg>
<seg id="2"> a <seg> b </seg>
<seg id="2"> a </seg> b
<seg id="zwei"> a </seg>"""


def test_a_broken_segment_is_refused_by_file_and_line():
    for broken in BROKEN.splitlines():
        with pytest.raises(ValueError, match=r"some\.xml, line 3: expected <seg"):
            iwslt.segments(f'<doc>\n<seg id="1"> gut </seg>\n{broken}\n'.encode(), "some.xml")
    with pytest.raises(ValueError, match=r"some\.xml, line 2: not valid UTF-8"):
        iwslt.segments(b"<doc>\n\xff\n", "some.xml")
    assert iwslt.segments(b'<seg id="1"></seg>\n<seg id="2"> a </seg>', "x") == [(1, ""), (2, "a")]


def test_what_is_missing_is_named_and_a_link_or_a_pipe_is_not_read(tmp_path):
    files, name = release(), "train.tags.de-en.de"
    links = {tarfile.SYMTYPE: "/etc/passwd", tarfile.LNKTYPE: "de-en/README", tarfile.FIFOTYPE: ""}
    members = [plain(f"de-en/{name}", type=kind, linkname=to) for kind, to in links.items()]
    del files[name]
    for extra in ([], *([(member, None)] for member in members)):
        path = pack(tmp_path / "de-en.tgz", files, *extra)
        with pytest.raises(ValueError, match=f"not the IWSLT'14 archive: it lacks {name}"):
            read_archive(path)


# Damaged archives


def test_a_damaged_archive_and_something_else_under_its_name_are_refused(tmp_path):
    whole = (path := pack(tmp_path / "de-en.tgz", release())).read_bytes()
    parts = [whole[: int(share * len(whole))] for share in (0.1, 0.5, 0.999)]
    others = b"<html>moved</html>", b"", *(gzip.compress(data, mtime=0) for data in (b"no", b""))
    for content in (*parts, *others):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="^not (a complete .tgz|the IWSLT'14) archive"):
            read_archive(path)


def test_a_changed_byte_is_found_by_the_checksum_of_gzip(tmp_path):
    path = pack(tmp_path / "de-en.tgz", release())
    data = gzip.decompress(path.read_bytes())
    # Stored without compression, so that the changed letter leaves the stream itself intact.
    stored = gzip.compress(data, compresslevel=0)
    path.write_bytes(stored.replace(b"Die Zeile 9 ist de", b"Die Zeile 9 war de"))
    with pytest.raises(ValueError, match="not a complete .tgz archive"):
        read_archive(path)


def test_a_member_that_stands_twice_refuses_the_archive(tmp_path):
    name, data = next(iter(release().items()))
    path = pack(tmp_path / "de-en.tgz", release(), (plain(f"other/{name}", data), data))
    with pytest.raises(ValueError, match=f"{name} is in it twice"):
        read_archive(path)


# The released test files


@pytest.fixture
def real_files():
    root = os.environ.get("NMTLIB_DATA")
    if not root:
        pytest.skip("NMTLIB_DATA is not set: no real test files")
    files = {path.name: path.read_bytes() for path in Path(root).glob("iwslt/de-en/*.xml")}
    if not files:
        pytest.skip(f"{root} does not hold the IWSLT test files")
    # The campaign of 2016 released the same files again under its own name.
    return {name.replace("IWSLT16", "IWSLT14"): data for name, data in files.items()}


def test_the_released_test_sets_have_6750_aligned_segments(real_files, monkeypatch):
    monkeypatch.undo()  # the real sizes of the test sets
    assert sum(iwslt.TEST_SETS.values()) == 6750
    test = iwslt.evaluation_pairs(real_files)
    assert len(test) == 6750
    for pair in test:
        for text in (pair.source, pair.target):
            assert text and text == text.lower().strip() and "’" not in text
            assert "<seg" not in text and "&amp;" not in text
    # Translations of each other: long sentences have long partners.
    fit = [p for p in test if 0.5 <= len(p.source) / len(p.target) <= 2]
    assert len(fit) > 0.95 * len(test)
