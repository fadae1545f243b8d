"""How good the graders are: right answers refused, wrong ones accepted, generated ones that live.

    python benchmarks/homework.py 04.2 11.3
    python benchmarks/homework.py --named

Right are the solutions and those of the folder answers, wrong the known mistakes, the answers
of all rounds, and mutants (mutants.py).  A wrong answer that lives is listed.  `--named` judges the
known mistakes as a student's answer is, and counts those that are named.  Writes
results/homework.json, and its table into HOMEWORK.md.  Exit status 1 where a right answer is
refused, or one that was written wrong is accepted; a mutant may live.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homework_rounds import wrong_answers
from mutants import mutants
from shared import RESULTS, parser, write_result

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.grading import judge
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import Stopped, undisturbed, within
from nmtcourse.homework.task import Task
from nmtcourse.homework.trials import LiveAnswer, try_answer
from nmtlib.files import write_atomically

PAGE = Path(__file__).with_name("HOMEWORK.md")
RESULT = RESULTS / "homework.json"
BEGIN, END = "<!-- tasks:begin -->", "<!-- tasks:end -->"
KINDS = {"right": "refused", "known": "accepted", "rounds": "accepted", "mutants": "alive"}


def dies(task: Task, answer: Any) -> bool:
    """Whether a property finds an answer wrong; the input is not shrunk, nor the cause named."""
    most = max(prop.draws for prop in task.properties)
    pairs = ((n, prop) for n in range(most) for prop in task.properties if n < prop.draws)
    try:
        with undisturbed(), within(task.seconds * len(task.properties)):
            return any(
                try_answer(prop, LiveAnswer(task, answer), Draw(n)).finding is not None
                for n, prop in pairs
            )
    except Stopped:
        return True


def answers(task: Task, kind: str) -> Iterator[tuple[str, Any]]:
    """The answers of a kind with a name."""
    if kind == "right":
        given = importlib.import_module(f"answers.a{task.id[:2]}").RIGHT.get(task.id, [])
        yield from ((f"{n}", each) for n, each in enumerate([task.solution, *given]))
    elif kind == "known":
        yield from task.wrong.items()
    elif kind == "rounds":
        yield from ((name, each) for name, _, each in wrong_answers([task.id]))
    else:
        for about, source in mutants(task):
            try:
                yield about, task.build(source)
            except Exception:  # no answer at all
                continue


def measure(task: Task, kinds: list[str]) -> dict[str, Any]:
    """What becomes of the answers of some kinds to a task."""
    row: dict[str, Any] = {"task": task.id, "title": task.title}
    for kind in kinds:
        given = [*answers(task, kind)]
        odd = [name for name, answer in given if dies(task, answer) == (kind == "right")]
        row[kind] = {"count": len(given), "odd": odd}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The table of all tasks."""
    head = ["task", "", *map(" ".join, KINDS.items()), "named"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        found = [row.get(kind) for kind in KINDS]
        cells = [f"{len(each['odd'])} of {each['count']}" if each else "" for each in found]
        share = f"{row['named']} of {row['known']['count']}" if "named" in row else ""
        lines.append([row["task"], row["title"], *cells, share])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("tasks", nargs="*", metavar="TASK", help="such as 04.2 (default: all)")
    options.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    options.add_argument("--named", action="store_true")
    given = options.parse_args()
    misjudged: list[str] = []
    kept = {row["task"]: row for row in json.loads(RESULT.read_text("utf-8"))["tasks"]}
    for task in (t for a in assignments().values() for t in a.tasks.values() if not t.uses):
        if given.tasks and task.id not in given.tasks:
            continue
        if given.named:
            causes = {about: judge(task, each).finding for about, each in task.wrong.items()}
            count = sum(found.cause == about for about, found in causes.items() if found)
            kept[task.id]["named"] = count
        else:
            found = measure(task, given.kinds)
            kept[task.id] = {**kept.get(task.id, {}), **found}
        rows = [kept[id] for id in sorted(kept)]
        write_result(RESULT, {"command": "python benchmarks/homework.py", "tasks": rows})
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        write_atomically(PAGE, f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}")
        print(kept[task.id], flush=True)
        judged = [kind for kind in given.kinds if kind != "mutants" and not given.named]
        misjudged += [
            f"{task.id} {kind} {odd}" for kind in judged for odd in kept[task.id][kind]["odd"]
        ]
    if misjudged:
        raise SystemExit("\n".join(["misjudged:", *misjudged]))


if __name__ == "__main__":
    main()
