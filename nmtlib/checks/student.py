"""Connect a reader's own file to the checks: `load_adapter("my_model.py:make")`."""

from __future__ import annotations

import copy
import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from nmtlib.checks.adapter import Adapter, Sizes

HOW = (
    "write it as FILE:FACTORY, such as my_model.py:make, where make() returns an Adapter or a model"
)


def load_adapter(where: str) -> Adapter:
    """Import the file in 'FILE:FACTORY' and let its factory make the adapter.

    The factory returns an `Adapter`; or a model with forward(source ids (B, S), decoder input (B,
    T)) -> logits, which then is checked as it is; or, where it takes one argument, makes a model of
    the `Sizes` that it is given, which can be checked for more.  The file's own folder is put on
    the import path, so that it finds its neighbours.

    Raises FileNotFoundError for a missing file, and ValueError, with what to do, for everything
    else that is wrong.
    """
    file, colon, name = where.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise ValueError(f"{where!r} names no file and factory; {HOW}")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; {HOW}")
    factory = _find(_import(path), name, path)
    if _arguments(factory) == 1:
        first = _call(factory, path, name, Sizes())
        if isinstance(first, nn.Module):
            return Adapter(name=path.stem, make_model=factory)
    else:
        first = _call(factory, path, name)
    if isinstance(first, Adapter):
        return first
    if isinstance(first, nn.Module):
        # A factory may hand out the same model each time; checks change weights, so each gets a
        # copy.
        return Adapter(
            name=path.stem, make_model=lambda sizes: copy.deepcopy(factory()), resizable=False
        )
    raise ValueError(
        f"{name}() of {path.name} returned {type(first).__name__}; expected an Adapter or a torch.nn.Module"
    )


def _import(path: Path) -> ModuleType:
    """The module in a file, imported anew."""
    spec = importlib.util.spec_from_file_location(f"reader_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file; {HOW}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[spec.name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ValueError(
            f"{path} cannot be imported: {type(error).__name__}: {error}{_line(error, path)}"
        ) from error
    return module


def _find(module: ModuleType, name: str, path: Path) -> Callable[..., Any]:
    """The factory of that name in a module."""
    factory = getattr(module, name, None)
    if factory is None:
        own = [
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_")
        ]
        near = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"it has {', '.join(sorted(own)) or 'no functions'}"
        )
        raise ValueError(f"{path.name} has no {name!r}; {hint}")
    if not callable(factory):
        raise ValueError(
            f"{name!r} in {path.name} is {type(factory).__name__}, not a function or class; {HOW}"
        )
    return factory


def _arguments(factory: Callable[..., Any]) -> int:
    """How many arguments a factory must be given.  Raises ValueError for more than one."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a callable without a signature, from C
        return 0
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ValueError(
            f"the factory needs {len(needed)} arguments ({', '.join(needed)}); write one that needs none, "
            f"or only the sizes (an nmtlib.checks.adapter.Sizes)"
        )
    return len(needed)


def _call(factory: Callable[..., Any], path: Path, name: str, *arguments: Any) -> Any:
    """What the factory returns."""
    try:
        return factory(*arguments)
    except Exception as error:
        shown = ", ".join(type(argument).__name__ for argument in arguments)
        raise ValueError(
            f"{name}({shown}) of {path.name} failed: {type(error).__name__}: {error}{_line(error, path)}"
        ) from error


def _line(error: BaseException, path: Path) -> str:
    """The line of the reader's file that an exception came through."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""
