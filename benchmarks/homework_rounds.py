"""How good the graders are on answers that nobody here had seen: one round after the other.

    python benchmarks/homework_rounds.py 1

The answers of a round are in tests/homework/rounds/1, a file a task. They were written from the
student pages alone, and judged by a reference of their authors before any grader saw them. A round
counts as it was first measured: with --again it is measured with the graders as they are now, and
recorded as that. `--take FOLDER` copies the answers of a round from their authors' files; those
that come later are added, each measured once.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import runpy
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse.homework.grading import find_task, judge
from nmtcourse.homework.task import Task

RESULT = RESULTS / "homework-rounds.json"
ROUNDS = Path(__file__).resolve().parents[1] / "tests" / "homework" / "rounds"
MISLED = ROUNDS / "misled.json"  # by round, the answers whose claimed cause is not what is wrong
OUTDATED = ROUNDS / "outdated.json"  # answers that a later page allows, and why
FIELDS = ("TASK", "NAME", "PRELUDE", "GIVEN", "ANSWERS")


def take(source: Path, folder: Path) -> None:
    """Copy new answers of a round, as data, without their authors' demonstrations."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("t*.py")):
        if (folder / f"{path.stem}.json").exists():
            continue
        found = runpy.run_path(str(path))
        kept = json.dumps({name: found[name] for name in FIELDS}, indent=1, ensure_ascii=False)
        (folder / f"{path.stem}.json").write_text(f"{kept}\n", "utf-8")


def built(page: dict[str, Any], source: str) -> Any:
    """The object that a student's source defines, with the imports and cells of the page."""
    namespace: dict[str, Any] = {"__name__": "answer"}
    for text in (page["PRELUDE"], page["GIVEN"], source):
        exec(compile(text, f"<answer to {page['TASK']}>", "exec"), namespace)
    return namespace[page["NAME"]]


def wrong_answers(tasks: Collection[str] = ()) -> Iterator[tuple[Task, Any]]:
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
                    yield find_task(page["TASK"]), built(page, answer["source"])


def judged(path: Path) -> list[dict[str, Any]]:
    """What the grader says to all answers of a task."""
    page, rows = json.loads(path.read_text("utf-8")), []
    for number, answer in enumerate(page["ANSWERS"]):
        task = find_task(page["TASK"])
        try:
            given = built(page, answer["source"])
        except Exception as error:  # its author's mistake: no answer, and counted as none
            label = "not judged"
            row = {"answer": f"{page['TASK']}/{number}", "label": label, "full": False}
            rows.append({**row, "about": answer["cause"], "measured": f"{type(error).__name__}"})
            continue
        verdict = judge(task, given, seed=0)
        row = {"answer": f"{page['TASK']}/{number}", "label": answer["label"]}
        row |= {"kind": answer["kind"], "about": answer["cause"], "full": verdict.full}
        if not answer.get("stated", True):
            row["stated"] = False
        if verdict.finding is not None:
            row |= {"measured": verdict.finding.measured[:160], "claimed": verdict.finding.cause}
            row["known"] = verdict.finding.cause in task.mistakes
        rows.append(row)
    print(rows[0]["answer"], sum(row["full"] for row in rows), "of", len(rows), flush=True)
    return rows


def summary(rows: list[dict[str, Any]], misled: list[str]) -> dict[str, int]:
    """The counts of a round; wrong answers that break no sentence of the page are apart.

    `misled` are the answers whose claimed cause was read and found to be another than their own.
    """
    right = [row for row in rows if row["label"] == "right"]
    wrong = [row for row in rows if row["label"] == "wrong" and row.get("stated", True)]
    apart = [row for row in rows if row["label"] == "wrong" and not row.get("stated", True)]
    return {
        "not_judged": sum(row["label"] == "not judged" for row in rows),
        "right": len(right),
        "right_refused": sum(not row["full"] for row in right),
        "wrong": len(wrong),
        "wrong_accepted": sum(row["full"] for row in wrong),
        "unstated": len(apart),
        "unstated_accepted": sum(row["full"] for row in apart),
        "causes_claimed": sum(bool(row.get("known")) for row in wrong + apart),
        "causes_misleading": sum(row["answer"] in misled for row in wrong + apart),
    }


def main() -> int:
    options = parser(__doc__)
    options.add_argument("round", type=int)
    options.add_argument("--again", action="store_true", help="with the graders as they are now")
    options.add_argument("--take", type=Path, help="the folder of the round's authors")
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args()
    folder = ROUNDS / str(given.round)
    if given.take:
        take(given.take, folder)
    kept = json.loads(RESULT.read_text("utf-8"))["rounds"] if RESULT.exists() else {}
    name = f"{given.round}{' again' * given.again}"
    rows = [] if given.again or name not in kept else kept[name]["answers"]
    had = {row["answer"].partition("/")[0] for row in rows}
    paths = [p for p in sorted(folder.glob("t*.json")) if p.stem[1:].replace("_", ".") not in had]
    if not paths:
        raise SystemExit(f"round {name} is measured: add --again for the graders as they are now")
    misled = json.loads(MISLED.read_text("utf-8")) if MISLED.exists() else {}
    with ProcessPoolExecutor(given.processes) as pool:
        for each in pool.map(judged, paths):
            rows += each
            kept[name] = {"date": f"{datetime.date.today()}", "answers": rows}
            for number, one in kept.items():
                one["summary"] = summary(one["answers"], misled.get(number, []))
            command = "python benchmarks/homework_rounds.py 1"
            write_result(RESULT, {"command": command, "rounds": kept})
    print(kept[name]["summary"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
