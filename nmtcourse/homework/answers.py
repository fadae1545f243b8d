"""What a student has written: definitions without names and layout, and what they reach for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from nmtcourse.homework.task import Assignment

HOMEWORK = ("nmtcourse.homework",)
HANDED_OUT = {"grade", "hint"}  # what the page itself imports from there


def written_answers(sources: Iterable[str], assignment: Assignment) -> dict[str, str]:
    """A student's answers by task, as code without layout and comments.

    Unchanged stubs and choices are left out.
    """
    found: dict[str, str] = {}
    for source in sources:
        found |= definitions(source)
    tasks = {task.name: task for task in assignment.tasks.values()}
    written = {
        task.id: found[name]
        for name, task in tasks.items()
        if name in found and found[name] != definitions(task.student_source).get(name)
    }
    return written if any(not assignment.tasks[id].uses for id in written) else {}


def definitions(source: str) -> dict[str, str]:
    """The syntax trees of the functions, classes and values that code defines, by name."""
    found: dict[str, str] = {}
    for node in statements(source):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = dumped(node)
        elif isinstance(node, ast.Assign):
            found |= {t.id: dumped(node.value) for t in node.targets if isinstance(t, ast.Name)}
    return found


def statements(source: str) -> list[ast.stmt]:
    """The statements of code, without lines for IPython; none if it is not Python."""
    try:
        return ast.parse(re.sub(r"(?m)^[%!].*$", "", source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ast raises each of them
        return []


class Renamed(ast.NodeTransformer):
    """Names and arguments by the order in which they come, and no docstrings."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.setdefault(node.id, f"v{len(self.names)}"), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.setdefault(node.arg, f"v{len(self.names)}"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


def dumped(node: ast.AST) -> str:
    """A syntax tree as text, whatever its names are; '' for one that is nested too deeply."""
    try:
        return ast.dump(Renamed().visit(node))
    except RecursionError:
        return ""


def reaches_for(source: str) -> list[str]:
    """What code imports or names of the homework's own modules and solutions."""
    found = [
        word
        for word in ("homework.masters", "homework.grading", "solutions-spoilers", "find_task")
        if word in source
    ]
    for node in (node for each in statements(source) for node in ast.walk(each)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith(HOMEWORK)]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HOMEWORK):
            names = {alias.name for alias in node.names}
            if node.module not in HOMEWORK or names - HANDED_OUT:
                found.append(f"{', '.join(sorted(names))} of {node.module}")
    return [*dict.fromkeys(found)]
