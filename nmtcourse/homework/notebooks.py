"""Read a submitted notebook: its cells, its checks, and its answers."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from nmtcourse.homework.grading import assignments
from nmtcourse.homework.task import Assignment


def read_notebook(path: Path) -> tuple[Any, Assignment]:
    """A notebook and its assignment, known by the start of its name.

    Raises FileNotFoundError for a missing file, and ValueError for one that is not a notebook of an
    assignment or has a damaged cell.
    """
    import nbformat

    number = path.name.partition("_")[0]
    if number not in assignments():
        known = ", ".join(a.stem for a in assignments().values())
        raise ValueError(f"{path.name} is not named as an assignment; rename it to one of: {known}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        book = nbformat.read(path, as_version=4)
        cells = list(book.cells)
    except Exception as error:  # nbformat raises many kinds
        raise ValueError(f"{path} is not a notebook: {error}") from None
    for place, cell in enumerate(cells, 1):
        if why := damage(cell):
            raise ValueError(f"{path} is damaged: cell {place} {why}")
    defined = "|".join(task.name for task in assignments()[number].tasks.values())
    answers = re.compile(rf"(?m)^(?:def |class )?(?:{defined})\b")
    if not any(is_check(cell) or answers.search(cell.source) for cell in cells):
        raise ValueError(
            f"{path} has no cell of homework {number}; get its page with: "
            f"nmtlib homework start {number}"
        )
    return book, assignments()[number]


def damage(cell: Any) -> str:
    """What makes a cell invalid, or ''."""
    if not isinstance(cell, dict):
        return "is not a cell"
    for name, kind in (("cell_type", str), ("source", str), ("metadata", dict)):
        if not isinstance(cell.get(name), kind):
            return f"has no {name}"
    if not isinstance(cell["metadata"].get("nbgrader", {}), dict):
        return "has empty nbgrader metadata"
    return ""


def is_check(cell: Any) -> bool:
    """Whether a cell is a check: by its metadata, its id, or its code."""
    about = cell.metadata.get("nbgrader", {})
    return bool(
        about.get("grade")
        or str(cell.get("id", "")).startswith("check-")
        or cell.source.strip().startswith("grade(")
    )


def own_cells(book: Any) -> list[Any]:
    """The source of a student's code cells, without checks and outputs."""
    import nbformat

    code = (cell for cell in book.cells if cell.cell_type == "code" and not is_check(cell))
    return [nbformat.v4.new_code_cell(cell.source) for cell in code]


def inspect_cells(book: Any, assignment: Assignment) -> list[str]:
    """Notices about the cells: checks edited or deleted, missing metadata."""
    notices = []
    if not any("nbgrader" in cell.metadata for cell in book.cells):
        notices.append("the cells have lost their metadata: nbgrader would give no points")
    checks = [cell.source.strip() for cell in book.cells if is_check(cell)]
    for task in assignment.tasks.values():
        if task.check_line not in checks:
            begun = [line for line in checks if line.startswith(f'grade("{task.id}"')]
            known = {cell.get("id") for cell in book.cells}
            how = "edited" if begun or f"check-{task.id.replace('.', '-')}" in known else "deleted"
            notices.append(f"the check of {task.id} was {how}; the original was run")
    return notices


def beginning(cell: Any) -> str:
    """Name a cell by its first line."""
    return f"that begins {(cell.source.strip().splitlines() or [''])[0][:60]!r}"


def written_answers(path: Path) -> dict[str, str]:
    """A student's answers by task, as code without layout and comments.

    Unchanged stubs and choices are left out.
    """
    book, assignment = read_notebook(path)
    found: dict[str, str] = {}
    for cell in own_cells(book):
        found |= definitions(cell.source)
    tasks = {task.name: task for task in assignment.tasks.values()}
    written = {
        task.id: found[name]
        for name, task in tasks.items()
        if name in found and found[name] != definitions(task.student_source).get(name)
    }
    return written if any(not assignment.tasks[id].uses for id in written) else {}


def definitions(source: str) -> dict[str, str]:
    """The syntax trees of the functions, classes and values that code defines, by name.

    Lines for IPython are left out. Code that is not Python gives none.
    """
    try:
        body = ast.parse(re.sub(r"(?m)^[%!].*$", "", source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ast raises each of them
        return {}
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.dump(node)
        elif isinstance(node, ast.Assign):
            found |= {t.id: ast.dump(node.value) for t in node.targets if isinstance(t, ast.Name)}
    return found
