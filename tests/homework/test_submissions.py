"""What a folder of submissions may hold, and where its reports may lie, before anything is run."""

import pytest

from nmtlib.cli import main
from nmtlib.homework import submissions


@pytest.fixture
def folder(tmp_path):
    """A class of one student, who has handed in nothing."""
    (tmp_path / "class" / "ann").mkdir(parents=True)
    return tmp_path / "class"


@pytest.fixture
def not_run(monkeypatch):
    """Nothing may be graded."""
    monkeypatch.setattr(submissions, "grade_all", lambda *given: pytest.fail("graded in vain"))


@pytest.mark.parametrize("suffix", [".csv", ".md", ".png"])
def test_a_report_that_would_be_overwritten_is_refused_first(suffix, folder, not_run, capsys):
    there = folder.parent / f"points{suffix}"
    there.write_text("mine", "utf-8")
    table = str(folder.parent / "points.csv")
    assert main(["homework", "grade", str(folder), "--csv", table]) == 1
    assert f"{there} is there already; name another with --csv" in capsys.readouterr().err
    assert there.read_text("utf-8") == "mine" and len(list(folder.parent.iterdir())) == 2


@pytest.mark.parametrize("name", ["all.md", "all.png", "all.PNG"])
def test_a_table_is_not_called_as_its_page_or_picture(name, folder, not_run, capsys):
    place = folder.parent / name
    assert main(["homework", "grade", str(folder), "--csv", str(place)]) == 1
    said = capsys.readouterr().err
    assert f"such as {folder.parent / 'all.csv'}, not {place}" in said
    with pytest.raises(ValueError, match="beside it come the page all.md"):
        submissions.write_reports([], place)
    assert not place.exists()


@pytest.mark.parametrize(("name", "why"), [(".", "is a folder"), ("file/a.csv", "is a file")])
def test_a_table_that_cannot_be_written_is_refused_first(name, why, folder, not_run, capsys):
    (folder.parent / "file").touch()
    assert main(["homework", "grade", str(folder), "--csv", str(folder.parent / name)]) == 1
    assert why in capsys.readouterr().err


def test_a_folder_without_the_right_to_write_is_refused_first(folder, not_run, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, how: False)
    table = str(folder.parent / "new" / "points.csv")
    assert main(["homework", "grade", str(folder), "--csv", table]) == 1
    assert f"the folder {folder.parent} cannot be written" in capsys.readouterr().err


def test_reports_may_lie_in_folders_that_are_not_there_yet(folder, capsys):
    table = folder.parent / "new" / "one" / "points.csv"
    assert main(["homework", "grade", str(folder), "--csv", str(table)]) == 0
    assert table.is_file() and table.with_suffix(".md").is_file()
    assert "ann: no notebook of an assignment" in capsys.readouterr().out
