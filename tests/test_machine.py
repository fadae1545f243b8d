"""The command can be typed again without the paths of this machine, and the machine is named."""

import shlex
import sys
from pathlib import Path

import pytest
import torch

from nmtlib.training.hardware import command_line, describe_machine


def test_the_machine_is_described_by_what_a_timing_depends_on():
    machine = describe_machine()
    assert machine["torch"] == torch.__version__ and machine["threads"] == torch.get_num_threads()
    assert machine["python"].split(".") == [str(n) for n in sys.version_info[:3]]
    assert {"nmtlib", "tokenizers", "sacrebleu", "nltk", "device", "processor"} <= set(machine)


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "runs/toy-de-en", "--beam", "1"],
        ["train", "toy-de-en", "--set", "model.d_model=64", "--evaluate"],
        ["evaluate", "runs/my run", "--split", "test"],
        ["train", "own.toml", "--set", 'corpus.train=["a.de", "a.en"]'],
    ],
)
@pytest.mark.parametrize(
    "program", ["/usr/local/bin/nmtlib", "/home/me/nmtlib/__main__.py", "nmtlib"]
)
def test_the_command_can_be_typed_again(program, arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    assert shlex.split(command_line()) == ["nmtlib", *arguments]


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "/somewhere/private/runs/toy-de-en"],
        ["evaluate", "runs/toy-de-en", "--output", "/somewhere/private/toy-de-en.json"],
        ["evaluate", "runs/toy-de-en", "--output=/somewhere/private/toy-de-en.json"],
        ["train", "/somewhere/private/toy-de-en.toml", "--evaluate"],
        ["train", "toy-de-en", "--set", 'corpus.test=["/somewhere/private/test.tsv"]'],
        ["evaluate", r"C:\Users\My private\runs\toy-de-en"],
        ["evaluate", "runs/toy-de-en", r"--output=D:\private\toy-de-en.json"],
        ["train", "toy-de-en", "--set", r'corpus.test=["C:\\private\\a.de", "C:/private/a.en"]'],
        ["evaluate", r"\\private\share\runs\toy-de-en"],
    ],
)
def test_the_command_has_no_path_of_this_machine(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(Path(sys.executable).with_name("nmtlib")), *arguments])
    assert (
        "private" not in command_line() and str(Path(sys.executable).parent) not in command_line()
    )
    assert command_line().startswith(f"nmtlib {arguments[0]} ") and "toy-de-en" in command_line()


def test_another_program_is_not_taken_for_this_one(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/lib/python3/site-packages/pytest/__main__.py", "-q"])
    assert not command_line().startswith("nmtlib") and "/usr" not in command_line()


def test_a_notebook_does_not_show_its_paths(monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["/opt/ipykernel_launcher.py", "-f", "/home/me/runtime/kernel-1.json"]
    )
    assert "/home" not in command_line() and "/opt" not in command_line()
