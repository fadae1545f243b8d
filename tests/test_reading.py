"""A stored output is compared as a reader does: words exactly, measured numbers by value."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from reading import room_of, write_as_stored

ROOT = Path(__file__).resolve().parents[1]

SAME = [  # what is stored, and what another processor prints
    ("loss 4.71", "loss 4.72"),
    ("map y 0.013 to 0.142", "map y 0.013 to 0.136"),
    ("share 0.02, 0.50", "share 0.01, 0.51"),
    ("weight  0.00", "weight -0.00"),
    ("gradient 2e-07, 5.13e+07", "gradient 3e-07, 5.20e+07"),
    ("BLEU 99.37 of 100", "BLEU 97.1 of 100"),
    ("  9.9 | 1,000.5 |", " 10.1 |   999.7 |"),
    ("tensor([-0.00, 0.98])", "tensor([ 0.00, 1.00])"),
    ("tensor([1., 0., 1.])", "tensor([1.00, 0.01, 0.98])"),
    ("1.2× as fast, 12.5%, ±0.03", "1.3× as fast, 12.3%, ±0.04"),
    ("损失0.52", "损失0.53"),
]
DIFFERENT = {
    "a word": ("the loss falls to 0.52", "the loss rises to 0.52"),
    "the case of a letter": ("Loss 0.52", "loss 0.52"),
    "a count": ("3 layers", "4 layers"),
    "a large count": ("1,074,659 numbers", "1,074,660 numbers"),
    "a count beside a measured number": ("196 of 200, loss 0.52", "195 of 200, loss 0.53"),
    "a shape": ("(2, 5, 64)", "(2, 5, 65)"),
    "a shape in words": ("5×64: 0.0 to 1.0", "5×65: 0.0 to 1.0"),
    "a whole number in a tensor": ("tensor([[20., 0.]])", "tensor([[21., 0.]])"),
    "a count at the end of a sentence": ("of 100. And", "of 101. And"),
    "30 % more": ("loss 0.52", "loss 0.68"),
    "30 % less": ("loss 52.1", "loss 36.5"),
    "a sign": ("gain +0.52", "gain -0.52"),
    "a power of ten": ("gradient 2e-07", "gradient 2e-06"),
    "a version": ("Python 3.11.7", "Python 3.12.7"),
    "a name": ("model v1.2", "model v1.3"),
    "a missing line": ("loss 0.52\nloss 0.41", "loss 0.52"),
    "one more line": ("loss 0.52", "loss 0.52\n"),
    "a missing column": ("0.52 0.41", "0.52"),
    "other columns": ("a 0.52 b 0.41", "b 0.52 a 0.41"),
    "not a number": ("loss 0.52", "loss nan"),
    "an order": ("roten 0.63 roter 0.47", "roter 0.63 roten 0.47"),
    "an argument of code": ("dropout: float = 0.1", "dropout: float = 0.15"),
}


@pytest.mark.parametrize("stored, now", SAME)
def test_a_measured_number_may_differ_in_its_last_digits(stored, now):
    assert write_as_stored(now, stored) == stored
    assert write_as_stored(stored, now) == now


@pytest.mark.parametrize("stored, now", DIFFERENT.values(), ids=DIFFERENT)
def test_a_reader_sees_this_difference(stored, now):
    assert write_as_stored(now, stored) != stored


def test_what_does_not_agree_is_left_and_the_rest_is_as_stored():
    assert write_as_stored("a 0.52  b 0.90 c 0.33", "a 0.51 b 0.42 c 0.32") == (
        "a 0.51 b 0.90 c 0.32"
    )


def test_a_tag_gives_more_room_also_to_whole_numbers_but_not_to_shapes():
    assert room_of(["predict"]) == (0.05, False)
    assert room_of(["predict", "tolerance-0.2"]) == (0.2, True)
    with pytest.raises(ValueError, match="tolerance-0.1"):
        room_of(["tolerance-10"])
    stored, now = "(2, 100, 64) 5×100: 100 sentences, loss 1.00", "90 sentences, loss 1.15"
    assert write_as_stored("(2, 100, 64) 5×100: " + now, stored, 0.2, whole=True) == stored
    assert write_as_stored("(2, 101, 64) 5×100: " + now, stored, 0.2, whole=True) != stored
    assert write_as_stored("(2, 100, 64) 5×101: " + now, stored, 0.2, whole=True) != stored
    assert write_as_stored("(2, 100, 64) 5×100: 70 sentences, loss 1.00", stored, 0.2) != stored


SETUP = """from IPython import get_ipython
import matplotlib.pyplot as plt
from nmtcourse.teaching import plots
plots.setup()"""
DRAWN = """_, ax = plt.subplots()
ax.plot([0, 1, 2], [1.0, {height}, 1.0], label="loss")
ax.set(title="{title}", xlabel="update")
{more}
plt.show()"""
HEALTHY = DRAWN.format(height=2.0, title="it falls", more="")
# What a cell stores the output of, what it does in the test, its tags, and whether nbval agrees.
CELLS = {
    "setup": (SETUP, SETUP, [], True),
    "a digit": ("print('loss 0.52')", "print('loss 0.53')", [], True),
    "a word": ("print('loss 0.52')", "print('gain 0.52')", [], False),
    "a count": ("print('3 layers')", "print('4 layers')", [], False),
    "a tag": ("print('50 of 0.1')", "print('51 of 0.1')", ["tolerance-0.1"], True),
    "a result": ("1.25", "1.26", [], True),
    "an error": ("1 / 0", "raise ZeroDivisionError('by 0.1')", ["raises-exception"], False),
    "a duration": ("print('3.2 s, loss 0.52')", "print('45 ms, loss 0.53')", [], True),
    "another height": (HEALTHY, HEALTHY.replace("2.0", "2.04"), [], True),
    "a height 30 % off": (HEALTHY, HEALTHY.replace("2.0", "2.6"), [], False),
    "another title": (HEALTHY, HEALTHY.replace("falls", "rises"), [], False),
    "one more line": (HEALTHY, HEALTHY.replace("\n\n", "\nax.plot([0, 1], [1, 1])\n"), [], False),
    "one more point": (HEALTHY, HEALTHY.replace("[0, 1, 2], [", "[0, 1, 2, 3], [1.0, "), [], False),
    "no figure": (HEALTHY, "plt.figure(); plt.close('all')", [], False),
    "trained": (
        HEALTHY.replace("\n\n", "\nplots.varies()\n"),
        HEALTHY.replace("\n\n", "\nplots.varies()\n").replace("2.0", "9.0"),
        [],
        True,
    ),
    "trained, one more line": (
        HEALTHY.replace("\n\n", "\nplots.varies()\n"),
        HEALTHY.replace("\n\n", "\nplots.varies(); ax.plot([0, 1], [1, 1])\n"),
        [],
        False,
    ),
}


@pytest.mark.nightly
def test_nbval_compares_cells_so(tmp_path):
    cells = [
        new_code_cell(stored, metadata={"tags": tags}) for stored, _, tags, _ in CELLS.values()
    ]
    path = tmp_path / "planted.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    run([sys.executable, "tools/execute.py", str(path)])
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.outputs for cell in notebook.cells)
    for cell, (_, now, _, _) in zip(notebook.cells, CELLS.values(), strict=True):
        cell.source = now
    nbformat.write(notebook, path)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text("utf-8"))
    options = ["-c", "pyproject.toml", "-p", "no:cacheprovider", "--nbval", "-rA", str(path)]
    report = run([sys.executable, "-m", "pytest", *options])
    agreed = {int(n) for n in re.findall(r"^PASSED .*::Cell (\d+)", report, re.MULTILINE)}
    expected = {number for number, (*_, same) in enumerate(CELLS.values()) if same}
    assert agreed == expected, report


def run(command: list[str]) -> str:
    """What a command prints, run in the project's folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace"
    )
    return done.stdout + done.stderr
