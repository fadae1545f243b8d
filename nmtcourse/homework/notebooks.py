"""Read a submitted notebook: its cells, its checks, and its answers."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtcourse.homework.answers import reaches_for, statements
from nmtcourse.homework.catalogue import assignment as find_assignment
from nmtcourse.homework.catalogue import stems

if TYPE_CHECKING:
    from nmtcourse.homework.task import Assignment

MOST = 2**26  # bytes of a notebook that is read


def read_bytes(path: Path) -> bytes:
    """The bytes of a notebook. Raises FileNotFoundError, or ValueError for a large one."""
    number_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    size = path.stat().st_size
    if size > MOST:
        raise ValueError(
            f"{path} has {size / 2**20:.0f} MiB, and at most {MOST / 2**20:.0f} are read: clear "
            "its outputs, and save it again"
        )
    return path.read_bytes()


def number_in(path: Path) -> str:
    """The number that begins the name of an assignment's notebook."""
    return path.name.partition("_")[0]


def number_of(path: Path) -> str:
    """The number of a notebook's assignment. Raises ValueError if its name has none."""
    number = number_in(path)
    if number not in stems():
        names = ", ".join(stems().values())
        raise ValueError(f"{path.name} is not named as an assignment; rename it to one of: {names}")
    return number


def parsed(path: Path, raw: bytes) -> tuple[list[Any], Assignment]:
    """The cells of a notebook and its assignment, known by the start of its name.

    Raises ValueError for what is not a notebook of an assignment or has a damaged cell.
    """
    number = number_of(path)
    try:
        cells = cells_of(raw.decode("utf-8"))
    except Exception as error:  # json and nbformat raise many kinds
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a notebook: {why}") from None
    for place, cell in enumerate(cells, 1):
        why = damage(cell)
        if why:
            raise ValueError(f"{path} is damaged: cell {place} {why}")
    assignment = find_assignment(number)
    defined = "|".join(task.name for task in assignment.tasks.values())
    answers = re.compile(rf"(?m)^(?:def |class )?(?:{defined})\b")
    if not any(is_check(cell) or answers.search(cell.source) for cell in cells):
        raise ValueError(
            f"{path} has no cell of homework {number}; get its page with: "
            f"nmtlib homework start {number}"
        )
    return cells, assignment


class Cell(dict):
    """A cell of a notebook; its entries are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def cells_of(text: str) -> list[Any]:
    """The cells of a notebook. Raises an error for what is none."""
    book = json.loads(text)
    if book["nbformat"] != 4:
        import nbformat  # not above: it takes longer than all else

        book = nbformat.reads(text, as_version=4)
    cells = []
    for entry in book["cells"]:
        cell = entry
        if isinstance(entry, dict):
            cell = Cell(entry)
            if isinstance(cell.get("source"), list):
                cell["source"] = "".join(cell["source"])
        cells.append(cell)
    return cells


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


def steps_of(cells: list[Any], assignment: Assignment) -> list[tuple[str, str]]:
    """The student's cells and the checks, as in the notebook; then each task once more.

    A step is the source of a cell and, where a task is judged, its id; the last chances have no
    source. What a student has written into a check cell is run before it is judged.
    """
    steps = []
    for cell in cells:
        if cell.cell_type != "code":
            continue
        if not is_check(cell):
            steps.append((cell.source, ""))
            continue
        rest = without_grade(cell.source)
        if rest:
            steps.append((rest, ""))
        id = checked_task(cell)
        if id in assignment.tasks:
            steps.append((cell.source or "grade", id))
    return steps + [("", id) for id in assignment.tasks]


def checked_task(cell: Any) -> str:
    """The id of the task that a check cell checks, by its code or its own id."""
    call = re.search(r'grade\(\s*"(\d\d\.\d)"', cell.source)
    if call:
        return call[1]
    return str(cell.get("id", "")).removeprefix("check-").replace("-", ".")


def without_grade(source: str) -> str:
    """The code of a check cell without its calls of grade; '' if nothing is left."""
    lines = source.splitlines()
    for node in statements(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Name) and function.id == "grade":
                for line in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[line] = ""
    rest = "\n".join(lines).strip()
    if all(line.lstrip().startswith("#") for line in rest.splitlines()):
        return ""
    return rest


def inspect_cells(cells: list[Any], assignment: Assignment) -> list[str]:
    """Notices about the cells: checks edited or deleted, missing metadata, forbidden imports."""
    notices = []
    if not any("nbgrader" in cell.metadata for cell in cells):
        notices.append("the cells have lost their metadata: nbgrader would give no points")
    checks = [cell.source.strip() for cell in cells if is_check(cell)]
    if any(checks.count(task.check_line) > 1 for task in assignment.tasks.values()):
        notices.append("the page is in the notebook more than once; the best answers count")
    for task in assignment.tasks.values():
        if task.check_line not in checks:
            begun = [line for line in checks if line.startswith(f'grade("{task.id}"')]
            ids = {cell.get("id") for cell in cells}
            how = "deleted"
            if begun or f"check-{task.id.replace('.', '-')}" in ids:
                how = "edited"
            notices.append(f"the check of {task.id} was {how}; the original was run")
    for cell in cells:
        reached = []
        if cell.cell_type == "code":
            reached = reaches_for(cell.source)
        if reached:
            notices.append(f"the cell {beginning(cell.source)} uses {', '.join(reached)}")
    return notices


def beginning(source: str) -> str:
    """Name a cell by its first line."""
    return f"that begins {(source.strip().splitlines() or [''])[0][:60]!r}"
