"""Damaged run folders: each file damaged in each way, for each command that reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from workplace import SENTENCE, Case

from nmtlib.training.checkpoint import HEADER

Change = Callable[[Path], object]
DEEP = b"[" * 100_000
COMMANDS = {
    "evaluate": ("evaluate", "run"),
    "translate": ("translate", "run", SENTENCE),
    "summary": ("summary", "run"),
    "export": ("export", "run", "--to", "safetensors", "--out", "exported"),
    "resume": ("train", "--resume", "--out", "half"),
    "resume a finished run": ("train", "--resume", "--out", "run"),
}
READ_BY_ALL = ("evaluate", "translate", "summary", "export", "resume")
READERS = {  # the commands that read each file
    "settings.json": READ_BY_ALL,
    "source.json": READ_BY_ALL,
    "target.json": READ_BY_ALL,
    "model.safetensors": ("evaluate", "translate", "summary", "export"),
    "last.safetensors": ("resume", "resume a finished run"),
    "best.safetensors": ("resume a finished run",),
    "epoch-001.safetensors": ("resume a finished run",),
    "history.csv": ("evaluate", "summary"),
}


def folder_of(command: str) -> str:
    """The run that a command reads."""
    return COMMANDS[command][-1] if command.startswith("resume") else "run"


def damaged(file: str, how: str, change: Change, command: str, status=1, says="", makes=()) -> Case:
    """A command on a run of which one file has been changed."""
    name = f"{folder_of(command)}/{file}"
    damage = lambda folder: change(folder / name)  # noqa: E731
    return Case(
        "damaged runs",
        f"{file}: {how}",
        COMMANDS[command],
        says,
        status,
        damage=damage,
        makes=makes,
    )


# Any file


def put(data: bytes) -> Change:
    """Write this in place of what the file holds."""
    return lambda path: path.write_bytes(data)


def cut(share: float) -> Change:
    """Keep only the first part of a file."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.write_bytes(data)


def folder_instead(path: Path) -> None:
    """A folder of the same name."""
    path.unlink()
    path.mkdir()
    (path / "note.txt").write_text("a folder now")


def link_to_itself(path: Path) -> None:
    """A link that leads nowhere."""
    path.unlink()
    path.symlink_to(path.name)


ANY: dict[str, Change] = {
    "missing": Path.unlink,
    "empty": put(b""),
    "half of it": cut(0.5),
    "without its last byte": lambda path: path.write_bytes(path.read_bytes().rstrip()[:-1]),
    "random bytes": put(bytes((i * i * 7 + 13) % 251 for i in range(4096))),
    "NUL bytes": put(bytes(4096)),
    "another program's text": put(b"Sehr geehrte Damen und Herren,\n" * 5),
    "a folder": folder_instead,
    "a link to itself": link_to_itself,
}
NO_FILE = ("missing", "a folder", "a link to itself")
# What JSON can hold in place of what was written.
JSON_VALUES: dict[str, Change] = {
    "null": put(b"null"),
    "a list": put(b"[]"),
    "a number": put(b"7"),
    "a string": put(b'"text"'),
    "nested without end": put(DEEP),
    "nested objects without end": put(b'{"a":' * 100_000),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes()[:-1] + b',"\xff": 1}'),
    "UTF-16": lambda path: path.write_bytes(path.read_text("utf-8").encode("utf-16")),
    "something behind it": lambda path: path.write_bytes(path.read_bytes() + b"{}"),
}


def generic() -> list[Case]:
    """Each file that is read, damaged in each way that any file can be."""
    cases = []
    for file, commands in READERS.items():
        ways = {**ANY, **(JSON_VALUES if file.endswith(".json") else {})}
        for how, change in ways.items():
            if file == "history.csv" and how in ("without its last byte", "empty"):
                continue  # below: a shorter number is a number
            # Without its model a run translates with its best epoch, as while it is trained.
            best = file == "model.safetensors" and how in NO_FILE
            status, makes = ((0, 1), ("exported/*", "run/test-*")) if best else (1, ())
            says = ""
            if file == "epoch-001.safetensors" and how in NO_FILE:  # one less to average
                status, says = 0, "missing, so not averaged: epoch-001"
            cases += [damaged(file, how, change, c, status, says, makes) for c in commands]
    return cases


# JSON files


def edit(change: Callable[[Any], Any]) -> Change:
    """Change what a JSON file says; `change` returns the new value, or None to have kept it."""

    def write(path: Path) -> None:
        data = json.loads(path.read_bytes())
        new = change(data)
        path.write_text(json.dumps(data if new is None else new), "utf-8")

    return write


def setting(section: str, key: str, value: Any) -> Change:
    """One setting changed in settings.json."""
    return edit(lambda data: data[section].__setitem__(key, value))


def swap(data: dict) -> None:
    """Two words of a vocabulary in each other's place."""
    tokens = data["tokens"]
    tokens[4], tokens[5] = tokens[5], tokens[4]


SETTINGS: dict[str, Change] = {
    "empty sections": edit(lambda data: {}),
    "an unknown section": edit(lambda data: data.__setitem__("optimiser", {})),
    "an unknown key": setting("training", "epoch", 3),
    "a section that is a list": edit(lambda data: data.__setitem__("model", [])),
    "a section that is null": edit(lambda data: data.__setitem__("training", None)),
    "a number in words": setting("model", "d_model", "16"),
    "true for a number": setting("model", "n_heads", True),
    "null for a number": setting("decoding", "beam", None),
    "a number below its range": setting("decoding", "beam", 0),
    "no number": setting("decoding", "length_penalty", float("nan")),
    "another n_heads": setting("model", "n_heads", 4),
    "another d_model": setting("model", "d_model", 32),
    "another norm": setting("model", "norm", "post"),
    "another vocabulary size": setting("model", "source_vocab_size", 7),
    "another number of layers": setting("model", "n_encoder_layers", 2),
    "more than any machine has": setting("model", "d_model", 10**12),
}
RESUMED_OTHERWISE: dict[str, Change] = {  # no mistake in itself, but not this training
    "another seed": setting("training", "seed", 2),
    "another schedule": setting("training", "schedule", "noam"),
    "another batch size": setting("training", "max_tokens", 64),
    "another tokenizer": setting("tokenizer", "lowercase", True),
    "another corpus": setting("corpus", "train", ["validation.tsv"]),
    "a corpus by name": edit(lambda d: d["corpus"].update(name="toy-de-en", train=[])),
    "fewer epochs than are done": setting("training", "epochs", 1),
}
CODEC: dict[str, Change] = {
    "an empty object": edit(lambda data: {}),
    "no tokenizer": edit(lambda data: data.pop("tokenizer") and None),
    "no tokens": edit(lambda data: data.pop("tokens") and None),
    "a tokenizer that is null": edit(lambda data: data.__setitem__("tokenizer", None)),
    "a tokenizer that is a word": edit(lambda data: data.__setitem__("tokenizer", "bpe")),
    "an unknown kind": edit(lambda data: data["tokenizer"].__setitem__("kind", "morse")),
    "a kind that is a list": edit(lambda data: data["tokenizer"].__setitem__("kind", [])),
    "an unknown option": edit(lambda data: data["tokenizer"].__setitem__("loud", True)),
    "BPE without merges": edit(lambda data: data["tokenizer"].update(kind="bpe", model="{}")),
    "BPE of a number": edit(lambda d: d.__setitem__("tokenizer", {"kind": "bpe", "model": 7})),
    "spaCy of Klingon": edit(lambda d: d.update(tokenizer={"kind": "spacy", "language": "tlh"})),
    "spaCy of a number": edit(lambda d: d.update(tokenizer={"kind": "spacy", "language": 7})),
    "pieces that are a number": edit(
        lambda d: d.update(tokenizer={"kind": "subword-marks", "pieces": 7})
    ),
    "tokens that are a word": edit(lambda data: data.__setitem__("tokens", "abcdefgh")),
    "tokens that are null": edit(lambda data: data.__setitem__("tokens", None)),
    "tokens that are numbers": edit(lambda d: d.update(tokens=list(range(len(d["tokens"]))))),
    "a token that is a number": edit(lambda data: data["tokens"].__setitem__(5, 7)),
    "a token that is null": edit(lambda data: data["tokens"].__setitem__(5, None)),
    "a token that is a list": edit(lambda data: data["tokens"].__setitem__(5, [])),
    "a token twice": edit(lambda data: data["tokens"].__setitem__(5, data["tokens"][6])),
    "a token less": edit(lambda data: data["tokens"].pop() and None),
    "a token more": edit(lambda data: data["tokens"].append("more")),
    "specials in another order": edit(lambda data: data["tokens"].insert(0, "x")),
    "two words in each other's place": edit(swap),
}


def json_files() -> list[Case]:
    """Settings and vocabularies that are JSON, but not what was written."""
    cases = []
    for how, change in SETTINGS.items():
        for command in READ_BY_ALL:
            fine = how == "empty sections" and command not in ("evaluate", "resume")
            makes = ("exported/*",) if fine else ()
            status = (0, 1) if fine else 1
            cases.append(damaged("settings.json", how, change, command, status, makes=makes))
    for how, change in RESUMED_OTHERWISE.items():
        cases.append(damaged("settings.json", how, change, "resume"))
    for number, (how, change) in enumerate(CODEC.items()):
        for command in ("translate", "resume"):
            cases.append(damaged("source.json", how, change, command))
        other = ("evaluate", "summary", "export")[number % 3]
        cases.append(damaged("target.json", how, change, other))
    return cases


# Checkpoints


class Checkpoint:
    """What a safetensors file holds, to be changed."""

    def __init__(self, path: Path):
        with safe_open(path, framework="pt") as file:
            self.metadata = dict(file.metadata())
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self.header = json.loads(self.metadata[HEADER])

    def write(self, path: Path) -> None:
        """Write it, with the header as it is now."""
        if HEADER in self.metadata:
            self.metadata[HEADER] = json.dumps(self.header)
        path.write_bytes(save(self.tensors, metadata=self.metadata or None))


def rewrite(change: Callable[[Checkpoint], object]) -> Change:
    """Change a checkpoint."""

    def write(path: Path) -> None:
        checkpoint = Checkpoint(path)
        change(checkpoint)
        checkpoint.write(path)

    return write


def config(**values: Any) -> Change:
    """Another configuration in the header."""
    return rewrite(lambda checkpoint: checkpoint.header["config"].update(values))


def noted(**values: Any) -> Change:
    """Other notes in the header."""
    return rewrite(lambda checkpoint: checkpoint.header["notes"].update(values))


def progress(**values: Any) -> Change:
    """Another progress of the training."""
    return rewrite(lambda checkpoint: checkpoint.header["notes"]["progress"].update(values))


def first(part: str, change: Callable[[torch.Tensor], Any]) -> Change:
    """Another tensor for the first whose name holds `part`; None takes it out."""

    def write(checkpoint: Checkpoint) -> None:
        name = next(name for name in sorted(checkpoint.tensors) if part in name)
        new = change(checkpoint.tensors.pop(name))
        if new is not None:
            checkpoint.tensors[name] = new

    return rewrite(write)


def all_of(part: str, change: Callable[[torch.Tensor], Any]) -> Change:
    """Another tensor for each whose name holds `part`; None takes it out."""

    def write(checkpoint: Checkpoint) -> None:
        for name in [name for name in checkpoint.tensors if part in name]:
            new = change(checkpoint.tensors.pop(name))
            if new is not None:
                checkpoint.tensors[name] = new

    return rewrite(write)


def headed(**values: Any) -> Change:
    """`config` or `notes` replaced as a whole."""
    return rewrite(lambda checkpoint: checkpoint.header.update(values))


def nothing(tensor: torch.Tensor) -> None:
    """No tensor."""


ALIEN_HEADER = (2**63).to_bytes(8, "little") + b"{}"
MODEL: dict[str, Change] = {
    "one bit other": flip,
    "a header longer than the file": put(ALIEN_HEADER),
    "a header nested without end": put(len(DEEP).to_bytes(8, "little") + DEEP),
    "no header": rewrite(lambda checkpoint: checkpoint.metadata.clear()),
    "no configuration": rewrite(lambda checkpoint: checkpoint.header.pop("config")),
    "an empty header": rewrite(lambda checkpoint: checkpoint.header.clear()),
    "a header that is a list": rewrite(lambda c: setattr(c, "header", [])),
    "a configuration that is null": headed(config=None),
    "a configuration that is a list": headed(config=[]),
    "a configuration that is a number": headed(config=7),
    "an empty configuration": headed(config={}),
    "an unknown key": config(loud=True),
    "another n_heads": config(n_heads=4),
    "another norm": config(norm="post"),
    "n_heads that does not divide d_model": config(n_heads=3),
    "no heads": config(n_heads=0),
    "heads in words": config(n_heads="2"),
    "half a head": config(n_heads=2.5),
    "null for d_model": config(d_model=None),
    "another d_model": config(d_model=32),
    "a d_model that no machine has": config(d_model=10**12),
    "layers that no machine has": config(n_encoder_layers=10**9),
    "another number of layers": config(n_decoder_layers=2),
    "another vocabulary size": config(source_vocab_size=7),
    "a negative vocabulary size": config(target_vocab_size=-7),
    "an unknown norm": config(norm="middle"),
    "dropout of 7": config(dropout=7),
    "NaN in a weight": first("encoder", lambda t: t.fill_(float("nan"))),
    "infinity in a weight": first("target_embedding", lambda t: t.fill_(float("inf"))),
    "a tensor less": first("model.", nothing),
    "no tensor": all_of("", nothing),
    "a tensor more": rewrite(lambda c: c.tensors.update({"model.more": torch.zeros(3)})),
    "a tensor of another shape": first("model.", lambda t: torch.zeros(t.shape[0], 3)),
    "a tensor turned round": first("weight", lambda t: t.t().contiguous()),
    "whole numbers": all_of("model.", lambda t: t.to(torch.int32)),
    "half precision": all_of("model.", lambda t: t.to(torch.float16)),
    "truth values": all_of("model.", lambda t: t > 0),
}
NOTES: dict[str, Change] = {
    "notes that are null": headed(notes=None),
    "notes that are a list": headed(notes=[]),
    "no notes": rewrite(lambda checkpoint: checkpoint.header.pop("notes")),
    "a loss in words": noted(validation_nll="low"),
    "a loss that is null": noted(validation_nll=None),
    "an endless loss": noted(validation_nll=1e9),
    "no number as loss": noted(validation_nll=float("nan")),
}
PROGRESS: dict[str, Change] = {
    "no progress": rewrite(lambda checkpoint: checkpoint.header["notes"].pop("progress")),
    "progress that is null": noted(progress=None),
    "progress that is a list": noted(progress=[]),
    "empty progress": noted(progress={}),
    "progress with an unknown key": progress(speed=7),
    "an epoch in words": progress(epoch="one"),
    "half an epoch": progress(epoch=1.5),
    "epochs below zero": progress(epoch=-1),
    "more epochs than are known": progress(epoch=2),
    "epochs that are null": progress(epoch=None),
    "batches below zero": progress(batches=-5),
    "batches beyond the epoch": progress(batches=10**6),
    "updates in words": progress(updates="ten"),
    "updates below zero": progress(updates=-10),
    "seconds that are null": progress(seconds=None),
    "seconds without end": progress(seconds=float("inf")),
    "sums that are too few": progress(sums=[0.0]),
    "sums in words": progress(sums=["a", "b", "c", "d"]),
    "sums that are null": progress(sums=None),
    "sums that are no numbers": progress(sums=[float("nan")] * 4),
    "a history that is null": progress(history=None),
    "a history of numbers": progress(history=[1, 2]),
    "an empty history": progress(history=[]),
    "a history with empty rows": progress(history=[{}]),
    "a history with unknown keys": rewrite(
        lambda c: c.header["notes"]["progress"]["history"][0].update(speed=7)
    ),
    "a history in words": rewrite(
        lambda c: c.header["notes"]["progress"]["history"][0].update(validation_nll="low")
    ),
}
ADAM: dict[str, Change] = {
    "no Adam state": all_of("adam.", nothing),
    "Adam state for a part": first("adam.exp_avg.", nothing),
    "no steps of Adam": all_of("adam.step.", nothing),
    "Adam state of another shape": first("adam.exp_avg.", lambda t: torch.zeros(3)),
    "Adam state of whole numbers": all_of("adam.exp_avg_sq.", lambda t: t.to(torch.int32)),
    "NaN in Adam state": first("adam.exp_avg.", lambda t: t.fill_(float("nan"))),
    "infinity in Adam state": first("adam.exp_avg_sq.", lambda t: t.fill_(float("inf"))),
    "negative squares in Adam state": first("adam.exp_avg_sq.", lambda t: t.fill_(-1.0)),
    "steps below zero": all_of("adam.step.", lambda t: t.fill_(-5.0)),
    "steps that are a table": all_of("adam.step.", lambda t: torch.zeros(2, 2)),
}


def checkpoints() -> list[Case]:
    """Weights and the state of a training that can be read, but are not what was written."""
    cases = []
    for number, (how, change) in enumerate(MODEL.items()):
        readers = READERS["model.safetensors"]
        for command in (readers[number % 4], readers[(number + 1) % 4]):
            cases.append(damaged("model.safetensors", how, change, command))
        cases.append(damaged("last.safetensors", how, change, "resume"))
        if number % 2:
            cases.append(damaged("best.safetensors", how, change, "resume a finished run"))
        else:
            cases.append(damaged("epoch-001.safetensors", how, change, "resume a finished run"))
    for how, change in NOTES.items():
        cases.append(damaged("model.safetensors", how, change, "evaluate"))
        cases.append(damaged("best.safetensors", how, change, "resume a finished run"))
    for how, change in {**PROGRESS, **ADAM}.items():
        cases.append(damaged("last.safetensors", how, change, "resume"))
    return cases


# The history, and whole folders


def table(change: Callable[[list[str]], list[str]]) -> Change:
    """Change the lines of a CSV file."""
    return lambda path: path.write_text("\n".join(change(path.read_text().split("\n"))))


HISTORY: dict[str, Change] = {
    "empty": put(b""),
    "no row": table(lambda lines: lines[:1]),
    "no heading": table(lambda lines: lines[1:]),
    "a row cut short": table(lambda lines: [*lines[:2], lines[2][:9]]),
    "a row with more": table(lambda lines: [lines[0], lines[1] + ",7", *lines[2:]]),
    "words for numbers": table(lambda lines: [lines[0], "one" + lines[1][1:]]),
    "another heading": table(lambda lines: [lines[0].replace("epoch", "era"), *lines[1:]]),
    "a heading twice": table(lambda lines: [lines[0] + ",epoch", *(x + ",1" for x in lines[1:])]),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes() + b"\xff"),
}


def unlink(*names: str) -> Change:
    """Remove some files of a folder."""
    return lambda folder: [(folder / name).unlink() for name in names]


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
        ("summary", ("summary", "."), ""),
        ("export", ("export", ".", "--to", "onnx"), "not a run folder"),
        ("resume", ("train", "--resume", "--out", "."), "not a run folder"),
        ("evaluate nothing", ("evaluate", "nowhere"), "nowhere"),
        ("translate nothing", ("translate", "nowhere", SENTENCE), "nowhere"),
        ("summary of nothing", ("summary", "nowhere"), "nowhere"),
        ("export nothing", ("export", "nowhere", "--to", "onnx"), "nowhere"),
        ("resume nothing", ("train", "--resume", "--out", "nowhere"), "not a run folder"),
        ("evaluate a file", ("evaluate", "own.toml"), "own.toml"),
        ("translate with a file", ("translate", "own.toml", SENTENCE), "own.toml"),
        (
            "translate with weights",
            ("translate", "run/model.safetensors", "a"),
            "model.safetensors",
        ),
        ("resume a file", ("train", "--resume", "--out", "own.toml"), "own.toml"),
        ("an empty name", ("translate", "", SENTENCE), ""),
        ("a misspelt model", ("translate", "toy-de-em", SENTENCE), "did you mean toy-de-en"),
        ("a name of 5,000 letters", ("translate", "x" * 5000, SENTENCE), ""),
        ("a name with NUL", ("translate", "a\0b", SENTENCE), ""),
        ("a name with a surrogate", ("translate", "a\udcffb", SENTENCE), ""),
    )
]
FOLDERS += [
    foreign(
        "a finished run without its state",
        lambda folder: unlink("last.safetensors")(folder / "run"),
        RESUME_RUN,
        "cannot be resumed",
    ),
    foreign(
        "a history without anything else",
        lambda folder: unlink(
            "last.safetensors",
            "best.safetensors",
            "model.safetensors",
            "epoch-001.safetensors",
            "epoch-002.safetensors",
        )(folder / "run"),
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
        "a run whose corpus has one word more",
        lambda folder: (folder / "train.tsv").write_bytes(
            (folder / "train.tsv").read_bytes().replace(b"today", b"tomorrow", 1)
        ),
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
    *json_files(),
    *checkpoints(),
    *(
        damaged("history.csv", how, change, command)
        for how, change in HISTORY.items()
        for command in READERS["history.csv"]
    ),
    *FOLDERS,
]
