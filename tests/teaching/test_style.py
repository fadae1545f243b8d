"""The style of figures: Chinese anywhere, no side effects, each figure once in a notebook."""

import logging
import warnings

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont
from matplotlib import font_manager

from nmtcourse.doctor.known import check
from nmtcourse.teaching import style
from nmtlib.data import corpora

SETUP = """from nmtcourse.teaching import plots
plots.setup()
plots.setup()
import matplotlib.pyplot as plt"""
NOTEBOOK = {
    "setup": SETUP,
    "axes last": "plots.heat_map([[1, 0], [0, 1]], ['小', '狗'], ['small', 'dog'], title='中文')",
    "figure last": "plots.position_table([[0, 1], [1, 0]], title='figure')",
    "assigned": "ax = plots.curves({'a': [1, 2]}, x_label='', y_label='')\nprint('below')",
    "again": "ax",
    "given axes": "_, axes = plt.subplots(1, 2)\nplots.bars({'a': 1}, y_label='', ax=axes[0])",
    "shown": "plots.curves({'a': [1, 2]}, x_label='', y_label='')\nplt.show()",
    "displayed": "display(plots.position_table([[0, 1], [1, 0]]))",
    "many": "for _ in range(22):\n    plots.bars({'a': 1}, y_label='')\n    plt.show()",
    "reset": "%matplotlib inline\nplots.setup()\nplots.bars({'a': 1}, y_label='')",
    "open": "print(len(plt.get_fignums()))",
}


@pytest.fixture(autouse=True)
def restored():
    with matplotlib.rc_context():
        yield
    plt.close("all")


@pytest.fixture(scope="module")
def outputs():
    """What each cell of NOTEBOOK puts out in a real kernel."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in NOTEBOOK.values()]
    )
    kernel = {
        "kernel_name": "python3",
        "startup_timeout": 180,
        "extra_arguments": ["--log-level=ERROR"],
    }
    nbclient.NotebookClient(notebook, **kernel).execute()
    return {
        name: [each for each in cell.outputs if not is_page_style(each)]
        for name, cell in zip(NOTEBOOK, notebook.cells, strict=True)
    }


def is_page_style(output) -> bool:
    """Whether an output is the style that hides results until a question is answered."""
    return output.get("data", {}).get("text/html", "").startswith("<style>")


def picture(text: str) -> np.ndarray:
    figure = plt.figure(figsize=(1, 1))
    figure.text(0.2, 0.4, text, fontsize=30)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


def test_chinese_is_drawn_without_a_warning(caplog):
    style.setup()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        dog, cat = picture("狗"), picture("猫")
    assert not caplog.records
    assert (dog != dog[0, 0]).any() and (
        dog != cat
    ).any()  # a glyph that is missing looks like any other


def test_letters_come_from_the_usual_font():
    plain = picture("“Größe” …")
    style.setup()
    assert (picture("“Größe” …") == plain).all()


def test_setup_twice_changes_nothing_more():
    style.setup()
    settings, fonts = dict(matplotlib.rcParams), list(font_manager.fontManager.ttflist)
    style.setup()
    assert dict(matplotlib.rcParams) == settings and font_manager.fontManager.ttflist == fonts


def test_setup_silences_nothing_and_keeps_the_backend():
    filters, backend = list(warnings.filters), matplotlib.get_backend()
    style.setup()
    assert warnings.filters == filters and matplotlib.get_backend() == backend


def test_a_missing_font_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(style, "CJK_FONT", tmp_path / "gone.otf")
    with pytest.raises(FileNotFoundError, match="gone.otf"):
        style.setup()


@pytest.mark.parametrize("name", ["toy-en-zh", "cmn-en-zh"])
def test_the_fonts_have_every_character_of_the_corpora(name):
    if not check(name).ok:
        pytest.skip(f"{name} is not in the cache")
    corpus = corpora.load(name)
    used = {
        ord(c)
        for part in (corpus.train, corpus.validation, corpus.test)
        for pair in part
        for c in pair.target
    }
    known = {
        *TTFont(style.CJK_FONT).getBestCmap(),
        *TTFont(font_manager.findfont("DejaVu Sans")).getBestCmap(),
    }
    assert not used - known


def test_the_subset_has_a_name_of_its_own_and_its_licence():
    names = {entry.nameID: entry.toUnicode() for entry in TTFont(style.CJK_FONT)["name"].names}
    assert names[1] == style.FONTS[1]
    assert not any(word in names[entry] for entry in (1, 3, 4, 6) for word in ("Noto", "Source"))
    assert "Open Font License" in names[13] and "Copyright" in names[0]
    licence = style.CJK_FONT.with_name("OFL.txt").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE" in licence and names[0] in licence
    assert style.CJK_FONT.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "cell", [name for name in NOTEBOOK if name not in ("setup", "many", "open")]
)
def test_a_notebook_shows_each_figure_once_and_describes_it(outputs, cell):
    shown = [output for output in outputs[cell] if "image/png" in output.get("data", {})]
    assert len(shown) == 1
    assert (
        shown[0].data["text/plain"].startswith("Figure ")
        and "axes 0:" in shown[0].data["text/plain"]
    )
    assert shown[0].metadata["image/png"]["alt"].endswith(".")
    rest = [output for output in outputs[cell] if output is not shown[0]]
    assert [output.get("text") for output in rest] == (["below\n"] if cell == "assigned" else [])


def test_a_notebook_closes_its_figures(outputs):
    assert [output.output_type for output in outputs["many"]] == ["display_data"] * 22
    assert outputs["open"][0].text == "0\n" and not outputs["setup"]


def test_a_notebook_computes_with_one_thread():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        style.setup()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
