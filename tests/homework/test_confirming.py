"""Points are confirmed by what an answer did elsewhere: data, judged where no answer runs."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import forgeries
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some

from nmtcourse.homework import masters, pages, submissions
from nmtcourse.homework.answering import page_of, without_solutions
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.compare import Forged
from nmtcourse.homework.confirming import Confirmation, answering, points_alone
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import methods_of, snapshot, snapshots_equal
from nmtcourse.homework.limits import undisturbed
from nmtcourse.homework.task import SOLUTION
from nmtcourse.homework.transcript import decode, encode
from nmtcourse.homework.trials import try_answer

FOUR = assignments()["04"]
NAME = f"{FOUR.stem}.ipynb"
TASKS = [task for assignment in assignments().values() for task in assignment.tasks.values()]
FACTORY = next(task for task in TASKS if task.id == "07.1")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A process for answers."""
    with answering(tmp_path_factory.mktemp("answers")) as host:
        yield host


def solved(task):
    """The code that defines the solution of a task, and of those that it uses."""
    every = assignments()[task.id[:2]]
    needed = [each for each in every.tasks.values() if each.name in (task.name, *task.uses)]
    given = [textwrap.dedent(each.given) for each in every.tasks.values() if each.given]
    return "\n".join([every.imports, *given, *(each.solution_source for each in needed)])


@pytest.mark.slow
@pytest.mark.parametrize("task", some(TASKS, every=24), ids=lambda task: task.id)
def test_a_solution_has_all_points_by_what_it_sends(task, host):
    assert points_alone(host, task.id, solved(task), []) == (task.points, "")


@pytest.mark.parametrize("how", some(forgeries.ALL))
def test_a_forgery_has_no_points(how, host):
    points, why = points_alone(host, "04.1", forgeries.ALL[how], [])
    assert points == 0 and why


@pytest.mark.slow
def test_points_alone_are_judged_on_the_inputs_of_a_check(host):
    """They were once the simplest ones, in which every choice is the first."""
    task = FOUR.tasks["04.1"]
    confirmation = Confirmation(host, "04.1", "", [])
    prop = task.properties[1]
    for number, (choices, *_) in enumerate(confirmation.inputs(prop)):
        draw = Draw(number)
        with undisturbed():
            try_answer(task, prop, task.solution, draw)
        assert choices == draw.choices
    overflows = "def stable_softmax(s):\n    return s.exp() / s.exp().sum(-1, keepdim=True)"
    points, why = points_alone(host, "04.1", overflows, [])
    assert points == 1.6 and "is nan" in why


@pytest.mark.nightly
def test_what_is_no_transcript_is_named(host):
    for code in (forgeries.THE_SOCKET, forgeries.AN_EMPTY_TRANSCRIPT):
        _, why = points_alone(host, "04.1", code, [])
        assert "its process sent something else than an answer" in why


@pytest.mark.nightly
def test_an_object_that_calls_itself_equal_is_none_of_the_numbers(host):
    code = forgeries.AN_OBJECT.replace("def stable_softmax(scores)", "def leaks(*given)")
    assert points_alone(host, "06.2", code, [])[0] == 0


@pytest.mark.nightly
def test_a_function_in_the_place_of_a_class_is_confirmed(host):
    code = solved(FACTORY).replace("class Residual", "class Inner")
    code += "\ndef Residual(d_model, dropout, norm):\n    return Inner(d_model, dropout, norm)\n"
    assert points_alone(host, "07.1", code, []) == (4, "")


def test_definitions_that_need_another_cell_are_named(host):
    points, why = points_alone(host, "04.1", "stable_softmax = missing", [])
    assert points == 0 and "NameError: name 'missing' is not defined" in why


@pytest.mark.nightly
def test_a_class_of_forgers_gets_nothing_and_is_told_of(tmp_path):
    chosen = {name: forgeries.ALL[name] for name in ("frames", "the socket")}
    for name, source in chosen.items():
        book = json.loads(pages.notebook(FOUR))
        for cell in book["cells"]:
            if cell["id"] == "answer-04-1":
                cell["source"] = [source]
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_text(json.dumps(book), "utf-8")
    (tmp_path / "honest").mkdir()
    (tmp_path / "honest" / NAME).write_text(pages.notebook(FOUR, "solution"), "utf-8")
    rows = dict(submissions.grade_all(tmp_path, jobs=2))
    assert rows["honest"].points == 20 and not rows["honest"].notices
    for name in chosen:
        assert rows[name].points == 0
        assert (
            rows[name]
            .notices[-1]
            .startswith("04.1 could not be graded: it has 4 points in the notebook, 0 alone: ")
        )


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
def test_an_answer_cannot_read_the_masters(host):
    """Where the system has walls, which this test skips without."""
    place = Path(masters.__path__[0]) / "a04_attention.py"
    code = f"import pathlib\nstable_softmax = pathlib.Path({str(place)!r}).read_text()"
    _, why = points_alone(host, "04.1", code, [])
    if "PermissionError" not in why:
        pytest.skip("this system has no Landlock")
    assert "Permission denied" in why
