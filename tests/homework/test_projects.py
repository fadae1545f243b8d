"""Capstone and patients stand apart: they use little of the homework, and it does not know them."""

import ast
from pathlib import Path

import nmtcourse

COURSE = Path(nmtcourse.__file__).parent
# To run unknown code apart and within limits, to compare numbers, and to speak Chinese.
FACE = {f"nmtcourse.homework.{name}" for name in ("apart", "chinese", "compare", "limits")}
DOORS = {"homework/__init__.py", "homework/commands.py", "main.py"}  # which name them when asked


def imported(path):
    """The modules that a file imports from, also within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_projects_use_the_face_of_the_homework_alone():
    used = set()
    for path in (COURSE / "projects").glob("*.py"):
        used |= {name for name in imported(path) if name.startswith("nmtcourse.homework")}
    assert used and used <= FACE


def test_nothing_but_a_command_knows_the_projects():
    for path in COURSE.rglob("*.py"):
        place = path.relative_to(COURSE).as_posix()
        if place.startswith("projects/") or place in DOORS:
            continue
        assert not any(name.startswith("nmtcourse.projects") for name in imported(path)), place
