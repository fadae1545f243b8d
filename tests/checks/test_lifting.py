"""Definitions come out of a script or a notebook, and nothing that trains or downloads is run."""

import inspect
import json

import pytest
import torch

from nmtcheck import lift

SCRIPT = """
import math
from torch import nn
from library_of_old import Field, download

raise_if_run = download("corpus")
WIDTH, DEVICE = 4, "cpu"
SIZE = 3 * WIDTH
SRC = Field(lower=True)
limit = measured = len("abcd")


def helper(x):
    return x * SIZE


@nn.init.torch.no_grad()
def scaled(x, factor=math.sqrt(16)):
    return helper(x) * factor


class Model(nn.Linear):
    def __init__(self, size=SIZE):
        super().__init__(size, limit)

    def pad(self):
        return SRC.vocab.stoi["<pad>"]


class Reader(Field):
    pass


if WIDTH > 3:
    def chosen():
        return "wide"
else:
    def chosen():
        return "narrow"

print("main part")
model = Model().to(raise_if_run)
if __name__ == "__main__":
    helper = None
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script_of_old.py"
    path.write_text(SCRIPT, "utf-8")
    return path


def test_a_function_comes_with_what_it_needs_and_nothing_else_is_run(script, capsys):
    their = lift(script, "scaled", "Model", "chosen")
    assert their.scaled(2) == 2 * 12 * 4 and their.chosen() == "wide"
    assert their.Model()(torch.zeros(1, 12)).shape == (1, 4)
    assert capsys.readouterr().out == ""
    assert "return helper(x) * factor" in inspect.getsource(their.scaled)


def test_without_names_all_definitions_are_taken(script):
    their = lift(script, Field=object)
    assert their.helper(1) == 12 and their.Reader and their.Model


def test_what_is_missing_says_so_when_it_is_used(script):
    their = lift(script, "Model")
    with pytest.raises(RuntimeError, match=r"'SRC' \(line 9\) was not lifted; .*SRC=\.\.\."):
        their.Model().pad()
    with pytest.raises(ValueError, match=r"line 30: 'Field' cannot be imported"):
        lift(script, "Reader")
    with pytest.raises(ValueError, match=r"line 6: .*'download' cannot be imported"):
        lift(script, "model")


def test_a_stand_in_takes_the_place_of_a_name(script):
    class Vocab:
        stoi = {"<pad>": 7}

    class Stand:
        vocab = Vocab

    their = lift(script, "Model", "Reader", SRC=Stand, Field=object, SIZE=5)
    assert their.Model().pad() == 7 and their.Model().in_features == 5 and their.Reader()


@pytest.mark.parametrize(
    ("name", "said"),
    [("Modle", "script_of_old.py defines no 'Modle' .did you mean Model"), ("xyz", "; it defines")],
)
def test_an_unknown_name_is_answered_with_the_known_ones(script, name, said):
    with pytest.raises(ValueError, match=said):
        lift(script, name)


def test_a_missing_file_and_what_is_no_python(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        lift(tmp_path / "none.py", "make")
    (tmp_path / "bad.py").write_text("def (:")
    (tmp_path / "bad.ipynb").write_text('{"cells": 3}')
    for name in ("bad.py", "bad.ipynb"):
        with pytest.raises(ValueError, match=f"{name} is no Python"):
            lift(tmp_path / name, "make")


def test_a_notebook_gives_its_definitions_too(tmp_path):
    cells = [
        ["%matplotlib inline\n", "!pip install library_of_old\n", "import math\n"],
        ["%%time\n", "train()"],
        ["def root(x):\n", "    return math.sqrt(x)\n", "root(4)\n", "root?\n", "1 / 0\n"],
    ]
    book = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    book["cells"].insert(0, {"cell_type": "markdown", "source": ["# Title"]})
    (tmp_path / "book.ipynb").write_text(json.dumps(book), "utf-8")
    their = lift(tmp_path / "book.ipynb", "root")
    assert their.root(9) == 3 and "math.sqrt" in inspect.getsource(their.root)


def test_a_file_of_a_package_finds_its_neighbours(tmp_path):
    folder = tmp_path / "theirs_of_old" / "parts"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").write_text("")
    (folder / "near.py").write_text("SIZE = 5")
    (folder / "model.py").write_text("from .near import SIZE\ndef size(): return SIZE\n")
    assert lift(folder / "model.py", "size").size() == 5
