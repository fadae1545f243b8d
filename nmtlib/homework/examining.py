"""Judge a patient that was treated: are its bugs named, is it well, is all the rest as it was?"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass
from pathlib import Path

from nmtlib.homework.guards import undisturbed
from nmtlib.homework.patients import Patient, agree, module_of, patient
from nmtlib.homework.task import Finding

POINTS = {"diagnosis": 6.0, "repair": 10.0, "nothing else": 4.0}


@dataclass(frozen=True)
class Examination:
    """What became of a patient: points, and a line for each thing that was looked at."""

    student: str
    points: float
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*self.lines, f"in all {self.points:g} of {sum(POINTS.values()):g}"])


def examine(path: Path) -> Examination:
    """Judge a patient that was treated.  The file is run: it is not sandboxed.

    Raises FileNotFoundError for a missing file, ValueError for one that is no patient or not
    Python.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; make one with: nmtlib homework patient")
    text = path.read_text("utf-8")
    try:
        with undisturbed():
            module = module_of(text)
        student, diagnosis = str(module.STUDENT), [str(name) for name in module.DIAGNOSIS]
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from None
    case = patient(student)
    lost: list[tuple[str, str]] = [
        ("diagnosis", _diagnosed(case, diagnosis)),
        ("repair", _repaired(case, module)),
        ("nothing else", _changed_elsewhere(case, text)),
    ]
    if lost[1][1]:  # an untouched file has changed nothing, which is no merit
        lost[2] = ("nothing else", lost[2][1] or "counts once the repair is right")
    lines = [f"{name}: {why or 'right'}" for name, why in lost]
    points = sum(POINTS[name] for name, why in lost if not why)
    return Examination(student, points, tuple(lines))


def _diagnosed(case: Patient, diagnosis: list[str]) -> str:
    right = {bug.key for bug in case.bugs}
    if len(found := right & set(diagnosis)) < len(right) or len(diagnosis) != len(right):
        return f"{len(found)} of {len(right)} bugs are named, by {len(diagnosis)} names"
    return ""


def _repaired(case: Patient, module: types.ModuleType) -> str:
    """Where the model still differs from a healthy one, or ''."""
    well = module_of(case.source(healthy=True))
    sizes = [case.config, patient(case.student + "'s other sizes").config]
    try:
        with undisturbed():
            for config in sizes:
                agree(module, well, config)
    except Finding as finding:
        return f"{finding.measured}; a healthy model has {finding.expected}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


def _changed_elsewhere(case: Patient, text: str) -> str:
    """Which functions differ from those of the patient beside the ones that were ill, or ''."""
    ill = {edit.where.partition(":")[2] for bug in case.bugs for edit in bug.edits}
    before, after = functions(case.source()), functions(text)
    odd = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in ill and before.get(name) != after.get(name)
    )
    return f"changed as well: {', '.join(odd[:5])}" if odd else ""


def functions(text: str) -> dict[str, str]:
    """The code of each function and method by its dotted name, without comments and layout."""
    found: dict[str, str] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                found[prefix + node.name] = ast.dump(node)

    visit(ast.parse(text).body, "")
    return found
