"""One way into files: what is there and is not ours is never written over, whichever option asks.

The parsers are walked, so an option that is added later is tried as well.
"""

import ast
import hashlib
import json
import os
import re
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path

import pytest

from nmtcheck import command as checks
from nmtcourse.main import build_parser, main
from nmtlib import files
from nmtlib.files import OutFile, OutFolder, append_line, new_folder, write_atomically

ROOT = Path(__file__).resolve().parents[1]
READS = {"--roster", "--folder", "files", "more", "folder", "implementation"}  # metavars of files
FILES = ("FILE", "DIR", "CSV", "OUT", "FILE.tsv")

# What no option wrote.  Some look like what one writes.
FOREIGN = {
    "thesis.txt": "my thesis\n",
    "notes.md": "# Mine\n",
    "page.html": "<!doctype html>\n<!-- written by nmtlib explore -->\nmy own notes",
    "edited.html": "<!doctype html>\n<!-- written by nmtlib, 0123456789abcdef -->\n",
    "results.json": json.dumps({"results": [1], "scores": [2], "score": 3}),
    "empty.json": "{}",
    "list.json": "[1, 2]",
    "grades.csv": "Student,ID,SIS User ID,SIS Login ID,Section\nann,1,2,3,4\n",
    "class.csv": "Email,Full name\na@x.org,Ann\n",
    "pairs.tsv": "der Hund .\tthe dog .\n",
    "picture.svg": "<svg/>\n",
    "picture.png": "\x89PNG mine",
    "board.jsonl": '{"name": "me"}\n',
}
# The files that commands read; each is given as every output of its command.
NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
POINTS = "student,assignment,task,points,possible,cause,notices,submitted,verdict,comment\n"
INPUTS = {
    "train": {"own.toml": "[corpus]\nname = 'toy-de-en'\n"},
    "evaluate": {"run/settings.json": "{}", "run/log.txt": "$ nmtlib\n"},
    "translate": {},
    "data": {"s.tsv": "der Hund .\tthe dog .\n" * 30},
    "backtranslate": {"text.txt": "a dog .\n", "run/settings.json": "{}"},
    "check": {"mine.py": "def model():\n    pass\n"},
    "explore": {"run/settings.json": "{}"},
    "export": {"run/settings.json": "{}"},
    "homework check": {"04.ipynb": NOTEBOOK},
    "homework capstone": {"run/settings.json": "{}"},
    "homework grade": {"class/ann/04.ipynb": NOTEBOOK},
    "homework export": {
        "points.csv": f"{POINTS}ann,04,04.1,3,4,,,,right,good\n",
        "roster.csv": "student,id\nann,7\n",
    },
}


def commands(parser: ArgumentParser, name: str = "") -> dict[str, ArgumentParser]:
    """Every command by its words."""
    below = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not below:
        return {name: parser}
    found = {}
    for word, child in below[0].choices.items():
        found |= commands(child, f"{name} {word}".strip())
    return found


COMMANDS = commands(build_parser())
OUTPUTS = [
    (name, action)
    for name, parser in COMMANDS.items()
    for action in parser._actions
    if isinstance(action.type, OutFile | OutFolder)
]
NAMES = [f"{name} {(action.option_strings or [action.dest])[0]}" for name, action in OUTPUTS]
each_output = pytest.mark.parametrize(("name", "output"), OUTPUTS, ids=NAMES)


def arguments(name, output, place, inputs=()):
    """A command line of a command: its inputs where it needs arguments, `place` as the output."""
    given = [*inputs] or ["toy-de-en"]
    line = name.split()
    for action in COMMANDS[name]._actions:
        if action is output:
            line += [*action.option_strings[:1], str(place)]
        elif action.required and not isinstance(action.type, OutFile | OutFolder):
            value = [*action.choices][-1] if action.choices else given[0]
            line += [*action.option_strings[:1], "onnx" if action.dest == "to" else str(value)]
    if name == "data":
        line += [str(given[0]), "--languages", "de", "en"]
    return line


def digests(folder):
    """The SHA-256 of each file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fill(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def test_the_walk_finds_the_outputs():
    assert len(OUTPUTS) >= 17, "train, evaluate, check, explore, data, export, homework …"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_names_a_file_is_an_output_or_known_to_be_read(name):
    for action in COMMANDS[name]._actions:
        called = (action.option_strings or [action.dest])[0]
        is_file = action.metavar in FILES or action.dest in ("out", "output", "csv", "json")
        if is_file and called not in READS:
            assert isinstance(action.type, OutFile | OutFolder), called


@each_output
def test_an_output_leaves_what_is_not_ours(name, output, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, FOREIGN)
    fill(tmp_path / "folder", FOREIGN)
    before = digests(tmp_path)
    for place in [*FOREIGN, "folder"] if output.type.is_ours is not files.is_any else FOREIGN:
        assert main(arguments(name, output, place)) == (2 if name == "check" else 1), place
        error = capsys.readouterr().err
        assert error.startswith(f"nmtlib: {place} is ") and error.count("\n") == 1
    assert digests(tmp_path) == before


@each_output
def test_an_output_leaves_the_inputs_of_its_command(name, output, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, INPUTS.get(name, {}))
    before = digests(tmp_path)
    for place in before:
        assert main(arguments(name, output, place, before)) != 0
        assert "Traceback" not in capsys.readouterr().err
        assert digests(tmp_path) == before


def test_a_page_that_was_edited_is_kept(tmp_path):
    page = tmp_path / "page.html"
    write_atomically(page, files.stamp("<!doctype html>\n", "<p>ours</p>\n"))
    assert files.is_stamped(page)
    append_line(page, "<p>my own note</p>")
    assert not files.is_stamped(page)


@pytest.mark.parametrize("name", ["thesis.0123abcd.part", "settings.json.part", "part"])
def test_a_training_removes_no_part_file_but_its_own(name, tmp_path):
    from nmtlib.run import Run

    mine, left = tmp_path / name, tmp_path / "settings.json.0123abcd.part"
    mine.write_text("mine", "utf-8")
    left.write_text("half", "utf-8")
    with Run(tmp_path).lock():
        assert mine.read_text("utf-8") == "mine" and not left.exists()


def test_a_new_folder_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    out, part = tmp_path / "X", tmp_path / ".X.part"
    fill(part, {files.UNFINISHED: "", "half": "half"})
    with new_folder(out) as folder:
        (folder / "whole").write_text("whole", "utf-8")
    assert [path.name for path in out.iterdir()] == ["whole"] and not part.exists()
    fill(part, {"mine": "mine"})
    with pytest.raises(FileExistsError, match="not removed"), new_folder(tmp_path / "X"):
        pass
    assert (part / "mine").read_text("utf-8") == "mine"


def test_a_new_folder_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ValueError), new_folder(tmp_path / "X") as folder:
        (folder / "half").write_text("half", "utf-8")
        raise ValueError
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="extras: no /dev/full here")
def test_a_full_disk_is_told_with_the_name_of_the_file():
    with pytest.raises(OSError, match="could not write /dev/full"):
        write_atomically("/dev/full", "text")


def opens_for_writing(call: ast.Call) -> bool:
    """Whether a call writes to a path: text, bytes, a picture, a file opened to write, a rename."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    on_os = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "os"
    to_nowhere = "devnull" in ast.unparse(call)
    if name in ("write_text", "write_bytes", "touch", "rmtree", "copyfile", "to_csv", "tofile"):
        return True
    if name == "savefig":  # into memory alone
        return not (call.args and getattr(call.args[0], "id", "") == "drawn")
    if name in ("replace", "rename") and on_os:
        return True
    if name == "replace" and len(call.args) == 1 and not call.keywords:  # of a path
        return True
    if name != "open" or to_nowhere:
        return False
    if on_os:
        return bool(re.search("O_(WRONLY|RDWR|CREAT|APPEND|TRUNC)", ast.unparse(call)))
    modes = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
    return any(isinstance(mode, str) and {*mode} & {*"wax+"} and len(mode) < 4 for mode in modes)


# A task of homework has its own program, the log of a judged process is opened once more, and an
# answer's files are read and laid out in temporary folders of their own.
APART = (
    "nmtcourse/homework/masters/",
    "nmtcourse/homework/transcript.py",
    "nmtcheck/report/apart.py",
    "nmtlib/files.py",
)


@pytest.mark.slow
def test_nothing_else_opens_a_file_for_writing():
    found = []
    for package in ("nmtlib", "nmtcheck", "nmtcourse"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if not place.startswith(APART):
                calls = (n for n in ast.walk(ast.parse(path.read_text("utf-8"))))
                calls = (n for n in calls if isinstance(n, ast.Call) and opens_for_writing(n))
                found += [f"{place}:{call.lineno}: {ast.unparse(call)}" for call in calls]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["p.write_text('x')", "open(p, 'w')", "p.open('ab')", "open(p, mode='r+b')", "f.savefig(p)"]
    + ["os.replace(a, b)", "a.replace(b)", "gzip.open(p, 'wt')", "os.open(p, os.O_CREAT)"],
)
def test_the_rule_sees_a_writer(line):
    assert opens_for_writing(ast.parse(line).body[0].value)


def test_nmtcheck_alone_refuses_too(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    assert checks.main(["--json", str(tmp_path / "thesis.txt")]) == 2
    assert "is not overwritten" in capsys.readouterr().err
