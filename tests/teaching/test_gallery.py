"""The pictures in figures/ are those that the code draws, the same bytes each time."""

import re
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from nmtcourse.teaching import gallery

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


def test_files_tell_nothing_of_the_day_and_the_machine(folder):
    for name in SMALL:
        drawing = (folder / f"{name}.svg").read_text("utf-8")
        assert "dc:date" not in drawing and matplotlib.__version__ not in drawing
        with Image.open(folder / f"{name}.png") as image:
            assert set(image.info) == {"Title", gallery.SVG_HASH, "dpi"}
