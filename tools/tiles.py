"""Draw figures/tiles: a tile for each notebook, with its number, its title and a figure of it.

python tools/tiles.py           # from the outputs that the notebooks store

In English and Chinese, and each for light and for dark pages.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image, ImageOps

from nmtcourse.teaching import style
from nmtcourse.teaching.canvas import mix

ROOT = Path(__file__).parents[1]
COURSE = [  # colour of the group (Okabe and Ito 2008), notebook, its names, the cell of its figure
    ("#FFFFFF", "00_tour", "Tour", "导览", "cell-18"),
    ("#CC79A7", "01_text_to_tensors", "Text to tensors", "从文本到张量", "cell-73"),
    ("#CC79A7", "02_embeddings", "Embeddings", "嵌入", "cell-67"),
    ("#CC79A7", "03_positional_encoding", "Positional encoding", "位置编码", "cell-21"),
    (
        "#E69F00",
        "04_scaled_dot_product_attention",
        "Dot-product attention",
        "缩放点积注意力",
        "cell-76",
    ),
    ("#E69F00", "05_multi_head_attention", "Multi-head attention", "多头注意力", "cell-43"),
    ("#E69F00", "06_masking", "Masking", "掩码", "all-masks"),
    ("#56B4E9", "07_the_full_model", "The full model", "完整的模型", "cell-81"),
    ("#F0E442", "08_label_smoothing_and_noam", "Smoothing and Noam", "标签平滑与 Noam", "cell-38"),
    ("#F0E442", "09_training", "Training", "训练", "figures-drawn"),
    ("#009E73", "10_decoding", "Decoding", "解码", "tree-brute-force"),
    ("#009E73", "11_evaluation", "Evaluation", "评估", "bootstrap-picture"),
    ("#8C8C8C", "12_gpu_training", "GPU training", "在 GPU 上训练", "timeline"),
    ("#8C8C8C", "13_german_english", "German-English", "德语到英语", "gains"),
    ("#8C8C8C", "14_english_chinese", "English-Chinese", "英语到中文", "measures-drawn"),
    ("#8C8C8C", "15_debugging_clinic", "Debugging clinic", "调试门诊", "p78-drawn"),
]
PICTURES = ROOT / "figures" / "tiles"
WIDTH, HEIGHT = 2.06, 1.74  # inches of a tile, which pages show at 71 pixels an inch


FOLDERS = {"en": "notebooks", "zh": "notebooks/zh"}
DARK, LIGHT = (22, 27, 34), (230, 237, 243)  # of a dark page: its surface, and what is white there


def cell_figure(notebook: str, cell: str, language: str = "en") -> bytes:
    """The figure that a cell of a notebook stores."""
    place = ROOT / FOLDERS[language] / f"{notebook}.ipynb"
    cells = json.loads(place.read_text("utf-8"))["cells"]
    (outputs,) = [part["outputs"] for part in cells if part["id"] == cell]
    pictures = [output.get("data", {}).get("image/png") for output in outputs]
    (png,) = filter(None, pictures)
    return base64.b64decode(png)


def figure_of(notebook: str, cell: str, language: str) -> Image.Image:
    """The same without its white margins."""
    image = Image.open(io.BytesIO(cell_figure(notebook, cell, language))).convert("RGB")
    return image.crop(ImageOps.invert(image).getbbox())


def darkened(image: Image.Image) -> Image.Image:
    """A picture for a dark page: light becomes dark, and each colour keeps its hue.

    The mean of a pixel's channels is mirrored, and their distances from it stay: white becomes
    black, and a dark blue becomes a light blue.  Then black and white become those of the page.
    """
    pixels = np.asarray(image.convert("RGBA"), dtype=np.float64) / 255
    colours, alpha = pixels[..., :3], pixels[..., 3:]
    mirrored = (colours + 1 - 2 * colours.mean(-1, keepdims=True)).clip(0, 1)
    black, white = np.array(DARK) / 255, np.array(LIGHT) / 255
    dark = np.concatenate([black + (white - black) * mirrored, alpha], axis=-1)
    return Image.fromarray((255 * dark).round().astype(np.uint8), "RGBA")


def tile(group: str, notebook: str, title: str, cell: str, language: str) -> Figure:
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
    picture.imshow(figure_of(notebook, cell, language), interpolation="lanczos")
    picture.axis("off")
    return figure


def save(image: Image.Image, name: str) -> None:
    """Write a tile in few colours."""
    colours = image.quantize(128, method=Image.Quantize.FASTOCTREE)
    colours.save(PICTURES / f"{name}.png", optimize=True)


def main() -> None:
    """Write the pictures of all notebooks, twice as large as they are shown."""
    PICTURES.mkdir(exist_ok=True)
    for group, notebook, english, chinese, cell in COURSE:
        for language, title, end in (("en", english, ""), ("zh", chinese, "-zh")):
            drawn = io.BytesIO()
            with rc_context():
                style.setup()
                figure = tile(group, notebook, title, cell, language)
                figure.savefig(drawn, dpi=200, transparent=True)
            image = Image.open(drawn).convert("RGBA")
            save(image, f"{notebook[:2]}{end}")
            save(darkened(image), f"{notebook[:2]}{end}-dark")


if __name__ == "__main__":
    main()
