"""How good the graders are on answers that nobody here had seen: one round after the other.

    python benchmarks/homework_rounds.py 5 --take FOLDER

The answers of a round were written from the student pages alone, and judged by a reference of their
authors before any grader saw them. A round counts as it was first measured; homework.py has what
its wrong answers get today. `--take` copies answers from their authors' files, as data; those that
come later are added, each measured once.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import runpy
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse.homework.catalogue import find_task
from nmtcourse.homework.grading import judge
from nmtcourse.homework.task import Task

RESULT = RESULTS / "homework-rounds.json"
ROUNDS = Path(__file__).with_name("answers") / "rounds"
MISLED = ROUNDS / "misled.json"  # by round, the answers whose claimed cause is not what is wrong
OUTDATED = ROUNDS / "outdated.json"  # answers that a later page allows, and why
FIELDS = ("TASK", "NAME", "PRELUDE", "GIVEN", "ANSWERS")


def take(source: Path, folder: Path) -> None:
    """Copy new answers of a round, without their authors' demonstrations."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("t*.py")):
        if not (place := folder / f"{path.stem}.json").exists():
            found = runpy.run_path(str(path))
            kept = {name: found[name] for name in FIELDS}
            place.write_text(f"{json.dumps(kept, indent=1, ensure_ascii=False)}\n", "utf-8")


def built(page: dict[str, Any], source: str) -> Any:
    """The object that a student's source defines, with the imports and cells of the page."""
    namespace: dict[str, Any] = {"__name__": "answer"}
    for text in (page["PRELUDE"], page["GIVEN"], source):
        exec(compile(text, f"<answer to {page['TASK']}>", "exec"), namespace)
    return namespace[page["NAME"]]


def wrong_answers(tasks: Collection[str] = ()) -> Iterator[tuple[str, Task, Any]]:
    """The wrong answers of all rounds to some tasks, or to all, that today's pages rule out."""
    outdated = json.loads(OUTDATED.read_text("utf-8"))
    for path in sorted(ROUNDS.glob("*/t*.json")):
        page = json.loads(path.read_text("utf-8"))
        for number, answer in enumerate(page["ANSWERS"]):
            about = f"{path.parent.name}/{page['TASK']}/{number}"
            if answer["label"] == "right" or about in outdated or not answer.get("stated", True):
                continue
            if not tasks or page["TASK"] in tasks:
                with contextlib.suppress(Exception):  # its author's mistake: no answer
                    yield about, find_task(page["TASK"]), built(page, answer["source"])


def judged(path: Path) -> list[dict[str, Any]]:
    """What the grader says to all answers of a task; one that is not Python is not judged."""
    page, rows = json.loads(path.read_text("utf-8")), []
    task = find_task(page["TASK"])
    for number, answer in enumerate(page["ANSWERS"]):
        row = {"answer": f"{task.id}/{number}", "label": answer["label"], "about": answer["cause"]}
        row |= {"stated": answer.get("stated", True), "full": False}
        try:
            given = built(page, answer["source"])
        except Exception as error:
            rows.append(row | {"label": "not judged", "measured": type(error).__name__})
            continue
        verdict = judge(task, given)
        if (found := verdict.finding) is not None:
            row |= {"measured": found.measured[:160], "claimed": found.cause}
            row["known"] = found.cause in task.mistakes
        rows.append(row | {"full": verdict.full})
    return rows


def summary(rows: list[dict[str, Any]], misled: list[str]) -> dict[str, int]:
    """The counts of a round; wrong answers that break no sentence of the page are apart."""
    groups: dict[str, list[dict[str, Any]]] = {"right": [], "wrong": [], "unstated": []}
    for row in rows:
        kind = row["label"] if row.get("stated", True) else "unstated"
        groups.setdefault(kind, []).append(row)
    wrong = [*groups["wrong"], *groups["unstated"]]
    found = {kind: len(each) for kind, each in groups.items()}
    full = {kind: sum(row["full"] for row in each) for kind, each in groups.items()}
    found |= {f"{kind}_accepted": full[kind] for kind in ("wrong", "unstated")}
    found["right_refused"] = found["right"] - full["right"]
    found["causes_claimed"] = sum(bool(row.get("known")) for row in wrong)
    return found | {"causes_misleading": sum(row["answer"] in misled for row in wrong)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("round")
    options.add_argument("--take", type=Path, help="the folder of the round's authors")
    given = options.parse_args()
    if given.take:
        take(given.take, ROUNDS / given.round)
    kept = json.loads(RESULT.read_text("utf-8"))["rounds"]
    rows = kept[given.round]["answers"] if given.round in kept else []
    had, misled = {row["answer"].partition("/")[0] for row in rows}, json.loads(MISLED.read_text())
    for path in sorted((ROUNDS / given.round).glob("t*.json")):
        if path.stem[1:].replace("_", ".") not in had:
            rows += judged(path)
            counts = summary(rows, misled.get(given.round, []))
            made = {"date": f"{datetime.date.today()}", "answers": rows, "summary": counts}
            command = f"python benchmarks/homework_rounds.py {given.round}"
            write_result(RESULT, {"command": command, "rounds": {**kept, given.round: made}})
            print(path.stem, counts, flush=True)


if __name__ == "__main__":
    main()
