"""What the catalogue says about one bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from nmtlib.teaching.bugs.planting import Edit, diff, edited


@dataclass(frozen=True)
class Bug:
    """A mistake that raises no error at once, and how it is recognised.

    `symptom` is what a reader would see, `cure` what to do, `source` the kind of code in which it is met, and
    `caught_by` the behaviour checks that fail on it.  `edits` plant it; where there are none, `why_not` says why.
    """

    number: int
    key: str
    title: str
    subject: str
    symptom: str
    cure: str
    source: str
    caught_by: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    why_not: str = ""

    @contextmanager
    def plant(self) -> Iterator[None]:
        """Run a block of code with this bug in the real nmtlib; afterwards all is clean again.

        Raises ValueError where the bug cannot live in nmtlib, or where the code has changed under it.
        """
        if not self.edits:
            raise ValueError(f"bug {self.key!r} cannot be planted in nmtlib: {self.why_not}")
        with ExitStack() as stack:
            for edit in self.edits:
                stack.enter_context(edited(edit.where, edit.old, edit.new))
            yield

    def diff(self) -> str:
        """The lines that planting changes, as a unified diff; empty where the bug cannot be planted."""
        return diff(self.edits)
