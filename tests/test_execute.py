"""tools/execute.py stores the same bytes twice, and nothing that no reader should see."""

import json
import re
from pathlib import Path

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]
VARYING = """import os
print({"ein", "hund", "ball", "haus"}, os.environ["OMP_NUM_THREADS"])
for part in range(3):
    print(part, end=" ", flush=True)"""
WIDGETS = """from nmtcourse.teaching import predict
predict("06.leak")
import ipywidgets
ipywidgets.IntSlider()"""
WARNING = "import warnings\nwarnings.warn('old')"


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
    assert cells[2].outputs[0].traceback == ["AssertionError: meant to fail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told", "options"),
    [
        ("print(1)\n1 / 0", "ZeroDivisionError", ()),
        (WARNING, "writes to stderr.*old", ()),
        ("print('in /home/me/run')", "shows a path of this machine: /home/me/run", ()),
        ("import time\ntime.sleep(60)", "timed out|Timeout", ("--timeout", "2")),
    ],
)
def test_what_readers_should_not_see_is_refused(book, capsys, source, told, options):
    path = book("x = 1", source)
    before = path.read_bytes()
    assert execute.main([str(path), *options]) == 1
    assert path.read_bytes() == before
    assert re.search(f"(?s)REFUSED.*({told})", capsys.readouterr().out)


def test_seconds_are_written_only_when_asked_for_and_others_are_kept(book, tmp_path, monkeypatch):
    timings = tmp_path / "timings.json"
    monkeypatch.setattr(execute, "TIMINGS", timings)
    monkeypatch.setattr(
        execute, "process", lambda path, **options: ("same", True, 3.4 if path.stem == "a" else 7.6)
    )
    paths = [str(book("1", name=name)) for name in ("b", "a")]
    assert execute.main(paths) == 0 and not timings.exists()
    timings.write_text('{"z": 9, "a": 1}')
    assert execute.main([*paths, "--timings"]) == 0
    assert json.loads(timings.read_text()) == {"a": 3, "b": 8, "z": 9}


def test_all_text_of_an_output_is_looked_at():
    for output in (
        new_output("stream", name="stdout", text="/home/x"),
        new_output(
            "display_data", data={"text/html": "<a title='/home/x'>", "image/png": "aa/home/"}
        ),
        new_output("display_data", data={"application/json": {"path": "/home/x"}}),
        new_output("error", ename="OSError", evalue="no /home/x", traceback=[]),
    ):
        found = execute.ABSOLUTE_PATH.findall(execute.output_text(output))
        assert len(found) == 1 and found[0].startswith("/home/x")
    assert execute.ABSOLUTE_PATH.search(f"saved in {ROOT / 'runs'}")


@pytest.mark.parametrize(
    "text",
    ["https://example.org/home/x", "../tmp/x", "a/home/b", "nmtlib/model", "1/2", "e.g./usr/"],
)
def test_relative_paths_and_addresses_are_no_paths_of_a_machine(text):
    assert not execute.ABSOLUTE_PATH.search(text)
