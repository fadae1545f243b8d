"""Whatever some notebooks of a class do, every other row is right, and no process is left.

All attacks are tried by `benchmarks/attacks.py`; here some of them, in one class.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import attacks
import pytest

from nmtcourse.homework import execution, marking, pages, submissions
from nmtcourse.homework.values import Remote
from nmtcourse.homework.wire import Codec, Damaged
from nmtlib.cli import main

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((ROOT / "benchmarks/results/attacks.json").read_text("utf-8"))
FAST = [
    "honest-1",
    "part",
    "forged-judge",
    "evil-objects",
    "deletes-all",
    "deep-file",
    "kills-judge",
]


@pytest.mark.slow
def test_some_attacks_cost_no_other_student_a_row():
    chosen = [student for student in attacks.STUDENTS if student.name in FAST]
    assert len(chosen) == len(FAST)
    assert not attacks.attack(chosen, jobs=2)["faults"]


def test_all_attacks_are_recorded_without_a_fault():
    assert not RECORD["faults"] and RECORD["students"] >= 30
    assert RECORD["names"] == [
        s.name.encode("utf-8", "backslashreplace").decode() for s in attacks.STUDENTS
    ]


def test_a_fault_would_be_seen():
    """The rows are compared with what each student must have."""
    lost = [student for student in attacks.STUDENTS if student.name == "honest-1"]
    wrong = marking.Marked(Path("04_attention.ipynb"), attacks.FOUR)
    assert attacks.faults_of(lost, [("honest-1", wrong)])["honest-1"] == "0 points, expected 20"
    assert attacks.faults_of(lost, [])["honest-1"].startswith("-1 points")


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_children_are_those_that_live():
    """One that has ended, but for which nobody has waited yet, is no process that is left."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert process.pid in execution.children()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid not in execution.children()
    finally:
        process.communicate()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A process that a notebook may have."""
    with execution.Session(tmp_path_factory.mktemp("home")) as started:
        yield started


def value(session, source):
    """What a cell defines as `found`."""
    assert session.run(source, 20) is None
    session.peer.attributes = True
    return session.values(["found"])[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "[1, (2.5, None), {'a': {3}}, b'x', 1j, 2**80, frozenset([1])]",
        "[float('inf'), -0.0, 'ü\\ud800', True, [], ()]",
    ],
)
def test_data_comes_back_as_it_was(session, source):
    assert value(session, f"found = {source}") == eval(source)


@pytest.mark.slow
def test_an_object_cannot_say_that_it_is_what_was_expected(session):
    source = "class Yes:\n    __eq__ = __le__ = lambda self, other: True\nfound = [Yes()]"
    (found,) = value(session, source)
    assert isinstance(found, Remote) and found != 3 and not found == 3
    with pytest.raises(TypeError):
        _ = found <= 3
    session.peer.attributes = False
    with pytest.raises(AttributeError):
        _ = found.anything


@pytest.mark.slow
def test_a_student_cannot_reach_what_the_judge_has(session):
    """A function that the judge hands over is called, but not looked into."""
    reach = value(
        session,
        "def found(f):\n    try:\n        return str(f.__globals__)\n"
        "    except AttributeError:\n        pass\n"
        "    return f._peer.call(f._number, '__globals__', verb='get')",
    )
    mine = []
    with pytest.raises(AttributeError, match="has no __globals__"):
        reach(lambda: mine)


@pytest.mark.parametrize(
    "node",
    [
        {"tensor": 0, "shape": [2], "type": "torch.float32", "grad": False, "leaf": True},
        {"tensor": 5, "shape": [], "type": "torch.float32", "grad": False, "leaf": True},
        {"numpy": 0, "type": "O", "shape": [1], "array": True},
        {"tuple": 3},
        {"code": 0, "names": {}},
        {"unknown": 1},
    ],
)
def test_what_is_no_value_is_refused(node):
    codec = Codec()
    codec.blobs = [b"abc"]
    with pytest.raises((Damaged, RuntimeError, ValueError)):
        codec.decode(node)


def test_a_process_that_does_not_start_is_tried_once_more(tmp_path, monkeypatch):
    started = []

    def start(self):
        started.append(1)
        raise execution.Lost("no memory")

    monkeypatch.setattr(execution.Session, "start", start)
    monkeypatch.setattr(execution.Session, "end", lambda self: None)
    with pytest.raises(RuntimeError, match="no process"):
        execution.Session(tmp_path).__enter__()
    assert len(started) == 2


def installed(place, solutions):
    """A Python with the packages as `pip install` would put them there; its path."""
    source = place / "source"
    ignored = shutil.ignore_patterns("*.pyc", "trained", "recorded", "node_modules")
    for name in ("nmtlib", "nmtcheck", "nmtcourse"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    (source / "notebooks").symlink_to(ROOT / "notebooks")  # the build wants them
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    venv.create(place / "env", with_pip=False, symlinks=True)
    python = place / "env" / "bin" / "python"
    purelib = [*(place / "env" / "lib").glob("python*/site-packages")][0]
    others = [path for path in sys.path if path.endswith("site-packages")]
    (purelib / "others.pth").write_text("\n".join(others))
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(purelib)],
        cwd=source,
        env={**os.environ, "NMTLIB_SOLUTIONS": solutions},
        check=True,
        capture_output=True,
    )
    return python


@pytest.mark.slow
def test_a_strict_run_has_no_solutions_to_borrow(tmp_path, capsys):
    python = installed(tmp_path, "0")
    book = json.loads(pages.notebook(attacks.FOUR, "solution"))
    for cell in book["cells"]:
        if cell["id"] == "answer-04-1":
            cell["source"] = [attacks.BORROWED]
    (tmp_path / "class" / "ann").mkdir(parents=True)
    (tmp_path / "class" / "ann" / attacks.NAME).write_text(json.dumps(book), "utf-8")
    for strict, points in ((None, 20), (python, 14)):
        options = {"python": str(strict)} if strict else {}
        ((_, found),) = submissions.grade_all(tmp_path / "class", 1, **options)
        assert found.points == points
        assert any("masters" in notice for notice in found.notices)
    folder, table = str(tmp_path / "class"), str(tmp_path / "a.csv")
    assert main(["homework", "grade", folder, "--csv", table, "--strict", sys.executable]) == 1
    assert "has the solutions in" in capsys.readouterr().err and not Path(table).exists()
    asked = subprocess.run(
        [python, "-m", "nmtlib", "homework", "start", "04"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 1 and "installed without solutions" in asked.stderr
