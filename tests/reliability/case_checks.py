"""`nmtlib check` of code that does anything, and with bad arguments."""

from __future__ import annotations

from case import Case
from case_inputs import given


def check(what: str, *arguments: str, **rest) -> Case:
    """`nmtlib check` with these arguments."""
    return given("nmtlib check", what, "check", *arguments, **{"status": 2, **rest})


MADE = ("__pycache__/*",)
MASKS = ("--only", "masks", "--seed")
CHECK = ("check", "mine.py:make", "--only", "masks")


def mine(what: str, code: str | bytes, says: str = "", arguments=CHECK, **rest) -> Case:
    """`nmtlib check` of this code."""
    data = code.encode() if isinstance(code, str) else code
    files = {"mine.py": data}
    status = 1 if "printed" in rest else 2  # a report of findings, or nothing that could run
    return Case("nmtlib check", what, arguments, says, status, files, makes=MADE, **rest)


MODEL = (
    "import torch\nclass M(torch.nn.Module):\n    def forward(self, s, t):\n        {}\nmake = M\n"
)
REPORT = {"printed": True, "lines": 0}
CASES = [
    mine("no Python", "this is no Python", "line 1"),
    mine("an empty file", "", "make"),
    mine("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "mine.py"),
    mine("NUL bytes", b"\0" * 100, "mine.py"),
    mine("Latin-1", "# Größe\ndef make(): pass\n".encode("latin-1"), "mine.py"),
    mine("an import that is missing", "import nonsense", "nonsense"),
    mine("an import that ends the program", "raise SystemExit(0)", "SystemExit"),
    mine("an import without end", "def f(): f()\nf()", "RecursionError"),
    mine("an error", "1 / 0", "ZeroDivisionError"),
    mine("another name", "def mkae(): pass", "did you mean mkae"),
    mine("no function", "make = 7", "not a function"),
    mine("a report over the code", "1 / 0", "no earlier result", (*CHECK, "--json", "mine.py")),
    mine("two reports in one file", "1 / 0", "both", (*CHECK, "--json", "x", "--html", "./x")),
    mine("a report in no folder", "1 / 0", "a folder that is there", (*CHECK, "--json", "no/x")),
    check("--lift without a file", "--lift", says="needs a FILE"),
    mine("a function that fails", "def make(): return {}['x']", "KeyError"),
    mine("a function that returns nothing", "def make(): pass", "NoneType"),
    mine("a function that returns a number", "def make(): return 7", "int"),
    mine(
        "a function that returns a class",
        "import torch\ndef make(): return torch.nn.Linear",
        "type",
    ),
    mine("a function of two arguments", "def make(a, b): pass", "no value is known for a, b"),
    mine("a function that ends the program", "def make(): raise SystemExit(3)", "SystemExit"),
    mine("a function without end", "def make(): return make()", "RecursionError"),
    mine("a model that fails", MODEL.format("raise OSError('no disk')"), "no disk", **REPORT),
    mine("a model that returns nothing", MODEL.format("return None"), "", **REPORT),
    mine("a model that returns ids", MODEL.format("return t"), "", **REPORT),
    mine(
        "a model that returns NaN",
        MODEL.format("return torch.full((*t.shape, 12), float('nan'))"),
        "",
        **REPORT,
    ),
    mine("a model that ends the program", MODEL.format("raise SystemExit(0)"), "", **REPORT),
    mine("a model without end", MODEL.format("return self(s, t)"), "", **REPORT),
    *(
        check(f"{where!r} as file and function", where, says="FILE:FACTORY")
        for where in ("mine.py", "mine.py:", ":make", "nowhere.py:make", "mine.py:a-b", "run:make")
    ),
    check("an unknown check", "--only", "nonsense", says="nonsense"),
    check("a misspelt check", "--only", "maks", says="masks"),
    check("an empty name", "--only", ""),
    *(
        check(f"a seed of {seed!r}", *MASKS, seed, says="--seed", status=2)
        for seed in ("x", "1.5", "")
    ),
    *(
        check(f"a seed of {name}, which is fine", *MASKS, str(seed), status=0)
        for name, seed in (("2**70", 2**70), ("-2**70", -(2**70)), ("-1", -1))
    ),
]
