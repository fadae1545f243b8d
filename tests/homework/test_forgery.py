"""What a hostile notebook sends costs its own row alone, and an interrupted class loses nothing."""

import csv
import json
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest
from limits import NO_PROGRESS

from nmtcourse.homework import pages, submissions
from nmtcourse.homework.catalogue import assignments

FOUR = assignments()["04"]
NAME = f"{FOUR.stem}.ipynb"
FORGED = """\
import json, os, psutil, socket
from nmtcourse.homework.marks import Mark
marks = [vars(Mark(f"04.{n + 1}", "x", p, p)) for n, p in enumerate([4.0, 6.0, 8.0, 2.0])]
whole = dict(marks=marks, notices=[], seconds=1.0, choices={}, answers="", language="en")
lines = [*map(json.dumps, DATA), "null"]
text = ("\\n".join(lines) + "\\n").encode()
for process in psutil.Process().parents()[:2]:
    try:
        for number in os.listdir(f"/proc/{process.pid}/fd"):
            place = f"/proc/{process.pid}/fd/{number}"
            if int(number) > 2 and os.readlink(place).startswith(("pipe", "socket")):
                os.write(os.open(place, os.O_WRONLY | os.O_NONBLOCK), text)
    except OSError:
        pass
for number in range(3, 64):
    try:
        socket.socket(fileno=number).sendall(text)
    except OSError:
        pass
"""
DATA = {"whole": "[whole]", "marks": "[dict(mark=mark) for mark in marks]", "odd": "[[], 7, {}]"}


def hand_in(place, first="", kind="solution"):
    """Write a notebook of homework 04 that begins with some code."""
    book = json.loads(pages.notebook(FOUR, kind))
    if first:
        code = next(cell for cell in book["cells"] if cell["cell_type"] == "code")
        book["cells"].insert(1, {**code, "id": "first", "source": first})
    place.mkdir(parents=True)
    (place / NAME).write_text(json.dumps(book), "utf-8")


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="the attack goes through /proc")
def test_what_is_forged_earns_nothing_and_costs_nobody_a_row(tmp_path):
    for name, data in DATA.items():
        hand_in(tmp_path / "class" / name, FORGED.replace("DATA", data), "student")
    hand_in(tmp_path / "class" / "honest")
    rows = dict(submissions.grade_all(tmp_path / "class", jobs=2))
    assert rows["honest"].points == 20
    for name in DATA:
        assert rows[name].points == 0, (name, rows[name])
        assert [m.possible for m in rows[name].marks] == [4, 6, 8, 2]


def table_of(path):
    """The points in a table by student, as texts."""
    found = {}
    for row in csv.DictReader(path.open(encoding="utf-8")):
        found.setdefault(row["student"], []).append((row["points"], row["notices"]))
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_class_that_is_interrupted_has_no_verdict_on_the_rest(tmp_path, number):
    hand_in(tmp_path / "class" / "ann")
    hand_in(tmp_path / "class" / "ben", "import time\ntime.sleep(1000)")
    hand_in(tmp_path / "class" / "cem")
    table = tmp_path / "points.csv"
    command = [sys.executable, "-m", "nmtcourse", "homework", "grade", "class", "--csv", str(table)]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background may not
    grader = subprocess.Popen([*command, "--jobs", "1"], cwd=tmp_path, preexec_fn=heard)
    part = tmp_path / "points.csv.part"
    while grader.poll() is None and not (part.exists() and table_of(part)["ann"][0][0]):
        time.sleep(0.2)
    below = psutil.Process(grader.pid).children(recursive=True)
    while grader.poll() is None:  # Python may lose an interrupt while it starts a process
        grader.send_signal(number)
        time.sleep(5)
    assert below and not psutil.wait_procs(below, timeout=NO_PROGRESS)[1], "a process is left"
    assert not table.exists()
    rows = table_of(part)
    assert [points for points, _ in rows["ann"]] == ["4", "6", "8", "2"]
    for student in ("ben", "cem"):
        assert rows[student] == [("", "not graded yet"), *[("", "")] * 3]
    (tmp_path / "class" / "ben" / NAME).unlink()
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert [points for points, _ in table_of(table)["cem"]] == ["4", "6", "8", "2"]
    assert table_of(table)["ben"] == [("0", "was not submitted"), *[("0", "")] * 3]
    assert not part.exists()


@pytest.mark.slow
def test_a_process_whose_grader_is_gone_before_it_begins_ends():
    with subprocess.Popen([sys.executable, "-c", ""]) as grader:
        grader.wait()
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "nmtcourse.homework.apart", "signal:pause", str(grader.pid)]
    process = subprocess.Popen(command, stdin=theirs.fileno())
    ours.sendall(b"[{}, null]\n")
    assert process.wait(NO_PROGRESS) == 1
