"""By which way through the code a bad input is answered: the answer without its particulars.

The answers are those that `benchmarks/reliability.py` wrote into docs/reliability.md.
"""

from __future__ import annotations

import re
from functools import cache

from case import Case
from reliability import PAGE, line

ARROW = " → `"
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
PARTICULAR = re.compile(r"\S*[\d/._]\S*")  # numbers, paths, files, settings


@cache
def answers() -> dict[str, str]:
    """What the page says is answered, by what it says is given."""
    rows = re.findall(rf"^(- .+){ARROW}(.*)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def error_path(case: Case) -> tuple[str, ...]:
    """What the cases have in common that a command answers alike.

    A case that works, or is not on the page yet, has its path to itself.
    """
    given = line(case, "").rpartition(ARROW)[0]
    answer = answers().get(given, "works")
    if answer.startswith("works"):
        return (given,)
    return (*case.arguments[:1], PARTICULAR.sub("", QUOTED.sub("", answer)))
