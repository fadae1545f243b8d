"""Settings and vocabularies of a run that are JSON, but not what was written."""

from __future__ import annotations

from case import Case
from damage import Change, edit, setting, swap
from readers import READ_BY_ALL, damaged, some

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
CODEC: dict[str, Change] = {
    "no tokenizer": edit(lambda data: data.pop("tokenizer") and None),
    "no tokens": edit(lambda data: data.pop("tokens") and None),
    "a tokenizer that is null": edit(lambda data: data.__setitem__("tokenizer", None)),
    "an unknown kind": edit(lambda data: data["tokenizer"].__setitem__("kind", "morse")),
    "BPE without merges": edit(lambda data: data["tokenizer"].update(kind="bpe", model="{}")),
    "spaCy of Klingon": edit(lambda d: d.update(tokenizer={"kind": "spacy", "language": "tlh"})),
    "pieces that are a number": edit(
        lambda d: d.update(tokenizer={"kind": "subword-marks", "pieces": 7})
    ),
    "tokens that are a word": edit(lambda data: data.__setitem__("tokens", "abcdefgh")),
    "a token that is a number": edit(lambda data: data["tokens"].__setitem__(5, 7)),
    "a token twice": edit(lambda data: data["tokens"].__setitem__(5, data["tokens"][6])),
    "a token more": edit(lambda data: data["tokens"].append("more")),
    "specials in another order": edit(lambda data: data["tokens"].insert(0, "x")),
    "two words in each other's place": edit(swap),
}


def json_files() -> list[Case]:
    """Settings and vocabularies that are JSON, but not what was written."""
    cases = []
    for number, (how, change) in enumerate(SETTINGS.items()):
        for command in some(READ_BY_ALL, number):
            fine = how == "empty sections" and command not in ("evaluate", "resume")
            makes = ("exported/*",) if fine else ()
            status = (0, 1) if fine else 1
            cases.append(damaged("settings.json", how, change, command, status, makes=makes))
    for how, change in RESUMED_OTHERWISE.items():
        cases.append(damaged("settings.json", how, change, "resume"))
    for number, (how, change) in enumerate(CODEC.items()):
        source, target = some(READ_BY_ALL, number)
        cases.append(damaged("source.json", how, change, source))
        cases.append(damaged("target.json", how, change, target))
    return cases


CASES = json_files()
