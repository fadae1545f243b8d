"""Bad text corpora: one's own training files, and standard input of `nmtlib translate`."""

from __future__ import annotations

import gzip

from case import SENTENCE, Case
from tiny import PRESET

GOOD = "der hund schläft heute .\tthe dog sleeps today .\n" * 8
TWO_FILES = PRESET.replace('["train.tsv"]', '["train.de", "train.en"]').encode()
GZIPPED = PRESET.replace('["train.tsv"]', '["train.tsv.gz"]').encode()
BPE = PRESET.replace('"whitespace"', '"bpe"\nsize = 120').encode()
SPACY = PRESET.replace('"whitespace"', '"spacy"').encode()
TRAIN = ("train", "own.toml", "--out", "new", "--set", "epochs=1")
MEGABYTE = "ab" * 500_000


def tsv(given: str, text: str | bytes, says: str = "", status=1, split="train", **rest) -> Case:
    """Training with this in one TSV file."""
    data = text.encode() if isinstance(text, str) else text
    files = {f"{split}.tsv": data, **rest.pop("files", {})}
    makes = ("new/*",) if status != 1 else ()
    return Case("text corpora", given, TRAIN, says, status, files, makes=makes, **rest)


def two(given: str, source: bytes, target: bytes, says: str = "", status=1) -> Case:
    """Training with these two files."""
    files = {"own.toml": TWO_FILES, "train.de": source, "train.en": target}
    makes = ("new/*",) if status == 0 else ()
    return Case("text corpora", given, TRAIN, says, status, files, makes=makes)


def zipped(given: str, data: bytes, says: str) -> Case:
    """Training with this in a file whose name ends in .gz."""
    files = {"own.toml": GZIPPED, "train.tsv.gz": data}
    return Case("text corpora", given, TRAIN, says, 1, files)


def with_line(line: str | bytes, number: int = 5) -> bytes:
    """Good lines and a bad one."""
    lines = GOOD.encode().splitlines(keepends=True)
    bad = line.encode() if isinstance(line, str) else line
    return b"".join([*lines[: number - 1], bad + b"\n", *lines[number - 1 :]])


def each_split() -> list[Case]:
    """What no split may be."""
    cases = []
    for split in ("train", "validation", "test"):
        many = [
            ("empty", b"", "no sentences"),
            ("blank lines only", b"\n \n\t\n", ""),
            ("a column missing", with_line("no tab in here"), "line 5"),
            ("a column too many", with_line("a\tb\tc"), "line 5"),
            ("an empty source", with_line("\tthe dog"), "5"),
            ("a target of white space", with_line("der hund\t \u3000"), "5"),
            ("not UTF-8", with_line("über\tover".encode("latin-1")), "line 5"),
            ("half a character at the end", GOOD.encode() + b"a\tb\xc3", "line 9"),
            ("UTF-16", GOOD.encode("utf-16"), "UTF-8"),
            ("gzip without the ending .gz", gzip.compress(GOOD.encode()), "UTF-8"),
        ]
        cases += [tsv(f"{split}: {g}", data, says, split=split) for g, data, says in many]
    return cases


HUGE = with_line(f"{MEGABYTE}\tx")
NUL = tsv("a NUL in line 5", with_line("der\0hund\tthe dog"), "", (0, 1))
PAIRS = [
    two("more lines on one side", b"a\nb\nc\n", b"x\ny\n", "line"),
    two("both sides empty", b"", b"", "no sentences"),
    two("an empty line on one side", b"a\n\nc\n", b"x\ny\nz\n", "2"),
    two("Latin-1 on one side", "ä\nb\n".encode("latin-1"), b"x\ny\n", "line 1"),
    two("no line break at the end, which is fine", b"a b\n" * 7 + b"a b", b"x y\n" * 8, "", 0),
]
ZIPPED = [
    zipped("a .gz that is none", GOOD.encode(), "gzip"),
    zipped("half a .gz", gzip.compress(GOOD.encode())[:60], "gzip"),
    zipped("a .gz of nothing", gzip.compress(b""), "no sentences"),
]
SPECIAL = [
    tsv("a literal <EOS>", with_line("der <EOS> hund\tthe dog"), "<EOS>"),
    tsv("a literal <BOS> in validation", with_line("<BOS>\tthe"), "<BOS>", split="validation"),
    tsv("the mark ▁ for spaces, with BPE", with_line("der▁hund\tx"), "▁", files={"own.toml": BPE}),
    tsv("the mark ▁ with spaCy", with_line("der▁hund\tx"), "▁", files={"own.toml": SPACY}),
    tsv("▁ with words, which is fine", with_line("der▁hund\tx"), "", 0),
    tsv("<EOS> with BPE, which is fine", with_line("a <EOS>\tb"), "", 0, files={"own.toml": BPE}),
    tsv("a word of a megabyte", HUGE, "line 5"),
    tsv("a word of 1,000 letters, which is fine", with_line("a" * 1000 + "\tx"), "", 0),
    tsv("a line of 200,000 words", with_line("a " * 200_000 + "\tx"), "left out", 0),
    tsv("a byte order mark, which is fine", b"\xef\xbb\xbf" + GOOD.encode(), "", 0),
    tsv("U+2028 in a sentence, which is fine", with_line("der\u2028hund\tthe dog"), "", 0),
    tsv("one pair, which is fine", "a b\tx y\n", "1 training pairs", 0),
    tsv("emoji and signs, which are fine", with_line("🙂 $\\frac{1}$ %s {}\t🙃 ${x}$"), "", 0),
    NUL,
]

TRANSLATE = ("translate", "run")
WORDS = SENTENCE.encode()


def stdin(given: str, data: bytes, says: str = "", status=0, lines=1) -> Case:
    """Translate this from standard input."""
    return Case("standard input", given, TRANSLATE, says, status, stdin=data, lines=lines)


LONG = b"hund " * 50
STDIN = [
    stdin("nothing", b""),
    stdin("no line break at the end", WORDS, "\n", lines=0),
    stdin("empty lines only", b"\n\n\n", "\n\n\n"),
    stdin("a byte order mark", b"\xef\xbb\xbf" + WORDS + b"\n", "\n", lines=0),
    stdin("a lone carriage return", WORDS + b"\r" + WORDS + b"\n"),
    stdin("U+2028 in a line", "der\u2028hund\n".encode()),
    stdin("not UTF-8", b"der hund\n\xff\xfe\n", "line 2", 1),
    stdin("UTF-16", SENTENCE.encode("utf-16"), "this is UTF-16", 1),
    stdin("a NUL", b"der\0hund\n", "line 1", 1),
    stdin("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "line 1", 1, 4),
    stdin("one long line among good ones", WORDS + b"\n" + LONG + b"\n" + WORDS, "line 2", 1),
    stdin("a too long line in the second thousand", (WORDS + b"\n") * 1500 + LONG, "line 1501", 1),
    stdin("a megabyte of words in a line", b"hund " * 200_000, "line 1", 1),
    stdin("a literal <EOS>", b"der <EOS> hund\n", "line 1", 1),
    stdin("a literal <UNK>, which is a word", b"der <UNK> hund\n"),
    stdin("an unknown word", b"der elefant schl\xc3\xa4ft heute .\n"),
    stdin("terminal escapes", b"\x1b[31mder\x1b[0m hund\n"),
    stdin("10,000 lines", (WORDS + b"\n") * 10_000, "\n", lines=0),
]


def sentence(given: str, *sentences: str, says: str = "", status=0, lines=1) -> Case:
    """Translate these arguments."""
    return Case("sentences given", given, (*TRANSLATE, *sentences), says, status, lines=lines)


SENTENCES = [
    sentence("an empty sentence", "", says="\n"),
    sentence("a line break inside", "der hund\nschläft heute .", says="\n"),
    sentence("bytes that are not UTF-8", "der \udcff hund", says="UTF-8", status=1),
    sentence("a too long one among good ones", SENTENCE, "hund " * 50, says="2", status=1),
    sentence("a literal <PAD>", "der <PAD>", says="<PAD>", status=1),
    sentence("an unknown word", "der elefant schläft heute .", says="\n"),
    sentence("a sentence like an option", "--", "--beam", says=""),
]

CASES = [*each_split(), *PAIRS, *ZIPPED, *SPECIAL, *STDIN, *SENTENCES]
