"""Generated mistakes of the homework: each solution changed in one place (see mutated.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutated import changes, replaced

from nmtcourse.homework.task import Task


def mutants(task: Task) -> Iterator[tuple[str, str]]:
    """What is changed, and the source, for each mistake in the marked parts of a solution."""
    lines = task.source.splitlines()
    inside = [text.count("BEGIN SOLUTION") - text.count("END SOLUTION") for text in lines]
    marked = {n for n in range(1, len(lines) + 1) if sum(inside[:n])}
    seen = {ast.unparse(ast.parse(task.source))}

    for place, old in enumerate(ast.walk(ast.parse(task.source))):
        if getattr(old, "lineno", 0) not in marked:
            continue
        for new in changes(old):
            text = replaced(task.source, place, new)
            if text not in seen:
                seen.add(text)
                yield f"{ast.unparse(old)[:60]} -> {ast.unparse(new)[:60]}", text
