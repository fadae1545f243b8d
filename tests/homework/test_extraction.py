"""The definitions of an answer are complete, and have nothing else."""

import json

import pytest

from nmtcourse.homework import marking, pages
from nmtcourse.homework.answers import definitions
from nmtcourse.homework.apart import Host
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.extraction import definition

FOUR = assignments()["04"]
PAGES = [json.loads(pages.notebook(each, "solution")) for each in assignments().values()]

CELLS = [
    "import math\nimport torch as t, gc\nfrom torch import nn",
    "x = open('/etc/passwd').read()\nprint(gc.get_objects())",
    "table = {}\nfor n in range(3):\n    table[n] = n",
    "def helper(x):\n    return t.exp(x) * SCALE + table[0]",
    "SCALE = 1.0\nother = exec",
    "class Answer(nn.Module):\n    def forward(self, x):\n        return helper(x) / math.pi",
    "%time\nAnswer()(3)\nx = eval('1')",
]


def test_a_definition_has_what_it_uses_and_nothing_else():
    code = definition(["Answer"], [cell.replace(", gc", "") for cell in CELLS])
    assert [line for line in code.splitlines() if line and line[0] != " "] == [
        "import math",
        "import torch as t",
        "from torch import nn",
        "table = {}",
        "for n in range(3):",
        "def helper(x):",
        "SCALE = 1.0",
        "class Answer(nn.Module):",
    ]


def test_a_parameter_is_no_name_of_the_notebook():
    assert "x =" not in definition(["helper"], [cell.replace(", gc", "") for cell in CELLS])


def test_every_solution_has_a_definition():
    for page in PAGES:
        sources = ["".join(c["source"]) for c in page["cells"] if c["cell_type"] == "code"]
        assert definition([name for source in sources for name in definitions(source)], sources)


FORGER = """\
import gc
for found in gc.get_objects():
    if type(found) is dict and "mark_of" in found and "judge" in found:
        full = type("Verdict", (), dict(full=True, begun=True, finding=None))
        verdict = found["Verdict"]
        found["judge"] = lambda task, *given, **options: verdict(task, task.points)
"""


@pytest.mark.nightly
def test_points_that_only_a_changed_judge_gives_are_not_confirmed(tmp_path):
    """The cell changes the judge in its own process, where it does give full points."""
    book = json.loads(pages.notebook(FOUR, "solution"))
    code = next(cell for cell in book["cells"] if cell["cell_type"] == "code")
    book["cells"].insert(1, {**code, "id": "first", "source": FORGER})
    for cell in book["cells"]:
        if cell["id"] == "answer-04-1":
            cell["source"] = "def stable_softmax(scores):\n    return scores"
    raw = json.dumps(book).encode()
    path = tmp_path / f"{FOUR.stem}.ipynb"
    with Host(tmp_path, marking.MARKED) as host:
        fooled = marking.mark_bytes(path, raw, host)
    assert fooled.points == FOUR.points, "the forger does not reach the judge"
    with Host(tmp_path, marking.MARKED) as host:
        marked = marking.mark_bytes(path, raw, host, confirmed=True)
    assert [mark.points for mark in marked.marks] == [None, 6, 8, 2]
    assert "04.1 could not be graded: it has 4 points in the notebook" in marked.notices[-1]


def test_a_notebook_whose_answers_are_all_right_is_not_run(tmp_path, monkeypatch):
    """Each answer is judged once, by what it sends."""
    monkeypatch.setattr(marking.Child, "messages", None)
    path = tmp_path / f"{FOUR.stem}.ipynb"
    marks = marking.Marking(path, pages.notebook(FOUR, "solution").encode())
    monkeypatch.setattr(
        marking, "points_alone", lambda host, id, *rest: (FOUR.tasks[id].points, "")
    )
    assert [mark.points for mark in marks.find_full(tmp_path)] == [4, 6, 8, 2]
    assert [*marks.run()] == [] and marks.result.points == FOUR.points
    assert "All properties hold" in marks.result.marks[0].text
