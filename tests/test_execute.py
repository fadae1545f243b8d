"""tools/execute.py stores the same bytes twice, and nothing that no reader should see."""

import re

import execute
import nbformat
import pytest
import rules
from nbformat.v4 import new_code_cell, new_notebook

VARYING = """import os
print({"ein", "hund", "ball", "haus"}, os.environ["OMP_NUM_THREADS"])
for part in range(3):
    print(part, end=" ", flush=True)"""
WIDGETS = """from nmtcourse.teaching import predict
predict("06.leak")
import ipywidgets
ipywidgets.IntSlider()"""


@pytest.fixture
def book(tmp_path):
    """A function that writes a notebook of some code cells and returns its path."""

    def write(*sources, name="book", **metadata):
        path = tmp_path / f"{name}.ipynb"
        cells = [
            new_code_cell(source, id=f"c{i}", metadata=dict(metadata))
            for i, source in enumerate(sources)
        ]
        nbformat.write(new_notebook(cells=cells), path)
        return path

    return write


@pytest.mark.slow
def test_a_second_run_stores_the_same_bytes_and_check_says_so(book, capsys):
    path = book(VARYING, WIDGETS, "assert False, 'meant to fail'")
    stored = nbformat.read(path, as_version=4)
    stored.cells[1].metadata["tags"] = ["predict"]
    stored.cells[2].metadata["tags"] = ["raises-exception"]
    stored.cells[0].metadata["collapsed"] = True
    stored.cells[0].metadata["slideshow"] = {"slide_type": "slide"}
    nbformat.write(stored, path)
    unrun = path.read_bytes()
    assert execute.main([str(path), "--check"]) == 1 and path.read_bytes() == unrun
    assert "WOULD CHANGE" in capsys.readouterr().out
    assert execute.main([str(path)]) == 0
    first = path.read_bytes()
    assert execute.main([str(path), "--check"]) == 0
    assert path.read_bytes() == first and "same" in capsys.readouterr().out

    cells = nbformat.read(path, as_version=4).cells
    assert [cell.execution_count for cell in cells] == [1, 2, 3]
    assert cells[0].metadata == {"slideshow": {"slide_type": "slide"}}
    assert cells[0].outputs[0].text.endswith("1\n0 1 2 "), "one stream, and one thread"
    assert cells[1].metadata == {"tags": ["predict"], "jupyter": {"source_hidden": True}}
    assert not any(execute.WIDGET in output.data for output in cells[1].outputs)
    assert cells[2].metadata["jupyter"] == {"outputs_hidden": True}, "it answers the question"
    nothing, error = cells[2].outputs
    assert rules.shown_of_a_folded(cells[2]) is None and nothing.data == {}
    assert rules.shown_of_a_folded({"outputs": [error]}) is None
    assert error.traceback == ["AssertionError: meant to fail"]


REFUSED = [  # the code of a cell, what is said of it, and options
    ("print(1)\n1 / 0", "ZeroDivisionError"),
    ("import warnings\nwarnings.warn('old')", "writes to stderr.*old"),
    ("print('in /home/me/run')", "shows a path of this machine: /home/me/run"),
    ("import time\ntime.sleep(60)", "timed out|Timeout", "--timeout", "2"),
]


@pytest.mark.slow
def test_what_readers_should_not_see_is_refused(book, capsys):
    for source, message, *options in REFUSED:
        path = book("x = 1", source)
        before = path.read_bytes()
        assert execute.main([str(path), *options]) == 1
        assert path.read_bytes() == before
        assert re.search(f"(?s)REFUSED.*({message})", capsys.readouterr().out), source
