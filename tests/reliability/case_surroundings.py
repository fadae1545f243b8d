"""Bad surroundings: environment variables, damaged caches of corpora, folders that are in use."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable

from case import SENTENCE, Case, Outcome
from readers import COMMANDS
from running import call

from nmtlib.run import Run

TRAIN = ("train", "own.toml", "--out", "new", "--set", "epochs=1")
TRANSLATE = ("translate", "run", SENTENCE)
CACHE = {"NMTLIB_DATA": "cache"}
REPORT = {"printed": True, "lines": 0, "environment": CACHE}


def surroundings(given: str, environment: dict, arguments=TRAIN, says="", status=1, **rest) -> Case:
    """A command with variables in its environment."""
    return Case("environment", given, arguments, says, status, environment=environment, **rest)


NEW = {"status": 0, "makes": ("new/*",)}
CHECK = ("data", "check", "multi30k-de-en")
ENVIRONMENT = [
    surroundings(
        "the cache of an unknown user", {"NMTLIB_DATA": "~nouser/x"}, CHECK, "NMTLIB_DATA"
    ),
    surroundings(
        "a file as cache", {"NMTLIB_DATA": "own.toml"}, CHECK, "missing", printed=True, lines=0
    ),
    surroundings("a rank without a world", {"RANK": "1"}, says="WORLD_SIZE"),
    surroundings("a rank in words", {"RANK": "one"}, says="RANK"),
    surroundings("a world without an address", {"RANK": "0", "WORLD_SIZE": "2"}, says=""),
    surroundings("a rank beyond the world", {"RANK": "5", "WORLD_SIZE": "2"}, says="WORLD_SIZE"),
    surroundings("a time limit in words", {"NMTLIB_TIMEOUT": "x"}, status=(0, 1), makes=("new/*",)),
    surroundings("no home, which is fine", {"HOME": "/nowhere"}, **NEW),
    surroundings("a debug switch of 0", {"NMTLIB_DEBUG": "0"}, ("train", "nonsense"), "presets"),
    surroundings("a locale that is missing", {"LC_ALL": "xx_XX.utf8"}, TRANSLATE, "\n", 0),
    surroundings("a width of no columns", {"COLUMNS": "0"}, ("summary",), "", 0),
]

# Caches of corpora

MULTI30K = [
    f"{part}.{side}.gz" for part in ("train", "val", "test_2016_flickr") for side in ("de", "en")
]
CONTENTS = {
    "empty": b"",
    "a web page": b"<!DOCTYPE html><title>404 Not Found</title>",
    "half a .gz": gzip.compress(b"a\n" * 1000)[:20],
    "another text": gzip.compress(b"ein Hund\n"),
    "NUL bytes": b"\0" * 1000,
}


BARE = ("train", "bare.toml", "--out", "new")


def cached(given: str, data: bytes) -> list[Case]:
    """A cache whose files all hold the same wrong data, checked and used."""
    corpus, there = "multi30k-de-en", {f"cache/multi30k/{file}": data for file in MULTI30K}
    options = {"files": there, "environment": CACHE}
    bare = {"files": {**there, "bare.toml": b"[training]\nepochs = 1\n"}, "environment": CACHE}
    category = "caches of corpora"
    settings = ("--set", f"corpus.name={corpus}")
    return [
        Case(category, f"{given} files", ("data", "check", corpus), "wrong", **REPORT, files=there),
        Case(category, f"{given} files", ("data", "fetch", corpus), "delete", **options),
        Case(category, f"{given} files", (*BARE, *settings), "delete", **bare),
    ]


def archive(*members: tuple[str, bytes], change: Callable | None = None, **options) -> bytes:
    """A .tgz with these members, whose headers `change` may spoil."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", **options) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change:
                change(info)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return buffer.getvalue()


def kind(number: bytes, target: str = "") -> Callable:
    """Make a member something else than a plain file."""
    return lambda info: (setattr(info, "type", number), setattr(info, "linkname", target))


def sized(size: str) -> Callable:
    """Declare another size in a PAX header."""
    return lambda info: info.pax_headers.update(size=size)


TAGS = ("de-en/train.tags.de-en.de", b"ein Satz\n")
GOOD = archive(TAGS)
ARCHIVES = {
    "empty": b"",
    "a web page": CONTENTS["a web page"],
    "half of one": GOOD[: len(GOOD) // 2],
    "a wrong checksum": GOOD[:-8] + bytes(8),
    "a symbolic link": archive(TAGS, change=kind(tarfile.SYMTYPE, "/etc/passwd")),
    "an unknown type": archive(TAGS, change=kind(b"Z")),
    "ten thousand files": archive(*((f"f{number}", b"") for number in range(10_000))),
    "a size of 10^20": archive(TAGS, change=sized("1" + "0" * 20), format=tarfile.PAX_FORMAT),
    "a size below zero": archive(TAGS, change=sized("-512"), format=tarfile.PAX_FORMAT),
    "a long name without end": archive(("x" * 100_000, b"")),
    "300 MB of NUL": gzip.compress(bytes(300 * 2**20), 1),
}


def archives() -> list[Case]:
    """The one archive that is known by what it holds, damaged in each way."""
    cases = []
    for given, data in ARCHIVES.items():
        files = {"cache/iwslt/de-en.tgz": data}
        name = ("data", "check", "iwslt14-de-en")
        cases.append(Case("archives", given, name, "", **REPORT, files=files))
    return cases


# Folders that somebody is using


def claimed(folder: str) -> Callable[[Case], Outcome]:
    """Run the command while another training holds the folder."""

    def play(case: Case) -> Outcome:
        with Run(folder).lock():
            return call(case)

    return play


IN_USE = [
    Case(
        "folders in use",
        "a training of the same run",
        COMMANDS["resume"],
        "another training",
        play=claimed("half"),
    ),
    Case(
        "folders in use",
        "a training that has just begun",
        TRAIN,
        "another training",
        play=claimed("new"),
    ),
]

CASES = [
    *ENVIRONMENT,
    *(case for given, data in CONTENTS.items() for case in cached(given, data)),
    *archives(),
    *IN_USE,
]
