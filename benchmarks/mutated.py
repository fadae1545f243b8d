"""Mistakes in a program: its syntax tree with one node changed.

Changed are operators, constants (axes among them), conditions, calls (left out, exchanged, with
other arguments), statements (left out), and what is returned (detached).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

PAIRS = "Lt LtE Gt|LtE Lt|Gt GtE Lt|GtE Gt|Eq NotEq GtE|NotEq Eq Gt|In NotIn|NotIn In|Add Sub"
PAIRS += "|Sub Add|Mult Div|Div Mult FloorDiv|FloorDiv Mult|Mod FloorDiv|Pow Mult|BitAnd BitOr"
PAIRS += "|BitOr BitAnd|And Or|Or And"
OTHER = {
    getattr(ast, name): [getattr(ast, other) for other in others]
    for name, *others in map(str.split, PAIRS.split("|"))
}
NAMES = "min max|amin amax|argmin argmax|sin cos|tril triu|any all|floor ceil|zeros ones|sum mean"
SWAPPED = {a: b for pair in NAMES.split("|") for a, b in (pair.split(), pair.split()[::-1])}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """A node with each of its mistakes."""
    if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp | ast.AugAssign):
        op = node.ops[0] if isinstance(node, ast.Compare) else node.op
        for other in OTHER.get(type(op), []):
            name = "ops" if isinstance(node, ast.Compare) else "op"
            yield changed(node, name, [other(), *node.ops[1:]] if name == "ops" else other())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
        yield ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from (ast.Constant(value) for value in (node.value + 1, node.value - 1))
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield changed(node, "test", ast.UnaryOp(ast.Not(), node.test))
        yield changed(node, "test", ast.Constant(False))
    if isinstance(node, ast.Return) and node.value is not None:
        yield changed(node, "value", ast.Call(ast.Attribute(node.value, "detach"), [], []))
    if isinstance(node, ast.Name | ast.Attribute):
        name = "id" if isinstance(node, ast.Name) else "attr"
        if (other := SWAPPED.get(getattr(node, name))) is not None:
            yield changed(node, name, other)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):  # x.f(...) becomes x
            yield node.func.value
        if len(node.args) == 2:
            yield changed(node, "args", node.args[::-1])
        yield from (
            changed(node, "keywords", [k for k in node.keywords if k is not keyword])
            for keyword in node.keywords
        )
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        yield ast.Pass()


def changed(node: ast.AST, field: str, value: Any) -> ast.AST:
    """A node with another value in a field."""
    other = copy.copy(node)
    setattr(other, field, value)
    return other


def replaced(text: str, place: int, new: ast.AST) -> str:
    """A program in which the node at a place of `ast.walk` is another one."""
    tree = ast.parse(text)
    old = [*ast.walk(tree)][place]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is old else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Replace().visit(tree)))
