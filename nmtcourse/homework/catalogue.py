"""All assignments and their tasks, from the masters that are installed."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from nmtcourse.homework import masters
from nmtlib.errors import did_you_mean

if TYPE_CHECKING:
    from nmtcourse.homework.task import Assignment, Task

WITHOUT = (
    "this nmtlib was installed without solutions (NMTLIB_SOLUTIONS=0), to run notebooks; use "
    "another installation to hand out or grade homework"
)


def stems() -> dict[str, str]:
    """The names of all notebooks by number, such as "04_attention"; no master is imported.

    Raises ValueError where they are not installed.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(masters.__path__))
    if not names:
        raise ValueError(WITHOUT)
    return {name[1:3]: name[1:] for name in names}


@cache
def assignment(number: str) -> Assignment:
    """The assignment with a number that `stems` has."""
    module = importlib.import_module(f"{masters.__name__}.a{stems()[number]}")
    return module.homework


def assignments() -> dict[str, Assignment]:
    """All assignments by their numbers. Raises ValueError where they are not installed."""
    return {number: assignment(number) for number in stems()}


def find_task(id: str) -> Task:
    """The task with that id, such as "04.2". Raises ValueError if there is none."""
    number = id.partition(".")[0]
    if number not in stems():
        ids = [task_id for each in assignments().values() for task_id in each.tasks]
        raise ValueError(f"there is no task {id!r}{did_you_mean(id, ids)}; write it as '04.2'")
    tasks = assignment(number).tasks
    if id not in tasks:
        raise ValueError(f"there is no task {id!r}; name one of {', '.join(tasks)}")
    return tasks[id]
