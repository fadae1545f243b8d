"""How many mistakes in nmtlib do the tests of a commit notice?  Make some, one at a time.

    python benchmarks/core_mutants.py                  # 400 of them, drawn with a fixed seed
    python benchmarks/core_mutants.py --number 40      # fewer
    python benchmarks/core_mutants.py --only model/attention.py

A mutant is a copy of nmtlib with one expression or statement changed (see mutated.py).
The tests run on it in three steps, and it is killed by the first that fails: the fast
tests of its room, all of its room that a commit runs, and those of the command line and settings.
What uses more processor time than `LIMIT` is killed too: the mutant does not end.

Writes results/core-mutants.json and CORE_MUTANTS.md beside this script, with --number and --only
nothing.  A survivor needs a reason: `reasons` in core_mutants.toml, by place and change.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# Loaded before the forks, so that no mutant pays for it; nothing here imports nmtlib.
import hypothesis  # noqa: F401
import numpy  # noqa: F401
import pydantic  # noqa: F401
import pytest
import safetensors  # noqa: F401
import tokenizers  # noqa: F401
import torch  # noqa: F401
from mutated import changes, replaced

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "core-mutants.json"
PAGE = ROOT / "benchmarks" / "CORE_MUTANTS.md"
REASONS = ROOT / "benchmarks" / "core_mutants.toml"
LIMIT = 120  # processor seconds of one step
ROOMS = {"model", "data", "training", "inference"}
COMMAND_LINE = ["tests/test_settings.py", "tests/test_cli.py", "tests/test_files.py"]
FAST, COMMIT = "not slow and not nightly and not extras", "not nightly and not extras"


@dataclass(frozen=True)
class Mutant:
    """One change of one file of nmtlib."""

    file: str  # below nmtlib
    line: int
    change: str
    source: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file, but for its docstrings, annotations and messages of errors."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    ignored = {id(inner) for node in ast.walk(tree) for inner in unseen_by_tests(node)}
    seen = {ast.unparse(tree)}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in ignored:
            continue
        for new in changes(node):
            source = replaced(text, place, new)
            if source not in seen:
                seen.add(source)
                change = f"{ast.unparse(node)[:70]} -> {ast.unparse(new)[:70]}"
                file = path.relative_to(ROOT / "nmtlib").as_posix()
                yield Mutant(file, getattr(node, "lineno", 0), change, source)


def unseen_by_tests(node: ast.AST) -> Iterator[ast.AST]:
    """What below a node no behaviour hangs on: types, docstrings, what an error says."""
    hidden: list[ast.AST] = []
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
        hidden.append(node.annotation)
    if isinstance(node, ast.FunctionDef) and node.returns:
        hidden.append(node.returns)
    if isinstance(node, ast.Raise) and node.exc:
        hidden.append(node.exc)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        hidden.append(node)
    if isinstance(node, ast.Import | ast.ImportFrom):
        hidden.append(node)
    for each in hidden:
        yield from ast.walk(each)


def steps_of(file: str) -> list[tuple[str, list[str]]]:
    """Which tests run on a mutant of a file, one step after the other: marks and places."""
    room = file.split("/")[0]
    if room in ROOMS:
        places = [f"tests/{room}"]
        return [(FAST, places), (COMMIT, places), (COMMIT, COMMAND_LINE)]
    return [(FAST, COMMAND_LINE), (COMMIT, COMMAND_LINE), (COMMIT, ["tests/training"])]


def run_tests(mutant: Mutant, marks: str, places: list[str]) -> str:
    """Run tests on a mutant in a fork: "passed", "failed" or "did not end"."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            status = run_in_this_process(mutant, marks, places)
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        return "did not end"
    return "passed" if os.WEXITSTATUS(ended) in (0, 5) else "failed"


def run_in_this_process(mutant: Mutant, marks: str, places: list[str]) -> int:
    """The status of pytest with the changed copy of nmtlib first on the path."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "nmtlib")
        shutil.copytree(ROOT / "nmtlib", package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / mutant.file).write_text(mutant.source, encoding="utf-8")
        # also for the processes that a test starts
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{ROOT}"
        os.environ["OMP_NUM_THREADS"] = "1"
        sys.path[:0] = [folder, str(ROOT)]
        os.chdir(ROOT)
        there = [place for place in places if Path(place).exists()]
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", marks]
        return int(pytest.main([*options, *there]))


def judge(mutant: Mutant) -> str:
    """What killed a mutant, or "survived"."""
    for number, (marks, places) in enumerate(steps_of(mutant.file), start=1):
        ended = run_tests(mutant, marks, places)
        if ended != "passed":
            return f"step {number}" if ended == "failed" else ended
    return "survived"


def page(result: dict) -> str:
    """CORE_MUTANTS.md."""
    known = tomllib.loads(REASONS.read_text("utf-8"))["reasons"] if REASONS.is_file() else {}
    counts = Counter(each["judgement"] for each in result["mutants"])
    total = sum(counts.values())
    killed = total - counts["survived"]
    lines = [
        "# What the tests of a commit notice",
        "",
        "Written by `python benchmarks/core_mutants.py` from `results/core-mutants.json`.",
        "",
        f"**{killed} of {total}** mutants of `nmtlib` are killed ({killed / total:.0%}). They were "
        f"drawn with seed {result['seed']} from {result['all']:,}: operators, constants, "
        "conditions, calls and statements, each changed in one place.",
        "",
        "| killed by | mutants |",
        "|---|--:|",
        *(f"| {name} | {number} |" for name, number in sorted(counts.items())),
        "",
        "## Survivors",
        "",
        "| place | change | why it may live |",
        "|---|---|---|",
    ]
    for each in result["mutants"]:
        if each["judgement"] == "survived":
            place = f"{each['file']}:{each['line']}"
            change = each["change"].replace("|", "\\|").replace("\n", " ")
            reason = known.get(f"{each['file']}: {each['change']}", "not read yet")
            lines.append(f"| {place} | `{change}` | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--number", type=int, help="how many (400)")
    parser.add_argument("--only", help="one file, such as model/attention.py")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    options = parser.parse_args()
    files = sorted((ROOT / "nmtlib").rglob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path)]
    chosen = [m for m in every if options.only in (None, m.file)]
    random.Random(options.seed).shuffle(chosen)
    judged = []
    for mutant in chosen[: options.number or 400]:
        judgement = judge(mutant)
        told = asdict(mutant) | {"judgement": judgement}
        told.pop("source")
        judged.append(told)
        print(f"{judgement:<12}{mutant.file}:{mutant.line}  {mutant.change}", flush=True)
    survived = sum(each["judgement"] == "survived" for each in judged)
    print(f"{len(judged) - survived} of {len(judged)} killed")
    if options.number is None and options.only is None:
        result = {"command": "python benchmarks/core_mutants.py", "seed": options.seed}
        result |= {"all": len(every), "mutants": judged}
        RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
        PAGE.write_text(page(result), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
