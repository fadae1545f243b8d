"""Draw figures/tiles: a tile for each notebook, with its number, its title and a figure of it.

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
    ("#E69F00", "04_scaled_dot_product_attention", "Dot-product attention"),
    ("#E69F00", "05_multi_head_attention", "Multi-head attention"),
    ("#E69F00", "06_masking", "Masking"),
    ("#56B4E9", "07_the_full_model", "The full model"),
    ("#F0E442", "08_label_smoothing_and_noam", "Smoothing and Noam"),
    ("#F0E442", "09_training", "Training"),
    ("#009E73", "10_decoding", "Decoding"),
    ("#009E73", "11_evaluation", "Evaluation"),
    ("#8C8C8C", "12_gpu_training", "GPU training"),
    ("#8C8C8C", "13_german_english", "German-English"),
    ("#8C8C8C", "14_english_chinese", "English-Chinese"),
    ("#8C8C8C", "15_debugging_clinic", "Debugging clinic"),
]
PICTURES = ROOT / "figures" / "tiles"
WIDTH, HEIGHT = 2.06, 1.74  # inches of a tile, which pages show at 71 pixels an inch


def cell_figure(notebook: str, cell: str) -> bytes:
    """The figure that a cell of a notebook stores."""
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    (cell,) = [each for each in cells if each["id"] == cell]
    (png,) = [png for o in cell["outputs"] if (png := o.get("data", {}).get("image/png"))]
    return base64.b64decode(png)


def figure_of(notebook: str) -> Image.Image:
    """The same without its white margins."""
    image = Image.open(io.BytesIO(cell_figure(notebook, SHOWN[notebook[:2]]))).convert("RGB")
    return image.crop(ImageOps.invert(image).getbbox())


def tile(group: str, notebook: str, title: str) -> Figure:
    """The tile of a notebook, its badge in the colour of its group."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    shape = {"boxstyle": "round,pad=0,rounding_size=0.08", "linewidth": 0.8}
    corner, size = (0.03, 0.03), (WIDTH - 0.06, HEIGHT - 0.06)
    axes.add_patch(FancyBboxPatch(corner, *size, fc="white", ec="#c8ccd2", **shape))
    badge = ((0.11, HEIGHT - 0.33), 0.28, 0.21)
    axes.add_patch(FancyBboxPatch(*badge, fc=mix(group, "white", 0.38), ec="none", **shape))
    middle = {"va": "center_baseline", "y": HEIGHT - 0.225}
    axes.text(0.25, s=notebook[:2], ha="center", weight="bold", fontsize=8.5, **middle)
    axes.text(0.45, s=title, fontsize=8.4, **middle)
    room = (0.11 / WIDTH, 0.11 / HEIGHT, 1 - 0.22 / WIDTH, 1 - 0.51 / HEIGHT)
    picture = figure.add_axes(room)
    picture.imshow(figure_of(notebook), interpolation="lanczos")
    picture.axis("off")
    return figure


def main() -> None:
    """Write the sixteen pictures, twice as large as they are shown."""
    PICTURES.mkdir(exist_ok=True)
    for group, notebook, title in COURSE:
        drawn = io.BytesIO()
        with rc_context():
            style.setup()
            tile(group, notebook, title).savefig(drawn, dpi=200, transparent=True)
        colours = Image.open(drawn).quantize(128, method=Image.Quantize.FASTOCTREE)
        colours.save(PICTURES / f"{notebook[:2]}.png", optimize=True)


if __name__ == "__main__":
    main()
