"""Some seeds run while the reader watches; what the others gave was recorded.

`benchmarks/course_records.py` runs the same functions of the same notebooks with all seeds and
writes recorded/seeds.json.  A record belongs to the code of a function, to its arguments, and to
every value that the function reads (see `inputs`): where one of them is another one now, all seeds
run, and a line says why.
"""

from __future__ import annotations

import ast
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nmtcourse.teaching.inputs import Inputs, UnknownKind, identify, read_inputs
from nmtcourse.teaching.language import mark, say

RECORDED = Path(__file__).parent / "recorded" / "seeds.json"
DIGITS = 4  # of a recorded number
# `make test-notebooks` sets it: there recorded seeds stand for those that a reader sees run.  What
# is printed is the same.  By night, and with `pytest --nbval`, they run.
IN_HASTE = "NMTLIB_RECORDED_SEEDS"
filled: WeakKeyDictionary[Any, Inputs] = WeakKeyDictionary()  # what was read as a cache was filled


class Runs(list[Any]):
    """What several seeds gave, one item a seed; `recorded` are the seeds that did not run now.

    >>> runs = Runs([0.5, 0.6, 0.7], recorded=[1, 2])
    >>> runs.note, runs.notes
    ('seeds 1, 2 recorded', ['', 'recorded', 'recorded'])
    """

    def __init__(self, results: Iterable[Any], recorded: Sequence[int] = ()):
        super().__init__(results)
        self.recorded = tuple(recorded)

    @property
    def note(self) -> str:
        """What a row or a legend says of these runs; "" where all ran now."""
        if self and len(self.recorded) == len(self):
            return say("recorded")
        if not self.recorded:
            return ""
        seeds = ", ".join(map(str, self.recorded))
        return say(
            f"seeds {seeds} recorded" if len(self.recorded) > 1 else f"seed {seeds} recorded"
        )

    @property
    def notes(self) -> list[str]:
        """What each run says where it has a row of its own."""
        live = len(self) - len(self.recorded)
        return [""] * live + [say("recorded")] * len(self.recorded)


def common_note(groups: Iterable[Any]) -> str:
    """What one legend or row says of several runs: their notes, each once."""
    notes = [getattr(runs, "note", "") for runs in groups]
    return mark(";").join(dict.fromkeys(filter(None, notes)))


def by_seed(
    name: str,
    function: Callable[..., Any],
    *arguments: Any,
    seeds: Sequence[int] = (0, 1, 2),
    live: int = 1,
) -> Runs:
    """What `function(*arguments, seed)` gives for each seed; the first `live` of them run now.

    It gives numbers, in lists and dictionaries, or tensors.  All seeds run now, and a line says
    why, where the record `name` is of other code, other data, other arguments or other seeds: what
    is shown is never what another experiment gave.
    """
    inputs = read_inputs(function)
    forget_stale_results(inputs)
    record = records().get(name, {})
    stored: list[Any] = []
    if reason := difference(record, inputs, arguments, seeds):
        print(say(f"{name}: {reason}; all seeds run now"))
        live = len(seeds)
    else:
        stored = record["found"][key(arguments)]
    if stored and os.environ.get(IN_HASTE):
        results = stored[:live]
    else:
        with same_random_numbers():
            results = [plain(function(*arguments, seed)) for seed in seeds[:live]]
    return Runs(results + stored[live:], seeds[live:])


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """What comes after draws the random numbers that it would draw without what is inside.

    So the cells below an experiment show the same, however many of its seeds ran.
    """
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


def recorded_runs(name: str, *arguments: Any) -> Runs:
    """What a record holds, for a page that shows runs before it shows their code.

    Raises KeyError where there is no such record.
    """
    record = records()[name]
    return Runs(record["found"][key(arguments)], record["seeds"])


def difference(
    record: Mapping[str, Any], inputs: Inputs, arguments: Sequence[Any], seeds: Sequence[int]
) -> str:
    """Why a record does not belong to an experiment; "" where it does."""
    for name, kind in inputs.unknown.items():
        return f"no record can name {name}, {kind}"
    try:
        place = key(arguments)
    except UnknownKind as error:
        return f"no record can name an argument {error}"
    if place not in record.get("found", {}):
        return f"no record has the arguments {place}"
    if record["seeds"] != list(seeds):
        return f"no record has the seeds {', '.join(map(str, seeds))}"
    if changed := changed_names(record, inputs):
        return f"{', '.join(changed)} changed since the record was made"
    return ""


def changed_names(record: Mapping[str, Any], inputs: Inputs) -> list[str]:
    """The functions and values that are not what they were when a record was made."""
    before = texts_of(record["code"], record["data"])
    now = texts_of(inputs.code, inputs.data)
    changed = [place for place in {**now, **before} if before.get(place) != now.get(place)]
    return list(dict.fromkeys(name for _, name in changed))


def texts_of(code: Mapping[str, str], data: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Code and data in one table; of code its meaning, whatever the language of its comments."""
    meanings = {("code", name): meaning(text) for name, text in code.items()}
    return meanings | {("data", name): text for name, text in data.items()}


def meaning(text: str) -> str:
    """What a function does: its code without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def forget_stale_results(inputs: Inputs) -> None:
    """Empty the caches of a page's functions that were filled with other data.

    `@cache` knows arguments alone: it would give a model that learnt from what has changed since.
    """
    for function in inputs.caches.values():
        now = read_inputs(function)
        if filled.get(function) != now or now.unknown:
            function.cache_clear()
        filled[function] = now


@cache
def records() -> dict[str, Any]:
    """Every record by its name: code, data, seeds, results by arguments, and where it ran."""
    return read(RECORDED)["records"] if RECORDED.is_file() else {}


def read(file: Path) -> dict[str, Any]:
    """A file of records; keys that are whole numbers are numbers again."""

    def as_they_were(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        return {int(key) if key.isdecimal() else key: value for key, value in pairs}

    return json.loads(file.read_text("utf-8"), object_pairs_hook=as_they_were)


def key(arguments: Sequence[Any]) -> str:
    """The arguments of a function as the file names them.

    Raises UnknownKind for one that no text can stand for.
    """
    return f"({', '.join(map(identify, arguments))})"


def plain(result: Any) -> Any:
    """Numbers as the file keeps them: tensors as lists, floats to four digits."""
    if isinstance(result, dict):
        return {key: plain(value) for key, value in result.items()}
    if isinstance(result, Tensor):
        return plain(result.tolist())
    if isinstance(result, (list, tuple)):
        return [plain(value) for value in result]
    return float(f"{result:.{DIGITS}g}") if isinstance(result, float) else result
