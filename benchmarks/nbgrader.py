"""Do nbgrader's points agree with those of `nmtlib homework grade`?  Six ways to hand in.

    python benchmarks/nbgrader.py --nbgrader ENVIRONMENT/bin/nbgrader --seed 7

nbgrader lives in an environment of its own, in which nmtlib is installed, too.  The script runs
generate_assignment, validate, autograde and export on a copy of notebooks/homework/nbgrader, and
writes results/nbgrader.json.  Exit status 1 where anything disagrees.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse.homework.grading import SEED, assignments
from nmtcourse.homework.marking import mark
from nmtcourse.homework.pages import notebook
from nmtcourse.homework.task import Assignment
from nmtlib.training.hardware import command_line

COURSE = Path(__file__).resolve().parents[1] / "notebooks" / "homework" / "nbgrader"
STUDENT = "04"  # the assignment that is handed in; all are generated
Cells = dict[str, dict[str, Any]]


def write(cells: Cells, id: str, *lines: str) -> None:
    """Replace the source of a cell."""
    cells[id]["source"] = "\n".join(lines)


def right(cells: Cells) -> None:
    """The solution, with a warning and a word on stderr in an answer."""
    answer = "".join(cells["answer-04-1"]["source"])
    noise = "    import sys, warnings\n    warnings.warn('old')\n    print('hm', file=sys.stderr)\n"
    write(cells, "answer-04-1", answer.replace("    powers =", f"{noise}    powers ="))


def overflow(cells: Cells) -> None:
    """A softmax that overflows: a part of the points."""
    powers = "scores.exp() / scores.exp().sum(-1, keepdim=True)"
    write(cells, "answer-04-1", "def stable_softmax(scores):", f"    return {powers}")


def wrong(cells: Cells) -> None:
    """A function that returns what it is given."""
    write(cells, "answer-04-2", "def masked_attention(query, *others):", "    return query")


def edited(cells: Cells) -> None:
    """One check edited, another deleted, a `grade` of one's own, and a task that is wrong."""
    write(cells, "check-04-1", "100.0")
    wrong(cells)
    write(cells, "imports", "import math, torch", "from torch import Tensor", "hint = print")
    cells["imports"]["source"] += "\ndef grade(*answers):\n    return 100.0"
    del cells["check-04-3"]


def endless(cells: Cells) -> None:
    """A loop without an end in one answer, and one in the cell of another."""
    write(cells, "answer-04-1", "def stable_softmax(scores):", "    while True:", "        pass")
    write(cells, "answer-04-3", "while True:", "    pass")


def untouched(cells: Cells) -> None:
    """The page as it was handed out."""


HANDED_IN: dict[str, tuple[str, Callable[[Cells], None]]] = {
    "right": ("solution", right),
    "overflow": ("solution", overflow),
    "wrong": ("solution", wrong),
    "edited": ("solution", edited),
    "endless": ("solution", endless),
    "untouched": ("student", untouched),
}


def hand_in(released: Path, kind: str, change: Callable[[Cells], None], place: Path) -> None:
    """The notebook that was released, with the answers of a kind, changed."""
    book = json.loads(released.read_text("utf-8"))
    made = json.loads(notebook(assignments()[STUDENT], kind))
    answers = {cell["id"]: cell["source"] for cell in made["cells"]}
    cells: Cells = {cell["id"]: cell for cell in book["cells"]}
    for id, cell in cells.items():
        if id.startswith("answer-"):
            cell["source"] = answers[id]
    change(cells)
    book["cells"] = [*cells.values()]
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(book), "utf-8")


def same_cells(assignment: Assignment, released: Path) -> bool:
    """Whether nbgrader has made just the student's notebook of a source, cell for cell."""

    def cells(text: str) -> list[tuple[str, str, str]]:
        found = json.loads(text)["cells"]
        return [(c["id"], c["cell_type"], "".join(c["source"])) for c in found]

    return cells(released.read_text("utf-8")) == cells(notebook(assignment))


def by_nbgrader(exported: Path, assignment: Assignment) -> dict[str, float]:
    """Points of each student in an assignment, from the file that nbgrader exports."""
    with open(exported, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] == assignment.slug]
    return {row["student_id"]: float(row["score"]) for row in rows}


def by_cell(autograded: Path) -> dict[str, float]:
    """Points of each task: what its check cell returned."""
    found: dict[str, float] = {}
    for cell in json.loads(autograded.read_text("utf-8"))["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade"):
            outputs = [o for o in cell["outputs"] if o["output_type"] == "execute_result"]
            task = about["grade_id"].removeprefix("check-").replace("-", ".")
            said = "".join(outputs[0]["data"]["text/plain"]) if outputs else "0"
            found[task] = float(said)
    return found


def both_marks(course: Path, submitted: Path, seed: int) -> dict[str, list[float]]:
    """Points of each task of a submission: nbgrader's, then those of `nmtlib homework grade`."""
    theirs = by_cell(course / "autograded" / submitted.relative_to(course / "submitted"))
    marks = mark(submitted, seed).marks
    return {found.task: [theirs[found.task], float(found.points)] for found in marks}


def validated(run: Callable[..., str], paths: Iterable[Path]) -> dict[str, bool]:
    """Whether `nbgrader validate` is content with each notebook."""
    return {path.parents[1].name: "Success!" in run("validate", str(path)) for path in paths}


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--nbgrader", default=shutil.which("nbgrader"), metavar="PROGRAM")
    made.add_argument("--seed", type=int, default=7)
    made.add_argument("--generate", nargs="+", default=list(assignments()), metavar="NUMBER")
    options = made.parse_args()
    if not options.nbgrader:
        made.error("nbgrader is not on the path: name it with --nbgrader")
    with tempfile.TemporaryDirectory() as scratch:
        course = Path(scratch, "course")
        shutil.copytree(COURSE, course)
        generated = [assignments()[n] for n in sorted({*options.generate, STUDENT})]
        result = compare(course, options.nbgrader, options.seed, generated)
    write_result(RESULTS / "nbgrader.json", result)
    print(json.dumps(result, indent=1))
    return 0 if result["agrees"] else 1


def compare(course: Path, program: str, seed: int, generated: list[Assignment]) -> dict[str, Any]:
    """Both graders over the same submissions with the same seed."""
    path = f"{Path(program).absolute().parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {SEED: str(seed), "PATH": path}  # nbgrader calls alembic by name

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], cwd=course, env=environment, text=True, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"nbgrader {' '.join(arguments)}:\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr

    version = re.findall(r"\d+(?:\.\d+)+", run("--version"))[-1]
    same = {}
    for assignment in generated:
        run("generate_assignment", assignment.slug)
        released = course / "release" / assignment.slug / f"{assignment.stem}.ipynb"
        same[assignment.number] = same_cells(assignment, released)
    four = assignments()[STUDENT]
    inside = Path(four.slug, f"{four.stem}.ipynb")
    paths = [course / "submitted" / student / inside for student in HANDED_IN]
    for path, (kind, change) in zip(paths, HANDED_IN.values(), strict=True):
        hand_in(course / "release" / inside, kind, change, path)
    content = validated(run, (p for p in paths if p.parents[1].name in ("right", "untouched")))
    run("autograde", four.slug)
    run("export", "--to", "points.csv")
    totals = by_nbgrader(course / "points.csv", four)
    tasks = {path.parents[1].name: both_marks(course, path, seed) for path in paths}
    equal = all(one == other for row in tasks.values() for one, other in row.values())
    summed = all(totals[s] == sum(one for one, _ in row.values()) for s, row in tasks.items())
    return {
        "command": f"python benchmarks/{command_line()}",
        "nbgrader": version,
        "student_notebooks_equal": same,
        "validate_is_content": content,
        "points": {"columns": ["nbgrader", "nmtlib homework grade"], "students": tasks},
        "exported_totals": {student: totals[student] for student in tasks},
        "agrees": equal and summed and all(same.values()) and content["right"],
    }


if __name__ == "__main__":
    sys.exit(main())
