"""By which way a bad input is answered: what is damaged how, and the answer, but no particulars.

The answers are those that `benchmarks/reliability.py` wrote into docs/reliability.md.
"""

from __future__ import annotations

import re
from functools import cache

from case import Case
from reliability import PAGE, line

ARROW = " → `"
# What is quoted or in brackets, and numbers, paths, files, settings.
PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*[\d/._]\S*")


@cache
def answers() -> dict[str, str]:
    """What the page says is answered, by what it says is given."""
    rows = re.findall(rf"^(- .+){ARROW}(.*)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def error_path(case: Case) -> tuple[str, ...]:
    """What cases have in common that give the same thing and are answered alike.

    Their values, files or commands differ.  Of a process it is how it is disturbed.
    A case that works, or is not on the page yet, is alone on its path.
    """
    if case.slow and case.play:
        return case.category, getattr(case.play, "func", case.play).__name__
    given = line(case, "").rpartition(ARROW)[0]
    answer = answers().get(given, "works")
    if answer.startswith("works"):
        return (given,)
    how = case.given.rpartition(": ")[2]  # "settings.json: half of it", "train: not UTF-8"
    return case.category, how, PARTICULAR.sub("", answer)
