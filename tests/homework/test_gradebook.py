"""What leaves the table of a class: totals after lateness, feedback, Canvas, Moodle, Gradescope."""

import csv
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtcourse.homework import checking, gradebook, submissions, tables
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.homework.reports import COLUMNS, points_rows, points_table, write_reports
from nmtcourse.main import main

DEADLINE = datetime.fromisoformat("2026-12-01T12:00+00:00")
ON_TIME, LATE = "2026-12-01T11:59:00+00:00", "2026-12-02T12:01:00+00:00"


def handed_in(at, *points):
    """A marked notebook with these points, and a verdict of two lines."""
    tasks = assignments()["04"].tasks.values()
    marks = [
        Mark(t.id, t.title, p, t.points, text=f"{t.id}\n  ```=1+1")
        for t, p in zip(tasks, points, strict=True)
    ]
    return Marked(Path("04_attention.ipynb"), "04", marks, submitted=at)


@pytest.fixture
def table(tmp_path):
    """A class of three: one on time, one late, one with a task that could not be graded."""
    graded = [
        ("ann", handed_in(ON_TIME, 4.0, 6.0, 8.0, 2.0)),
        ("ben", handed_in(LATE, 4.0, 3.0, 0.0, 0.0)),
        ("=cem", handed_in(ON_TIME, 4.0, None, 0.0, 0.0)),
    ]
    place = tmp_path / "points.csv"
    place.write_text(points_table(graded), "utf-8")
    return place


ROSTER = "student,id,name,email,extension\nann,7,Ann A.,a@x.org,\nben,8,Ben,b@x.org,\ndi,9,Di,,\n"


def exported(table, *options, roster=ROSTER):
    place = table.with_name("roster.csv")
    place.write_text(roster, "utf-8")
    given = ["--roster", str(place), "--deadline", "2026-12-01T12:00+00:00", "--late", "10"]
    return main(["homework", "export", str(table), *given, *map(str, options)])


def test_each_started_day_costs_its_share_unless_it_is_extended(table):
    rows, terms = tables.read_points(table), tables.Terms(deadline=DEADLINE, late=10)
    for extension, days, points in ((None, 2, 3.0), (1, 1, 5.0), (2, 0, 7.0)):
        roster = {"ben": tables.Known(student="ben", extension=extension)}
        found = {t.student: t for t in gradebook.totals(rows, roster, terms)}
        assert (found["ben"].late, found["ben"].points) == (days, points)
        assert found["ann"].points == 20.0 and found["'=cem"].points is None


def test_canvas_and_moodle_get_a_row_for_each_student_and_a_total(table, tmp_path, capsys):
    canvas, moodle = tmp_path / "canvas.csv", tmp_path / "moodle.csv"
    assert exported(table, "--canvas", canvas, "--moodle", moodle) == 0
    head, most, *rows = csv.reader(canvas.open(encoding="utf-8"))
    assert head == ["Student", "ID", "SIS Login ID", "Section", "04_attention"]
    assert most[0].strip() == "Points Possible" and most[-1] == "20"
    assert [(row[0], row[-1]) for row in rows] == [
        ("'=cem", ""),
        ("Ann A.", "20"),
        ("Ben", "3"),
        ("Di", "0"),
    ]
    rows = [*csv.DictReader(moodle.open(encoding="utf-8"))]
    assert [row["total"] for row in rows] == ["", "20", "3", "0"]
    assert rows[1]["Email address"] == "a@x.org" and rows[1]["ID number"] == "7"
    assert "'=cem is not in" in capsys.readouterr().out


def test_feedback_has_the_verdicts_and_what_the_instructor_has_changed(table, tmp_path):
    rows = gradebook.read_table(table, COLUMNS)
    rows[1] |= {"points": "5.5", "comment": "half a point for *the idea*"}
    table.write_text(gradebook.as_csv([[*COLUMNS], *([*row.values()] for row in rows)]), "utf-8")
    assert exported(table, "--feedback", tmp_path / "out") == 0
    pages = {page.stem: page.read_text("utf-8") for page in (tmp_path / "out").iterdir()}
    assert {*pages} == {"ann", "ben", "di", "'=cem"}
    assert "## 04_attention: 19.5 of 20" in pages["ann"]
    assert r"half a point for \*the idea\*" in pages["ann"]
    assert "```text\n04.2\n  '''=1+1\n```" in pages["ann"]
    assert "Late by 2 days: 20 % of the points" in pages["ben"]
    assert "Not submitted." in pages["di"] and "not graded yet" in pages["'=cem"]


@pytest.mark.parametrize("odd", ["nan", "-1", "six"])
def test_points_that_are_none_are_named(odd, table, capsys):
    table.write_text(table.read_text("utf-8").replace("04.2,6,", f"04.2,{odd},"), "utf-8")
    assert exported(table) == 1
    said = capsys.readouterr().err
    assert f"points.csv, line 3 (ann, 04.2): points must be a number or empty, not '{odd}'" in said


def changed(table, change):
    """The table after a change of its rows, as a hand or a spreadsheet makes one."""
    rows = change(gradebook.read_table(table, COLUMNS))
    table.write_text(gradebook.as_csv([[*COLUMNS], *([*row.values()] for row in rows)]), "utf-8")


def set_in(rows, place, **values):
    rows[place] |= values
    return rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[:-1], "has no row of '=cem for 04.4; put it back"),
        (lambda rows: [*rows, rows[0]], "line 14 (ann, 04.1): a second row of this student"),
        (lambda rows: set_in(rows, 0, points="1e308"), "1e+308 points, but the task has 4"),
        (lambda rows: set_in(rows, 0, points="4.5"), "4.5 points, but the task has 4; correct"),
        (lambda rows: set_in(rows, 0, task="04.9"), "04_attention has no task '04.9'"),
        (lambda rows: set_in(rows, 0, assignment="99_x"), "which this course does not have"),
        (lambda rows: set_in(rows, 0, submitted="yesterday"), "not 'yesterday'"),
        (lambda rows: set_in(rows, 0, student=""), "student"),
    ],
)
def test_a_table_that_nobody_may_trust_is_refused(change, said, table, tmp_path, capsys):
    changed(table, change)
    assert exported(table, "--canvas", tmp_path / "canvas.csv") == 1
    assert said in capsys.readouterr().err and not (tmp_path / "canvas.csv").exists()


def test_possible_points_are_those_of_the_assignment(table, tmp_path):
    changed(table, lambda rows: [row | {"possible": "nan"} for row in rows])
    assert exported(table, "--canvas", tmp_path / "canvas.csv") == 0
    _, most, *_ = csv.reader((tmp_path / "canvas.csv").open(encoding="utf-8"))
    assert most[-1] == "20"


def test_a_bonus_is_allowed_where_it_is_named(table, tmp_path):
    changed(table, lambda rows: set_in(rows, 0, points="5"))
    assert exported(table, "--canvas", tmp_path / "canvas.csv", "--bonus", "1") == 0
    assert ",21\n" in (tmp_path / "canvas.csv").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--late", "nan"], "--late must be a number or empty, not nan"),
        (["--late", "inf"], "--late must be a number or empty, not inf"),
        (["--late", "-5"], "--late must be a number or empty, not -5.0"),
        (["--late", "101"], "--late should be less than or equal to 100, not 101.0"),
        (["--deadline", "tomorrow"], "--deadline must be a time such as 2026-12-01T23:59"),
    ],
)
def test_odd_terms_are_refused(options, said, table, capsys):
    assert main(["homework", "export", str(table), *options]) == 1
    assert said in capsys.readouterr().err


def test_an_extension_that_is_no_number_is_named(table, capsys):
    assert exported(table, roster="student,extension\nann,two\n") == 1
    assert "roster.csv, line 2: extension must be a number or empty, not 'two'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-16", "is in UTF-16; it must be in UTF-8: in Excel"), ("latin-1", "line 2: not UTF-8")],
)
def test_a_table_that_excel_has_saved_is_named_with_what_to_do(encoding, said, table, capsys):
    changed(table, lambda rows: set_in(rows, 0, comment="für Änne"))
    text = table.read_text("utf-8").replace("⏎", "|")
    table.write_bytes(text.encode(encoding))
    assert exported(table) == 1
    assert said in capsys.readouterr().err


def test_semicolons_are_named(table, capsys):
    table.write_text(table.read_text("utf-8").replace(",", ";"), "utf-8")
    assert exported(table) == 1
    assert "divided by semicolons" in capsys.readouterr().err


def test_two_students_do_not_share_a_page(table, tmp_path, capsys):
    changed(table, lambda rows: [row | {"student": f"{row['student']}/b"} for row in rows])
    assert exported(table, "--feedback", tmp_path / "out") == 1
    assert "would share the page b.md" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@given(notice=st.text(), verdict=st.text(), count=st.integers(0, 500), name=st.text(min_size=1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_is_graded_can_be_read_again(notice, verdict, count, name, tmp_path_factory):
    """Any text of a notebook, and any number of notices: export reads what grade has written."""
    marked = handed_in(ON_TIME, 4.0, 6.0, None, 2.0)
    marked.notices = [f"{n} {notice}" for n in range(count)]
    marked.marks = [replace(mark, text=verdict) for mark in marked.marks]
    path = tmp_path_factory.mktemp("class") / "points.csv"
    write_reports([(name, marked)], path)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in points_rows([(name, marked)])]
    assert tables.read_table(path, COLUMNS) == rows
    assert [row.points for row in tables.read_points(path)] == [4, 6, None, 2]


def test_a_long_notice_costs_nobody_a_row(tmp_path):
    """400 cells that fail made a cell of 133 kB in each row, which no reader took."""
    marked = handed_in(ON_TIME, 4.0, 6.0, 8.0, 2.0)
    marked.notices = [f"{n}: {'x' * 1000}" for n in range(400)]
    path = tmp_path / "points.csv"
    write_reports([("ann", marked), ("ben", handed_in(ON_TIME, 4.0, 6.0, 8.0, 2.0))], path)
    assert main(["homework", "export", str(path), "--canvas", str(tmp_path / "canvas.csv")]) == 0
    first, second, *_ = tables.read_table(path)
    assert first["notices"].endswith("and 380 more") and not second["notices"]
    changed(path, lambda rows: set_in(rows, 1, comment="y" * 200_000))
    assert len(tables.read_points(path)) == 8


def test_a_roster_names_each_student_once_in_its_column(table, capsys):
    assert exported(table, roster="name\nAnn\n") == 1
    assert "has no column 'student'; it has name" in capsys.readouterr().err
    assert exported(table, roster="student\nann\nann\n") == 1
    assert "line 3: it names 'ann' twice" in capsys.readouterr().err


def test_the_rows_of_one_student_are_replaced_and_comments_stay(table):
    old = gradebook.read_table(table, COLUMNS)
    old[4]["comment"] = "seen"
    table.write_text(gradebook.as_csv([[*COLUMNS], *([*row.values()] for row in old)]), "utf-8")
    rows = [[*({**row, "points": "1"}).values()] for row in old if row["student"] == "ben"]
    gradebook.replace_rows(table, rows, "ben")
    new = gradebook.read_table(table, COLUMNS)
    assert [row["student"] for row in new] == [row["student"] for row in old]
    assert [row["points"] for row in new[4:8]] == ["1"] * 4 and new[4]["comment"] == "seen"
    assert new[:4] == old[:4] and new[8:] == old[8:]


def test_columns_that_an_instructor_has_added_stay(table):
    rows = gradebook.read_table(table, COLUMNS)
    head = [*COLUMNS, "seen by"]
    table.write_text(gradebook.as_csv([head, *([*row.values(), "me"] for row in rows)]), "utf-8")
    gradebook.replace_rows(table, [[*row.values()] for row in rows[4:8]], "ben")
    assert [row["seen by"] for row in gradebook.read_table(table)] == ["me"] * 12


def test_gradescope_gets_a_test_for_each_task():
    found = json.loads(gradebook.gradescope(handed_in(ON_TIME, 4.0, None, 8.0, 2.0)))
    assert found["score"] == 14.0 and len(found["tests"]) == 4
    assert found["tests"][1] | {"output": ""} == {
        "name": "04.2 Attention with a mask",
        "max_score": 6,
        "output": "",
    }


def test_one_student_is_graded_again_in_the_place_of_the_old_rows(table, tmp_path, monkeypatch):
    asked = []

    def grade_all(folder, *, only):
        asked.append((folder, only))
        return [(only, handed_in(ON_TIME, 4.0, 6.0, 0.0, 0.0))]

    monkeypatch.setattr(submissions, "grade_all", grade_all)
    given = ["homework", "grade", str(tmp_path), "--csv", str(table)]
    assert main([*given, "--student", "ben"]) == 0 and asked == [(tmp_path, "ben")]
    points = [r["points"] for r in gradebook.read_table(table) if r["student"] == "ben"]
    assert points == ["4", "6", "0", "0"]


def test_a_check_writes_what_gradescope_reads(tmp_path, monkeypatch):
    (tmp_path / "04_attention.ipynb").write_text("{}")
    marked = handed_in(ON_TIME, 4.0, 6.0, 8.0, 2.0)
    marked.path, asked = tmp_path / "04_attention.ipynb", []
    monkeypatch.setattr(
        checking, "mark", lambda *given, **how: (asked.append((given, how)), marked)[1]
    )
    out = tmp_path / "results.json"
    given = ["homework", "check", str(marked.path), "--gradescope", str(out)]
    assert main(given) == 0 and json.loads(out.read_text("utf-8"))["score"] == 20.0
    ((arguments, how),) = asked
    assert arguments == (marked.path,) and how["tasks"] == []
