"""What is said about bad input: what was given, what was expected, and the closest known name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from typing import Any


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' with the closest of the known names, or '' where none is close.

    >>> did_you_mean("toy-de-em", ["toy-de-en", "toy-en-zh"])
    ' (did you mean toy-de-en?)'
    """
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def require(holds: bool, name: str, expected: Any, given: Any) -> None:
    """Raise ValueError '`name` must be `expected`, not `given`' unless something holds."""
    if not holds:
        raise ValueError(f"{name} must be {expected}, not {given!r}")


def require_one_of(name: str, known: Collection[str], given: str) -> None:
    """Raise ValueError unless `given` is one of the known values."""
    require(given in known, name, f"one of {', '.join(known)}", given)


def note(line: str) -> None:
    """Tell the user something in a line on standard error, which no result is mixed with."""
    print(f"nmtlib: {line}", file=sys.stderr, flush=True)


def remarks(moment: str, *facts: Any) -> list[str]:
    """The lines of the entry points `nmtlib.remarks` of that name, functions of some facts."""
    found = entry_points(group="nmtlib.remarks", name=moment)
    return [line for entry in found for line in entry.load()(*facts)]
