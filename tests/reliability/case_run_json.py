"""Settings and vocabularies of a run that are JSON, but not what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from case import Case
from damage import Change, edit, setting
from readers import READERS, damaged, some
from runs_on_disk import rewrite

SETTINGS: dict[str, Change] = {
    "empty sections": edit(lambda data: {}),
    "an unknown section": edit(lambda data: data.__setitem__("optimiser", {})),
    "an unknown key": setting("training", "epoch", 3),
    "a section that is a list": edit(lambda data: data.__setitem__("model", [])),
    "a number in words": setting("model", "d_model", "16"),
    "a number below its range": setting("decoding", "beam", 0),
    "another n_heads": setting("model", "n_heads", 4),
    "another vocabulary size": setting("model", "source_vocab_size", 7),
}
RESUMED_OTHERWISE: dict[str, Change] = {  # no mistake in itself, but not this training
    "another seed": setting("training", "seed", 2),
    "another tokenizer": setting("tokenizer", "lowercase", True),
    "another corpus": setting("corpus", "train", ["validation.tsv"]),
    "fewer epochs than are done": setting("training", "epochs", 1),
}
CODEC: dict[str, Callable[[Any], Any]] = {  # changes of its description
    "no tokenizer": lambda data: data.pop("tokenizer") and None,
    "no tokens": lambda data: data.pop("tokens") and None,
    "a tokenizer that is null": lambda data: data.__setitem__("tokenizer", None),
    "an unknown kind": lambda data: data["tokenizer"].__setitem__("kind", "morse"),
    "BPE without merges": lambda data: data["tokenizer"].update(kind="bpe", model="{}"),
    "spaCy of Klingon": lambda d: d.update(tokenizer={"kind": "spacy", "language": "tlh"}),
    "pieces that are a number": lambda d: d.update(
        tokenizer={"kind": "subword-marks", "pieces": 7}
    ),
    "tokens that are a word": lambda data: data.__setitem__("tokens", "abcdefgh"),
    "a token that is a number": lambda data: data["tokens"].__setitem__(5, 7),
    "a token twice": lambda data: data["tokens"].__setitem__(5, data["tokens"][6]),
    "a token more": lambda data: data["tokens"].append("more"),
    "specials in another order": lambda data: data["tokens"].insert(0, "x"),
}


def of_codec(side: str, change: Callable[[Any], Any]) -> Change:
    """Change a codec in a file of weights, and the SHA-256 with it."""
    return lambda path: rewrite(path, lambda header, _: change(header["description"][side]))


def json_files() -> list[Case]:
    """Settings and vocabularies that are JSON, but not what was written."""
    cases = []
    for how, change in (SETTINGS | RESUMED_OTHERWISE).items():
        cases.append(damaged("settings.json", how, change, "resume"))
    weights = READERS["model.safetensors"]
    for number, (how, change) in enumerate(CODEC.items()):
        for side, command in zip(("source", "target"), some(weights, number), strict=True):
            spoiled = f"{how}, of the {side}"
            cases.append(damaged("model.safetensors", spoiled, of_codec(side, change), command))
    return cases


CASES = json_files()
