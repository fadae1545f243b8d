"""IWSLT'14 German-English: talks from TED, read straight out of the published archive.

The recipe is that of fairseq's `examples/translation/prepare-iwslt14.sh`, which gives 160,239 pairs
to train, 7,283 to validate and 6,750 to test.  Two things differ.  There the length limits count
the tokens of Moses' tokenizer; here `count_tokens` comes close to it in one regular expression, so
pairs near a limit may be kept here and dropped there.  And the text stays untokenized, with XML
entities (`&amp;`) read as what they mean.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from xml.sax.saxutils import unescape

from nmtlib.data.corpus import Corpus, Pair, decode_lines

URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
ARCHIVE, UNPACKED = "de-en.tgz", "de-en"
SIDES = ("de", "en")
# The segments of each test set, in the order in which the recipe joins them: 6,750 together.
TEST_SETS = {
    "TED.dev2010": 887,
    "TEDX.dev2012": 1165,
    "TED.tst2010": 1565,
    "TED.tst2011": 1433,
    "TED.tst2012": 1700,
}
# The 2016 campaign released the same development and test sets again under its own name.
CAMPAIGNS = ("IWSLT14", "IWSLT16")
MAX_TOKENS, MAX_RATIO, VALIDATION_EVERY = 175, 1.5, 23
MAX_BYTES, MAX_MEMBERS = 256 * 2**20, 100  # bounds far above an archive of 20 MB and some 15 files

_WANTED = re.compile(r"train\.tags\.de-en\.(de|en)|IWSLT1[46]\.TEDX?\.\w+\.de-en\.(de|en)\.xml")
_OTHER_TAGS = re.compile(r"</?(?:url|talkid|keywords|speaker|reviewer|translator|doc)\b")
_TEXT_TAGS = re.compile(r"</?(?:title|description)>")
_SEGMENT = re.compile(r'<seg id="(\d+)">((?:(?!</?seg\b).)*)</seg>')
_TOKEN = re.compile(r"\w+(?:[-.,]\w+)*|'\w+|-+|\.+|[^\w\s]")


def recipe_files(names: Collection[str]) -> list[tuple[str, str]]:
    """The (German, English) files that the recipe reads: the training files, then each test set in
    order.

    The test sets are those of the campaign of which `names` has the most files.
    """

    def sides(stem: str, ending: str = "") -> tuple[str, str]:
        return f"{stem}.de-en.de{ending}", f"{stem}.de-en.en{ending}"

    campaigns = [
        [sides(f"{campaign}.{name}", ".xml") for name in TEST_SETS] for campaign in CAMPAIGNS
    ]
    best = max(campaigns, key=lambda files: sum(name in names for pair in files for name in pair))
    return [sides("train.tags"), *best]


def lacking(names: Collection[str]) -> list[str]:
    """The recipe's files that are not among `names`."""
    return [name for pair in recipe_files(names) for name in pair if name not in names]


def missing_files(folder: Path) -> list[str]:
    """The recipe's files that `folder` holds neither unpacked (in `de-en`) nor, unopened, in
    `de-en.tgz`.
    """
    if (folder / ARCHIVE).is_file():
        return []
    return lacking({path.name for path in (folder / UNPACKED).glob("*")})


def read_release(folder: Path) -> dict[str, bytes]:
    """The release's files by name: from `de-en.tgz` where it is, otherwise from the folder `de-en`."""
    if (folder / ARCHIVE).is_file():
        return read_archive(folder / ARCHIVE)
    paths = [path for path in (folder / UNPACKED).glob("*") if _WANTED.fullmatch(path.name)]
    return {path.name: path.read_bytes() for path in sorted(paths)}


def read_archive(path: Path) -> dict[str, bytes]:
    """The needed members of the archive by file name, without unpacking anything to disk.

    No checksum of this archive is published, so it is known by its contents: raises ValueError
    where it is damaged, lacks a member, is far too large, or holds a member that would leave the
    folder it is unpacked in (absolute path, `..`), a link or a device.
    """
    found: dict[str, bytes] = {}
    try:
        # Read as a stream, front to back, so that the bound holds for headers too, whatever they
        # declare.
        with (
            gzip.open(path) as file,
            tarfile.open(fileobj=(stream := _Bounded(file)), mode="r|") as archive,
        ):
            for member in _safe_members(archive):
                name = PurePosixPath(member.name).name
                if member.isreg() and _WANTED.fullmatch(name):
                    if name in found:
                        raise ValueError(f"{name} stands in it twice")
                    found[name] = archive.extractfile(member).read()
            while stream.read(
                2**16
            ):  # to the end, where gzip's own checksum of the contents stands
                pass
    except (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError(
            f"{path}: not a complete .tgz archive ({error}); delete it and fetch it again"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: refused: {error}") from error
    if missing := lacking(found):
        raise ValueError(f"{path}: not the IWSLT'14 archive: it lacks {', '.join(missing)}")
    return found


class _Bounded:
    """A file that refuses to yield more than `MAX_BYTES`: a small archive can decompress to a huge
    one.
    """

    def __init__(self, file: BinaryIO):
        self.file, self.left = file, MAX_BYTES

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError(f"it holds more than {MAX_BYTES:,} bytes")
        return data


def _safe_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for number, member in enumerate(archive, start=1):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
            raise ValueError(f"its member {member.name!r} does not stay inside one folder")
        if not (member.isreg() or member.isdir()) or member.issparse():
            raise ValueError(f"its member {member.name!r} is neither a plain file nor a folder")
        if number > MAX_MEMBERS:
            raise ValueError(f"it has more than {MAX_MEMBERS} members")
        yield member


def verify_archive(path: Path) -> None:
    """Raise ValueError unless the archive has every member and both sides have as many lines."""
    release = read_archive(path)
    training_pairs(release)
    evaluation_pairs(release)


def read_corpus(folder: Path) -> Corpus:
    """The corpus from the archive or the unpacked files, lower-cased as the recipe has it.

    Raises FileNotFoundError naming the files that are missing, ValueError for files that do not
    match.
    """
    if missing := missing_files(folder):
        raise FileNotFoundError(
            f"{folder / UNPACKED} lacks {', '.join(missing)}; save {URL} as {folder / ARCHIVE}"
        )
    release = read_release(folder)
    train, validation = split(clean(training_pairs(release)))
    return Corpus("iwslt14-de-en", *SIDES, train, validation, evaluation_pairs(release))


def training_pairs(release: dict[str, bytes]) -> list[Pair]:
    """All pairs of the training files in order, titles and descriptions included, other tags left
    out.
    """
    names = recipe_files(release)[0]
    left, right = (_text_lines(release[name], name) for name in names)
    if len(left) != len(right) or not left:
        raise ValueError(
            f"{names[0]} has {len(left)} lines of text, {names[1]} has {len(right)}; "
            f"the two must translate each other line by line: fetch {ARCHIVE} again"
        )
    return [Pair(a, b) for a, b in zip(left, right, strict=True)]


def _text_lines(data: bytes, name: str) -> list[str]:
    lines = (line for line in decode_lines(data, name) if not _OTHER_TAGS.search(line))
    return [_plain(_TEXT_TAGS.sub("", line)) for line in lines]


def _plain(text: str) -> str:
    return " ".join(unescape(text, {"&quot;": '"', "&apos;": "'"}).split()).lower()


def count_tokens(text: str) -> int:
    """How many tokens a sentence has, about as Moses' tokenizer cuts it.

    >>> count_tokens("I don't know, but 1,000 well-known talks..."), count_tokens("--")
    (10, 1)
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def clean(pairs: list[Pair]) -> list[Pair]:
    """The pairs with 1 to 175 tokens on each side of which neither has more than 1.5 times the
    other's.
    """
    kept = []
    for pair in pairs:
        shorter, longer = sorted((count_tokens(pair.source), count_tokens(pair.target)))
        if 1 <= shorter and longer <= min(MAX_TOKENS, MAX_RATIO * shorter):
            kept.append(pair)
    return kept


def split(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Training and validation: every 23rd pair, counted from 1, validates."""
    validation = pairs[VALIDATION_EVERY - 1 :: VALIDATION_EVERY]
    return [pair for number, pair in enumerate(pairs, 1) if number % VALIDATION_EVERY], validation


def evaluation_pairs(release: dict[str, bytes]) -> list[Pair]:
    """The segments of all test sets, joined in the recipe's order.

    Raises ValueError for a broken file, or where the two sides of a set differ in their segment
    numbers or in number from what was released.
    """
    pairs = []
    for files, (test_set, expected) in zip(
        recipe_files(release)[1:], TEST_SETS.items(), strict=True
    ):
        left, right = (segments(release[name], name) for name in files)
        if [number for number, _ in left] != [number for number, _ in right] or len(
            left
        ) != expected:
            raise ValueError(
                f"{test_set}: {files[0]} has {len(left)} segments and {files[1]} has {len(right)}; "
                f"expected {expected} in each, numbered alike"
            )
        pairs += [Pair(a, b) for (_, a), (_, b) in zip(left, right, strict=True)]
    return pairs


def segments(data: bytes, name: str) -> list[tuple[int, str]]:
    """(number, text) of every `<seg>` line, lower-cased, with straight apostrophes as the recipe
    has it.

    Raises ValueError naming the line whose segment is not opened and closed once.
    """
    found = []
    for number, line in enumerate(decode_lines(data, name), start=1):
        if re.search(r"</?seg\b", line):
            match = _SEGMENT.fullmatch(line.strip())
            if not match:
                raise ValueError(
                    f'{name}, line {number}: expected <seg id="N"> text </seg>, found {line[:80]!r}'
                )
            found.append((int(match[1]), _plain(match[2]).replace("’", "'")))
    return found
