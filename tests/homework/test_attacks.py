"""Whatever some notebooks of a class do, every other row is right, and no process is left.

All attacks are tried by `benchmarks/attacks.py`; here some of them, in one class.
"""

import json
from pathlib import Path

import attacks
import pytest

from nmtcourse.homework import marks

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


@pytest.mark.nightly
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
    wrong = marks.Marked(Path("04_attention.ipynb"), "04")
    assert attacks.faults_of(lost, [("honest-1", wrong)])["honest-1"] == "0 points, expected 20"
    assert attacks.faults_of(lost, [])["honest-1"].startswith("-1 points")
