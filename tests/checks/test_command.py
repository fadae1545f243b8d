"""The command survives whatever a file does, and its exit status says how it went."""

import json
import runpy
import sys

import pytest

from nmtcheck import load_adapter
from nmtcheck.command import main

FILE = """
import os
import types
from dataclasses import dataclass
from torch import nn
from patients import Stranger
from nmtcheck import Sizes
from neighbour_with_sizes import *

GONE = os.remove("precious.txt")
DEVICE = "cuda"


@dataclass
class Config:
    src_vocab_size: int = 5000
    tgt_vocab_size: int = 5000
    emb_dim: int = 512
    num_heads: int = 8
    pos_dropout: float = 0.1
    device: str = "cuda"


def sizes(vocab, dim, dropout=0.1):
    return Sizes(int(vocab), int(vocab), dim, dropout=dropout)


def exits(): os._exit(0)
def endless():
    while True: pass
def crashes():
    os.abort()
def without_forward():
    made = nn.Module()
    made.inner = nn.ModuleList(nn.Linear(8, 8) for _ in range(9))
    return made
def sound(d_model, vocab_size, trans_dropout):
    return Stranger(sizes(vocab_size, d_model, trans_dropout)).to(DEVICE)
def of_a_star(d_model, n_vocab, pos_dropout):
    return Stranger(sizes(n_vocab, d_model, pos_dropout)) if PLENTY else None
def of_a_config(config: Config):
    made = Stranger(sizes(config.tgt_vocab_size, config.emb_dim, config.pos_dropout))
    return made.to(config.device)
def of_a_table(cfg):
    return Stranger(sizes(cfg["model"]["vocab_size"], cfg["model"]["d_model"], cfg["dropout"]))
def of_vocabularies(src_vocab, trg_vocab, hid_dim):
    assert src_vocab["<pad>"] == src_vocab.stoi["<pad>"] == 0 and len(trg_vocab) == trg_vocab
    return Stranger(sizes(len(trg_vocab), hid_dim, 0.0))
def unknown(d_model, flavour, temper): ...
def of_an_unknown(cfg):
    return cfg.flavour
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FILE, "utf-8")
    (tmp_path / "neighbour_with_sizes.py").write_text("PLENTY = 3", "utf-8")
    (tmp_path / "precious.txt").write_text("precious")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert (tmp_path / "precious.txt").exists(), "a constant was executed"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a process of its own")
@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("exits", "ended the process (exit 0)"),
        ("crashes", "ended the process (signal 6)"),
        ("endless", "made no model within"),
        ("without_forward", 'missing the required "forward"'),
        ("unknown", "no value is known for flavour, temper"),
        ("of_an_unknown", "cfg.flavour is asked for, and no value is known for it"),
    ],
)
def test_what_cannot_run_is_two_and_says_why(file, factory, said, capsys, monkeypatch):
    monkeypatch.setattr("nmtcheck.command.LOADING", 2)
    assert main(["--lift", f"mine.py:{factory}"]) == 2
    assert said in capsys.readouterr().err


LIFTED = ["sound", "of_a_star", "of_a_config", "of_a_table", "of_vocabularies"]


@pytest.mark.parametrize("factory", LIFTED)
def test_factories_of_many_kinds_are_filled(file, factory, capsys):
    assert main(["--lift", f"mine.py:{factory}", "--only", "model.shape", "--json", "r.json"]) == 0
    assert json.loads((file / "r.json").read_text("utf-8"))["status"] == 0
    assert "(3, 5, 13)" in capsys.readouterr().out
    adapter = load_adapter(f"mine.py:{factory}", lifted=True)
    assert adapter.resizable == (factory != "of_vocabularies"), "dropout cannot be asked for there"


def test_a_finding_is_one(file, capsys):
    (file / "mine.py").write_text(FILE.replace(".to(DEVICE)", ".half()"), "utf-8")
    assert main(["--lift", "mine.py:sound", "--only", "model"]) == 1
    said = capsys.readouterr().out
    assert "your code" in said and "raised in line" in said, (
        "an exception is nobody's but its line's"
    )


def test_a_report_may_be_written_again_over_itself_and_over_nothing_else(file, capsys):
    check = ["--lift", "mine.py:sound", "--only", "model.shape", "--json"]
    assert main([*check, "r.json"]) == main([*check, "r.json"]) == 0, capsys.readouterr().err
    (file / "data.json").write_text("{}", "utf-8")
    assert main([*check, "data.json"]) == 2 and (file / "data.json").read_text() == "{}"


def test_the_package_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["nmtcheck", "--only", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("nmtcheck", run_name="__main__")
    assert ended.value.code == 2 and "nonsense" in capsys.readouterr().err
