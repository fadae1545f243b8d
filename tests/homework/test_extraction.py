"""The definitions of an answer: complete for an honest one, and closed for one that reaches out."""

import json

import pytest

from nmtcourse.homework import marking, pages
from nmtcourse.homework.answers import definitions
from nmtcourse.homework.apart import Host
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.extraction import Refused, definition

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


def test_no_solution_is_refused():
    for page in PAGES:
        sources = ["".join(c["source"]) for c in page["cells"] if c["cell_type"] == "code"]
        assert definition([name for source in sources for name in definitions(source)], sources)


@pytest.mark.parametrize(
    "body",
    [
        "import gc\nreturn gc.get_objects()",
        "from nmtcourse.homework.masters.a04_attention import f\nreturn f",
        "from nmtlib.homework import judge\nreturn judge",
        "return open(b'masters')",
        "import os\nreturn os.open('a', 0)",
        "from os import system\nreturn system('cat masters')",
        "import subprocess\nreturn subprocess.run('cat')",
        "import sys\nreturn sys._getframe()",
        "return torch.sys.modules",
        "return (lambda: 0).__globals__",
        "return getattr(torch, '__builtins__')",
        "torch.equal = lambda *given: True",
        "return __import__('gc')",
        "return ().__class__.__base__.__subclasses__()",
        "try:\n    0 / 0\nexcept Exception as e:\n    return e.__traceback__.tb_frame",
        "import ctypes\nreturn ctypes",
    ],
)
def test_what_reaches_out_of_an_answer_is_refused(body):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    with pytest.raises(Refused, match="it uses"):
        definition(["f"], ["import torch", f"def f(x):\n{lines}"])


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
