"""The maps are those of the model, the table shows each weight where it belongs, and the controls
redraw it.
"""

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from nmtcourse.teaching import explorer
from nmtcourse.teaching.course import ENGLISH, GERMAN, load_toy
from nmtcourse.teaching.explorer import KINDS, attention_maps, attention_table, explore_attention
from nmtlib.data.batching import collate
from nmtlib.model.attention import MultiHeadAttention, record_attention


@pytest.fixture(scope="module")
def translator():
    return load_toy()


@pytest.fixture(scope="module")
def found(translator):
    return attention_maps(translator, GERMAN)


def cells(table):
    """The rows of a table, each its heading and its cells (elements)."""
    rows = ElementTree.fromstring(table.text.replace("<b>", "").replace("</b>", "")).findall("tr")
    return [(row[0].text, list(row)[1:]) for row in rows]


def test_each_map_fits_its_words_and_its_rows_sum_to_one(translator, found):
    config = translator.model.config
    layers = {"encoder-self": config.n_encoder_layers}
    for kind in KINDS:
        assert len(found.maps[kind]) == layers.get(kind, config.n_decoder_layers)
        for weights in found.maps[kind]:
            assert weights.shape == (
                config.n_heads,
                len(found.rows[kind]),
                len(found.columns[kind]),
            )
            assert torch.allclose(weights.sum(dim=-1), torch.ones(weights.shape[:-1]), atol=1e-5)
    assert found.columns["cross"] == found.rows["encoder-self"] == [*GERMAN.split(), "<EOS>"]
    assert found.rows["cross"] == [*ENGLISH.split(), "<EOS>"]
    assert found.columns["decoder-self"] == ["<BOS>", *ENGLISH.split()]


def test_the_maps_are_those_of_the_module_they_are_named_after(translator, found):
    batch = collate([translator.example(GERMAN, ENGLISH)])
    modules = {
        "cross": "decoder.1.cross_attention",
        "encoder-self": "encoder.1.self_attention",
        "decoder-self": "decoder.1.self_attention",
    }
    with torch.no_grad(), record_attention(translator.model) as recorded:
        translator.model(batch.source, batch.decoder_input)
    for kind, module in modules.items():
        assert isinstance(translator.model.get_submodule(module), MultiHeadAttention)
        assert torch.equal(found.maps[kind][1], recorded[module][0][0])
    assert all((weights.triu(1) == 0).all() for weights in found.maps["decoder-self"]), (
        "a row reads no later word"
    )


def test_words_cannot_break_the_table():
    nasty = ['<script>alert("1")</script>', "\"&amp;' onload=x"]
    table = attention_table(torch.eye(2), nasty, nasty, title="<b>")
    rows = cells(table)
    assert [row[0] for row in rows[1:]] == nasty and "<script" not in table.text
    assert ElementTree.fromstring(table.text).find("caption").text == "<b>"
    assert all(key in {"style", "title"} for _, row in rows for cell in row for key in cell.keys())


@pytest.fixture
def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


def test_the_controls_redraw_the_table(translator, displayed, monkeypatch):
    monkeypatch.setattr(explorer, "kernel_with_widgets", lambda: True)
    explore_attention(translator, GERMAN)
    text, row, head, table = displayed[0].widget.children
    kind, layer = row.children
    assert displayed[0].text.startswith(table.value) and "<table>" in table.value
    head.value = 2
    assert "layer 1, head 2" in table.value
    kind.value, layer.value = "decoder-self", 0
    assert (
        "decoder self-attention, layer 0, head 2" in table.value
        and html.escape("<BOS>") in table.value
    )
    text.value = "der Hund schläft ."
    assert "schläft" not in table.value and "dog" in table.value
    text.value = ""
    assert "empty sentence" in table.value


def test_the_page_is_framed_and_its_picture_stays_without_trust(monkeypatch):
    monkeypatch.chdir(explorer.ROOT / "notebooks" / "zh")
    shown = explorer.show_explorer().text
    paths = re.findall(r'src="([^"#]+)', shown)
    assert len(paths) == 2 and all(Path(path).is_file() for path in paths), paths
    assert "explorer.html#lang=zh" in shown and shown.startswith("<style>.explorer img")
