"""IWSLT'14 German-English: talks from TED, read straight out of the published archive.

The recipe is that of fairseq's `examples/translation/prepare-iwslt14.sh`, which gives 160,239 pairs
to train, 7,283 to validate and 6,750 to test.  There are two differences.  There the length limits
count the tokens of Moses' tokenizer; here `count_tokens` comes close to it with one regular
expression, so a pair near a limit may be kept here and dropped there.  And the text stays
untokenized, with XML entities (`&amp;`) resolved.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any
from xml.sax.saxutils import unescape

from nmtlib.data.corpora import Source
from nmtlib.data.corpus import Pair
from nmtlib.files import decoded_lines

ARCHIVE = "de-en.tgz"
TRAINING = ("train.tags.de-en.de", "train.tags.de-en.en")
# The segments of each test set, in the order in which the recipe joins them: 6,750 together.
TEST_SETS = {
    "TED.dev2010": 887,
    "TEDX.dev2012": 1165,
    "TED.tst2010": 1565,
    "TED.tst2011": 1433,
    "TED.tst2012": 1700,
}
MAX_TOKENS, MAX_RATIO, VALIDATION_EVERY = 175, 1.5, 23

_OTHER_TAGS = re.compile(r"</?(?:url|talkid|keywords|speaker|reviewer|translator|doc)\b")
_TEXT_TAGS = re.compile(r"</?(?:title|description)>")
_SEGMENT = re.compile(r'<seg id="(\d+)">((?:(?!</?seg\b).)*)</seg>')
_TOKEN = re.compile(r"\w+(?:[-.,]\w+)*|'\w+|-+|\.+|[^\w\s]")


def files_of(name: str) -> tuple[str, str]:
    """The German and the English file of a test set."""
    return f"IWSLT14.{name}.de-en.de.xml", f"IWSLT14.{name}.de-en.en.xml"


def read(folder: Path) -> dict[str, Any]:
    """The splits, lower-cased as the recipe has it.  Raises ValueError for unfit files."""
    try:
        release = read_archive(folder / ARCHIVE)
    except ValueError as error:
        raise ValueError(f"{folder / ARCHIVE}: {error}; delete it and fetch it again") from None
    pairs = training_pairs(release)
    cleaned = clean(pairs)
    train, validation = split(cleaned)
    dropped = f"{len(pairs) - len(cleaned):,} of {len(pairs):,}"
    notes = (f"{dropped} training pairs are left out for their lengths",)
    test = evaluation_pairs(release)
    return {"train": train, "validation": validation, "test": test, "notes": notes}


def read_archive(path: Path) -> dict[str, bytes]:
    """The release's files by name.  Raises ValueError for a damaged archive or another one."""
    names = {*TRAINING, *(file for name in TEST_SETS for file in files_of(name))}
    contents: dict[str, bytes] = {}
    try:
        data = gzip.decompress(path.read_bytes())  # all of it: the checksum is at its end
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if name in contents:  # also where a negative size would make this loop endless
                    raise ValueError(f"refused: {name} is in it twice")
                if name in names and member.isreg():
                    contents[name] = archive.extractfile(member).read()
    except (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError, OverflowError) as error:
        raise ValueError(f"not a complete .tgz archive ({error})") from error
    if missing := sorted(names - contents.keys()):
        raise ValueError(f"not the IWSLT'14 archive: it lacks {', '.join(missing)}")
    return contents


def training_pairs(release: dict[str, bytes]) -> list[Pair]:
    """All pairs of the training files in order: titles and descriptions too, but no other tags."""
    left, right = (list(_training_lines(release[name], name)) for name in TRAINING)
    if len(left) != len(right) or not left:
        raise ValueError(
            f"{TRAINING[0]} has {len(left)} lines of text, {TRAINING[1]} has {len(right)}; "
            f"the two must translate each other line by line: fetch {ARCHIVE} again"
        )
    return list(map(Pair, left, right))


def _training_lines(data: bytes, name: str) -> Iterator[str]:
    for line in decoded_lines(BytesIO(data), name):
        if not _OTHER_TAGS.search(line):
            yield _plain(_TEXT_TAGS.sub("", line))


def _plain(text: str) -> str:
    return " ".join(unescape(text, {"&quot;": '"', "&apos;": "'"}).split()).lower()


def count_tokens(text: str) -> int:
    """How many tokens a sentence has, about as Moses' tokenizer counts them.

    >>> count_tokens("I don't know, but 1,000 well-known talks..."), count_tokens("--")
    (10, 1)
    """
    return len(_TOKEN.findall(text))


def clean(pairs: list[Pair]) -> list[Pair]:
    """The pairs of 1 to 175 tokens a side, the longer side at most 1.5 times the shorter."""
    cleaned = []
    for pair in pairs:
        shorter, longer = sorted((count_tokens(pair.source), count_tokens(pair.target)))
        if 1 <= shorter and longer <= min(MAX_TOKENS, MAX_RATIO * shorter):
            cleaned.append(pair)
    return cleaned


def split(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Training and validation: every 23rd pair, counted from 1, validates."""
    train = [pair for number, pair in enumerate(pairs, start=1) if number % VALIDATION_EVERY]
    return train, pairs[VALIDATION_EVERY - 1 :: VALIDATION_EVERY]


def evaluation_pairs(release: dict[str, bytes]) -> list[Pair]:
    """The segments of all test sets, joined in the recipe's order.

    Raises ValueError for a broken file, and where the two sides of a set are numbered differently
    or are not as many as were released.
    """
    pairs = []
    for name, size in TEST_SETS.items():
        left, right = (segments(release[file], file) for file in files_of(name))
        if len(left) != size or [number for number, _ in left] != [number for number, _ in right]:
            raise ValueError(
                f"{name}: {len(left)} German and {len(right)} English segments; "
                f"expected {size} in each, numbered alike"
            )
        pairs += [Pair(a, b) for (_, a), (_, b) in zip(left, right, strict=True)]
    return pairs


def segments(data: bytes, name: str) -> list[tuple[int, str]]:
    """(number, text) of every `<seg>` line, lower-cased, with straight apostrophes.

    Raises ValueError naming the line whose segment is not opened and closed once.
    """
    segments = []
    for number, line in enumerate(decoded_lines(BytesIO(data), name), start=1):
        if re.search(r"</?seg\b", line):
            match = _SEGMENT.fullmatch(line.strip())
            if not match:
                raise ValueError(
                    f'{name}, line {number}: expected <seg id="N"> text </seg>, found {line[:80]!r}'
                )
            segments.append((int(match[1]), _plain(match[2]).replace("’", "'")))
    return segments


IWSLT14 = Source(
    name="iwslt14-de-en",
    licence="CC BY-NC-ND 3.0 (talks of TED)",
    pairs=(160_239, 7_283, 6_750),
    megabytes=20.0,
    folder="iwslt",
    home="https://dl.fbaipublicfiles.com/fairseq/data/iwslt14",
    reader=read,
    files={ARCHIVE: "-"},
)
