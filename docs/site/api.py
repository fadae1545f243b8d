"""Pages about the public names of the packages, from their source: signature, docstring, code.

One page for each room, one section for each module.  Docstrings are prose with `code`, which is
Markdown as it stands.  Nothing is imported.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The core in the order in which data flows, with its source, folded; then the other packages.
CORE = [f"nmtlib{room}" for room in ("", ".model", ".data", ".training", ".inference")]
COURSE = [f"nmtcourse.{path.parent.name}" for path in sorted(ROOT.glob("nmtcourse/*/__init__.py"))]
ROOMS = [*CORE, "nmtcheck", *COURSE]
SPOILERS = {"masters"}  # the solutions of the homework
Definition = ast.FunctionDef | ast.ClassDef


def place(path: str) -> str | None:
    """The page and section of a module of the package, for a link; None for any other path."""
    parts = Path(path).parts
    name = ".".join(parts).removesuffix(".py").removesuffix(".__init__")
    rooms = [room for room in ROOMS if f"{name}.".startswith(f"{room}.")]
    if not rooms or SPOILERS & set(parts) or not (path.endswith(".py") or name in ROOMS):
        return None
    room = max(rooms, key=len)
    return f"{room}.md#{name.replace('.', '-').replace('_', '-')}"


def pages() -> dict[str, str]:
    """File name -> Markdown of each room of the package, and of the page that lists them."""
    texts: dict[str, str] = {}
    rooms = []  # the lines of the page that lists them
    for room in ROOMS:
        folder = ROOT.joinpath(*room.split("."))
        files = sorted(folder.rglob("*.py"))
        if room == "nmtlib":  # the rooms of the core have pages of their own
            files = sorted(folder.glob("*.py"))
        files = [path for path in files if not SPOILERS & set(path.relative_to(ROOT).parts)]
        sections = [module(path, room in CORE) for path in sorted(files, key=_first)]
        # The first section begins with "## room": that is the title of the page.
        texts[f"{room}.md"] = "#" + "\n\n".join(chain.from_iterable(sections))[2:]
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
        rooms.append(f"- [`{room}`]({room}.md): {prose(docstring.splitlines()[0])}")
    tree = "\n".join(["```{toctree}", ":hidden:", "", *ROOMS, "```"])
    intro = (
        "# API\n\nWhat can be imported, room by room, from the docstrings. "
        "The names in `nmtlib.__all__` are stable.\n\n"
    )
    texts["index.md"] = intro + "\n".join(rooms) + f"\n\n{tree}\n"
    return texts


def _first(path: Path) -> tuple[bool, Path]:
    return path.name != "__init__.py", path


def module(path: Path, source: bool) -> Iterator[str]:
    """The blocks of a module's section; none for a module that only gathers names."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(ROOT).with_suffix("").parts
    yield f"## {'.'.join(parts).removesuffix('.__init__')}"
    yield prose(ast.get_docstring(tree) or "")
    constants = [lines(node, text) for node in tree.body if _is_constant(node)]
    if constants:
        yield fenced("\n".join(constants))
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield from definition(node, text, source)


def _is_constant(node: ast.stmt) -> bool:
    """Whether a statement names something public and short."""
    target = getattr(node, "target", None)
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    if not isinstance(target, ast.Name) or not re.fullmatch(r"[A-Z][A-Z_]+", target.id):
        return False
    return node.end_lineno - node.lineno < 3


def definition(node: Definition, text: str, source: bool) -> Iterator[str]:
    """The blocks of a function or class: its name, signature, docstring, methods and source."""
    # no section of its own: a thousand of them in the table of contents of every page are slow
    yield f"```{{rubric}} {node.name}\n:heading-level: 3\n```"
    yield fenced(signature(node, text))
    yield prose(ast.get_docstring(node) or "")
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                yield fenced(signature(method, text))
                yield prose(ast.get_docstring(method) or "")
    if source:
        yield '<details class="source"><summary>Source</summary>'
        yield fenced(lines(node, text))
        yield "</details>"


def signature(node: Definition, text: str) -> str:
    """The lines of a definition down to its colon; of a class, also its fields and __init__."""
    start = first_line(node)
    rows = text.splitlines()[start - 1 : node.body[0].lineno - 1] or [
        text.splitlines()[node.lineno - 1]
    ]
    if isinstance(node, ast.ClassDef):
        rows += [lines(statement, text) for statement in node.body if _is_field(statement)]
        for statement in node.body:
            if getattr(statement, "name", "") == "__init__":
                rows.append(textwrap.indent(signature(statement, text), "    "))
    return textwrap.dedent("\n".join(rows).rstrip())


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_")


def lines(node: ast.stmt, text: str) -> str:
    """The source of a statement, with its comment where it stands on the same line."""
    return "\n".join(text.splitlines()[first_line(node) - 1 : node.end_lineno])


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, with its decorators."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def fenced(code: str) -> str:
    """A block of Python."""
    return f"``````python\n{code}\n``````"


def prose(docstring: str) -> str:
    """A docstring as Markdown: what looks like HTML, a formula or a link is none."""
    rows, inside = [], False
    for row in docstring.splitlines():
        starts = row.lstrip().startswith(">>>")
        if starts and not inside:
            rows.append("```pycon")
        elif inside and not row.strip():
            rows.append("```")
        inside = starts or (inside and bool(row.strip()))
        if not inside and not row.startswith("    "):  # no code
            row = _escaped(row)
        rows.append(row)
    if inside:
        rows.append("```")
    return "\n".join(rows)


def _escaped(row: str) -> str:
    parts = re.split(r"(`[^`]*`)", row)
    for place, part in enumerate(parts):
        if not part.startswith("`"):
            parts[place] = re.sub(r"([<$\[{#])", r"\\\1", part)
    return "".join(parts)
