"""Judge a treated patient: are its bugs named and repaired, and is everything else unchanged?"""

from __future__ import annotations

import ast
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmtcourse.homework.chinese import speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.execution import Session
from nmtcourse.homework.guards import Stopped, undisturbed
from nmtcourse.homework.patients import Patient, agree, module_of, patient
from nmtcourse.homework.wire import Lost

SECONDS = 60.0  # for the file, and for each of two models
POINTS = {"diagnosis": 6.0, "repair": 10.0, "nothing else": 4.0}


@dataclass(frozen=True)
class Examination:
    """The result for a patient: points, and a line for each criterion."""

    student: str
    points: float
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return self.told("en")

    def told(self, language: str) -> str:
        """The result in words."""
        say, colon = speaks(language), "：" if language == "zh" else ": "
        parts = (line.partition(": ") for line in self.lines)
        lines = [f"{say(name)}{colon}{say(why)}" for name, _, why in parts]
        total = f"total: {self.points:g} of {sum(POINTS.values()):g}"
        return "\n".join([say(f"the patient of {self.student}"), *lines, say(total)])


def examine(path: Path) -> Examination:
    """Judge a treated patient. The file is run in a process of its own, within limits.

    Raises FileNotFoundError for a missing file, ValueError for one that is not a patient, not
    Python, or that ends its process.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; make one with: nmtlib homework patient")
    text = path.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder)) as session:
        try:
            if error := session.run(text, SECONDS):
                raise ValueError(f"{path} cannot be run: {': '.join(error)}")
            student, diagnosis, model = session.values(["STUDENT", "DIAGNOSIS", "Transformer"])
        except Lost as lost:
            raise ValueError(f"{path} cannot be run: {lost}") from None
        if not isinstance(student, str) or not isinstance(diagnosis, list):
            raise ValueError(f"{path} is no patient: STUDENT must be a text, DIAGNOSIS a list")
        case, diagnosis = patient(student), [str(name) for name in diagnosis]
        lost_points: list[tuple[str, str]] = [
            ("diagnosis", _diagnosed(case, diagnosis)),
            ("repair", _borrowed(case, text) or _repaired(case, model, session)),
            ("nothing else", _changed_elsewhere(case, text)),
        ]
    if lost_points[1][1]:  # an untouched file has changed nothing, which earns no points
        lost_points[2] = ("nothing else", lost_points[2][1] or "counts once the repair is right")
    lines = [f"{name}: {why or 'right'}" for name, why in lost_points]
    points = sum(POINTS[name] for name, why in lost_points if not why)
    return Examination(student, points, tuple(lines))


def _diagnosed(case: Patient, diagnosis: list[str]) -> str:
    right = {bug.key for bug in case.bugs}
    if len(found := right & set(diagnosis)) < len(right) or len(diagnosis) != len(right):
        return f"{len(found)} of {len(right)} bugs are named, with {len(diagnosis)} names given"
    return ""


def _borrowed(case: Patient, text: str) -> str:
    """What the file imports from nmtlib that the patient does not, such as a healthy model."""

    def imported(source: str) -> set[str]:
        nodes = [*ast.walk(ast.parse(source))]
        plain = {n.name for node in nodes if isinstance(node, ast.Import) for n in node.names}
        parts = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        return {name for name in plain | parts if name.partition(".")[0].startswith("nmt")}

    odd = sorted(imported(text) - imported(case.source()))
    return f"the file imports {', '.join(odd)}: write the model in the file itself" if odd else ""


def _repaired(case: Patient, model: Any, session: Session) -> str:
    """The first difference from a healthy model, or ''."""
    well = module_of(case.source(healthy=True))
    sizes = [case.config, patient(case.student + "'s other sizes").config]
    try:
        for config in sizes:
            with session.within(SECONDS), undisturbed():
                agree(types.SimpleNamespace(Transformer=model), well, config)
    except Finding as finding:
        return f"{finding.measured}; a healthy model has {finding.expected}"
    except (Lost, Stopped):
        return "the process ended, or did not answer in time"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


def _changed_elsewhere(case: Patient, text: str) -> str:
    """Which statements were changed outside the functions with bugs, or ''."""
    ill = {edit.where.partition(":")[2] for bug in case.bugs for edit in bug.edits}
    before, after = statements(case.source()), statements(text)
    odd = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in ill and before.get(name) != after.get(name)
    )
    return f"also changed: {', '.join(odd[:5])}" if odd else ""


def statements(text: str) -> dict[str, list[str]]:
    """The code of a module by its place, without comments, layout and diagnosis.

    A place is the dotted name of a function or method, or the first line of any other statement.
    """
    found: dict[str, list[str]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = prefix + node.name
            else:
                name = prefix + ast.unparse(node).splitlines()[0][:60]
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{name}.")
                node.body = []
            if not name.startswith("DIAGNOSIS ="):
                found.setdefault(name, []).append(ast.dump(node))

    visit(ast.parse(text).body, "")
    return found
