"""How good the graders are on answers that nobody here had seen: one round after the other.

    python benchmarks/homework_rounds.py 1

The answers of a round are in tests/homework/rounds/N, a file a task.  They were written from the
student pages alone, and judged by a reference of their authors before any grader saw them.  A round
counts as it was first measured: the result of a round that is there is not written again, except
with --again, which is recorded as such.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse.homework.grading import find_task, judge

RESULT = RESULTS / "homework-rounds.json"
ROUNDS = Path(__file__).resolve().parents[1] / "tests" / "homework" / "rounds"


def loaded(path: Path) -> ModuleType:
    """A file of answers as a module."""
    spec = importlib.util.spec_from_file_location(f"round_{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(module: ModuleType, source: str) -> Any:
    """The object that a student's source defines, with the imports and cells of the page."""
    namespace: dict[str, Any] = {"__name__": "answer"}
    for text in (module.PRELUDE, module.GIVEN, source):
        exec(compile(text, f"<answer to {module.TASK}>", "exec"), namespace)
    return namespace[module.NAME]


def judged(module: ModuleType, number: int, answer: dict[str, Any]) -> dict[str, Any]:
    """What the grader says to one answer."""
    verdict = judge(find_task(module.TASK), built(module, answer["source"]), seed=0)
    found = verdict.finding
    row = {"answer": f"{module.TASK}/{number}", "label": answer["label"], "kind": answer["kind"]}
    row |= {"stated": answer.get("stated", True), "about": answer["cause"], "full": verdict.full}
    if found is not None:
        row |= {"measured": found.measured[:200], "claimed": found.cause}
    return row


def measured(folder: Path) -> list[dict[str, Any]]:
    """What the grader says to all answers of a round."""
    rows = []
    for path in sorted(folder.glob("t*.py")):
        module = loaded(path)
        for number, answer in enumerate(module.ANSWERS):
            rows.append(judged(module, number, answer))
            print(rows[-1], flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The counts of a round; wrong answers that break no sentence of the page are apart."""
    right = [row for row in rows if row["label"] == "right"]
    wrong = [row for row in rows if row["label"] == "wrong" and row["stated"]]
    apart = [row for row in rows if row["label"] == "wrong" and not row["stated"]]
    claimed = [row for row in wrong + apart if row.get("claimed")]
    return {
        "right": len(right),
        "right_refused": sum(not row["full"] for row in right),
        "wrong": len(wrong),
        "wrong_accepted": sum(row["full"] for row in wrong),
        "unstated": len(apart),
        "unstated_accepted": sum(row["full"] for row in apart),
        "causes_claimed": len(claimed),
        "causes_right": sum(row.get("cause_right") is True for row in claimed),
    }


def main() -> int:
    options = parser(__doc__)
    options.add_argument("round", type=int)
    options.add_argument(
        "--again", action="store_true", help="measure a round after the graders changed"
    )
    given = options.parse_args()
    kept = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {"rounds": {}}
    name = f"{given.round}{' again' * given.again}"
    if name in kept["rounds"] and not given.again:
        raise SystemExit(f"round {name} is measured; use --again for the graders as they are now")
    rows = measured(ROUNDS / str(given.round))
    kept["rounds"][name] = {"summary": summary(rows), "answers": rows}
    command = "python benchmarks/homework_rounds.py 1"
    write_result(RESULT, {"command": command, "rounds": kept["rounds"]})
    print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
