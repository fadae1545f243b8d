"""Homework whose graders are graded: tasks, checks that name the mistake, and tools for courses.

    from nmtcourse.homework import grade, hint
    grade("04.2", masked_attention)     # prints a verdict, returns points

What the masters hold is in `nmtcourse.homework.task`; how an answer is judged, in `grading`.
"""

from importlib import import_module
from typing import Any

_HOME = {
    **dict.fromkeys(["assignments", "find_task"], "homework.catalogue"),
    **dict.fromkeys(["grade", "hint", "judge"], "homework.grading"),
    **dict.fromkeys(["again", "given"], "homework.lines"),
    "patient": "projects.patients",
    "examine": "projects.examining",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"nmtcourse.homework has no {name!r}; it has {', '.join(_HOME)}")
    return getattr(import_module(f"nmtcourse.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
