"""What is said about bad input: what was given, what was expected, and the closest known name."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Iterable
from typing import Any
from unicodedata import category

# Controls except tab and newline, line separators, embeddings and overrides of direction.
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' with the closest of the known names, or '' where none is close.

    >>> did_you_mean("toy-de-em", ["toy-de-en", "toy-en-zh"])
    ' (did you mean toy-de-en?)'
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def require(holds: bool, name: str, expected: Any, value: Any) -> None:
    """Raise ValueError '`name` must be `expected`, not `given`' unless something holds."""
    if not holds:
        raise ValueError(f"{name} must be {expected}, not {value!r}")


def require_one_of(name: str, known: Collection[str], value: str) -> None:
    """Raise ValueError unless `given` is one of the known values."""
    require(value in known, name, f"one of {', '.join(known)}", value)


def shown(text: str) -> str:
    r"""Text as a terminal may get it: control characters and changes of direction are escaped.

    Names of files and words of corpora come from strangers; raw, they could rewrite the screen.

    >>> print(shown("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def spelled_out(text: str) -> str:
    r"""Text in which a reader sees every character: one that is invisible is escaped too.

    A word with a joiner or a byte order mark inside looks like the word without.

    >>> print(spelled_out("do\u200bg"))
    do\u200bg
    """
    return "".join(ascii(c)[1:-1] if category(c) == "Cf" else c for c in shown(text))


class Shown:
    """Standard output that escapes what a terminal would obey."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text as `shown`; returns its length."""
        self.stream.write(shown(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def note(line: str) -> None:
    """Tell the user something in a line on standard error, which no result is mixed with."""
    print(f"nmtlib: {shown(line)}", file=sys.stderr, flush=True)
