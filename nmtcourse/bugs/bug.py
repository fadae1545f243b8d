"""What the catalogue says about one bug, and how the catalogue is read from its TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmtcourse.bugs.planting import Edit, diff, edited


@dataclass(frozen=True)
class Bug:
    """A mistake that raises no error at once, and how it is recognised.

    `symptom` is what a reader would see, `cure` what to do, `source` the kind of code in which it
    is met.  `caught_by` are the checks of nmtcheck that fail on it, and `tests` the unit tests of
    nmtlib: some bugs show in one function alone, which no check of a whole model asks.  `edits`
    plant it; where there are none, `why_not` says why.
    """

    number: int
    key: str
    title: str
    subject: str
    symptom: str
    cure: str
    source: str
    caught_by: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    why_not: str = ""

    @property
    def found_by(self) -> str:
        """The check that decides, or the file of the unit test that does."""
        return self.caught_by[0] if self.caught_by else self.tests[0].partition("::")[0]

    @contextmanager
    def plant(self) -> Iterator[None]:
        """Run a block of code with this bug in the real nmtlib; afterwards all is clean again.

        Raises ValueError where the bug cannot live in nmtlib, or where the code has changed.
        """
        if not self.edits:
            raise ValueError(f"bug {self.key!r} cannot be planted in nmtlib: {self.why_not}")
        with ExitStack() as stack:
            for edit in self.edits:
                stack.enter_context(edited(edit.where, edit.old, edit.new))
            yield

    def diff(self) -> str:
        """The lines that planting changes, as a unified diff; empty where it cannot be planted."""
        return diff(self.edits)


def read_bugs(path: Path) -> list[Bug]:
    """The bugs of one file of the catalogue: a `subject`, then a table [[bug]] for each of them.

    The keys are the fields of `Bug`; `shared` names edits that several bugs of the file have in
    common, each a table [shared.NAME].  Raises ValueError for a key that a bug does not have.
    """
    file = tomllib.loads(path.read_text("utf-8"))
    shared = {name: Edit(**edit) for name, edit in file.get("shared", {}).items()}

    def read(entry: dict[str, Any]) -> Bug:
        common = tuple(shared[name] for name in entry.pop("shared", ()))
        own = tuple(Edit(**edit) for edit in entry.pop("edits", ()))
        caught_by = tuple(entry.pop("caught_by", ()))
        tests = tuple(entry.pop("tests", ()))
        about = {**entry, "subject": file["subject"]}
        return Bug(**about, caught_by=caught_by, tests=tests, edits=common + own)

    try:
        return [read(entry) for entry in file["bug"]]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path.name} does not describe bugs as the others do: {error}") from None
