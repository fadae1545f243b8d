"""What a student has written: definitions without names and layout, and what they reach for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmtcourse.homework.task import Assignment

HOMEWORK = ("nmtcourse.homework",)
HANDED_OUT = {"grade", "hint", "given", "again"}  # what the page itself imports from there


def written_answers(sources: Iterable[str], assignment: Assignment) -> dict[str, str]:
    """A student's answers by task, as code without layout and comments.

    Unchanged stubs and choices are left out.
    """
    defined: dict[str, str] = {}
    for source in sources:
        defined |= definitions(source)
    answers = {}
    begun = False
    for task in assignment.tasks.values():
        stub = definitions(task.student_source).get(task.name)
        if task.name in defined and defined[task.name] != stub:
            answers[task.id] = defined[task.name]
            begun = begun or not task.uses
    return answers if begun else {}  # choices alone are no answers


def definitions(source: str) -> dict[str, str]:
    """The syntax trees of the functions, classes and values that code defines, by name."""
    trees: dict[str, str] = {}
    for node in statements(source):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            trees[node.name] = dump_tree(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    trees[target.id] = dump_tree(node.value)
    return trees


def statements(source: str) -> list[ast.stmt]:
    """The statements of code, without lines for IPython; none if it is not Python."""
    try:
        return ast.parse(re.sub(r"(?m)^[%!].*$", "", source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ast raises each of them
        return []


class NumberNames(ast.NodeTransformer):
    """Names and arguments by the order in which they come, and no docstrings.

    `lambda x: x + y` and `lambda a: a + b` both become `lambda v0: v0 + v1`.
    """

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


def dump_tree(node: ast.AST) -> str:
    """A syntax tree as text, whatever its names are; '' for one that is nested too deeply."""
    try:
        return ast.dump(NumberNames().visit(node))
    except RecursionError:
        return ""


def reaches_for(source: str) -> list[str]:
    """What code imports or names of the homework's own modules and solutions."""
    words = ("homework.masters", "homework.grading", "solutions-spoilers", "find_task")
    reached = [word for word in words if word in source]
    for statement in statements(source):
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                reached += [alias.name for alias in node.names if alias.name.startswith(HOMEWORK)]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HOMEWORK):
                names = {alias.name for alias in node.names}
                if node.module not in HOMEWORK or names - HANDED_OUT:
                    reached.append(f"{', '.join(sorted(names))} of {node.module}")
    return [*dict.fromkeys(reached)]
