"""Damaged run folders: each file in each way that any file can be damaged; other folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from case import SENTENCE, Case
from damage import DEEP, Change, cut, folder_instead, link_to_itself, put, table, unlink
from readers import COMMANDS, READERS, damaged, some

ANY: dict[str, Change] = {
    "missing": Path.unlink,
    "empty": put(b""),
    "half of it": cut(0.5),
    "without its last byte": lambda path: path.write_bytes(path.read_bytes().rstrip()[:-1]),
    "random bytes": put(bytes((i * i * 7 + 13) % 251 for i in range(4096))),
    "a folder": folder_instead,
    "a link to itself": link_to_itself,
}
NO_FILE = ("missing", "a folder", "a link to itself")
# What JSON can hold in place of what was written.
JSON_VALUES: dict[str, Change] = {
    "null": put(b"null"),
    "a list": put(b"[]"),
    "a number": put(b"7"),
    "nested without end": put(DEEP),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes()[:-1] + b',"\xff": 1}'),
    "something behind it": lambda path: path.write_bytes(path.read_bytes() + b"{}"),
}


def generic() -> list[Case]:
    """Each file that is read, damaged in each way that any file can be, for two that read it."""
    cases = []
    for file, commands in READERS.items():
        ways = {**ANY, **(JSON_VALUES if file.endswith(".json") else {})}
        for number, (how, change) in enumerate(ways.items()):
            if file == "history.csv" and how in ("without its last byte", "empty"):
                continue  # below: a shorter number is a number
            # Without its model a run translates with its best epoch, as while it is trained.
            best = file == "model.safetensors" and how in NO_FILE
            status, makes = ((0, 1), ("exported/*", "run/test-*")) if best else (1, ())
            says = ""
            if file == "epoch-001.safetensors" and how in NO_FILE:  # one less to average
                status, says = 0, "missing, so not averaged: epoch-001"
            readers = some(commands, number)
            cases += [damaged(file, how, change, c, status, says, makes) for c in readers]
    return cases


# The history, and whole folders

HISTORY: dict[str, Change] = {
    "empty": put(b""),
    "no heading": table(lambda lines: lines[1:]),
    "a row cut short": table(lambda lines: [*lines[:2], lines[2][:9]]),
    "words for numbers": table(lambda lines: [lines[0], "one" + lines[1][1:]]),
    "a heading twice": table(lambda lines: [lines[0] + ",epoch", *(x + ",1" for x in lines[1:])]),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes() + b"\xff"),
}


def foreign(given: str, damage: Change, arguments: tuple[str, ...], says="", **rest) -> Case:
    """A command on a folder in another state than the command wants."""
    return Case("run folders", given, arguments, says, damage=damage, **rest)


RESUME_RUN = COMMANDS["resume a finished run"]
WEIGHTS = ("model.safetensors", "best.safetensors")
FOLDERS = [
    foreign(
        f"no weights: {name}",
        lambda folder: unlink(*WEIGHTS)(folder / "run"),
        COMMANDS[name],
        "no weights",
    )
    for name in ("evaluate", "translate", "summary", "export")
]
FOLDERS += [
    foreign(f"a folder without settings: {name}", lambda folder: None, (*arguments,), says)
    for name, arguments, says in (
        ("evaluate", ("evaluate", "."), "not a run folder"),
        ("translate", ("translate", ".", SENTENCE), "not a run folder"),
        ("export", ("export", ".", "--to", "onnx"), "not a run folder"),
        ("resume", ("train", "--resume", "--out", "."), "is no run"),
        ("evaluate nothing", ("evaluate", "nowhere"), "nowhere"),
        ("resume nothing", ("train", "--resume", "--out", "nowhere"), "not a run folder"),
        (
            "evaluate one file",
            ("evaluate", "run/model.safetensors"),
            "is one file, which translates; this needs the run folder",
        ),
        ("an empty name", ("translate", "", SENTENCE), ""),
        ("a misspelt model", ("translate", "toy-de-em", SENTENCE), "did you mean toy-de-en"),
        ("a name with NUL", ("translate", "a\0b", SENTENCE), ""),
    )
]
FOLDERS += [
    foreign(
        "a finished run without its state",
        lambda folder: unlink("state.safetensors")(folder / "run"),
        RESUME_RUN,
        "cannot be resumed",
    ),
    foreign(
        "a run whose corpus has gone",
        lambda folder: (folder / "train.tsv").unlink(),
        COMMANDS["resume"],
        "train.tsv",
    ),
    foreign(
        "a run whose corpus has changed",
        lambda folder: shutil.copy(folder / "validation.tsv", folder / "train.tsv"),
        COMMANDS["resume"],
        "",
    ),
    foreign(
        "scores of a run whose corpus has gone",
        lambda folder: (folder / "test.tsv").unlink(),
        COMMANDS["evaluate"],
        "test.tsv",
    ),
    foreign(
        "a run inside a link to itself",
        lambda folder: (folder / "loop").symlink_to("loop"),
        ("translate", "loop", SENTENCE),
        "loop",
    ),
]

CASES = [
    *generic(),
    *(
        damaged("history.csv", how, change, command)
        for how, change in HISTORY.items()
        for command in READERS["history.csv"]
    ),
    *FOLDERS,
]
