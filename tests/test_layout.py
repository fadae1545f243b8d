"""The house: three packages that import downwards only, and in no circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import nmtlib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nmtlib", "nmtcheck", "nmtcourse")  # each may import those before it


def modules(*packages: str) -> dict[str, Path]:
    """Every module of some packages by its dotted name."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def imported(text: str) -> set[str]:
    """The dotted names that a module imports, in functions and for type checkers too.

    `from a import b` gives both `a` and `a.b`.
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def upward(package: str, text: str) -> set[str]:
    """What a module of a package imports of the packages above it."""
    above = PACKAGES[PACKAGES.index(package) + 1 :]
    return {name for name in imported(text) if name.partition(".")[0] in above}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_none_above_it(package):
    found = {
        name: upward(package, path.read_text("utf-8")) for name, path in modules(package).items()
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_the_core_gives_no_name_of_a_package_above_it():
    assert {home.split(".")[0] for home in nmtlib.PUBLIC.values()} == {"nmtlib"}


def dependencies(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each module those of its package that it imports; a re-export is no edge."""
    return {name: (imported(text) & sources.keys()) - {name} for name, text in sources.items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_imports_form_a_circle(package):
    plain = {name: path for name, path in modules(package).items() if path.stem != "__init__"}
    sources = {name: path.read_text("utf-8") for name, path in plain.items()}
    order = [*TopologicalSorter(dependencies(sources)).static_order()]  # CycleError names a circle
    assert {*order} == sources.keys()
