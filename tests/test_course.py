"""`nmtlib course`: what it writes, what it keeps, and where the links of its notebooks lead."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from nmtcourse import command
from nmtlib.cli import main

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
LINK = re.compile(r"\]\(([^)\s#]+)")
OUTSIDE = "zh/12_gpu_training.ipynb"  # has links to pages beside the notebooks


def names(folder, *patterns):
    found = (path for each in patterns for path in folder.glob(each))
    return {path.relative_to(folder).as_posix() for path in found}


def links(path):
    """The relative links of a notebook's texts."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The English and the Chinese course, written once."""
    folder = tmp_path_factory.mktemp("new") / "course"
    assert main(["course", str(folder), "--lang", "zh"]) == 0
    return folder


def test_every_notebook_and_all_homework_is_written(course):
    homework = ("homework/*.ipynb", "zh/homework/*.ipynb")
    patterns = ("*.ipynb", "deeper/*.ipynb", "zh/*.ipynb", *homework)
    assert names(course, *patterns) == names(NOTEBOOKS, *patterns)
    for name in names(NOTEBOOKS, *homework):
        assert (course / name).read_bytes() == (NOTEBOOKS / name).read_bytes()


def test_a_notebook_is_the_projects_except_for_links_that_lead_outside(course):
    same = 0
    for name in names(course, "*.ipynb", "zh/*.ipynb"):
        ours, theirs = (json.loads((at / name).read_text("utf-8")) for at in (course, NOTEBOOKS))
        for cell, original in zip(ours["cells"], theirs["cells"], strict=True):
            if cell["cell_type"] == "markdown" and cell["source"] != original["source"]:
                cell["source"] = original["source"] = ""
        assert ours == theirs
        same += (course / name).read_bytes() == (NOTEBOOKS / name).read_bytes()
    assert same, "what has no such link is copied byte for byte"


def test_every_link_leads_to_a_file_of_the_course(course):
    assert any(link.startswith("../../") for link in links(NOTEBOOKS / OUTSIDE))
    for path in course.rglob("*.ipynb"):
        assert [link for link in links(path) if not (path.parent / link).is_file()] == []


def test_pages_beside_the_notebooks_are_linked_where_pip_took_them_from(monkeypatch):
    origin = {"url": "https://example.org/them/it.git", "vcs_info": {"commit_id": "abc"}}

    class Installed:
        def read_text(self, name):
            return json.dumps(origin) if name == "direct_url.json" else None

    monkeypatch.setattr(command, "distribution", lambda name: Installed())
    source = ["See [the `x[0]` of\n", "PLAN](../../benchmarks/PLAN.md#a) and [06](06.ipynb#b)."]
    book = {"cells": [{"cell_type": "markdown", "source": source}]}
    text = command.relinked(json.dumps(book), OUTSIDE, [OUTSIDE, "zh/06.ipynb"])
    assert "".join(json.loads(text)["cells"][0]["source"]) == (
        "See [the `x[0]` of\nPLAN](https://example.org/them/it/blob/abc/benchmarks/PLAN.md#a) "
        "and [06](06.ipynb#b)."
    )


def test_english_alone_unless_asked_and_nothing_is_overwritten(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(command.LANGUAGES, "en", ("00_*.ipynb", "06_*.ipynb"))  # quick
    mine = {"06_masking.ipynb": b"my notes", "homework/04_attention.ipynb": b"my answers"}
    (tmp_path / "homework").mkdir()
    for name, text in mine.items():
        (tmp_path / name).write_bytes(text)
    assert main(["course", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert ", ".join(mine) in said and "00_tour" not in said.split("kept")[1].splitlines()[0]
    assert f"jupyter lab {tmp_path / '00_tour.ipynb'}" in said
    assert not (tmp_path / "zh").exists()
    first = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    assert {name: first[tmp_path / name] for name in mine} == mine
    assert main(["course", str(tmp_path)]) == 0
    assert "0 notebooks" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")} == first


@pytest.mark.parametrize("place", ["out", "out/homework"])
def test_a_file_where_a_folder_should_be_stops_it_at_once(place, tmp_path, capsys):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    assert main(["course", str(tmp_path / "out")]) == 1
    assert f"{path} is a file where the course needs a folder" in capsys.readouterr().err
    assert path.read_text() == "mine" and not names(tmp_path, "**/*.ipynb")


def test_an_installation_without_notebooks_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "NOTEBOOKS", tmp_path / "none")
    assert main(["course", str(tmp_path / "out")]) == 1
    assert "has no notebooks" in capsys.readouterr().err


def test_the_lab_opens_at_the_tour_with_what_we_wrote_trusted(tmp_path, monkeypatch):
    from jupyterlab.labapp import LabApp
    from nbformat.sign import NotebookNotary

    signed, opened = [], []
    monkeypatch.setattr(command, "LANGUAGES", {"en": ("06_*.ipynb",), "zh": ("zh/00_*.ipynb",)})
    monkeypatch.setattr(NotebookNotary, "sign", lambda self, book: signed.append(book))
    monkeypatch.setattr(LabApp, "launch_instance", opened.append)
    monkeypatch.setenv("NMTLIB_LANG", "zh")  # as --lang zh
    assert main(["course", str(tmp_path), "--lab"]) == 0
    page = "--LabApp.default_url=/lab/tree/zh/00_tour.ipynb"
    assert opened == [[f"--ServerApp.root_dir={tmp_path.resolve()}", page]]
    assert len(signed) == len(names(tmp_path, "**/*.ipynb"))


def test_without_jupyterlab_the_notebooks_are_there_and_the_error_says_what_to_do(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(command.LANGUAGES, "en", ("00_*.ipynb",))
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", None)
    assert main(["course", str(tmp_path), "--lab"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert str(tmp_path / "00_tour.ipynb") in said and "pip install jupyterlab" in said
    assert (tmp_path / "00_tour.ipynb").is_file()


def test_the_build_takes_what_the_command_writes(monkeypatch):
    monkeypatch.setattr("setuptools.setup", lambda **options: None)
    monkeypatch.chdir(ROOT)
    build = runpy.run_path(str(ROOT / "setup.py"))
    patterns = [each for every in command.LANGUAGES.values() for each in every]
    assert {name.removeprefix("notebooks/") for name in build["notebooks"]()} == names(
        NOTEBOOKS, *patterns
    )
