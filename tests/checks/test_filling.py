"""Arguments are filled by what their annotations allow, and a class is followed under aliases."""

import ast
from enum import Enum
from typing import Literal

import pytest

from nmtcheck import load_adapter, run_checks
from nmtcheck.connect.filling import UNKNOWN, fill_arguments, guess_meanings, value_of_type
from nmtcheck.connect.uses import MASK, made_by


class Place(Enum):
    BEFORE = "pre"
    AFTER = "post"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Literal["tiny", "base"], "tiny"),
        ('Literal["tiny", "base"]', "tiny"),
        (Place, Place.BEFORE),
        ("Place", Place.BEFORE),
        (int | None, None),
        ("bool", False),
        (list[int], UNKNOWN),
        ("OnlyForTypes", UNKNOWN),
    ],
)
def test_a_type_says_a_value(annotation, value):
    assert value_of_type(annotation, globals()) is value or value == "tiny"


def test_a_class_is_filled_by_types_where_names_say_nothing():
    class Net:
        def __init__(self, n_src: int, flavour: Literal["a", "b"], where: Place, lean: bool):
            self.given = n_src, flavour, where, lean

    assert guess_meanings(Net, globals()).keys() == {"n_src", "flavour", "where", "lean"}
    from nmtcheck import Sizes

    made = fill_arguments(Net, {"pad": 0, "bos": 1, "eos": 2}, globals())(Sizes())
    assert made.given[1:] == ("a", Place.BEFORE, False) and int(made.given[0]) == 13


@pytest.mark.parametrize(
    "line", ["from model import Net as Model", "import model\nModel = model.Net", "Model = Net"]
)
def test_a_class_under_another_name_makes_the_same_model(line):
    tree = ast.parse(f"{line}\nsystem = Model(7).to('cpu')\nother = Dataset()")
    assert made_by(tree, "Net") - {"Model"} == {"system"}


def test_what_hides_is_a_mask_whatever_it_is_called():
    masks = ("src_mask", "key_padding_mask", "src_blocked", "hide_source", "valid")
    assert all(MASK.search(name) for name in masks)
    assert not any(MASK.search(name) for name in ("padded_source", "block_size", "targets"))


def test_what_no_name_and_no_type_tells_is_tried(tmp_path):
    """A class asks for a flavour, and its message says which ones it knows."""
    (tmp_path / "net.py").write_text(
        "from patients import Stranger\n"
        "from nmtcheck import Sizes\n"
        "class Net(Stranger):\n"
        "    def __init__(self, number_of_heads, dimension, flavour, dropout_probability):\n"
        "        assert flavour in ('relu', 'gelu')\n"
        "        super().__init__(Sizes(d_model=dimension, dropout=dropout_probability))\n"
    )
    adapter = load_adapter(f"{tmp_path}/net.py:Net")
    assert "flavour='relu'" in adapter.assumed
    report = run_checks(adapter, only="inside.sums")
    assert report.ok and "flavour='relu'" in report.note


def test_a_file_that_reads_its_options_when_it_is_imported_gets_none(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["nmtcheck", "net.py:make", "--json", "x.json"])
    (tmp_path / "net.py").write_text(
        "import argparse\n"
        "from torch import nn\n"
        "options = argparse.ArgumentParser().parse_args()\n"
        "DEVICE = 'cuda'\n"
        "def make(): return nn.Linear(3, 2).to(DEVICE)\n"
    )
    assert load_adapter(f"{tmp_path}/net.py:make").make_model(None).weight.shape == (2, 3)
