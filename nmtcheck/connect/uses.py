"""How a file's own code calls its model: which arguments a training gives, read from the source."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from torch import nn

from nmtcheck.connect.lifting import package_root, statements

USUAL = {"model", "transformer", "net", "network", "seq2seq", "nmt"}  # names of a model
MOST = 200  # files that are read
LARGE = 2**20  # bytes of a file that is not
MASK = re.compile("mask|bias|pad(?!ded)|block(ed|ing)|hide|valid|visible")  # in lower case


def optional_masks(model: nn.Module) -> list[str]:
    """The arguments of a model's forward that are masks and have the default None."""
    return [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.default is None and MASK.search(p.name.lower())
    ]


def given_arguments(file: str, model: nn.Module) -> set[str] | None:
    """The arguments that calls of a model in its file, or next to it, give it; None for no call.

    A model is what is made by its class, or has a usual name.  An argument that is given None is
    not given.
    """
    names = [*inspect.signature(model.forward).parameters]
    found: set[str] | None = None
    for tree in sources(Path(file)) if file else []:
        known = USUAL | made_by(tree, type(model).__name__)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called_name(node.func) in known:
                given = set(names[: len(node.args)]) - nones(names, node)
                given |= {k.arg for k in node.keywords if k.arg and not is_none(k.value)}
                if len(node.args) + len(node.keywords) > 1:  # not `model(x)`: another model
                    found = (found or set()) | given
    return found


def sources(path: Path) -> list[ast.Module]:
    """The syntax trees of a file and of those around it, of its package or its folder."""
    folder = package_root(path)  # a package may have no __init__.py
    near = sorted({*path.parent.glob("*.py"), *folder.glob("*.py"), *folder.glob("*/*.py")})
    trees = []
    for each in [path, *(p for p in near if p != path)][:MOST]:
        try:
            if each.stat().st_size < LARGE or each == path:
                trees.append(ast.Module(statements(each), []))
        except (OSError, ValueError, RecursionError):  # no Python: nothing is known of it
            continue
    return trees


def made_by(tree: ast.Module, kind: str) -> set[str]:
    """The names that are bound to an object of a class: `net = Kind(...)`, `self.net = Kind(...)`.

    Also of one that is moved at once: `Kind(...).to(device)`.  The class may have another name
    there: `from model import Kind as Net`.
    """
    found = set[str]()
    kinds = {kind} | aliases(tree, kind)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            calls = [n.func for n in ast.walk(node.value) if isinstance(n, ast.Call)]
            if kinds & {*map(called_name, calls)}:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {called_name(target) for target in targets}
    return found - {""}


def aliases(tree: ast.Module, kind: str) -> set[str]:
    """The names under which a file imports a class, or binds it: `Net = Kind`."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname for a in node.names if a.name == kind and a.asname}
        elif isinstance(node, ast.Assign) and called_name(node.value) == kind:
            found |= {called_name(target) for target in node.targets}
    return found - {""}


def called_name(node: ast.expr) -> str:
    """The last name of `net`, `self.net` or `self.net.forward`; '' for anything else."""
    if isinstance(node, ast.Attribute) and node.attr == "forward":
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def nones(names: list[str], call: ast.Call) -> set[str]:
    """The positional arguments of a call that are None."""
    return {name for name, arg in zip(names, call.args, strict=False) if is_none(arg)}


def is_none(node: ast.expr) -> bool:
    """Whether an expression is the word None."""
    return isinstance(node, ast.Constant) and node.value is None
