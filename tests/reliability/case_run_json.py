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
