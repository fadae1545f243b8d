"""Bad settings, after --set and in a TOML file: each key with values that it cannot have."""

from __future__ import annotations

from dataclasses import fields

from case import Case
from tiny import PRESET

from nmtlib.settings import SECTIONS, Settings

TRAIN = ("train", "own.toml", "--out", "new")

# By type: values of another type, as written after --set.
WRONG_TYPES = {
    "int": ("five", "1.5", "true", "[1]", "1979-05-27", "{a=1}"),
    "float": ("much", "true", "[0.1]", '"0.1"'),
    "str": ("7", "true", '["x"]'),
    "bool": ("1", "yes", "[true]"),
    "list": ("train.tsv", "7", "[1]", '[["a"]]'),
}
# By key: values of the right type that make no sense; tests/test_settings.py has the numbers.
OUT_OF_RANGE = {
    "model.dropout": ("-0.1", "1.0", "nan"),
    "model.norm": ("nonsense", '""', '" "', "NULL"),
    "training.epochs": ("0", "-1", "-10000000000000000000000"),
    "training.device": ("nonsense", "cuda:99", "meta", '""', "cpu:x"),
    "model.source_vocab_size": ("-1", "5", "1000000000"),
    "corpus.name": ("nonsense", "toy-de-en", "../train"),
    "corpus.source_language": ('""', '" "'),
    "corpus.train": ("[]", '["nowhere.tsv"]', '["a","b","c"]', '[""]', '["."]', '["own.toml"]'),
    "corpus.validation": ("[]", '["nowhere.tsv"]'),
    "corpus.test": ('["nowhere.tsv"]', '[""]'),
}
TOO_MUCH = {  # for any machine, not for a number
    "model.d_model": "1000000000000",
    "model.n_encoder_layers": "1000000000",
    "model.max_length": "1000000000000",
    "decoding.beam": "100000000000000000000",
}
# What does not fit together.
COMBINATIONS = (
    ("n_heads that does not divide d_model", ("model.n_heads=3",), "n_heads"),
    ("one table for two vocabularies", ("model.tied=all",), "joint"),
    ("a joint vocabulary of two kinds", ("joint=true", "target_kind=bpe"), "joint"),
    ("a joint given vocabulary", ("kind=given", "joint=true"), "joint"),
    ("a vocabulary of the specials alone", ("tokenizer.size=4",), "size"),
    ("no word that is frequent enough", ("min_count=1000000",), ""),
    ("an unknown spaCy language", ("kind=spacy", "source_language=xx-yy"), "xx-yy"),
    ("no sentence that is short enough", ("training.max_length=1",), ""),
    ("a model too short for any sentence", ("model.max_length=2",), ""),
    ("batches smaller than a sentence", ("training.max_tokens=3",), ""),
)
SYNTAX = (
    ("no equals sign", "epochs", "key=value"),
    ("no key", "=5", "unknown key"),
    ("nothing", "", "key=value"),
    ("a key of several sections", "max_tokens=5", "several sections"),
    ("a section for a key", "training=5", "unknown key"),
    ("a line break", "epochs=1\nseed=2", ""),
    ("nested without end", "epochs=" + "[" * 100_000, "epochs"),
    ("a number of 5,000 digits", "epochs=" + "9" * 5_000, "epochs"),
    ("a NUL", 'corpus.train=["a\\u0000b"]', ""),
    ("a lone surrogate", "device=\udcff", ""),
    ("a key of 100,000 letters", "x" * 100_000 + "=1", "unknown key"),
    ("the private method of a class", "training.__class__=int", "unknown key"),
)


def assigned(given: str, *assignments: str, says: str = "", **rest) -> Case:
    """`nmtlib train own.toml --set …`, which must be refused."""
    options = [part for assignment in assignments for part in ("--set", assignment)]
    return Case("settings after --set", given, (*TRAIN, *options), says, **rest)


def keys() -> dict[str, str]:
    """The type of each key, which is that of its default."""
    default = Settings()
    found = {s: getattr(default, s) for s in SECTIONS}
    return {
        f"{s}.{f.name}": type(getattr(part, f.name)).__name__
        for s, part in found.items()
        for f in fields(part)
    }


def product() -> list[Case]:
    """Each key with two values of another type, and those that make no sense."""
    cases = []
    for number, (key, kind) in enumerate(keys().items()):
        name, values = key.partition(".")[2], WRONG_TYPES[kind]
        for value in (values[2 * number % len(values)], values[(2 * number + 1) % len(values)]):
            cases.append(assigned(f"{key} is a {kind}", f"{key}={value}", says=name))
        for value in OUT_OF_RANGE.get(key, ()):
            cases.append(assigned(f"{key} out of range", f"{key}={value}"))
        cases.append(assigned("a misspelt key", f"{key[:-1]}=1", says="did you mean"))
    return cases


def toml(given: str, text: str | bytes, says: str = "", status=1, makes=()) -> Case:
    """A preset file that cannot be used."""
    data = text.encode() if isinstance(text, str) else text
    arguments = ("train", "bad.toml", "--out", "new")
    files = {"bad.toml": data}
    return Case("settings in a file", given, arguments, says, status, files, makes=makes)


def changed(given: str, old: str, new: str, says: str = "", **rest) -> Case:
    """The good preset with one thing changed."""
    assert old in PRESET
    return toml(given, PRESET.replace(old, new), says, **rest)


FILES = [
    toml("an empty file", "", "[corpus]"),
    toml("no TOML", "this is no TOML", "not valid TOML"),
    toml("a key twice", "[training]\nseed = 1\nseed = 2\n", "not valid TOML"),
    toml("Latin-1", PRESET.encode() + "# Größe\n".encode("latin-1"), "UTF-8"),
    toml("UTF-16", PRESET.encode("utf-16"), "UTF-8"),
    toml("random bytes", bytes(range(256)) * 10, "bad.toml"),
    toml("nested without end", "x = " + "[" * 100_000, "not valid TOML"),
    toml("a dotted key of 10,000 parts", "a" + ".a" * 10_000 + " = 1", "bad.toml"),
    toml("a misspelt section", PRESET.replace("[training]", "[trainig]"), "did you mean"),
    toml("a list of sections", PRESET.replace("[model]", "[[model]]"), "model"),
    changed("no number", "learning_rate = 5e-3", "learning_rate = nan", "learning_rate"),
    changed("a key of another section", "epochs = 2", "d_model = 2", "d_model"),
    changed("no language", 'source_language = "de"', "", "[corpus]"),
    changed("a file that is missing", "train.tsv", "nowhere.tsv", "nowhere.tsv"),
    changed("a path with NUL", '"train.tsv"', '"a\\u0000b"', ""),
    toml("a byte order mark, which is fine", b"\xef\xbb\xbf" + PRESET.encode(), "", 0, ("new/*",)),
    toml("Windows line ends, which are fine", PRESET.replace("\n", "\r\n"), "", 0, ("new/*",)),
]

# Odd, but fine: any whole number is a seed.
ODD = [
    assigned(f"a seed of {seed}", f"seed={seed}", "epochs=1", status=0, makes=("new/*",))
    for seed in ("0", "-1", str(2**40), str(2**63), str(2**200))
]
STOPPED = ("--minutes", "1e-9")
ODD += [
    Case(
        "settings after --set",
        f"{key} of a sextillion, which is fine",
        (*TRAIN, "--set", f"{key}=1{'0' * 21}", *STOPPED),
        status=0,
        makes=("new/*",),
    )
    for key in ("training.epochs", "training.max_tokens", "training.warmup", "training.average")
]

CASES = [
    *product(),
    *(assigned("more than any machine has", f"{k}={v}") for k, v in TOO_MUCH.items()),
    *(assigned(given, *values, says=says) for given, values, says in COMBINATIONS),
    *(assigned(given, text, says=says) for given, text, says in SYNTAX),
    *FILES,
    *ODD,
]
