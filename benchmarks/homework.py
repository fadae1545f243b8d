"""How good the graders of the homework are: right answers refused, wrong answers accepted.

    python benchmarks/homework.py
    python benchmarks/homework.py 04.2 11.3

Answers: the solutions and their known mistakes, right ones of tests/homework/answers, and the wrong
ones of all rounds, which no grader knows.  Each is judged with two seeds. Writes
results/homework.json and HOMEWORK.md. Where
tasks are named, they alone are measured.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from homework_rounds import wrong_answers
from shared import RESULTS, parser, write_result

from nmtcourse.homework.grading import Verdict, assignments, judge
from nmtcourse.homework.task import Assignment, Task
from nmtlib.files import write_atomically

PAGE = Path(__file__).with_name("HOMEWORK.md")
RESULT = RESULTS / "homework.json"
ROUNDS = RESULTS / "homework-rounds.json"
ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "tests" / "homework"
SEEDS = (0, 7)
TEXTS = ("task", "title", "sources")  # of a row; the others are numbers


def is_faultless(result: dict[str, Any]) -> bool:
    """Whether every answer to every task had the verdict that it deserves."""
    return not any(
        row["right_refused"] or row["wrong_accepted"] or row["named"] < row["known"]
        for row in result["tasks"]
    )


def verdicts(assignment: Assignment, task: Task, answer: Any) -> list[Verdict]:
    """An answer judged with each seed; a choice beside the solutions of the tasks it uses."""
    tasks = {each.name: each for each in assignment.tasks.values()}
    others = [tasks[name].solution for name in task.uses]
    return [judge(task, answer, *others, seed=seed) for seed in SEEDS]


def measure(assignment: Assignment, task: Task, right: list, wrong: list) -> dict[str, Any]:
    """What becomes of all answers to a task."""
    started = time.process_time()
    solved = verdicts(assignment, task, task.solution)
    seconds = (time.process_time() - started) / len(SEEDS)
    accepted = [verdicts(assignment, task, answer) for answer in right] + [solved]
    known = {about: verdicts(assignment, task, found) for about, found in task.wrong.items()}
    unknown = [verdicts(assignment, task, answer) for answer in wrong]
    refused = [*known.values(), *unknown]
    return {
        "task": task.id,
        "title": task.title,
        "right": len(accepted),
        "right_refused": sum(not all(v.full for v in each) for each in accepted),
        "wrong": len(known) + len(unknown),
        "wrong_accepted": sum(any(v.full for v in each) for each in refused),
        "known": len(known),
        "named": sum(
            all(v.finding is not None and v.finding.cause == about for v in each)
            for about, each in known.items()
        ),
        "seconds": round(seconds, 2),
    }


def page(rows: list[dict[str, Any]]) -> str:
    """The table of all tasks."""
    total = {key: sum(row[key] for row in rows) for key in rows[0] if key not in TEXTS}
    lines = [
        "# The graders' own grades",
        "",
        "How often the graders are wrong, written by `python benchmarks/homework.py`. Right",
        "answers are the solutions and answers in other styles: loops, einsum, torch's modules,",
        "numpy, other names. Wrong answers are the known mistakes, which the grader must also",
        "name, and unknown ones.",
        "",
        f"**{total['right_refused']} of {total['right']} right answers are refused, and "
        f"{total['wrong_accepted']} of {total['wrong']} wrong answers are accepted; "
        f"{total['named']} of {total['known']} known mistakes are named.**",
        "",
        "| task | | right refused | wrong accepted | mistakes named | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['task']} | {row['title']} | {row['right_refused']} of {row['right']} | "
            f"{row['wrong_accepted']} of {row['wrong']} | {row['named']} of {row['known']} | "
            f"{row['seconds']} |"
        )
    return "\n".join([*lines, *rounds()]) + "\n"


def rounds() -> list[str]:
    """The section about answers that nobody here had seen."""
    lines = [
        "",
        "## Answers that nobody here had seen",
        "",
        "The table above is about our own list of answers, and true of nothing else. In a round,",
        "right answers in unusual styles and wrong ones of the subtle kinds are written from the",
        "student pages alone, without sight of graders or solutions, and judged by a reference of",
        "their authors on inputs that the page allows. Only the first measurement of a round is of",
        "unseen answers; *again* is the same round after the graders were mended for its kinds.",
        "Wrong answers that break no sentence of the page, only common sense, are counted apart.",
        "A cause misleads if a reader finds that it is not what is wrong with the answer. An",
        "answer that is not Python is not judged. Rounds 2 and 3 were stopped by the clock: the",
        "number of tasks says how far they came. Nothing was tuned to round 4 before it; two of",
        "its wrong answers rest on a sentence of page 10 that could be read both ways.",
        "",
        "| round | date | tasks | right refused | wrong accepted | unstated accepted | "
        "causes claimed | misleading | not judged |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    found = json.loads(ROUNDS.read_text("utf-8"))["rounds"] if ROUNDS.exists() else {}
    for name, each in sorted(found.items()):
        n, tasks = each["summary"], {row["answer"][:4] for row in each["answers"]}
        lines.append(
            f"| {name} | {each['date']} | {len(tasks)} of 36 | "
            f"{n['right_refused']} of {n['right']} | "
            f"{n['wrong_accepted']} of {n['wrong']} | "
            f"{n['unstated_accepted']} of {n['unstated']} | "
            f"{n['causes_claimed']} | {n['causes_misleading']} | {n['not_judged']} |"
        )
    return lines


def main() -> int:
    options = parser(__doc__)
    options.add_argument("tasks", nargs="*", metavar="TASK", help="such as 04.2 (default: all)")
    wanted = options.parse_args().tasks
    sys.path.insert(0, str(ANSWERS))
    known = {row["task"]: row for row in json.loads(RESULT.read_text("utf-8"))["tasks"]}
    rows = []
    for number, assignment in assignments().items():
        answers = importlib.import_module(f"answers.a{number}")
        for task in assignment.tasks.values():
            if wanted and task.id not in wanted:
                rows.append(known[task.id])
                continue
            right = answers.RIGHT.get(task.id, [])
            wrong = [answer for _, answer in wrong_answers([task.id])]
            rows.append(measure(assignment, task, right, wrong))
            print(rows[-1], flush=True)
    result = {"command": "python benchmarks/homework.py", "tasks": rows}
    write_result(RESULT, result)
    write_atomically(PAGE, page(rows))
    return int(not is_faultless(result))


if __name__ == "__main__":
    sys.exit(main())
