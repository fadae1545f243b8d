"""Keys and values as people write them in a preset or after --set: found, read, and checked."""

from __future__ import annotations

import difflib
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

Kind = TypeVar("Kind")


def typed(value: Any, kind: type[Any], where: str) -> Any:
    """The value as its key wants it: a whole number will do for a float, nothing else is bent."""
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        given = reprlib.repr(value)
        how = """; write ["one", "two"], in '' on a command line""" if kind is list else ""
        raise ValueError(
            f"{where} is a {kind.__name__}, but {given} is a {type(value).__name__}{how}"
        )
    if kind is list and not all(isinstance(item, str) for item in value):
        raise ValueError(f"{where} is a list of strings, not {reprlib.repr(value)}")
    return value


def build(kind: type[Kind], values: Any, **rest: Any) -> Kind:
    """A dataclass from a dictionary of its fields, each of the right type, and from `rest`, as is.

    Raises ValueError where a field is missing, unknown, or of another type.
    """
    hints = get_type_hints(kind)
    try:
        given = {key: value for key, value in values.items() if key not in rest}
        return kind(**{key: typed(given[key], hints[key], key) for key in given}, **rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"this is no {kind.__name__} ({error!r})") from None


def find(key: str, sections: Mapping[str, type], where: str) -> tuple[str, str]:
    """Section and name of a key that is given with or without its section.

    Raises ValueError, with the closest key, for one that no section has.
    """
    known = [f"{section}.{f.name}" for section, kind in sections.items() for f in fields(kind)]
    same_name = [k for k in known if k.endswith("." + key.rpartition(".")[2])]
    found = [k for k in same_name if k == key or "." not in key]
    if len(found) == 1:
        section, _, name = found[0].partition(".")
        return section, name
    if found:
        choice = " or ".join(found)
        raise ValueError(f"{where}: {key!r} stands in several sections; write {choice}")
    # The name may be right and the section wrong; or the name is a little off, with any section.
    bare = {k.rpartition(".")[2]: k for k in known}
    near = difflib.get_close_matches(key.rpartition(".")[2], bare, n=1)
    hint = same_name[:1] or difflib.get_close_matches(key, known, n=1) or [bare[n] for n in near]
    advice = f"did you mean {hint[0]}?" if hint else f"the keys are {', '.join(known)}"
    raise ValueError(f"{where}: unknown key {reprlib.repr(key)}; {advice}")


def parse(text: str) -> Any:
    """A TOML value; a bare word, and whatever else is not one value, is taken as a string."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, thousands of digits, nested without end
        return text
    return found["value"] if len(found) == 1 else text
