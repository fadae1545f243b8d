"""The stored diagrams are complete, shown, and described."""

import re
from pathlib import Path

import pytest

from nmtcourse.teaching import diagrams

ROOT = Path(__file__).parents[2]


def test_each_diagram_has_its_files_and_is_shown_in_a_notebook():
    files = {path.name for path in diagrams.FOLDER.iterdir() if path.suffix in (".png", ".svg")}
    assert files == {f"{name}.{kind}" for name in diagrams.TEXTS for kind in ("png", "svg")}
    chinese = {path.stem for path in diagrams.FOLDER.glob("zh/*.png")}
    assert chinese == diagrams.CHINESE.keys() == diagrams.TEXTS.keys()
    paths = [p for folder in ("", "deeper") for p in (ROOT / "notebooks" / folder).glob("*.ipynb")]
    notebooks = "".join(path.read_text("utf-8") for path in paths)
    assert all(f'diagrams.show(\\"{name}\\")' in notebooks for name in diagrams.TEXTS)


def test_a_notebook_gets_the_picture_and_its_text():
    png, metadata = diagrams.show("whole-model")._repr_png_()
    assert metadata["alt"] == diagrams.TEXTS["whole-model"] and png.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="whole-model"):
        diagrams.show("whole-modle")


def test_diagrams_that_are_read_upward_have_arrows_that_point_upward():
    for name in diagrams.TEXTS:
        heads = arrow_heads((diagrams.FOLDER / f"{name}.svg").read_text("utf-8"))
        up = sum(tip < base for tip, base in heads)
        down = sum(tip > base for tip, base in heads)
        if name in diagrams.UPWARD:
            assert up > 3 * down, name


def arrow_heads(svg):
    """For each arrow head, a filled triangle in the SVG, the heights of its tip and of its base."""
    numbers = r"([\d.]+) ([\d.]+)"
    triangle = rf'"M {numbers} \nL {numbers} \nL {numbers} \nz\n"[^>]*style="fill: #222222'
    for _, first, _, tip, _, last in re.findall(triangle, svg):
        yield float(tip), (float(first) + float(last)) / 2
