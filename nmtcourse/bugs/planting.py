"""Plant a bug in the real code: edit a function's source, compile it, swap it in for a while."""

from __future__ import annotations
import __future__

import contextlib
import difflib
import importlib
import inspect
import linecache
import sys
import textwrap
import types
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PLANTED_IN = ("nmtlib", "nmtcheck", "nmtcourse", "__main__")  # whose names are exchanged
_clean: dict[str, str] = {}  # source of what is replaced at this moment, as it stands in the file


@dataclass(frozen=True)
class Edit:
    """A change of one function's source: `old`, which stands there once, becomes `new`.

    `where` is 'module:function' or 'module:Class.method', the module below `nmtlib.`.
    """

    where: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The source with the change; ValueError where `old` does not stand in it exactly once."""
        if (count := source.count(self.old)) != 1:
            cause = "the code has changed since this bug was written"
            raise ValueError(
                f"nmtlib.{self.where} holds the snippet {self.old!r} {count} times, expected once: "
                f"{cause}, or another bug changes the same line"
            )
        return source.replace(self.old, self.new)


@contextlib.contextmanager
def edited(where: str, old: str, new: str) -> Iterator[None]:
    """Run a block with one snippet of a real function replaced; then all objects are back.

    Methods are replaced on their class, functions in every module of nmtlib that has imported them
    (and in the reader's own `__main__`).  Raises ValueError as `Edit.apply` does, and where the
    function cannot be found.

    >>> import torch
    >>> from nmtlib.model import attention
    >>> with edited("model.attention:padding_mask", "ids != pad", "ids == pad"):
    ...     print(attention.padding_mask(torch.tensor([[7, 0]])).flatten().tolist())
    [False, True]
    >>> print(attention.padding_mask(torch.tensor([[7, 0]])).flatten().tolist())
    [True, False]
    """
    owner, name, original = _find(where)
    source = _source(original)
    broken = _compile(Edit(where, old, new).apply(source), name, original)
    clean = _clean.setdefault(where, source)
    try:
        _swap(owner, name, original, broken)
        yield
    finally:
        _swap(owner, name, broken, original)
        if clean is source:  # the outermost edit of this function
            _clean.pop(where, None)


def diff(edits: Sequence[Edit], context: int = 1) -> str:
    """What the edits change, as a unified diff with `context` lines around each change."""
    lines: list[str] = []
    for where in dict.fromkeys(edit.where for edit in edits):
        # The source as it stands in its file, also while a bug is planted in it.
        clean = _clean.get(where) or _source(_find(where)[2])
        broken = clean
        for edit in edits:
            broken = edit.apply(broken) if edit.where == where else broken
        module, _, name = where.partition(":")
        path = f"nmtlib/{module.replace('.', '/')}.py  {name}"
        texts = clean.splitlines(), broken.splitlines()
        changes = difflib.unified_diff(*texts, path, path, n=context, lineterm="")
        # Line numbers within a function help nobody.
        lines += ["@@" if line.startswith("@@") else line for line in changes]
    return "\n".join(lines)


def _find(where: str) -> tuple[Any, str, Any]:
    """The module or class that holds a function, its name there, and the raw object."""
    module, _, path = where.partition(":")
    owner: Any = importlib.import_module(f"nmtlib.{module}")
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part, None)
    if owner is None or name not in vars(owner):
        expected = "'module:function' or 'module:Class.method'"
        raise ValueError(f"there is no nmtlib.{where}; expected {expected}")
    return owner, name, vars(owner)[name]


def _function(raw: Any) -> types.FunctionType:
    """The plain function inside a property, staticmethod or decorated function."""
    return inspect.unwrap(getattr(raw, "fget", None) or getattr(raw, "__func__", raw))


def _source(raw: Any) -> str:
    """The source of a function, beginning at the margin."""
    return textwrap.dedent(inspect.getsource(_function(raw)))


def _compile(source: str, name: str, original: Any) -> Any:
    """The function of that source, in the globals of the original one.

    Tracebacks and `inspect` find its lines.
    """
    function = _function(original)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    full_name = function.__qualname__
    if unknown := cells.keys() - {"__class__"}:
        raise ValueError(f"{full_name} closes over {sorted(unknown)} and cannot be compiled alone")
    # A function around it offers the `__class__` that `super()` asks for.
    text = f"def make(__class__):\n{textwrap.indent(source, '    ')}\n    return {name}\n"
    # Named by its contents: a late traceback still finds them when another bug is in its place.
    file = f"<bug {zlib.crc32(text.encode()):08x} in {full_name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    names: dict[str, Any] = {}
    try:
        code = compile(text, file, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(
            f"{function.__module__}:{full_name} is no longer Python with this change ({error.msg});"
            " if its file was changed after it was imported, start Python anew"
        ) from error
    exec(code, function.__globals__, names)
    broken = names["make"](cells["__class__"].cell_contents if cells else None)
    _function(broken).__qualname__ = full_name
    return broken


def _swap(owner: Any, name: str, old: Any, new: Any) -> None:
    """Put `new` in the place of `old`: on its class, or in every module that has it.

    The modules are looked through at both ends of the block: one that was first imported within it
    would otherwise keep the bug for good.
    """
    if not isinstance(owner, types.ModuleType):
        setattr(owner, name, new)
        return
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] in PLANTED_IN:
            for key in [key for key, value in vars(module).items() if value is old]:
                setattr(module, key, new)
