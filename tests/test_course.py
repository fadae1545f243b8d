"""`nmtlib course`: what it writes, what it keeps, and where the links of its notebooks lead."""

import json
import re
from pathlib import Path

import pytest

from nmtcourse import command, outputs
from nmtcourse.main import main

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


@pytest.mark.slow
def test_every_notebook_and_all_homework_is_written(course):
    homework = ("homework/*.ipynb", "zh/homework/*.ipynb")
    patterns = ("*.ipynb", "deeper/*.ipynb", "zh/*.ipynb", *homework)
    assert names(course, *patterns) == names(NOTEBOOKS, *patterns)
    for name in names(NOTEBOOKS, *homework):
        assert (course / name).read_bytes() == (NOTEBOOKS / name).read_bytes()


def test_every_link_leads_to_a_file_of_the_course(course):
    assert any(link.startswith("../../") for link in links(NOTEBOOKS / OUTSIDE))
    for path in course.rglob("*.ipynb"):
        assert [link for link in links(path) if not (path.parent / link).is_file()] == []


def test_the_command_for_a_notebook_is_one_that_runs(tmp_path, monkeypatch):
    python, lab = tmp_path / "bin" / "python", tmp_path / "bin" / "jupyter"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outputs.sys, "executable", str(python))
    monkeypatch.setattr(outputs.shutil, "which", lambda name: None)
    assert outputs.lab_command(Path("a.ipynb")) == "jupyter lab a.ipynb", "no JupyterLab anywhere"
    lab.parent.mkdir()
    lab.touch()
    assert outputs.lab_command(Path("a.ipynb")) == "bin/jupyter lab a.ipynb"
    monkeypatch.setattr(outputs.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert outputs.lab_command(Path("a.ipynb")) == "jupyter lab a.ipynb"


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
