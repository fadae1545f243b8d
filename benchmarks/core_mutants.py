"""How many mistakes in nmtlib do the tests of a commit notice?  Make some, one at a time.

    python benchmarks/core_mutants.py                  # 400 of them, drawn with a fixed seed
    python benchmarks/core_mutants.py --number 40      # the first 40 of these
    python benchmarks/core_mutants.py --only model/attention.py
    python benchmarks/core_mutants.py --survivors      # judge again those that lived the last time

A mutant is a copy of nmtlib with one expression or statement changed (see mutated.py).
The tests run on it in four steps, and it is killed by the first that fails.  Three steps are what
`make test` runs: the tests of its room, those of the command line and the settings, and those of
all rooms together and of the recipes.  A file that is in no room has the command line first, then
the tests of training.  The fourth are the slow tests of its room, which `make test-slow` runs.
What uses more processor time than `LIMIT` is killed too: the mutant does not end.  Before the first
one, the same tests must pass on a copy in which nothing changed.

Writes results/core-mutants.json and CORE_MUTANTS.md beside this script, anew after each mutant, and
nothing with --only.  A run that was ended goes on where it was, as long as nmtlib and its tests are
the same.  A survivor needs a reason: `reasons` in core_mutants.toml, by place and change.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
LIMIT = 300  # processor seconds of one step
ROOMS = {"model", "data", "training", "inference"}
ACROSS = [
    "tests/test_choices.py",
    "tests/test_light_imports.py",
    "tests/test_net.py",
    "tests/test_shipped.py",
    "tests/recipes",
]
COMMAND_LINE = ["tests/test_settings.py", "tests/test_cli.py", "tests/test_files.py"]
FAST = "not slow and not nightly and not extras"
SLOW = "slow and not nightly and not extras"


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
    for part in hidden:
        yield from ast.walk(part)


def steps_of(file: str) -> list[tuple[str, list[str]]]:
    """Which tests run on a mutant of a file, one step after the other: marks and places."""
    room = file.split("/")[0]
    if room in ROOMS:
        places = [f"tests/{room}"]
        return [(FAST, places), (FAST, COMMAND_LINE), (FAST, ACROSS), (SLOW, places)]
    return [
        (FAST, COMMAND_LINE),
        (FAST, ["tests/training"]),
        (FAST, ACROSS),
        (SLOW, COMMAND_LINE),
    ]


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
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", marks]
        return int(pytest.main([*options, *there]))


def require_that_tests_pass(files: Iterable[str]) -> None:
    """Run every step on copies of nmtlib in which nothing changed.

    Raises RuntimeError for one that fails: it would kill each mutant.
    """
    steps = {(marks, *places): file for file in files for marks, places in steps_of(file)}
    for (marks, *places), file in steps.items():
        source = (ROOT / "nmtlib" / file).read_text("utf-8")
        if run_tests(Mutant(file, 0, "nothing", source), marks, places) != "passed":
            command = f"pytest -m '{marks}' {' '.join(places)}"
            raise RuntimeError(f"tests fail on an unchanged copy of nmtlib; see: {command}")


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
    counts = Counter(mutant["judgement"] for mutant in result["mutants"])
    total = sum(counts.values())
    killed = total - counts["survived"]
    at_a_commit = killed - counts["step 4"]
    lines = [
        "# What the tests of a commit notice",
        "",
        "Written by `python benchmarks/core_mutants.py` from `results/core-mutants.json`.",
        "",
        f"**{at_a_commit} of {total}** mutants of `nmtlib` are killed by the tests of a commit "
        f"({at_a_commit / total:.0%}), and {killed} ({killed / total:.0%}) together with the slow "
        f"tests of their room (step 4). They were drawn with seed {result['seed']} from "
        f"{result['all']:,}: operators, constants, conditions, calls and statements, each changed "
        "in one place.",
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
    for mutant in result["mutants"]:
        if mutant["judgement"] == "survived":
            place = f"{mutant['file']}:{mutant['line']}"
            change = mutant["change"].replace("|", "\\|").replace("\n", " ")
            reason = known.get(f"{mutant['file']}: {mutant['change']}", "not read yet")
            lines.append(f"| {place} | `{change}` | {reason} |")
    return "\n".join(lines) + "\n"


def judged_before(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The judgements of a run that was ended, where it had the same code and the same draw."""
    if not RESULT.is_file():
        return []
    stored = json.loads(RESULT.read_text("utf-8"))
    same = all(stored.get(name) == result[name] for name in ("seed", "code", "all"))
    return stored["mutants"] if same else []


def judge_survivors() -> int:
    """Judge the survivors of the stored result with the tests of today.

    One whose line has changed since stays a survivor.
    """
    result = json.loads(RESULT.read_text("utf-8"))
    files = sorted({m["file"] for m in result["mutants"] if m["judgement"] == "survived"})
    require_that_tests_pass(files)
    there = {
        (mutant.file, mutant.change): mutant
        for file in files
        for mutant in mutants_of(ROOT / "nmtlib" / file)
    }
    for one in result["mutants"]:
        mutant = there.get((one["file"], one["change"]))
        if one["judgement"] == "survived" and mutant:
            one |= {"line": mutant.line, "judgement": judge(mutant)}
            print(f"{one['judgement']:<12}{one['file']}:{one['line']}  {one['change']}", flush=True)
    write(result)
    return 0


def draw(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """The mutants in an order of chance, which a change elsewhere in the package does not alter."""

    def lot(mutant: Mutant) -> str:
        text = f"{seed} {mutant.file} {mutant.line} {mutant.change}"
        return hashlib.sha256(text.encode()).hexdigest()

    return sorted(mutants, key=lot)


def digest_of_code() -> str:
    """What the judgements hang on: every file of nmtlib and of the tests."""
    digest = hashlib.sha256()
    for folder in ("nmtlib", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def write(result: dict) -> None:
    """Write the result and its page."""
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(result), "utf-8")


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--number", type=int, help="how many (400)")
    parser.add_argument("--only", help="one file, such as model/attention.py")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    again = "judge the survivors of the last result again, and keep the rest of it"
    parser.add_argument("--survivors", action="store_true", help=again)
    options = parser.parse_args()
    if options.survivors:
        return judge_survivors()
    files = sorted((ROOT / "nmtlib").rglob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path)]
    chosen = draw((m for m in every if options.only in (None, m.file)), options.seed)
    require_that_tests_pass(sorted({mutant.file for mutant in chosen}))
    result: dict[str, Any] = {"command": "python benchmarks/core_mutants.py", "seed": options.seed}
    result |= {"code": digest_of_code(), "all": len(every)}
    judged = judged_before(result) if options.only is None else []
    result["mutants"] = judged
    for mutant in chosen[len(judged) : options.number or 400]:
        judgement = judge(mutant)
        about = {"file": mutant.file, "line": mutant.line, "change": mutant.change}
        judged.append({**about, "judgement": judgement})
        print(f"{judgement:<12}{mutant.file}:{mutant.line}  {mutant.change}", flush=True)
        if options.only is None:
            write(result)  # whatever ends the run early, even a kill
    survived = sum(mutant["judgement"] == "survived" for mutant in judged)
    print(f"{len(judged) - survived} of {len(judged)} killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
