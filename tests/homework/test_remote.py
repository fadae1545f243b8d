"""Points are for what an answer did elsewhere: data, judged where no answer runs."""

import json
import subprocess
import sys
from pathlib import Path

import forgeries
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some

from nmtcourse.homework import checking, masters, pages, submissions, transcript
from nmtcourse.homework.answering import page_of, without_solutions
from nmtcourse.homework.catalogue import assignments, find_task
from nmtcourse.homework.compare import Finding, Forged
from nmtcourse.homework.grading import judge
from nmtcourse.homework.laws import Call, methods_of, snapshot, snapshots_equal
from nmtcourse.homework.task import SOLUTION
from nmtcourse.homework.transcript import (
    decode,
    decode_calls,
    decode_finding,
    encode,
    encode_calls,
    encode_finding,
)

FOUR = assignments()["04"]
TASKS = [task for each in assignments().values() for task in each.tasks.values()]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")


def notebook(folder, sources, kind="student", number="04"):
    """The path of a notebook with other sources in some of its cells, by their ids."""
    assignment = assignments()[number]
    book = json.loads(pages.notebook(assignment, kind))
    for cell in book["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{assignment.stem}.ipynb"
    path.write_text(json.dumps(book), "utf-8")
    return path


def mark_of(folder, source, id="04.1"):
    """The mark of a notebook with a source in the cell of one task."""
    number, _, place = id.partition(".")
    path = notebook(folder, {f"answer-{number}-{place}": source}, number=number)
    marked = checking.mark(path, tasks=[id])
    return next(mark for mark in marked.marks if mark.task == id)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", some(assignments().values()), ids=lambda a: a.number)
def test_solutions_have_all_points_by_what_they_send(assignment, tmp_path):
    marked = checking.mark(notebook(tmp_path, {}, "solution", assignment.number))
    assert marked.points == assignment.points, marked


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("id", "about"), [(task.id, about) for task in TASKS for about in task.mistakes]
)
def test_the_verdict_on_a_known_mistake_is_that_of_the_notebook(id, about, tmp_path):
    """The same points and the same cause, wherever the answer runs."""
    task = find_task(id)
    mark = mark_of(tmp_path, task.edited(task.mistakes[about]), id)
    verdict = judge(task, task.wrong[about])
    assert (mark.points, mark.cause) == (verdict.points, about)


@pytest.mark.parametrize("error", [KeyError("a"), KeyError(5), ValueError("a"), KeyError()])
def test_an_exception_from_elsewhere_says_the_same(error):
    sent = transcript.decode_exception(transcript.encode_exception(error))
    assert (type(sent), str(sent)) == (type(error), str(error))


@pytest.mark.parametrize("how", some(forgeries.ALL))
def test_a_forgery_has_no_points(how, tmp_path):
    assert mark_of(tmp_path, forgeries.ALL[how]).points == 0


def test_a_report_from_elsewhere_shows_calls_and_lines(tmp_path):
    """What is asked for only when a fault is reported."""
    wrong = find_task("04.1").edited([("scores.amax(dim=-1, keepdim=True)", "scores.max()")])
    mark = mark_of(tmp_path, wrong)
    assert 0 < mark.points < 4 and mark.cause.startswith("The maximum of the whole tensor")
    assert "paste these lines to see it:\n    scores = torch.tensor(" in mark.text
    assert mark.text.splitlines()[-1].startswith("    stable_softmax(scores)")


@pytest.mark.nightly
def test_an_object_that_calls_itself_equal_is_none_of_the_numbers(tmp_path):
    source = forgeries.AN_OBJECT.replace("def stable_softmax(scores)", "def leaks(*given)")
    assert mark_of(tmp_path, source, "06.2").points == 0


@pytest.mark.nightly
def test_a_function_in_the_place_of_a_class_is_judged(tmp_path):
    source = find_task("07.1").solution_source.replace("class Residual", "class Inner")
    source += "\ndef Residual(d_model, dropout, norm):\n    return Inner(d_model, dropout, norm)\n"
    assert mark_of(tmp_path, source, "07.1").points == 4


@pytest.mark.slow
def test_an_error_is_told_with_its_line_also_by_a_check_of_its_own(tmp_path):
    """Such a check is run here, where the line is not."""
    source = "def hide_future(*given, **more):\n    x = 1\n    return x + None"
    mark = mark_of(tmp_path, source.replace("hide_future", find_task("05.1").name), "05.1")
    assert mark.points == 0 and f"in line 3 of {find_task('05.1').name}" in mark.measured


FORGER = """\
import gc
for found in gc.get_objects():
    if type(found) is dict and "judge_answer" in found:
        full = type("Verdict", (), dict(full=True, begun=True, finding=None))
        found["judge_answer"] = lambda answer: full
"""


@pytest.mark.nightly
def test_a_class_of_forgers_gets_nothing(tmp_path):
    chosen = {name: forgeries.ALL[name] for name in ("frames", "the socket")}
    chosen["judge"] = FORGER + "def stable_softmax(scores):\n    return scores"
    for name, source in chosen.items():
        notebook(tmp_path / name, {"answer-04-1": source})
    notebook(tmp_path / "honest", {}, "solution")
    rows = dict(submissions.grade_all(tmp_path, jobs=2))
    assert rows["honest"].points == 20 and not rows["honest"].notices
    assert [rows[name].points for name in chosen] == [0, 0, 0]


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.floats(width=32), max_size=5).map(torch.tensor),
    st.sampled_from(
        [
            torch.zeros(2, 0, 3),
            torch.ones(1, 2)[..., ::2],
            torch.tensor(True),
            torch.ones(2, dtype=torch.half),
        ]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.integers(), st.text()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.one_of(VALUES, st.sets(st.integers(), max_size=4)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_data_comes_back_as_they_were(value):
    """Through JSON: the same types, numbers bit for bit, and NaN as NaN."""
    found = decode(json.loads(json.dumps(encode(value))))
    assert type(found) is type(value)
    if isinstance(value, set):
        assert found == value
    else:
        shown = repr(snapshot(value)).encode("utf-8", "backslashreplace").decode()
        assert repr(snapshot(found)) == shown


@pytest.mark.parametrize(
    "data",
    [
        {"tensor": ["float32", [2**40], False, ""]},
        {"tensor": ["float32", [3], False, "eJxjYAAAAAEAAQ=="]},
        {"tensor": ["float32", [-1], False, "eJxjYAAAAAEAAQ=="]},
        {"tensor": ["object", [1], False, "eJxjYAAAAAEAAQ=="]},
        {"module": {"class": "os.system"}},
        {"call": ["os.system", "true"]},
        {"dict": [[[], 1]]},
        {},
    ],
)
def test_other_data_are_refused(data):
    with pytest.raises(Forged, match="something else than an answer"):
        decode(data)


def test_a_module_comes_back_with_its_parts():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    module.append(module[0])  # a layer that is used twice
    module[1].register_buffer("unsaved", torch.ones(2), persistent=False)
    found = decode(json.loads(json.dumps(encode(module))))
    assert snapshots_equal(snapshot(module.state_dict()), snapshot(found.state_dict()))
    assert len([*found.parameters()]) == 4 and not found.training
    assert [*dict(found.named_buffers())] == [*dict(module.named_buffers())]


@pytest.mark.parametrize("assignment", assignments().values(), ids=lambda each: each.number)
def test_a_master_without_solutions_has_the_same_tasks_and_none_solved(assignment):
    source = Path(assignment.tasks[f"{assignment.number}.1"].namespace["__file__"]).read_text()
    blank = without_solutions(source)
    solved = [line.strip() for part in SOLUTION.finditer(source) for line in part[0].splitlines()]
    left = {line.strip() for line in blank.splitlines()}
    telling = [line for line in solved if len(line) > 30 and "###" not in line]
    assert telling and sum(line in left for line in telling) <= 2  # two stand in a check as well
    tasks = page_of(blank).tasks
    for id, task in assignment.tasks.items():
        assert not tasks[id].mistakes and len(tasks[id].properties) == len(task.properties)
        assert methods_of(tasks[id].solution) == methods_of(task.solution)


HIDDEN = """\
import pathlib, sys
from nmtcourse.homework.walls import hide
folder = pathlib.Path(sys.argv[1])
if not hide(folder / "hidden"):
    print("no walls here")
    sys.exit()
print((folder / "open.txt").read_text())
try:
    print((folder / "hidden" / "secret.txt").read_text())
except PermissionError:
    print("not allowed")
"""


@LINUX
def test_what_is_hidden_cannot_be_read(tmp_path):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "secret.txt").write_text("secret")
    (tmp_path / "open.txt").write_text("open")
    (tmp_path / "link").symlink_to(tmp_path)
    command = [sys.executable, "-c", HIDDEN, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said in ("open\nnot allowed\n", "no walls here\n")


@LINUX
def test_an_answer_cannot_read_the_masters(tmp_path):
    """Where the system has walls, which this test skips without."""
    place = Path(masters.__path__[0]) / "a04_attention.py"
    source = f"import pathlib\nstable_softmax = pathlib.Path({str(place)!r}).read_text()"
    marked = checking.mark(notebook(tmp_path, {"answer-04-1": source}), tasks=["04.1"])
    if not any("Permission" in notice for notice in marked.notices):
        pytest.skip("this system has no Landlock")
    assert "Permission denied" in " ".join(marked.notices)


def test_findings_and_calls_come_back_as_they_were():
    finding = Finding("for n = 1: 2", "3", "a cause")
    finding.given, finding.usual = "for n = 1: ", "advice"
    found = decode_finding(json.loads(json.dumps(encode_finding(finding))))
    assert vars(found) | {"shown": None} == vars(finding) | {"shown": None}
    owner = object()
    calls = [
        Call("__init__", owner, {"n": 1}, 1, 0),
        Call("update", owner, {"x": [2.5]}, 1, 1, value=True),
        Call("call", None, {}, 2, 0, raised="ValueError: no"),
    ]
    found = decode_calls(json.loads(json.dumps(encode_calls(calls))))
    assert len(found) == 3 and found[0].owner is found[1].owner is not found[2].owner
    for call, other in zip(calls, found, strict=True):
        assert vars(call) | {"owner": 0} == vars(other) | {"owner": 0}
    for data in ([7], [{}], 3, [{"name": "x"}]):
        with pytest.raises(Forged):
            decode_calls(data)
    with pytest.raises(Forged):
        decode_finding({"measured": 3})


@pytest.mark.slow
def test_a_result_that_cannot_be_sent_is_wrong_and_ends_nothing(tmp_path):
    source = "import torch\ndef stable_softmax(scores):\n    return torch.zeros(2**26)"
    mark = mark_of(tmp_path, source)
    assert mark.points == 0 and "a result that cannot be sent: a tensor of" in mark.measured
