"""Connect your own file to the checks: `load_adapter("my_model.py:make")`."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.connect.filling import (
    fill_arguments,
    follows_sizes,
    guess_meanings,
    on_the_cpu,
    parameters,
    special_constants,
    values_by_trying,
)
from nmtcheck.connect.ids import find_facts, with_ids
from nmtcheck.connect.lifting import import_folders, lift, package_root
from nmtcheck.measure.helpers import prepare
from nmtlib.errors import did_you_mean

HOW = (
    "write it as FILE:FACTORY, such as my_model.py:make, where make() returns an Adapter or a model"
)


def load_adapter(where: str, *, lifted: bool = False, **facts: Any) -> Adapter:
    """Import the file in 'FILE:FACTORY' and let its factory make the adapter.

    A notebook is not imported, and a script not where it should be `lifted`: `lift` takes the
    factory out of it.  `facts` such as pad=1 take the place of those of the adapter.

    The factory returns an `Adapter`; or a model with forward(source ids (B, S), decoder input
    (B, T)) -> logits, which then is checked as it is; or, where it takes one argument, a model of
    the `Sizes` that it is given, which can be checked for more.  Arguments with the usual names
    (`d_model`, `src_vocab_size`, `nhead`, `pad_idx`; see `nmtcheck.connect.filling`) are filled, so
    that a model's class may do for a factory.  The root of the file's package, and then its own
    folder, are put on the import path, so that it finds its neighbours.

    Raises FileNotFoundError for a missing file, and ValueError for everything else that is wrong.
    """
    path, name = locate_factory(where)
    if lifted or path.suffix == ".ipynb":
        module = lift(path, name)
    else:
        try:
            module = import_file(path)
        except ValueError as error:  # a missing package, a missing corpus: do without
            try:
                module, lifted = lift(path, name), True
            except ValueError:
                raise error from None
    factory = find_factory(module, name, path)
    options = {"lifted": True, **facts} if lifted else facts
    named = "".join(f", {key}={value!r}" for key, value in options.items())
    facts = {"name": path.stem, "where": f"load_adapter({where!r}{named})"} | facts
    facts |= {"file": str(path)}
    needed, resizable = list_required(factory), True
    given = guess_meanings(factory, vars(module))
    ids = special_constants(vars(module))
    if not {"pad", "bos", "eos"} & facts.keys():
        facts |= ids
    unknown = [argument for argument in needed if argument not in given]
    known, tried = with_ids(Adapter(**facts))._asdict(), dict[str, Any]()
    if unknown and len(needed) > 1:
        values = values_by_trying(factory, unknown, known, vars(module)) if given else None
        if values is None:
            reason = f"{name} needs {', '.join(needed)}"
            reason += f", and no value is known for {', '.join(unknown)}"
            advice = "write a function that needs none, or only an nmtcheck.Sizes"
            raise ValueError(f"{reason}; {advice}")
        shown = ", ".join(f"{key}={value!r}" for key, value in values.items())
        facts |= {"assumed": f"Your {name} is made with {shown}, with which it can be made"}
        unknown, tried = [], values
    if given and not unknown:
        facts |= known if "pad" in given.values() else {}
        own, needed = factory, ["sizes"]
        factory = fill_arguments(own, known, vars(module), tried)
        resizable = follows_sizes(own, factory)
    first = call_factory(factory, path, name, *(Sizes() for _ in needed))
    if isinstance(first, Adapter):
        if first.name != Adapter.name:
            facts["name"] = first.name
        return replace(first, **{key: facts[key] for key in facts.keys() - ids.keys()})
    if ids:
        named = ", ".join(f"{key.upper()} {value}" for key, value in sorted(ids.items()))
        said = f"The special ids are those that your file names: {named}"
        facts["assumed"] = f"{facts['assumed']}\n{said}" if "assumed" in facts else said
    if needed:
        return Adapter(make_model=factory, resizable=resizable, **facts)
    require_words(first, path, name)
    # A factory may hand out the same model each time; checks change weights, so each gets a copy.
    same = {"make_model": lambda sizes: copy.deepcopy(factory()), "resizable": False}
    return Adapter(**same, **facts)


def require_words(model: nn.Module, path: Path, name: str) -> None:
    """Raises ValueError for a model of so few words that the sentences of the checks do not fit."""
    last = Sizes().target_vocab_size - 1

    def is_out_of_range(token: int) -> bool:
        """Whether a pass of this id alone reads behind the end of a table."""
        ids = torch.full((2, 3), token)
        with contextlib.suppress(Exception), torch.no_grad():
            try:
                model(ids, ids)
            except IndexError:
                return True
        return False

    if is_out_of_range(last) and not is_out_of_range(0):
        known = next(n for n in range(last, 0, -1) if not is_out_of_range(n - 1))
        raise ValueError(
            f"{name} of {path.name} knows {known} ids, and the checks need {last + 1}; make its"
            " vocabulary larger"
        )


def locate_factory(where: str) -> tuple[Path, str]:
    """The file and the factory of 'FILE:FACTORY' or 'MODULE:FACTORY'."""
    file, _, name = where.rpartition(":")
    if not file or not name.isidentifier():
        raise ValueError(f"{where!r} names no file and factory; {HOW}")
    path = Path(file).expanduser().resolve()
    module = Path(*file.split(".")).with_suffix(".py").resolve()
    for known in (path, module):
        if known.is_file():
            return known, name
    with contextlib.suppress(ImportError, ValueError):  # an installed package
        spec = importlib.util.find_spec(file)
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            return Path(spec.origin), name
    raise FileNotFoundError(f"there is no file {path}; {HOW}")


class Run(NamedTuple):
    """A model in eval mode; called with source and decoder input it gives the adapter's logits."""

    model: nn.Module
    adapter: Adapter

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        return self.adapter.logits(self.model, source, target)


def example(adapter: Adapter, seed: int = 0) -> tuple[Run, Tensor, Tensor]:
    """A model as the checks make it, a padded source (3, S) and its decoder input (3, T)."""
    adapter = find_facts(adapter, seed).of(adapter)
    model, source, target = prepare(adapter, seed)
    return Run(model, adapter), source, target


def import_file(path: Path) -> ModuleType:
    """The module in a file, imported anew: as a part of its package, if its folder is one.

    The folder that holds its package is put first on the import path, as Python does: with its own
    folder before it, `model/model.py` would find itself as the package `model`.  What it reads by
    relative names is looked for here, then in its folder, then above its package.
    """
    root = package_root(path)
    parts = [*path.relative_to(root).parts[:-1], path.stem]
    first = import_folders(path)
    sys.path[:] = [*first, *(f for f in sys.path if f not in (*first, str(path.parent)))]
    name = ".".join(parts) if len(parts) > 1 else f"reader_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file; {HOW}")
    here, given = Path.cwd(), sys.argv
    folders = [*dict.fromkeys([here, path.parent, root])]
    for folder in folders:
        try:
            os.chdir(folder)
            sys.argv = [str(path)]  # some read their options when they are imported
            sys.modules.pop(spec.name, None)
            if len(parts) > 1:
                importlib.import_module(".".join(parts[:-1]))
            module = sys.modules.get(spec.name)  # a package may import its parts
            if module is None or getattr(module, "__file__", None) != str(path):
                module = importlib.util.module_from_spec(spec)
                sys.modules[spec.name] = module  # dataclasses and pickle look their module up
                spec.loader.exec_module(module)
            for near in list(sys.modules.values()):
                if str(getattr(near, "__file__", None) or "").startswith(f"{root}{os.sep}"):
                    on_the_cpu(vars(near))
            return module
        except BaseException as error:
            sys.modules.pop(spec.name, None)
            if isinstance(error, FileNotFoundError) and folder != folders[-1]:
                continue
            if isinstance(error, KeyboardInterrupt):
                raise
            reason = f"{path} cannot be imported: {describe_error(error, path)}"
            raise ValueError(
                f"{reason}; --lift takes definitions out without running it"
            ) from error
        finally:
            os.chdir(here)
            sys.argv = given
    raise AssertionError("the last folder returns or raises")


def find_factory(module: ModuleType, name: str, path: Path) -> Callable[..., Any]:
    """The factory of that name in a module."""
    factory = getattr(module, name, None)
    if factory is None:
        own = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        functions = ", ".join(sorted(own)) or "no functions"
        hint = did_you_mean(name, own) or f"; it has {functions}"
        raise ValueError(f"{path.name} has no {name!r}{hint}")
    if not callable(factory):
        kind = type(factory).__name__
        raise ValueError(f"{name!r} in {path.name} is {kind}, not a function or class; {HOW}")
    return factory


def list_required(factory: Callable[..., Any]) -> list[str]:
    """The arguments that a factory must be given."""
    optional = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    needed = (p for p in parameters(factory) if p.default is p.empty)
    return [p.name for p in needed if p.kind not in optional]


def call_factory(
    factory: Callable[..., Any], path: Path, name: str, *arguments: Any
) -> Adapter | nn.Module:
    """What the factory returns.  Raises ValueError where that is neither of the two."""
    try:
        found = factory(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, would end the program without a word
        shown = ", ".join(type(argument).__name__ for argument in arguments)
        raise ValueError(
            f"{name}({shown}) of {path.name} failed: {describe_error(error, path)}"
        ) from error
    if not isinstance(found, Adapter | nn.Module):
        said = f"{name}() of {path.name} returned {type(found).__name__}"
        raise ValueError(f"{said}; expected an Adapter or a torch.nn.Module")
    return found


def describe_error(error: BaseException, path: Path) -> str:
    """An exception with the line of the reader's file that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"
