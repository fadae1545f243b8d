"""Pages for tests: written as text, or the cells of a notebook that its experiments need.

python tests/asking.py [NOTEBOOK ...]    what its experiments depend on, as JSON by name
"""

import ast
import inspect
import json
import linecache
import symtable
import sys
from collections.abc import Callable
from itertools import count, product
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import course_records

from nmtcourse.teaching import records
from nmtcourse.teaching.inputs import read_inputs

numbers = count()


def page(text: str, into: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names of a page with this text, whose functions have their text as in a notebook.

    It is a new page, or the next cell of the page `into`.
    """
    file = f"<page {next(numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"__name__": "__main__"} if into is None else into
    exec(compile(text, file, "exec"), names)
    return names


class Experiment(NamedTuple):
    """What a page asks `by_seed` for."""

    name: str
    function: Callable[..., Any]
    arguments: tuple
    seeds: tuple


def experiments(path: Path) -> list[Experiment]:
    """What a notebook asks for, with the functions and values that it has where it asks.

    Only the cells run that define what its experiments need; each `by_seed` gives what is recorded.
    """
    asked = []

    def answer(name, function, *arguments, seeds=(0, 1, 2), live=1):
        asked.append(Experiment(name, function, arguments, tuple(seeds)))
        found = records.records()[name]["found"]
        return records.Runs(found[records.key(arguments)], seeds)

    course_records.run(path, answer, needed_cells(course_records.cells_that_ask(path)))
    return asked


def page_of(function: Any) -> dict[str, Any]:
    """The names of the page that a function was defined in."""
    return inspect.unwrap(function).__globals__


def globals_of(function: Any) -> list[str]:
    """The names of its page that a function reads, and that the functions read that it calls."""
    page, found, waiting = page_of(function), {}, [function]
    for thing in waiting:  # it grows on the way
        if isinstance(thing, type):
            waiting += [m for m in vars(thing).values() if inspect.isfunction(m)]
            waiting += [base for base in thing.__bases__ if base.__module__ == "__main__"]
            continue
        text = dedent(inspect.getsource(inspect.unwrap(thing)))
        for name in sorted(read_inside(symtable.symtable(text, "function", "exec"))):
            if name in page and name not in found:
                found[name] = None
                value = inspect.unwrap(page[name]) if callable(page[name]) else None
                if getattr(value, "__module__", "") == "__main__":
                    waiting.append(value)
    return list(found)


def needed_cells(cells: list[str]) -> list[str]:
    """Of the cells of a page those that ask, and those that define what these need.

    A name has the value that the last cell gave it: before the cell that reads it, and, where a
    function reads it, before the cell that asks, which calls the function.
    """
    tables = [symtable.symtable(cell, "cell", "exec") for cell in cells]
    read, called = [read_first(cell) for cell in cells], [read_inside(table) for table in tables]
    kept: set[int] = set()

    def keep(cell: int, asking: int, seen: set[int]) -> None:
        kept.add(cell)
        seen.add(cell)
        for name, before in product(read[cell] | called[cell], (cell, asking)):
            if before == cell or name in called[cell]:
                defining = [i for i in range(before) if name in names_set(tables[i])]
                if defining and defining[-1] not in seen:
                    keep(defining[-1], asking, seen)

    for number, cell in enumerate(cells):
        if "plots.setup()" in cell:
            kept.add(number)
        if [*course_records.asked_in(cell)]:
            keep(number, number, set())
    return [cells[i] for i in sorted(kept)]


def names_set(table: symtable.SymbolTable) -> set[str]:
    """The names that a cell defines or imports."""
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}


def read_inside(table: symtable.SymbolTable) -> set[str]:
    """The names of the page that the functions of a cell read."""
    names = set()
    for child in table.get_children():
        names |= {s.get_name() for s in child.get_symbols() if s.is_global()} | read_inside(child)
    return names


def read_first(cell: str) -> set[str]:
    """The names that a cell reads, outside of functions, before it gives them a value."""
    found: dict[str, type] = {}

    class Reader(ast.NodeVisitor):
        def visit_Name(self, node):
            found.setdefault(node.id, type(node.ctx))

        def visit_Assign(self, node):  # the value first
            for part in (node.value, *node.targets):
                self.visit(part)

        def visit_AugAssign(self, node):
            found.setdefault(getattr(node.target, "id", ""), ast.Load)
            self.generic_visit(node)

        def visit_For(self, node):
            for part in (node.iter, node.target, *node.body, *node.orelse):
                self.visit(part)

        def visit_comprehension(self, node):
            for part in (node.iter, node.target, *node.ifs):
                self.visit(part)

        def visit_ListComp(self, node):  # its loops first
            for part in (*node.generators, *ast.iter_child_nodes(node)):
                self.visit(part)

        visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

        def visit_FunctionDef(self, node):
            for part in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
                if part is not None:
                    self.visit(part)

    Reader().visit(ast.parse(cell))
    return {name for name, context in found.items() if context is ast.Load}


if __name__ == "__main__":
    inputs = {}
    for book in map(Path, sys.argv[1:]):
        for experiment in experiments(book):
            if experiment.name not in inputs:
                found = read_inputs(experiment.function)
                inputs[experiment.name] = {"code": found.code, "data": found.data}
    print(json.dumps(inputs))
