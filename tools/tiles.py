"""Draw figures/course.png: a tile for each notebook, with its number, its title and a figure of it.

python tools/tiles.py           # from the outputs that the notebooks store
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image, ImageOps

from nmtcourse.teaching import style
from nmtcourse.teaching.canvas import mix

ROOT = Path(__file__).parents[1]
SHOWN = {  # notebook -> the cell whose figure stands for it
    "00": "cell-18",
    "01": "cell-73",
    "02": "cell-67",
    "03": "cell-21",
    "04": "cell-76",
    "05": "cell-43",
    "06": "all-masks",
    "07": "cell-77",
    "08": "cell-38",
    "09": "held-down",
    "10": "tree-brute-force",
    "11": "bootstrap-picture",
    "12": "timeline-figure",
    "13": "gains",
    "14": "rulers-drawn",
    "15": "p78-seen",
}
COURSE = [  # the colour of its group (Okabe and Ito 2008), the notebook, what to call it
    ("#FFFFFF", "00_tour", "Tour"),
    ("#CC79A7", "01_text_to_tensors", "Text to tensors"),
    ("#CC79A7", "02_embeddings", "Embeddings"),
    ("#CC79A7", "03_positional_encoding", "Positional encoding"),
    ("#E69F00", "04_scaled_dot_product_attention", "Scaled dot-product attention"),
    ("#E69F00", "05_multi_head_attention", "Multi-head attention"),
    ("#E69F00", "06_masking", "Masking"),
    ("#56B4E9", "07_the_full_model", "The full model"),
    ("#F0E442", "08_label_smoothing_and_noam", "Label smoothing and Noam"),
    ("#F0E442", "09_training", "Training"),
    ("#009E73", "10_decoding", "Decoding"),
    ("#009E73", "11_evaluation", "Evaluation"),
    ("#8C8C8C", "12_gpu_training", "GPU training"),
    ("#8C8C8C", "13_german_english", "German-English"),
    ("#8C8C8C", "14_english_chinese", "English-Chinese"),
    ("#8C8C8C", "15_debugging_clinic", "Debugging clinic"),
]
PICTURE = ROOT / "figures" / "course.png"
COLUMNS, WIDTH, HEIGHT = 4, 2.6, 2.2  # the tiles of a row; inches of one


def stored(notebook: str) -> bytes:
    """The figure that the chosen cell of a notebook stores."""
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    (cell,) = [each for each in cells if each["id"] == SHOWN[notebook[:2]]]
    (png,) = [png for o in cell["outputs"] if (png := o.get("data", {}).get("image/png"))]
    return base64.b64decode(png)


def figure_of(notebook: str) -> Image.Image:
    """The same without its white margins."""
    image = Image.open(io.BytesIO(stored(notebook))).convert("RGB")
    return image.crop(ImageOps.invert(image).getbbox())


def course() -> Figure:
    """The sixteen tiles, four in a row, in the order and the colours of the course."""
    rows = -(-len(COURSE) // COLUMNS)
    figure = Figure(figsize=(COLUMNS * WIDTH, rows * HEIGHT))
    for place, (group, notebook, title) in enumerate(COURSE):
        row, column = divmod(place, COLUMNS)
        left, bottom = column / COLUMNS, 1 - (row + 1) / rows
        tile = figure.add_axes((left, bottom, 1 / COLUMNS, 1 / rows))
        tile.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        tile.axis("off")
        shape = {"boxstyle": "round,pad=0,rounding_size=0.1", "linewidth": 0.8}
        corner, size = (0.06, 0.06), (WIDTH - 0.12, HEIGHT - 0.12)
        tile.add_patch(FancyBboxPatch(corner, *size, fc="white", ec="#c8ccd2", **shape))
        colour, badge = mix(group, "white", 0.38), ((0.16, HEIGHT - 0.42), 0.34, 0.26)
        tile.add_patch(FancyBboxPatch(*badge, fc=colour, ec="none", **shape))
        middle = {"va": "center_baseline", "y": HEIGHT - 0.29}
        tile.text(0.33, s=notebook[:2], ha="center", weight="bold", fontsize=10, **middle)
        tile.text(0.58, s=title, fontsize=9, **middle)
        inside = (left + 0.16 / WIDTH / COLUMNS, bottom + 0.14 / HEIGHT / rows)
        room = ((WIDTH - 0.32) / WIDTH / COLUMNS, (HEIGHT - 0.66) / HEIGHT / rows)
        picture = figure.add_axes((*inside, *room))
        picture.imshow(figure_of(notebook), interpolation="lanczos")
        picture.axis("off")
    return figure


def main() -> None:
    """Write the picture."""
    drawn = io.BytesIO()
    with rc_context():
        style.setup()
        course().savefig(drawn, dpi=150, facecolor="white")
    colours = Image.open(drawn).convert("RGB").quantize(256)
    colours.save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
