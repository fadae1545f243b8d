"""What a notebook shows beside its own cells: text of several forms, and the real source.

Everything is Markdown with a plain-text twin, so it reads well in JupyterLab, on GitHub and in a
terminal, and is the same text in each run.  Where no widget runs, its Markdown takes its place.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]  # where the packages are, in a clone the project
PACKAGES = [ROOT / name for name in ("nmtlib", "nmtcheck", "nmtcourse")]
# nbconvert's page lets the code of an output inherit the font of the text around it; the blank
# lines make Markdown of what stands inside.
MONOSPACED = '<div style="font-family: monospace">\n\n{}\n\n</div>'


class Shown:
    """Text for a notebook: Markdown or HTML, its plain twin, and perhaps a live widget."""

    def __init__(self, text: str, plain: str, widget: Any = None, *, kind: str = "text/markdown"):
        self.text, self.plain, self.widget, self.kind = text, plain, widget, kind

    def __repr__(self) -> str:
        return self.plain

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        live = {} if self.widget is None else self.widget._repr_mimebundle_()
        return {**live, self.kind: self.text, "text/plain": self.plain}


def kernel_with_widgets() -> bool:
    """Whether this runs in a notebook kernel that has ipywidgets; a live page may be missing."""
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel") and importlib.util.find_spec("ipywidgets") is not None


def show_source(obj: Any, *, docstring: bool = True) -> None:
    """Display the source of a function, class, method or module of nmtlib, below its file's name.

    `docstring=False` leaves the docstrings out.  Raises ValueError for what is not nmtlib's own.
    """
    from IPython.display import display

    display(source_of(obj, docstring=docstring))


def source_of(obj: Any, *, docstring: bool = True) -> Shown:
    """What `show_source` displays.  Raises what `show_source` raises."""
    obj = obj.fget if isinstance(obj, property) else inspect.unwrap(obj)
    try:
        file = Path(inspect.getsourcefile(obj) or "").resolve()
        code = textwrap.dedent(inspect.getsource(obj)).rstrip()
    except (TypeError, OSError):
        raise ValueError(
            f"show_source wants a function, class, method or module of nmtlib, not {obj!r}"
        ) from None
    if not any(file.is_relative_to(package) for package in PACKAGES):
        raise ValueError(f"show_source shows the code of nmtlib, but {obj!r} is not part of it")
    name = file.relative_to(ROOT).as_posix()
    code = code if docstring else without_docstrings(code)
    fence = "````" if "```" in code else "```"
    block = MONOSPACED.format(f"{fence}python\n{code}\n{fence}")
    return Shown(f"**{name}**\n\n{block}", f"# {name}\n{code}")


def without_docstrings(code: str) -> str:
    """The same code without the docstrings of its module, classes and functions.

    >>> print(without_docstrings('def f():\\n    \"\"\"Nothing.\"\"\"\\n\\n    return None'))
    def f():
        return None
    """
    lines: list = code.splitlines()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is None or len(node.body) == 1:
            continue  # a body of nothing but its docstring would not be Python without it
        first, last = node.body[0].lineno, node.body[0].end_lineno or 0
        blank = 1 if last < len(lines) and not lines[last].strip() else 0
        # Marked, not removed: the line numbers of the nodes still to come must hold.
        lines[first - 1 : last + blank] = [None] * (last + blank - first + 1)
    return "\n".join(line for line in lines if line is not None)
