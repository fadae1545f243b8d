"""What a file is: recognised by its bytes, read where it holds pairs, otherwise explained."""

import csv
import gzip
import io
import tarfile
import zipfile

import pytest
from broken_corpora import levels, nothing, run, toy
from hypothesis import given
from hypothesis import strategies as st

from nmtcourse.corpora import READERS
from nmtcourse.doctor.files import look_at, proposals
from nmtcourse.formats.entries import LONGEST_LINE
from nmtcourse.formats.tables import header_of
from nmtlib.data.corpus import read_pairs

PAIRS = toy(train=300)["train"]
LANGUAGES = ("--languages", "de", "en")
RUSSIAN = "Собака бежит по улице , а кошка спит дома .\nМальчик читает книгу .\n" * 20


def tmx(pairs, first="de", second="en"):
    units = "".join(
        f'<tu><prop>x</prop><tuv xml:lang="{second}"><seg>{b} &amp; <hi>co</hi></seg></tuv>'
        f'<tuv xml:lang="{first}"><seg>{a}\n</seg></tuv></tu>'
        for a, b in pairs
    )
    return f'<?xml version="1.0"?><tmx version="1.4"><header/><body>{units}</body></tmx>'


def table(rows):
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("tags", [("de", "en"), ("DE-de", "en_US"), ("deu", "eng")])
def test_tmx_is_read_by_its_languages(tmp_path, tags):
    data = tmx(PAIRS, *tags).encode()
    for name, written in (("pairs.tmx", data), ("pairs.tmx.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(written)
        status, text = run("data", "check", tmp_path / name, *LANGUAGES)
        assert status == 0 and nothing(text) and "train: 300 of 30" in text
        pairs = read_pairs([tmp_path / name], ("de", "en"), READERS)
        assert [(p.source, p.target) for p in pairs] == [(a, f"{b} & co") for a, b in PAIRS]


NUMBERED = list(enumerate(PAIRS))
COLUMNS = {
    "Tatoeba's links": ("x.tsv", [(i, b, i + 7, a) for i, (a, b) in NUMBERED], "\t"),
    "an attribution": ("x.txt", [(a, b, f"CC-BY 2.0 #{i}") for i, (a, b) in NUMBERED], "\t"),
    "three bars": ("x.txt", PAIRS, " ||| "),
    "semicolons": ("x.txt", PAIRS, ";"),
    "a header": ("x.tsv", [("source", "target"), *PAIRS], "\t"),
    "a header of tags": ("x.tsv", [("de", "en"), *PAIRS], "\t"),
    "a table": (
        "x.csv",
        [("id", "left", "right"), *((i, b, a) for i, (a, b) in NUMBERED)],
        ",",
    ),
}


@pytest.mark.slow
def test_columns_that_training_refuses_are_proposed_and_written_by_fix(tmp_path):
    for name, (file, rows, separator) in COLUMNS.items():
        path, clean = tmp_path / file, tmp_path / f"clean {name}"
        text = "".join(separator.join(map(str, r)) + "\n" for r in rows)
        path.write_text(table(rows) if separator == "," else text, "utf-8")
        status, text = run("data", "check", path, *LANGUAGES, "--fix", clean)
        assert status == 1, name
        with pytest.raises((ValueError, AssertionError), match="column|one more"):
            assert len(read_pairs([path], ("de", "en"), READERS)) == 300, "a header is one more"
        pairs = read_pairs([clean / f"train.{end}" for end in ("de", "en")])
        assert [(pair.source, pair.target) for pair in pairs] == PAIRS, text


def archive(kind):
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("a.de", "ein Hund\n")
    else:
        with tarfile.open(fileobj=file, mode=f"w:{kind}") as tar:
            tar.addfile(tarfile.TarInfo("a.de"))
    return file.getvalue()


UNREADABLE = {
    "zip": (archive("zip"), "a zip archive", "unzip"),
    "tar": (archive(""), "a tar archive", "tar xf"),
    "tgz": (archive("gz"), "a tar archive", "tar xf"),
    "bz2": (b"BZh91AY&SY", "bzip2", "bunzip2"),
    "xz": (b"\xfd7zXZ\0\0", "xz", "unxz"),
    "zst": (b"\x28\xb5\x2f\xfd\0", "zstd", "unzstd"),
    "pdf": (b"%PDF-1.7\n", "a PDF", "export"),
    "parquet": (b"PAR1\0\0", "Parquet", "JSON lines"),
    "html": (b"<!DOCTYPE html>\n<html>404", "a web page", "download"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "Git LFS", "git lfs pull"),
    "srt": (b"1\n00:00:01,000 --> 00:00:02,000\nHallo\n", "subtitles", "align"),
    "po": (b'# x\nmsgid "a"\nmsgstr "b"\n', "PO file", "po2tmx --source-language"),
    "xliff": (b'<?xml version="1.0"?><xliff version="1.2">', "XLIFF", "alone"),
    "sgm": (b'<srcset setid="x"><doc>\n<seg id="1">a</seg>', "mteval", "<seg>"),
    "bin": (bytes(range(256)) * 4, "a binary file", "text file"),
    "empty": (b"", "empty", "sentence a line"),
    "mac": (b"ein Hund\rzwei\rdrei\rvier\rf\xc3\xbcnf\r", "an old Mac", "tr "),
    "gz": (gzip.compress(b"ein Hund\n" * 999)[:-20], "a damaged gzip file", "fetch"),
}


def test_what_is_no_text_is_recognised_with_a_remedy(tmp_path):
    (tmp_path / "file.en").write_text("a dog\n" * 5)
    for name, (data, what, remedy) in UNREADABLE.items():
        (tmp_path / f"file.{name}").write_bytes(data)
        status, text = run("data", "check", tmp_path / f"file.{name}", tmp_path / "file.en")
        assert status == 1 and levels(text)[0] == "wrong", name
        assert what in text and remedy in text


ENCODED = {
    "cp1252": ("müde Äpfel für Größe\n" * 30, "de"),
    "cp1251": (RUSSIAN, "ru"),
    "gb18030": ("他正在厨房里喝水。\n你想在哪里和她一起跳舞？\n" * 20, "zh"),
    "cp932": ("犬が走っています。\n猫が好きです。\n" * 20, "ja"),
    "cp1250": ("Żółw biegnie ścieżką wśród łąk\n" * 20, "pl"),
}


def test_an_encoding_is_proposed_with_a_line_read_in_it(tmp_path):
    path = tmp_path / "x"
    for encoding, (text, language) in ENCODED.items():
        first, *more = proposals(text.encode(encoding), language)
        assert first == (encoding, text.splitlines()[0]) and len(more) < 3
        path.write_bytes(text.encode(encoding))
        look = look_at(path, language)
        assert f"iconv -f {encoding.upper()} -t UTF-8 {path}" in look.advice
        assert look_at(path, language, encoding).problem == ""


@given(st.lists(st.lists(st.text(max_size=8), min_size=1, max_size=4), max_size=30))
def test_a_header_is_the_first_row_or_none_whatever_the_rows_are(rows):
    names = header_of(rows, ("de", "en"))
    assert names == [] or len(names) == len(rows[0])


def test_lines_without_a_letter_are_told_in_a_line(tmp_path):
    (tmp_path / "emo.tsv").write_text("👍\t🎉\n— \t…\n", "utf-8")
    status, text = run("data", "check", tmp_path / "emo.tsv", *LANGUAGES)
    assert status == 1 and "no line has a word" in text
    (tmp_path / "nul.tsv").write_bytes(b"\0")
    assert run("data", "check", tmp_path / "nul.tsv", *LANGUAGES)[0] == 1


def test_a_gzip_of_one_endless_line_is_refused_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "train.de.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"x" * LONGEST_LINE)
    read = 0
    whole = gzip.GzipFile.readline

    def counting(self, size=-1):
        nonlocal read
        line = whole(self, size)
        read += len(line)
        return line

    monkeypatch.setattr(gzip.GzipFile, "readline", counting)
    status, text = run("data", "check", path, path, *LANGUAGES)
    assert status == 1 and "line 1: more than 1 MB without a line end" in text
    assert read < 8 * LONGEST_LINE, "the rest is not read"


def test_doctor_is_another_name_of_data_check(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), "utf-8")
    arguments = (tmp_path / "pairs.tsv", *LANGUAGES)
    assert run("doctor", *arguments) == run("data", "check", *arguments)
