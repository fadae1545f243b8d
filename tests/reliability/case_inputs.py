"""Bad arguments: of a search, of an export, of a training, and of every command's usage."""

from __future__ import annotations

from case import SENTENCE, Case
from damage import Change

TRANSLATE = ("translate", "run", SENTENCE)
EVALUATE = ("evaluate", "run")


def given(category: str, what: str, *arguments: str, says: str = "", status=1, **rest) -> Case:
    """A command line."""
    return Case(category, what, arguments, says, status, **rest)


SEARCH = [
    *(
        given("search", f"a beam of {beam}", *command, "--beam", beam, says="beam")
        for command in (TRANSLATE, EVALUATE)
        for beam in ("0", "100000000000000000000")
    ),
    *(
        given("search", f"a beam of {beam}", *command, "--beam", beam, says="beam", status=2)
        for command in (TRANSLATE, EVALUATE)
        for beam in ("five", "1.5")
    ),
    *(
        given("search", f"a penalty of {penalty}", *EVALUATE, f"--length-penalty={penalty}")
        for penalty in ("nan", "101")
    ),
    *(
        given("search", f"the split {split!r}", *EVALUATE, "--split", split, says="split")
        for split in ("challenge", "tset", "")
    ),
    given("search", "an output in a missing folder", *EVALUATE, "--output", "no/scores.json"),
    given("search", "an output that is a folder", *EVALUATE, "--output", "run"),
]
EXPORT = ("export", "run", "--out", "exported", "--to")


def fill(name: str) -> Change:
    """A folder with something in it."""
    return lambda folder: ((folder / name).mkdir(), (folder / name / "thesis.txt").write_text("x"))


EXPORTS = [
    *(given("export", f"the format {to!r}", *EXPORT, to, says="format") for to in ("", "onyx")),
    given("export", "no format", "export", "run", says="--to", status=2),
    given("export", "quantization without need", *EXPORT, "onnx", "--quantization", "int8"),
    given("export", "an unknown quantization", *EXPORT, "ctranslate2", "--quantization", "int3"),
    given("export", "a pre-norm model as Marian", *EXPORT, "marian", says="pegasus"),
    given("export", "two tables as Pegasus", *EXPORT, "pegasus", says="tied"),
    given(
        "export", "a used folder", *EXPORT, "safetensors", says="not empty", damage=fill("exported")
    ),
    given("export", "the run itself", "export", "run", "--to", "safetensors", "--out", "run"),
    given("export", "a file", "export", "run", "--to", "safetensors", "--out", "own.toml"),
    given(
        "export", "a used default folder", "export", "run", "--to", "onnx", damage=fill("run/onnx")
    ),
]
OUT = "--out"
TRAINING = [
    given("training", "no preset", "train", says="preset"),
    given("training", "an unknown preset", "train", "nonsense", says="the presets are"),
    given("training", "a misspelt preset", "train", "toy-de-em", says="did you mean toy-de-en"),
    given("training", "a folder with the ending .toml", "train", "x.toml", damage=fill("x.toml")),
    given("training", "a path with NUL", "train", "a\0b.toml"),
    given("training", "a half run", "train", "own.toml", OUT, "half", says="not empty"),
    given("training", "a folder of other things", "train", "own.toml", OUT, ".", says="not empty"),
    given("training", "a file as folder", "train", "own.toml", OUT, "train.tsv"),
    given("training", "a name of 5,000 letters", "train", "own.toml", OUT, "x" * 5000),
    given("training", "an out with NUL", "train", "own.toml", OUT, "a\0b"),
    given("training", "minutes in words", "train", "own.toml", "--minutes", "five", status=2),
    given(
        "training",
        "endless minutes, which are fine",
        *("train", "own.toml", OUT, "new", "--minutes", "inf"),
        status=0,
        makes=("new/*",),
    ),
    given(
        "training",
        "a folder of half files, which is fine",
        *("train", "own.toml", OUT, "new"),
        status=0,
        files={"new/settings.json.0123abcd.part": b"{"},
        makes=("new/*",),
    ),
    given(
        "training",
        "a start that was killed, which is fine",
        *("train", "own.toml", OUT, "new"),
        status=0,
        damage=lambda folder: (folder / "new").mkdir(),
        makes=("new/*",),
    ),
]
USAGE = [
    given("usage", "no command", says="nmtlib translate", status=0),
    given("usage", "an unknown command", "trian", status=2),
    given("usage", "an unknown option", "train", "own.toml", "--epochs", "5", status=2),
    given("usage", "two presets", "train", "own.toml", "own.toml", status=2),
    given("usage", "translate nothing", "translate", says="nmtlib models"),
    given(
        "usage",
        "a sentence that begins with a dash",
        "translate",
        "toy-de-en",
        "-Ja",
        says="after a --",
        status=2,
    ),
    given("usage", "backtranslate no text", "backtranslate", "run", status=2),
    given("usage", "data with an unknown action", "data", "lsit", status=2),
    given("usage", "data check of nothing", "data", "check", says="name"),
    given("usage", "data list of a corpus", "data", "list", "toy-de-en", says="data check"),
    given("usage", "a misspelt corpus", "data", "check", "multi30k-de-em", says="did you mean"),
    given("usage", "a path as corpus name", "data", "fetch", "../../etc", says="corpora"),
    given("usage", "summary of a file", "summary", "train.tsv", says="presets"),
    given("usage", "summary of a bad preset", "summary", "bad.toml", files={"bad.toml": b"x"}),
]
CASES = [*SEARCH, *EXPORTS, *TRAINING, *USAGE]
