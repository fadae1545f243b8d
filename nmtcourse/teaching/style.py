"""One look for all figures, Chinese on any machine, and a description that tests can compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn
import torch
from matplotlib import font_manager
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmtcourse.teaching.alternative import alt_text
from nmtcourse.teaching.describe import VARIES, describe
from nmtcourse.teaching.language import choose_language
from nmtcourse.teaching.predictions import hiding

WIDTH = 7.0  # inches: what GitHub and a laptop show without scaling
CJK_FONT = Path(__file__).parent / "fonts" / "nmtlib-CJK.otf"
FONTS = ["DejaVu Sans", "nmtlib CJK"]  # matplotlib takes each glyph from the first font that has it
# Fonts for other scripts, used where they are installed: for example Debian's fonts-noto.
OTHERS = ["Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans", "Arial Unicode MS"] + [
    f"Noto Sans {script}"
    for script in "Arabic Hebrew Devanagari Bengali Tamil Thai Khmer Ethiopic Georgian".split()
]
# Okabe and Ito 2008
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D"]
# Curves can be told apart without their colours: 4 strokes and 7 colours make 28 looks, and curves
# of a few points have markers too.
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")
SEQUENTIAL, DIVERGING = "Blues", "RdBu_r"  # white is zero in both; safe for colour-blind readers

STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.figsize": (6.0, 3.5),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,  # finds room for long words
    "savefig.facecolor": "white",
    "font.family": FONTS,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,  # a title that is larger than its entries looks like a heading
    "legend.frameon": False,
    "figure.titlesize": 11,
    "text.color": "black",
    "axes.labelcolor": "black",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E0E0E0",
    "lines.linewidth": 1.6,
    "image.cmap": SEQUENTIAL,
    "svg.hashsalt": "nmtlib",  # the same figure gives the same SVG bytes
}


def setup(language: str = "en") -> None:
    """Set the style and the language of the course; a notebook calls it once, in its first cell.

    The language, "en" or "zh", is that of questions, diagrams and of what helpers write.

    In a notebook kernel it also chooses inline figures, shows each figure once and then closes it,
    makes the hidden text form of a figure say what is drawn (see `describe`), so that a test of the
    stored notebook notices a figure that changed, and gives each picture an alternative text (see
    `alt_text`) in its metadata.  It hides what answers a question until the reader has chosen (see
    `predictions`).  Elsewhere only the theme of seaborn changes.  torch computes with one thread.
    Calling it again does no harm.  Raises FileNotFoundError where the package's font is missing,
    ValueError for another language.
    """
    _add_font()
    # Where torch was imported before nmtlib, its threads spin while they wait: beside six busy
    # processes 1,500 small products then take a hundred times as long.  One thread waits for none.
    torch.set_num_threads(1)
    choose_language(language)
    shell = _kernel_shell()
    if shell is not None:
        shell.run_line_magic("matplotlib", "inline")  # drops formatters, so add ours after it
        shell.run_line_magic("config", "InlineBackend.figure_formats = ['retina']")  # sharp
        _add_formatters(shell.display_formatter)
        shell.display_pub.publish(hiding(language)._repr_mimebundle_())
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    fonts = FONTS + [name for name in OTHERS if name in installed]
    seaborn.set_theme(style="ticks", palette=COLOURS, rc=STYLE | {"font.family": fonts})


def varies() -> None:
    """Say that another machine draws the current figure with other numbers (see `describe`)."""
    plt.gcf().set_gid(VARIES)


def letters(word: object, points: float = 8.0) -> float:
    """About how many inches a word takes: a Chinese character is square, a letter 0.6 as wide."""
    return sum(1.0 if ord(character) > 0x2E7F else 0.6 for character in str(word)) * points / 72


def _add_font() -> None:
    """Make the shipped font known to matplotlib, in this process."""
    if not CJK_FONT.is_file():
        raise FileNotFoundError(f"nmtlib's font {CJK_FONT} is missing; install nmtlib again")
    if all(entry.fname != str(CJK_FONT) for entry in font_manager.fontManager.ttflist):
        font_manager.fontManager.addfont(str(CJK_FONT))
        regular = font_manager.fontManager.ttflist[-1]  # it serves for bold, without a warning
        font_manager.fontManager.ttflist.append(replace(regular, weight=700))


def _kernel_shell() -> Any:
    """The IPython shell of a notebook kernel, or None in a script, a test or a terminal."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _add_formatters(display_formatter: Any) -> None:
    """Describe figures in text/plain and in `alt`, show each once, leave bare axes to theirs."""
    pictures = display_formatter.formatters["image/png"]
    draw = pictures.lookup_by_type(Figure)
    if getattr(draw, "func", None) is not _with_alt:  # else this is done already
        pictures.for_type(Figure, partial(_with_alt, draw))
    display_formatter.formatters["text/plain"].for_type(Figure, _describe_and_close)
    display_formatter.ipython_display_formatter.for_type(Axes, _show_figure_of)


def _with_alt(draw: Callable[[Figure], Any], figure: Figure) -> tuple[str, dict[str, Any]]:
    """A picture, and the metadata that go with it: its size in points and its text."""
    picture, size = draw(figure)
    return picture, size | {"alt": alt_text(figure)}


def _describe_and_close(figure: Figure, printer: Any, cycle: bool) -> None:
    printer.text(describe(figure))
    plt.close(figure)  # else a figure on the cell's last line would be shown twice


def _show_figure_of(axes: Axes) -> None:
    """Axes on a cell's last line: their figure is shown at its end, or now if closed already."""
    from IPython.display import display

    figure = axes.figure.canvas.figure  # the whole figure, also where the axes are in a part of it
    if all(manager.canvas.figure is not figure for manager in Gcf.get_all_fig_managers()):
        display(figure)
