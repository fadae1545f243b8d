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
from matplotlib.colors import to_rgb

from nmtcourse.doctor.known import check
from nmtcourse.teaching import hardware_pictures, style
from nmtcourse.teaching.training_pictures import draw_seeds
from nmtlib.data import corpora


@pytest.fixture(autouse=True)
def restored():
    with matplotlib.rc_context():
        yield
    plt.close("all")


def picture(text: str, **options: str) -> np.ndarray:
    figure = plt.figure(figsize=(1, 1))
    figure.text(0.2, 0.4, text, fontsize=30, **options)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


def test_chinese_is_drawn_without_a_warning(caplog):
    style.setup()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        dog, cat = picture("狗"), picture("猫", weight="bold")
    assert not caplog.records
    assert (dog != dog[0, 0]).any() and (dog != cat).any()  # missing glyphs all look alike


@pytest.mark.slow
def test_the_fonts_have_every_character_of_the_corpora():
    fonts = (style.CJK_FONT, font_manager.findfont("DejaVu Sans"))
    letters = {letter for font in fonts for letter in TTFont(font).getBestCmap()}
    for name in ("toy-en-zh", "cmn-en-zh"):
        if check(name).ok:  # the second is in the cache, or not
            corpus = corpora.load_corpus(name)
            pairs = (*corpus.train, *corpus.validation, *corpus.test)
            assert {ord(c) for pair in pairs for c in pair.target} <= letters


def test_a_notebook_computes_with_one_thread():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        style.setup()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)


def test_the_title_of_a_legend_is_as_large_as_its_entries():
    style.setup()
    curve = [([1, 2], [3.0, 4.0])]
    legend = draw_seeds({"one": curve, "other": curve}).legend(title="seeds 1, 2 recorded")
    entries = {text.get_fontsize() for text in legend.get_texts()}
    assert {legend.get_title().get_fontsize()} == entries
    plt.close("all")


def test_the_fields_of_a_number_are_told_apart_in_grey():
    greys = sorted(
        np.dot(to_rgb(c), (0.299, 0.587, 0.114)) for c in hardware_pictures.FIELDS.values()
    )
    assert np.diff(greys).min() > 0.2
