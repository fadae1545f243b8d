"""The core imports nothing that stands above it, and no two of its modules import each other."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ABOVE = ("checks", "explorer", "extras", "homework", "teaching", "toy")  # these import the core
LINES = 6_100  # of the core, docstrings included: it may shrink, and not grow


def core() -> dict[str, str]:
    """The source of every module of the core by its dotted name."""
    paths = (path.relative_to(ROOT) for path in sorted((ROOT / "nmtlib").rglob("*.py")))
    names = {path: ".".join(path.with_suffix("").parts) for path in paths}
    inside = {path: name for path, name in names.items() if path.parts[1] not in ABOVE}
    return {name: (ROOT / path).read_text("utf-8") for path, name in inside.items()}


def imported(text: str) -> set[str]:
    """The dotted names that a module imports, in functions too, except for types alone.

    `from a import b` gives both `a` and `a.b`.
    """
    found, tree = set(), ast.parse(text)
    types = [
        n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
    ]
    unread = {inner for block in types for inner in ast.walk(block)}
    for node in ast.walk(tree):
        if node in unread:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def upward(text: str) -> set[str]:
    """The packages above the core that a module imports."""
    parts = (name.split(".") for name in imported(text))
    return {part[1] for part in parts if part[0] == "nmtlib" and part[1:2] and part[1] in ABOVE}


def order(sources: dict[str, str]) -> None:
    """Raise CycleError, naming them, where modules import each other; re-exports are no imports."""
    plain = {name: text for name, text in sources.items() if not name.endswith("__init__")}
    graph = {name: (imported(text) & plain.keys()) - {name} for name, text in plain.items()}
    TopologicalSorter(graph).prepare()


def test_the_core_imports_nothing_above_it():
    assert {name: found for name, text in core().items() if (found := upward(text))} == {}


def test_an_import_from_above_is_noticed():
    assert upward("def f():\n    from nmtlib.checks import run_checks") == {"checks"}
    assert upward("from nmtlib import toy") == {"toy"}
    assert upward("import nmtlib.data.vocab, json") == set()


def test_no_modules_of_the_core_import_each_other():
    order(core())


def test_a_circle_is_noticed():
    with pytest.raises(CycleError):
        order({"a.b": "from a import c", "a.c": "def f():\n    import a.b"})


def test_an_import_for_types_alone_makes_no_circle():
    order({"a.b": "from a import c", "a.c": "if TYPE_CHECKING:\n    from a.b import B"})


def test_the_core_does_not_grow():
    assert sum(len(text.splitlines()) for text in core().values()) <= LINES
