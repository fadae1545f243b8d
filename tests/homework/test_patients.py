"""A patient is personal and truly ill; only a right repair of it alone has full points."""

import ast
from collections import Counter
from dataclasses import replace

import pytest
from nightly import some

from nmtcourse.main import main
from nmtcourse.projects.examining import POINTS, examine
from nmtcourse.projects.patients import BUGS, can_be_flat, patient, planted, write
from nmtlib.model import attention

FULL = sum(POINTS.values())


@pytest.fixture
def treated(tmp_path):
    """A function that writes a patient's file, as text that is changed, and examines it."""

    def treat(text, *changes):
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "patient.py"
        path.write_text(text, "utf-8")
        return examine(path)

    return treat


def named(case):
    """The change that writes the right diagnosis."""
    blanks = ", ".join(['"?"'] * len(case.bugs))
    return f"[{blanks}]", f"[{', '.join(repr(bug.key) for bug in case.bugs)}]"


NAMES = ["UNI\\ursula", "UNI\\", 'x"""', '"', "O'Brien", "\\N", "a\nb\r\0c", "{ann} %s"]


@pytest.mark.slow
@pytest.mark.parametrize("student", some(["anna", "李", "ben", "s-2041"]))
def test_the_right_treatment_has_full_points_and_none_has_none(student, treated):
    case = patient(student)
    assert patient(f" {student} ") == case
    assert treated(case.source()).points == 0
    assert treated(case.source(healthy=True)).points == FULL - POINTS["diagnosis"]
    assert treated(case.source(healthy=True), named(case)).points == FULL


@pytest.mark.slow
@pytest.mark.parametrize("student", some(NAMES))
def test_any_name_makes_a_file_that_runs(student, treated, tmp_path):
    case = patient(student)
    assert ast.get_docstring(ast.parse(case.source())).startswith(f"The patient of {student}: a")
    assert treated(case.source()).points == 0
    assert treated(case.source(healthy=True), named(case)).points == FULL
    assert examine(write(student, tmp_path / "new")).student == student


@pytest.mark.nightly
def test_half_a_cure_is_no_cure(treated):
    case = next(c for c in map(patient, map(str, range(30))) if len(c.bugs) == 2)
    ill = case.source()
    healthy = case.source(healthy=True)
    one = type(case)(case.student, case.bugs[:1], case.config).source()
    half = one.replace('DIAGNOSIS = ["?"]', 'DIAGNOSIS = ["?", "?"]')
    assert ill != half != healthy
    found = treated(half, named(case))
    assert found.points == POINTS["diagnosis"] and "a healthy model has" in str(found)


@pytest.mark.nightly
def test_what_is_changed_and_added_elsewhere_is_seen(treated):
    case = patient("anna")
    found = treated(
        f"{case.source(healthy=True)}\n\nSIZE = 1\nimport os\n\ndef more(ids):\n    return ids\n",
        named(case),
        ("def padding_mask(ids: Tensor, pad: int = 0)", "def padding_mask(ids, pad=0)"),
    )
    assert found.points == FULL - POINTS["nothing else"]
    assert "also changed: SIZE = 1, import os, more, padding_mask" in str(found)
    assert "anna" in str(found)


@pytest.mark.nightly
def test_whoever_borrows_a_healthy_model_has_repaired_nothing(treated):
    case = patient("anna")
    borrowed = "from nmtlib.model import Transformer\nimport nmtlib.run as m, os"
    found = treated(f"{case.source()}\n\n{borrowed}\n", named(case))
    assert found.points == POINTS["diagnosis"] and "imports nmtlib.model, nmtlib.run:" in str(found)


@pytest.mark.nightly
def test_a_wrong_name_costs_the_diagnosis_alone(treated):
    case = patient("ben")
    wrong = ["tying-copies"] * len(case.bugs)
    found = treated(case.source(healthy=True), (named(case)[0], repr(wrong)))
    assert found.points == FULL - POINTS["diagnosis"] and "0 of" in str(found)


@pytest.mark.nightly
def test_names_give_different_patients():
    cases = [patient(f"student {number}") for number in range(12)]
    bugs = Counter(bug.key for case in cases for bug in case.bugs)
    assert len(bugs) >= 5 and max(bugs.values()) <= 6
    assert len({(tuple(b.key for b in case.bugs), case.config) for case in cases}) == len(cases)


def test_every_bug_of_the_model_can_be_planted_in_text():
    flat = [bug for bug in BUGS if can_be_flat(bug)]
    assert len(flat) >= 20
    edit = replace(flat[0].edits[0], where="model.attention:padding_mask", old="no such line")
    with pytest.raises(ValueError, match="expected once"):
        planted(attention, [edit])


@pytest.mark.slow
def test_the_command_line_writes_and_examines(tmp_path, capsys):
    assert main(["homework", "patient", "anna", "--out", str(tmp_path)]) == 0
    assert main(["homework", "patient", "anna", "--out", str(tmp_path)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["homework", "examine", str(tmp_path / "patient.py")]) == 1
    assert "total: 0 of 20" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 +", "SyntaxError"),
        ("x = 1", "STUDENT"),
        ("raise SystemExit", "SystemExit"),
        ("import os\nos._exit(0)", "has ended"),
    ],
)
def test_a_file_that_is_no_patient_is_refused(text, said, treated):
    with pytest.raises(ValueError, match=said):
        treated(text)


def test_bad_names_and_places(tmp_path):
    with pytest.raises(ValueError, match="needs a student"):
        patient(" ")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        examine(tmp_path / "nobody.py")
    assert write("anna", tmp_path / "new").is_file()
