"""One pytest test a check, to keep in CI.

# test_my_model.py
from my_model import MyTransformer
from nmtcheck import Adapter
from nmtcheck.testing import checks

test_my_model = checks(Adapter(make_model=MyTransformer))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pytest

from nmtcheck.adapter import Adapter
from nmtcheck.report.report import Report
from nmtcheck.report.runner import choose, run_checks


def checks(
    adapter: Adapter, *, only: str | Sequence[str] | None = None, seed: int = 0
) -> Callable[..., None]:
    """A parametrised test, to be bound to a name that begins with `test`: one case a check.

    A finding fails, what could not be decided is skipped, and a last case, 'read', fails where
    attention, masks, loss or search could not be read.  All checks run together, with the first
    case.  Checks of parts that the adapter does not have are left out; ValueError for an unknown
    name in `only`.
    """
    names = [c.id for c in choose(only) if all(adapter.has(part) for part in c.needs)]

    @functools.cache
    def report() -> Report:
        return run_checks(adapter, only=names, seed=seed)

    @pytest.mark.parametrize("check", [*names, "read"])
    def test(check: str) -> None:
        if check == "read":
            unread = [f"{name} {text}" for name, text, enough in report().hearts if not enough]
            assert not unread, "; ".join(unread)
            return
        (result,) = [r for r in report().results if r.check.id == check]
        if result.verdict == "skipped":
            pytest.skip(result.measured)
        assert not result.bad, "\n".join(f"{label}: {text}" for label, text in result.notes)

    return test
