"""Judge a treated patient: are its bugs named and repaired, and is everything else unchanged?"""

from __future__ import annotations

import ast
import contextlib
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from nmtcheck.report.apart import Child, Ended
from nmtcourse.homework.apart import Host
from nmtcourse.homework.chinese import speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.limits import Nowhere, Stopped, prepare, undisturbed, within
from nmtcourse.projects.patients import Patient, agree, module_of, patient

SECONDS = 60.0  # for the file, and for each of two models
EXAMINED = f"{__name__}:examined"  # what a host calls
POINTS = {"diagnosis": 6.0, "repair": 10.0, "nothing else": 4.0}


@dataclass(frozen=True)
class Examination:
    """The result for a patient: points, and a line for each criterion."""

    student: str
    points: float
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return self.as_text("en")

    def as_text(self, language: str) -> str:
        """The result in words."""
        say = speaks(language)
        colon = "：" if language == "zh" else ": "
        lines = []
        for line in self.lines:
            name, _, why = line.partition(": ")
            lines.append(f"{say(name)}{colon}{say(why)}")
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
    try:
        with tempfile.TemporaryDirectory() as folder, Host(Path(folder), EXAMINED) as host:
            observed = Observed.model_validate(host.ask(text=text))
    except ValueError as error:  # also of pydantic
        raise ValueError(f"{path} cannot be run: {error}") from None
    if observed.error:
        raise ValueError(f"{path} {observed.error}")
    student, case = observed.student, patient(observed.student)
    lost_points: list[tuple[str, str]] = [
        ("diagnosis", _diagnosed(case, observed.diagnosis)),
        ("repair", _borrowed(case, text) or observed.repair),
        ("nothing else", _changed_elsewhere(case, text)),
    ]
    if lost_points[1][1]:  # an untouched file has changed nothing, which earns no points
        lost_points[2] = ("nothing else", lost_points[2][1] or "counts once the repair is right")
    lines = [f"{name}: {why or 'right'}" for name, why in lost_points]
    points = sum(POINTS[name] for name, why in lost_points if not why)
    return Examination(student, points, tuple(lines))


def _diagnosed(case: Patient, diagnosis: list[str]) -> str:
    right = {bug.key for bug in case.bugs}
    hits = right & set(diagnosis)
    if len(hits) < len(right) or len(diagnosis) != len(right):
        return f"{len(hits)} of {len(right)} bugs are named, with {len(diagnosis)} names given"
    return ""


def _borrowed(case: Patient, text: str) -> str:
    """What the file imports from nmtlib that the patient does not, such as a healthy model."""

    def imported(source: str) -> set[str]:
        modules = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(node.module or "")
        return {name for name in modules if name.partition(".")[0].startswith("nmt")}

    added = sorted(imported(text) - imported(case.source()))
    if not added:
        return ""
    return f"the file imports {', '.join(added)}: write the model in the file itself"


class Observed(BaseModel):
    """What a process has seen of a patient: an error, or its names, and what is not repaired."""

    model_config = ConfigDict(extra="forbid", strict=True)
    error: str = ""
    student: str = ""
    diagnosis: list[str] = []
    repair: str = ""


def examined(text: str) -> dict[str, Any]:
    """What `Observed` holds, as data; in the process that was asked."""
    observed: dict[str, Any] = {}
    with Child(partial(run_patient, text)) as child, contextlib.suppress(Ended):
        for message in child.messages(limit=4 * SECONDS):
            observed |= message
    if not observed:
        return {"error": "cannot be run: its process has ended"}
    if "error" not in observed:
        observed.setdefault("repair", "the process ended or was stopped")
    return observed


def run_patient(text: str, _: None = None) -> Iterator[dict[str, Any]]:
    """Run a patient; gives what `Observed` holds."""
    prepare()
    space: dict[str, Any] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(Nowhere()), within(SECONDS):
            exec(compile(text, "patient.py", "exec"), space)
        student, diagnosis, model = (space[n] for n in ("STUDENT", "DIAGNOSIS", "Transformer"))
    except KeyError as error:
        yield {"error": f"cannot be run: the file defines no {error.args[0]}"}
        return
    except BaseException as error:
        yield {"error": f"cannot be run: {type(error).__name__}: {str(error)[:300]}"}
        return
    if not isinstance(student, str) or not isinstance(diagnosis, list):
        yield {"error": "is no patient: STUDENT must be a text, DIAGNOSIS a list"}
        return
    yield {"student": student, "diagnosis": [str(name) for name in diagnosis]}
    yield {"repair": _repaired(patient(student), model)}


def _repaired(case: Patient, model: Any) -> str:
    """The first difference from a healthy model, or ''."""
    well = module_of(case.source(healthy=True))
    sizes = [case.config, patient(case.student + "'s other sizes").config]
    try:
        for config in sizes:
            with within(SECONDS), undisturbed():
                agree(types.SimpleNamespace(Transformer=model), well, config)
    except Finding as finding:
        return f"{finding.measured}; a healthy model has {finding.expected}"
    except Stopped:
        return "the process ended or was stopped"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


def _changed_elsewhere(case: Patient, text: str) -> str:
    """Which statements were changed outside the functions with bugs, or ''."""
    buggy = {edit.where.partition(":")[2] for bug in case.bugs for edit in bug.edits}
    before, after = statements(case.source()), statements(text)
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in buggy and before.get(name) != after.get(name)
    )
    if not changed:
        return ""
    return f"also changed: {', '.join(changed[:5])}"


def statements(text: str) -> dict[str, list[str]]:
    """The code of a module by its place, without comments, layout and diagnosis.

    A place is the dotted name of a function or method, or the first line of any other statement.
    """
    code: dict[str, list[str]] = {}

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
                code.setdefault(name, []).append(ast.dump(node))

    visit(ast.parse(text).body, "")
    return code
