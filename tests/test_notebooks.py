"""The notebooks keep the rules, and nbval notices what changed."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import execute
import nbformat
import pytest
import rules
import tiles
from limits import NO_PROGRESS
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"


def test_a_notebook_keeps_the_rules():
    for path in NOTEBOOKS:
        assert list(rules.findings(path)) == []


def test_most_outputs_of_the_course_are_compared():
    books = [nbformat.read(path, as_version=4) for path in NOTEBOOKS]
    assert list(rules.plain.course(books)) == []


def test_a_tile_shows_a_figure_that_its_notebook_has():
    for _, notebook, _, _, cell in tiles.COURSE:
        assert tiles.cell_figure(notebook, cell).startswith(b"\x89PNG")


@pytest.mark.parametrize("folder", ["notebooks", "notebooks/zh"])
def test_the_map_of_the_tour_shows_the_minutes_of_today(folder):
    """nbval does not compare it, as any notebook may change its minutes: run 00 again."""
    books = [
        nbformat.read(path, as_version=4) for path in sorted((ROOT / folder).glob("??_*.ipynb"))
    ]
    openings = [book.cells[0].source for book in books]
    stated = [int(re.search(r"\*\*(?:Time|用时)\*\*\D*(\d+)", text)[1]) for text in openings]
    (drawn,) = [cell.outputs for cell in books[0].cells if "course_map()" in cell.source]
    alt = drawn[0].metadata["image/png"]["alt"]
    numbers = [int(number) for number in re.findall(r"\d+", alt)]
    assert numbers == [len(books), max(stated)]


SETUP = """import warnings
import matplotlib.pyplot as plt
from nmtcourse.teaching import style
style.setup()"""
NUMBER = "loss = 1.234\nprint(f'loss {loss:.3f}')"
CURVE = "figure, axes = plt.subplots()\n_ = axes.plot([1, 2, 4, 8])\nplt.show()"
TIMED = "import time\nprint(f'{time.time() % 97:.3f} s on cpu')"
CHANGED = [
    (SETUP, SETUP),
    (NUMBER, NUMBER.replace("1.234", "1.235")),
    (CURVE, CURVE.replace("4, 8", "4, 9")),
    (CURVE, CURVE.replace("1, 2, 4, 8", "2, 4, 8, 16")),
    (CURVE, CURVE.replace("plt.show()", "plt.close()")),
    (NUMBER, "warnings.warn('old')\n" + NUMBER),
    (TIMED, TIMED),
]


@pytest.mark.nightly
def test_nbval_notices_what_changed_and_nothing_else(tmp_path):
    """Stored outputs of good code beside changed code: only the first and the last cell agree."""
    good = tmp_path / "good.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source, _ in CHANGED]), good)
    stored = execute.execute(good, timeout=NO_PROGRESS)
    nbformat.write(stored, good)
    for stored_cell, (_, changed) in zip(stored.cells, CHANGED, strict=True):
        stored_cell.source = changed
    nbformat.write(stored, tmp_path / "broken.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = "--nbval --nbval-current-env -p no:cacheprovider -q -rfE --tb=no .".split()
    command = [sys.executable, "-m", "pytest", f"--nbval-sanitize-with={SANITIZE}", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)::Cell (\d+)", done.stdout, re.MULTILINE)
    assert failed == [("broken.ipynb", str(number)) for number in (1, 2, 3, 4, 5)], done.stdout


def test_the_sanitize_file_is_found_from_any_folder(tmp_path, monkeypatch):
    namespace = {}
    exec((ROOT / "conftest.py").read_text(), namespace)
    option = SimpleNamespace(nbval_sanitize_with="tests/nbval_sanitize.cfg")
    monkeypatch.chdir(tmp_path)
    namespace["pytest_configure"](SimpleNamespace(option=option, rootpath=ROOT))
    assert Path(option.nbval_sanitize_with) == SANITIZE
