"""The messages between the judge and a student's process, and the exceptions that they tell of."""

from __future__ import annotations

import builtins
import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from nmtcourse.homework.compare import Finding
from nmtcourse.homework.guards import Stopped
from nmtcourse.homework.operations import Operations
from nmtcourse.homework.wire import Damaged, Lost

OURS = [Path(__file__).parents[2] / name for name in ("nmtlib", "nmtcheck", "nmtcourse")]
PLACE = ", in line "


class Message(BaseModel):
    """What both kinds of messages have: random numbers, modes, weights, freed graphs."""

    model_config = ConfigDict(extra="forbid", strict=True)
    random: int | None = None
    grad: bool
    default: str
    freed: list[int]
    states: list[tuple[bool, int, int]]


class Call(Message):
    """A call of the other side's."""

    do: Literal["call", "get", "set", "copy", "backward", "sync"]
    on: int
    name: str | None
    path: str
    given: tuple[Any, Any]
    parameters: list[tuple[bool, int, str]]
    seconds: float
    watch: int | None = None  # the tensor whose operations are noted; -1 for all of them


class Told(BaseModel):
    """An exception of the other side."""

    model_config = ConfigDict(extra="forbid", strict=True)
    type: str = ""
    text: str = ""
    bases: list[str] = []
    place: str = ""
    finding: tuple[str, str, str, str] | None = None
    number: int | None = None
    carried: int | None = None


class Reply(Message):
    """The answer to a call: a value or an error, and arguments that have changed."""

    value: Any
    error: Told | None
    outputs: list[Any]
    graph: int
    changed: Any = None
    seen: list[str] = []
    touched: list[str] = []


@contextlib.contextmanager
def valid() -> Iterator[None]:
    """Raise Damaged for whatever goes wrong with data of the other side."""
    try:
        yield
    except (Damaged, Lost):
        raise
    except Exception as error:  # many kinds: of pydantic, of torch, KeyError, RecursionError
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Damaged(f"its process sent a damaged message ({why})") from None


@contextlib.contextmanager
def watched(call: Call, tensors: list[Any], reply: dict[str, Any]) -> Iterator[None]:
    """Note torch's operations, if the other side wants to know them."""
    if call.watch is None:
        yield
        return
    of = tensors[call.watch] if call.watch >= 0 else None
    try:
        with Operations(of) as operations:
            yield
    finally:
        reply["seen"], reply["touched"] = operations.seen, operations.touched


def tuples(message: Any) -> Any:
    """A message in which rows are the tuples that its model expects."""
    if isinstance(message, dict):
        for name in ("states", "parameters"):
            if isinstance(message.get(name), list):
                message[name] = [tuple(row) for row in message[name]]
        if "given" in message:
            message["given"] = tuple(message["given"])
        if isinstance(message.get("error"), dict) and message["error"].get("finding"):
            message["error"]["finding"] = tuple(message["error"]["finding"])
    return message


def told(error: BaseException) -> Told:
    """An exception as data; one that the other side has raised goes back by its number."""
    if (number := getattr(error, "carried", None)) is not None:
        return Told(carried=number)
    finding = None
    if isinstance(error, Finding):
        finding = (error.measured, error.expected, error.cause, error.usual)
    return Told(
        type=type(error).__name__,
        text=str(error)[:2000],
        bases=[kind.__name__ for kind in type(error).__mro__],
        place=place_in(error),
        finding=finding,
    )


def rebuilt(told: Told) -> BaseException:
    """The exception that the other side has told of."""
    made: Any
    if told.finding:
        *parts, usual = (part[:2000] for part in told.finding)
        made = Finding(*parts)
        made.usual = usual
    else:
        made = Stopped() if told.type == "Stopped" else error_of(told)
    made.place, made.carried = told.place[:200], told.number
    return made


def error_of(told: Told) -> BaseException:
    """An exception of the same name, of the nearest class that Python itself has."""
    known = (getattr(builtins, name, None) for name in told.bases)
    base = next(k for k in known if isinstance(k, type) and issubclass(k, BaseException))
    text, name = told.text[:2000], told.type[:80]
    if base.__name__ == name and not issubclass(base, KeyError | UnicodeError):
        made = base.__new__(base)
        made.args = (text,) if text else ()
        return made
    kind: Any = type(name, (base,), {"__str__": lambda self: text})
    return kind.__new__(kind)


def place_in(error: BaseException) -> str:
    """The line and function of a student's code that raised an exception, or ''."""
    if told := getattr(error, "place", ""):
        return told
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not {*OURS} & {*Path(frame.filename).parents}]
    foreign = ("site-packages", "<frozen ", str(Path(traceback.__file__).parent))
    own = [frame for frame in outside if not any(part in frame.filename for part in foreign)]
    return f"{PLACE}{own[-1].lineno} of {own[-1].name}" if own else ""
