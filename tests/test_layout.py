"""The house: three packages that import downwards only, the core small enough to be read whole."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import nmtlib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nmtlib", "nmtcheck", "nmtcourse")  # each may import those before it
LIMITS = {  # lines, docstrings included
    "nmtlib": 5_350,
    "nmtcheck": 8_400,
    "nmtcourse/teaching": 5_000,
    "nmtcourse/doctor": 2_250,
    "nmtcourse/formats": 830,
    "nmtcourse/toy": 1_565,
    "nmtcourse/explorer": 484,
    "nmtcourse/homework": 9_850,
    "benchmarks": 4_950,
    "tests": 24_600,
    "tools": 1_500,
}
ROOMS = ("model", "data", "training", "inference")
MODULE_LINES, FUNCTION_LINES, COLUMNS = 400, 60, 100
LONGER = ("nmtcourse/homework/masters",)  # an assignment a file: tasks beside their checks


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


def lines(*places: str) -> int:
    """The lines of all modules below some folders."""
    paths = (path for place in places for path in (ROOT / place).rglob("*.py"))
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


@pytest.mark.parametrize("package", LIMITS)
def test_a_package_stays_small(package):
    assert 0 < lines(package) <= LIMITS[package]


def test_the_docs_stay_small():
    texts = [p for p in (ROOT / "docs").rglob("*") if p.suffix in (".md", ".toml", ".py", ".css")]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in texts) <= 3_700


def test_the_rooms_of_the_core_stay_small():
    assert 0 < lines(*(f"nmtlib/{room}" for room in ROOMS)) <= 3870


def too_long(text: str) -> list[str]:
    """The lines and functions of a module that a reader cannot take in at once."""
    rows = text.splitlines()
    found = [f"{len(rows)} lines"] * (len(rows) > MODULE_LINES)
    found += [
        f"line {i}: {len(row)} columns" for i, row in enumerate(rows, 1) if len(row) > COLUMNS
    ]
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    sizes = ((n.name, (n.end_lineno or 0) - n.lineno + 1) for n in functions)
    return found + [f"{name}: {size} lines" for name, size in sizes if size > FUNCTION_LINES]


def test_modules_and_functions_can_be_taken_in():
    paths = (
        p
        for p in modules(*PACKAGES).values()
        if not p.relative_to(ROOT).as_posix().startswith(LONGER)
    )
    found = {path.relative_to(ROOT).as_posix(): too_long(path.read_text("utf-8")) for path in paths}
    assert {path: problems for path, problems in found.items() if problems} == {}
