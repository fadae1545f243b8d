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
COURSE = [  # colour of the group (Okabe and Ito 2008), notebook, its name, the cell of its figure
    ("#FFFFFF", "00_tour", "Tour", "cell-18"),
    ("#CC79A7", "01_text_to_tensors", "Text to tensors", "cell-73"),
    ("#CC79A7", "02_embeddings", "Embeddings", "cell-67"),
    ("#CC79A7", "03_positional_encoding", "Positional encoding", "cell-21"),
    ("#E69F00", "04_scaled_dot_product_attention", "Dot-product attention", "cell-76"),
    ("#E69F00", "05_multi_head_attention", "Multi-head attention", "cell-43"),
    ("#E69F00", "06_masking", "Masking", "all-masks"),
    ("#56B4E9", "07_the_full_model", "The full model", "cell-81"),
    ("#F0E442", "08_label_smoothing_and_noam", "Smoothing and Noam", "cell-38"),
    ("#F0E442", "09_training", "Training", "figures-drawn"),
    ("#009E73", "10_decoding", "Decoding", "tree-brute-force"),
    ("#009E73", "11_evaluation", "Evaluation", "bootstrap-picture"),
    ("#8C8C8C", "12_gpu_training", "GPU training", "timeline-figure"),
    ("#8C8C8C", "13_german_english", "German-English", "gains"),
    ("#8C8C8C", "14_english_chinese", "English-Chinese", "measures-drawn"),
    ("#8C8C8C", "15_debugging_clinic", "Debugging clinic", "p78-drawn"),
]
PICTURES = ROOT / "figures" / "tiles"
WIDTH, HEIGHT = 2.06, 1.74  # inches of a tile, which pages show at 71 pixels an inch


def cell_figure(notebook: str, cell: str) -> bytes:
    """The figure that a cell of a notebook stores."""
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    (outputs,) = [each["outputs"] for each in cells if each["id"] == cell]
    (png,) = [png for o in outputs if (png := o.get("data", {}).get("image/png"))]
    return base64.b64decode(png)


def figure_of(notebook: str, cell: str) -> Image.Image:
    """The same without its white margins."""
    image = Image.open(io.BytesIO(cell_figure(notebook, cell))).convert("RGB")
    return image.crop(ImageOps.invert(image).getbbox())


def tile(group: str, notebook: str, title: str, cell: str) -> Figure:
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
    picture.imshow(figure_of(notebook, cell), interpolation="lanczos")
    picture.axis("off")
    return figure


def main() -> None:
    """Write the sixteen pictures, twice as large as they are shown."""
    PICTURES.mkdir(exist_ok=True)
    for group, notebook, title, cell in COURSE:
        drawn = io.BytesIO()
        with rc_context():
            style.setup()
            tile(group, notebook, title, cell).savefig(drawn, dpi=200, transparent=True)
        colours = Image.open(drawn).quantize(128, method=Image.Quantize.FASTOCTREE)
        colours.save(PICTURES / f"{notebook[:2]}.png", optimize=True)


if __name__ == "__main__":
    main()
