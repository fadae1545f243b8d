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


# For the answer `masked_attention` and the cells
#
#     import math                                      binds math
#     def scale(x): return x / math.sqrt(4)            binds scale, uses math
#     def masked_attention(x): return scale(x)         binds masked_attention, uses scale
#     print(masked_attention(1))                       binds nothing
#
# the first round chooses the third statement, which needs `scale`; the second round the second,
# which needs `math`; the third round the first. What binds nothing that is needed is left out.
def definition(names: Iterable[str], sources: Iterable[str]) -> str:
    """The code that defines some names, in the order of the cells.

    Raises Refused for code that uses what an answer may not.
    """
    body = [node for source in sources for node in statements(source)]
    bound = [bound_names(node) for node in body]
    used = [used_names(node) for node in body]
    needed = {*names}
    chosen: set[int] = set()  # places in the body
    while True:
        more = {place for place in range(len(body)) if bound[place] & needed} - chosen
        if not more:
            break
        chosen |= more
        for place in more:
            needed |= used[place]
    for place in chosen:
        require_harmless(body[place])
    return "\n".join(ast.unparse(body[place]) for place in sorted(chosen))


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement binds at the level of a module, or whose values it changes."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            names |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
    return names


def used_names(node: ast.stmt) -> set[str]:
    """The names of its module that a statement uses."""

    def names(table: symtable.SymbolTable) -> Iterator[str]:
        is_module = table.get_type() == "module"
        for symbol in table.get_symbols():
            if is_module or symbol.is_global():
                yield symbol.get_name()
        for inner in table.get_children():
            yield from names(inner)

    try:
        return {*names(symtable.symtable(ast.unparse(node), "cell", "exec"))}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def require_harmless(tree: ast.AST) -> None:
    """Raise Refused if code uses what an answer may not."""
    for node in ast.walk(tree):
        for name in [*forbidden_imports(node), *forbidden_names(node)]:
            raise Refused(f"it uses {name}")


def forbidden_imports(node: ast.AST) -> list[str]:
    """The modules, or parts of them, that an import takes and may not."""
    if isinstance(node, ast.Import):
        imports = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        imports = [node.module or "."]
        if node.module in OF_SYSTEM:
            allowed = OF_SYSTEM[node.module]
            parts = [alias.name for alias in node.names if alias.name not in allowed]
            imports += [f"{node.module}: {part}" for part in parts]
    else:
        return []
    return [
        name
        for name in imports
        if name.partition(".")[0] not in LIBRARIES or name.startswith("nmtlib.homework")
    ]


def forbidden_names(node: ast.AST) -> Sequence[str]:
    """The names in a node of a syntax tree that lead out of an answer."""
    name = ""
    if isinstance(node, ast.Name) and node.id in CLOSED:
        name = node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if is_odd_dunder(node.value):  # for `getattr`
            name = node.value
    elif isinstance(node, ast.Attribute):
        name = forbidden_attribute(node)
    return [name] if name else []


def forbidden_attribute(node: ast.Attribute) -> str:
    """An attribute that leads out of an answer, such as "os.system"; '' for any other."""
    name = node.attr
    of = ""
    if isinstance(node.value, ast.Name):
        of = node.value.id
    if of in OF_SYSTEM:
        return "" if name in OF_SYSTEM[of] else f"{of}.{name}"
    is_forbidden = is_odd_dunder(name) or FRAMES.fullmatch(name) is not None
    if of in LIBRARIES | {"np", "F", "nn"}:
        is_hidden = name.startswith("_") or name in SYSTEM
        # An answer that sets torch.Tensor.add would change the judge.
        is_changed = isinstance(node.ctx, ast.Store)
        is_forbidden = is_forbidden or is_hidden or is_changed
    return f"{of}.{name}".strip(".") if is_forbidden else ""


def is_odd_dunder(name: str) -> bool:
    """Whether a name is of Python's inner works, and none that a class usually defines."""
    return DUNDER.fullmatch(name) is not None and name not in USUAL
