"""The pictures in figures/ are those that the code draws, the same bytes each time."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import pytest
from PIL import Image, PngImagePlugin

from nmtcourse.teaching import diagrams, gallery

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("masks", "multi-head")


@pytest.fixture
def two(monkeypatch):
    """A gallery of two figures, which is quicker."""
    monkeypatch.setattr(gallery, "FIGURES", {name: gallery.FIGURES[name] for name in SMALL})


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """What the gallery of these two figures writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "FIGURES", {name: gallery.FIGURES[name] for name in SMALL})
        return {
            path.name: path.read_bytes()
            for path in gallery.write(tmp_path_factory.mktemp("new") / "deep")
        }


@pytest.fixture
def folder(two, files, tmp_path) -> Path:
    """A folder with both figures, up to date."""
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def pinned_matplotlib() -> str:
    """The version that the committed figures were drawn with."""
    return re.search(
        r"^matplotlib==(\S+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE
    )[1]


@pytest.mark.skipif(
    matplotlib.__version__ != pinned_matplotlib(),
    reason="another matplotlib draws letters elsewhere",
)
def test_the_committed_figures_are_up_to_date():
    assert gallery.stale(ROOT / "figures") == [], "draw them anew: make figures"


def test_drawing_again_gives_the_same_bytes(two, files, tmp_path):
    assert set(files) == {f"{name}.{kind}" for name in SMALL for kind in ("svg", "png")}
    settings = {
        "svg.hashsalt": "other",
        "hatch.linewidth": 4,
        "savefig.dpi": 30,
        "svg.fonttype": "none",
    }
    with matplotlib.rc_context(settings):
        before = dict(matplotlib.rcParams)
        again = {path.name: path.read_bytes() for path in gallery.write(tmp_path)}
        assert dict(matplotlib.rcParams) == before
    assert again == files


def test_files_tell_nothing_of_the_day_and_the_machine(folder):
    for name in SMALL:
        drawing = (folder / f"{name}.svg").read_text("utf-8")
        assert "dc:date" not in drawing and matplotlib.__version__ not in drawing
        with Image.open(folder / f"{name}.png") as image:
            assert set(image.info) == {"Title", gallery.SVG_HASH, "dpi"}


def test_an_svg_has_a_title_and_no_foreign_parts(two):
    root = ElementTree.fromstring(gallery.svg("multi-head"))
    title = root.find("{http://www.w3.org/2000/svg}title").text
    assert title == "Multi-head attention: project, split, attend in each head, join, project"
    links = [
        value for node in root.iter() for key, value in node.attrib.items() if key.endswith("href")
    ]
    assert links and all(link.startswith("#") for link in links)


def change(path: Path) -> None:
    """Alter one number of a drawing."""
    path.write_bytes(path.read_bytes().replace(b"M ", b"M 1", 1))


def repaint(path: Path) -> None:
    """Store a PNG that was made from another drawing."""
    info = PngImagePlugin.PngInfo()
    info.add_text(gallery.SVG_HASH, "0" * 64)
    Image.new("RGB", (4, 4)).save(path, pnginfo=info)


@pytest.mark.parametrize(
    ("file", "damage", "wrong"),
    [
        ("masks.svg", Path.unlink, "is missing"),
        ("masks.png", Path.unlink, "is missing"),
        ("masks.svg", change, "is out of date"),
        ("masks.png", repaint, "is out of date"),
        ("masks.png", lambda path: Image.new("RGB", (4, 4)).save(path), "is out of date"),
        ("multi-head.png", lambda path: path.write_bytes(b"no picture"), "is out of date"),
        ("old.svg", Path.touch, "is drawn by no function"),
    ],
)
def test_what_is_stale_is_found(folder, file, damage, wrong):
    damage(folder / file)
    assert gallery.stale(folder) == [f"{folder / file} {wrong}"]


def test_what_is_up_to_date_is_not_stale(folder):
    (folder / "curves.png").write_bytes(b"drawn by another program")
    assert gallery.stale(folder) == []


def test_a_changed_function_makes_both_files_stale(folder, monkeypatch):
    monkeypatch.setitem(gallery.FIGURES, "multi-head", lambda: diagrams.multi_head(3))
    assert gallery.stale(folder) == [
        f"{folder / 'multi-head'}.{kind} is out of date" for kind in ("svg", "png")
    ]


def test_line_ends_of_another_system_are_no_change(folder):
    drawing = folder / "masks.svg"
    drawing.write_bytes(drawing.read_bytes().replace(b"\n", b"\r\n"))
    assert gallery.stale(folder) == []


def test_the_command_line(two, tmp_path, capsys):
    options = ["--folder", str(tmp_path)]
    assert gallery.main([*options, "--check"]) == 1
    assert "masks.svg is missing" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert gallery.main(options) == 0
    assert gallery.main([*options, "--check"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match="whole-model.*'whole_model'"):
        gallery.svg("whole_model")
