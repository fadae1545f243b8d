"""What an answer is made of: the statements of a notebook that define it and what it uses.

Points are confirmed with these statements alone, in a process where no other cell has run, and
where neither solutions nor judge are (`nmtcourse.homework.answering`).
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator

from nmtcourse.homework.answers import statements


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
    """The code that defines some names, in the order of the cells."""
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
