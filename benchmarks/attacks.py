"""Does a class keep its grades whatever some of its notebooks do?  Thirty students, many hostile.

    python benchmarks/attacks.py

Honest students hand in right, partly right and empty notebooks of homework 04; the others attack:
the grader, the files, the process, the reports.  Each honest row must be what that notebook gets
alone, each attacker may have no points that the answers do not earn, and all reports must be
written.  Writes results/attacks.json.  Exit status 1 where anything fails.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from shared import RESULTS, parser, write_result

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.grading import judge
from nmtcourse.homework.pages import notebook
from nmtcourse.homework.reports import write_reports
from nmtcourse.homework.submissions import grade_all
from nmtcourse.provenance import command_line

FOUR = assignments()["04"]
NAME = f"{FOUR.stem}.ipynb"
FULL = FOUR.points
MARK = "NMTLIB-ATTACK"  # in the files that an attack leaves

CLOSED = "import os, sys\nsys.stdout = None\nos.close(1)\nos.close(2)"
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,)).start()"
OVERFLOW = """\
def stable_softmax(scores):
    return scores.exp() / scores.exp().sum(-1, keepdim=True)
"""
FORGED_JUDGE = """\
import sys, types
import nmtcourse.homework as h
for name in ("judge", "grade", "find_task"):
    setattr(h, name, lambda *a, **k: 100.0)
for module in [m for n, m in sys.modules.items() if n.startswith("nmtcourse.homework")]:
    for name in ("same", "holds", "shaped", "outcome", "judge", "Careful", "within"):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: None)
import torch
torch.equal = torch.allclose = lambda *a, **k: True
from IPython.display import display
display({"application/vnd.nmtlib.verdict+json": {"points": 100.0, "text": "full"}}, raw=True)
"""
FORGED_REPLY = """\
import os
for number in range(3, 64):
    try:
        os.write(number, b'{"mark": {"task": "04.1", "points": 100.0, "possible": 100.0}}\\n' * 50)
    except OSError:
        pass
"""
EVIL = """\
class Yes:
    def __getattr__(self, name):
        return Yes()
    def __call__(self, *given):
        return Yes()
    for name in ("eq", "le", "lt", "ge", "gt", "add", "sub", "mul", "truediv", "getitem"):
        locals()[f"__{name}__"] = lambda self, *other: Yes()
    __bool__ = __contains__ = lambda self, *other: True
    __float__ = lambda self: 0.0
    __int__ = __len__ = __index__ = lambda self: 0
    __iter__ = lambda self: iter([])
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
def stable_softmax(*given): return Yes()
masked_attention = causal_self_attention = stable_softmax
choice_04 = Yes()
"""
CHILD = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.2)
            open({place!r}, "a").write("alive ")
    os._exit(0)
"""
LOST = """\
import os, pathlib, shutil
for place in [pathlib.Path.cwd(), pathlib.Path({folder!r})]:
    shutil.rmtree(place, ignore_errors=True)
"""
COPIES = """\
import pathlib
text = {solution!r}
for place in [pathlib.Path.cwd(), pathlib.Path({folder!r}) / "twin", pathlib.Path({folder!r})]:
    place.mkdir(exist_ok=True)
    for number in range(9):
        (place / f"04_attention-Copy{{number}}.ipynb").write_text(text)
    (place / "04_attention.ipynb").write_text(text)
"""
STUBBORN = """\
import signal, time
signal.signal(signal.SIGALRM, signal.SIG_IGN)
while True:
    try:
        time.sleep(9)
    except BaseException:
        pass
"""
FILL = """\
files = []
for number in range(3):
    file = open(f"big{number}", "wb")
    files.append(file)
    while True:
        file.write(bytes(2**24))
"""
NOISE = """\
import os, threading
def write():
    while True:
        for number in range(3, 20):
            try:
                os.write(number, os.urandom(4096))
            except OSError:
                pass
threading.Thread(target=write, daemon=True).start()
"""
DEEP_ANSWER = """\
def stable_softmax(scores):
    nested = []
    for _ in range(100_000):
        nested = [nested]
    return nested
"""
LARGE = "def stable_softmax(scores):\n    import torch\n    return torch.zeros(2**26)"
BROKEN = "import builtins\nbuiltins.isinstance = lambda *given: True\nbuiltins.len = None"
BORROWED = """\
from nmtcourse.homework.masters.a04_attention import stable_softmax
"""


@dataclass(frozen=True)
class Student:
    """What a student hands in: a kind of notebook, code that is put in, and what must come of it.

    `first` runs before the answers, `last` behind them; both know {folder}, {place} and
    {solution}.  `most` are the points that the answers earn, and `exact` whether they must be had.
    """

    name: str
    kind: str = "student"
    first: str = ""
    last: str = ""
    most: float = 0.0
    exact: bool = True
    notice: str = ""
    files: Callable[[Path], None] | None = None
    slow: bool = True  # left out of the tests


def shadow(folder: Path) -> None:
    """Files that Python or IPython would load at the start, from a folder or a home."""
    code = f"import os; open(os.path.join({str(folder.parent)!r}, '{MARK}'), 'w').close()"
    for name in ("sitecustomize", "usercustomize", "torch", "json", "nmtcourse", "readline"):
        (folder / f"{name}.py").write_text(code)
    startup = folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text(code)


def nested(folder: Path) -> None:
    """A notebook that is one deep list."""
    (folder / NAME).write_text("[" * 200_000)


def heavy(folder: Path) -> None:
    """A notebook with an output of 300 MB."""
    book = json.loads(notebook(FOUR, "solution"))
    output = {"output_type": "stream", "name": "stdout", "text": "x" * 300_000_000}
    code = next(cell for cell in book["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [output]
    (folder / NAME).write_text(json.dumps(book))


def linked(folder: Path) -> None:
    """A link to another student's notebook."""
    (folder / NAME).unlink()
    (folder / NAME).symlink_to(folder.parent / "honest-1" / NAME)


def renamed(folder: Path) -> None:
    """A right notebook under another name, and an archive."""
    (folder / NAME).rename(folder / "attention final.ipynb")
    (folder / "homework.zip").write_bytes(b"PK")


def pipe(folder: Path) -> None:
    """A pipe that nobody writes to, in the place of the notebook, and one beside it."""
    (folder / NAME).unlink()
    os.mkfifo(folder / NAME)
    os.mkfifo(folder / "helper.py")


EXIT = "import os\ndef stable_softmax(scores):\n    os._exit(0)"
KILL = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"
STOP = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"
READ = "import pathlib\n(pathlib.Path({folder!r}) / 'honest-1' / '04_attention.ipynb').read_text()"
SECRET = "import os\nassert not any('SEED' in name for name in os.environ)\n"
STUDENTS = [
    *(Student(f"honest-{n}", "solution", most=FULL, slow=n > 1) for n in range(1, 4)),
    Student("part", "solution", last=OVERFLOW, most=-1, slow=False),
    Student("empty", notice="", slow=False),
    Student("forged-judge", first=FORGED_JUDGE, last=FORGED_JUDGE, slow=False),
    Student("forged-reply", first=FORGED_REPLY, last=FORGED_REPLY, notice="graded|ended"),
    Student("evil-objects", last=EVIL, slow=False),
    # its own folder is gone, so its points cannot be confirmed; other rows must be right
    Student("deletes-all", "solution", first=LOST, most=FULL, exact=False, slow=False),
    Student("copies-itself", first=COPIES, slow=False),
    Student("child", "solution", first=CHILD, most=FULL, slow=False),
    Student("closed", "solution", first=CLOSED, most=FULL),
    Student("startup", "solution", files=shadow, most=FULL, slow=False),
    Student("deep-file", files=nested, notice="is not a notebook", slow=False),
    Student("deep-answer", last=DEEP_ANSWER),
    Student("large-file", files=heavy, notice="MiB, and at most"),
    Student("large-output", "solution", first="print('x' * 300_000_000)", most=FULL),
    Student("full-disk", "solution", first=FILL, most=FULL, notice="OSError"),
    Student("=cmd|'-C calc'!A0", "solution", most=FULL, slow=False),
    Student("new\nline | pipe `code` <b>", "solution", most=FULL),
    Student(os.fsdecode(b"caf\xe9"), "solution", most=FULL),
    Student("kills-judge", "solution", last=KILL, most=FULL, exact=False, notice="was ended"),
    Student("stops-itself", "solution", last=STOP, most=FULL, notice="waited for 2 minutes"),
    Student("stubborn", "solution", last=STUBBORN, most=FULL, notice="waited for 2 minutes"),
    Student("exit-in-answer", "solution", last=EXIT, most=FULL - 6, slow=False),
    Student("noise", last=NOISE, exact=False),
    Student("large-answer", last=LARGE),
    Student("broken-builtins", last=BROKEN, exact=False),
    Student("link", files=linked, notice="a link to another place", slow=False),
    Student("renamed", "solution", files=renamed, notice="rename it to 04", slow=False),
    Student("pipe", files=pipe),
    Student("borrows", last=BORROWED, notice="masters", slow=False),
    Student("reads-another", "solution", last=READ, most=FULL),
    Student("looks-for-seed", "solution", first=SECRET, most=FULL),
    Student("ends-often", "solution", last="import os\nos._exit(3)", most=FULL, notice="ended"),
    Student("memory", "solution", last="bytearray(2**36)", most=FULL, notice="MemoryError"),
    Student("threads", "solution", last=THREAD, most=FULL),
]


def hand_in(student: Student, folder: Path, place: Path) -> None:
    """Write what a student hands in."""
    own = folder / student.name
    own.mkdir(parents=True)
    solution = notebook(FOUR, "solution")
    book = json.loads(notebook(FOUR, student.kind))
    known = {"folder": str(folder), "place": str(place), "solution": solution}

    def cell(id: str, source: str) -> dict[str, Any]:
        for name, value in known.items():
            source = source.replace(f"{{{name}!r}}", repr(value))
        source = source.replace("{{", "{").replace("}}", "}") if "{{" in source else source
        return {"cell_type": "code", "id": id, "metadata": {}, "outputs": [], "source": source} | {
            "execution_count": None
        }

    if student.first:
        book["cells"].insert(1, cell("first", student.first))
    if student.last:
        where = next(n for n, c in enumerate(book["cells"]) if c["id"] == "check-04-1")
        book["cells"].insert(where, cell("last", student.last))
    (own / NAME).write_text(json.dumps(book), "utf-8")
    if student.files:
        student.files(own)


def judged(student: Student, points: float, notices: str, partly: float) -> str:
    """What is wrong with a student's row, or ''."""
    most = partly if student.most < 0 else student.most
    if points > most or student.exact and points != most and not student.notice.startswith("could"):
        return f"{points:g} points, expected {most:g}"
    if not any(part in notices for part in student.notice.split("|")):
        return f"the notices have no {student.notice!r}: {notices[:200]!r}"
    return ""


def attack(students: list[Student], jobs: int) -> dict[str, Any]:
    """Grade a class, and say what is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, place = Path(scratch, "class"), Path(scratch, "alive")
        for student in students:
            hand_in(student, folder, place)
        started, spent = time.monotonic(), cpu()
        said: list[str] = []
        graded = grade_all(folder, said.append, jobs=jobs)
        seconds, used = time.monotonic() - started, cpu() - spent
        table = Path(scratch, "points.csv")
        written = [path.suffix for path in write_reports(graded, table)]
        time.sleep(1)
        size = place.stat().st_size if place.exists() else 0
        time.sleep(1)
        alive = place.exists() and place.stat().st_size > size
        faults = {s: why for s, why in faults_of(students, graded).items() if why}
        rows = list(csv.DictReader(table.open(encoding="utf-8")))
        if len(rows) != len(FOUR.tasks) * len(students):
            faults["table"] = f"{len(rows)} rows"
        if any(value.startswith(("=", "+", "-", "@")) for row in rows for value in row.values()):
            faults["table"] = "a value that a spreadsheet computes"
        lines = table.with_suffix(".md").read_text("utf-8").splitlines()
        if any(line.startswith("line |") for line in lines):
            faults["page"] = "a name breaks a line"
        if alive or psutil.Process().children(recursive=True):
            faults["processes"] = "a process is left"
        if list(Path(scratch).rglob(MARK)):
            faults["startup"] = "a file of a student was loaded at the start"
    return {
        "students": len(students),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used, 1),
        "written": written,
        "faults": faults,
    }


def faults_of(students: list[Student], graded: list) -> dict[str, str]:
    """What is wrong with the row of each student."""
    rows = {name: (marked.points, "; ".join(marked.notices)) for name, marked in graded}
    task = FOUR.tasks["04.1"]
    partly = FULL - 4 + judge(task, task.build(OVERFLOW)).points
    return {
        student.name.encode("utf-8", "backslashreplace").decode(): judged(
            student, *rows.get(student.name, (-1.0, "no row")), partly
        )
        for student in students
    }


def cpu() -> float:
    """The CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--only", nargs="+", metavar="NAME")
    options = made.parse_args()
    chosen = [s for s in STUDENTS if not options.only or s.name in options.only]
    result = {"command": f"python benchmarks/{command_line()}", **attack(chosen, options.jobs)}
    result["names"] = [s.name.encode("utf-8", "backslashreplace").decode() for s in chosen]
    if not options.only:
        write_result(RESULTS / "attacks.json", result)
    print(json.dumps(result, indent=1))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
