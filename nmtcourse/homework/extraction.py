"""What an answer is made of: the statements of a notebook that define it and what it uses.

Points are confirmed with these statements alone, in a process where no other cell has run. What
they may use is listed here, so that an answer does not read the solutions or change the judge. It
is no sandbox: code that is written to get around it may do so.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence

from nmtcourse.homework.answers import statements

LIBRARIES = {
    *"__future__ abc bisect cmath collections contextlib copy dataclasses decimal enum".split(),
    *"fractions functools hashlib heapq io itertools json math numbers numpy operator".split(),
    *"pathlib pickle random re shutil statistics string tempfile time torch typing".split(),
    *"unicodedata uuid warnings nmtlib einops scipy pandas matplotlib seaborn os sys".split(),
}
OF_SYSTEM = {  # all that an answer may use of them
    "os": {"path", "replace", "rename", "fsync", "unlink", "remove", "fspath", "getpid", "link"},
    "sys": {"maxsize", "float_info"},
}
CLOSED = {"open", "exec", "eval", "compile", "globals", "locals", "vars", "input", "__import__"}
SYSTEM = {*OF_SYSTEM, "gc", "ctypes", "inspect", "importlib", "builtins", "subprocess", "modules"}
FRAMES = re.compile(r"(f|tb|gi|cr|ag)_(back|frame|globals|locals|builtins|code|next)")
DUNDER = re.compile(r"__\w+__")
USUAL = {
    f"__{name}__"
    for name in (
        "init call len getitem setitem contains iter next eq ne lt le gt ge hash repr str bool add "
        "radd iadd sub mul truediv name qualname doc enter exit new post_init float int index neg "
        "class slots annotations call all version"
    ).split()
}


class Refused(ValueError):
    """An answer uses what it may not."""


def definition(names: Iterable[str], sources: Iterable[str]) -> str:
    """The code that defines some names, in the order of the cells.

    Raises Refused for code that uses what an answer may not.
    """
    body, needed = [node for source in sources for node in statements(source)], {*names}
    about = [(bound(node), free(node)) for node in body]
    chosen: set[int] = set()
    while more := {n for n, (own, _) in enumerate(about) if own & needed} - chosen:
        chosen |= more
        needed |= {name for n in more for name in about[n][1]}
    for n in chosen:
        require_harmless(body[n])
    return "\n".join(ast.unparse(body[n]) for n in sorted(chosen))


def bound(node: ast.stmt) -> set[str]:
    """The names that a statement binds at the level of a module, or whose values it changes."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.alias):
            found.add((each.asname or each.name).partition(".")[0])
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            found |= {n.id for n in ast.walk(each.value) if isinstance(n, ast.Name)}
    return found


def free(node: ast.stmt) -> set[str]:
    """The names of its module that a statement uses."""

    def names(table: symtable.SymbolTable) -> Iterator[str]:
        top = table.get_type() == "module"
        yield from (s.get_name() for s in table.get_symbols() if top or s.is_global())
        for inner in table.get_children():
            yield from names(inner)

    try:
        return {*names(symtable.symtable(ast.unparse(node), "cell", "exec"))}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def require_harmless(tree: ast.AST) -> None:
    """Raise Refused if code uses what an answer may not."""
    for node in ast.walk(tree):
        for name in [*modules(node), *closed(node)]:
            raise Refused(f"it uses {name}")


def modules(node: ast.AST) -> list[str]:
    """The modules, or parts of them, that an import takes and may not."""
    if isinstance(node, ast.Import):
        taken = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        allowed = OF_SYSTEM.get(node.module or "", {alias.name for alias in node.names})
        taken = [node.module or "."]
        taken += [f"{node.module}: {a.name}" for a in node.names if a.name not in allowed]
    else:
        return []
    return [
        name
        for name in taken
        if name.partition(".")[0] not in LIBRARIES or name.startswith("nmtlib.homework")
    ]


def closed(node: ast.AST) -> Sequence[str]:
    """The names in a node of a syntax tree that lead out of an answer."""
    if isinstance(node, ast.Name):
        return [node.id] * (node.id in CLOSED)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        odd = DUNDER.fullmatch(node.value) and node.value not in USUAL
        return [node.value] * bool(odd)
    if not isinstance(node, ast.Attribute):
        return []
    name, of = node.attr, node.value.id if isinstance(node.value, ast.Name) else ""
    if of in OF_SYSTEM:
        return [f"{of}.{name}"] * (name not in OF_SYSTEM[of])
    library = of in LIBRARIES | {"np", "F", "nn"}
    hidden = DUNDER.fullmatch(name) and name not in USUAL or library and name.startswith("_")
    changed = library and isinstance(node.ctx, ast.Store)
    wrong = hidden or changed or FRAMES.fullmatch(name) or library and name in SYSTEM
    return [f"{of}.{name}".strip(".")] * bool(wrong)
