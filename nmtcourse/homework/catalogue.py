"""All assignments and their tasks, from the masters that are installed."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from nmtcourse.homework import masters
from nmtcourse.homework.task import Assignment, Task
from nmtlib.errors import did_you_mean

WITHOUT = (
    "this nmtlib was installed without solutions (NMTLIB_SOLUTIONS=0), to run notebooks; use "
    "another installation to hand out or grade homework"
)


@cache
def assignments() -> dict[str, Assignment]:
    """All assignments by their numbers. Raises ValueError where they are not installed."""
    names = sorted(module.name for module in pkgutil.iter_modules(masters.__path__))
    if not names:
        raise ValueError(WITHOUT)
    modules = [importlib.import_module(f"{masters.__name__}.{name}") for name in names]
    return {module.homework.number: module.homework for module in modules}


def find_task(id: str) -> Task:
    """The task with that id, such as "04.2". Raises ValueError if there is none."""
    assignment = assignments().get(id.partition(".")[0])
    if assignment is None or id not in assignment.tasks:
        if assignment is not None:
            raise ValueError(f"there is no task {id!r}; name one of {', '.join(assignment.tasks)}")
        ids = [task_id for assignment in assignments().values() for task_id in assignment.tasks]
        raise ValueError(f"there is no task {id!r}{did_you_mean(id, ids)}; write it as '04.2'")
    return assignment.tasks[id]
