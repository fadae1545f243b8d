"""The maps are those of the model, the table shows each weight where it belongs, and the controls
redraw it.
"""

import html
import re
from xml.etree import ElementTree

import pytest
import torch

from nmtcourse.teaching import explorer
from nmtcourse.teaching.course import ENGLISH, GERMAN, load_toy, running_pair
from nmtcourse.teaching.explorer import (
    KINDS,
    attention_maps,
    attention_table,
    explore_attention,
    slider,
)
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


def darkness(cell):
    """How far a background colour lies from white."""
    colour = re.search(r"background-color:#(\w{6})", cell.get("style"))[1]
    return 3 * 255 - sum(bytes.fromhex(colour))


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


def test_the_running_sentence_shows_its_gold_alignment(found):
    """Averaged over heads, most words look at the word that they translate: the reason for choosing
    this sentence.
    """
    pair = running_pair("de-en")
    looks = found.maps["cross"][1].mean(dim=0).argmax(dim=-1).tolist()  # (T,)
    right = [(looks[j], j) in pair.alignment for j in range(len(pair.target.split()))]
    assert sum(right) >= len(right) - 1


def test_a_translation_can_be_given(translator):
    given = attention_maps(translator, GERMAN, "the woman sang .")
    assert given.rows["cross"] == ["the", "woman", "sang", ".", "<EOS>"]
    with pytest.raises(ValueError, match="empty sentence"):
        attention_maps(translator, "  ")


def test_the_table_holds_each_weight_in_its_row_and_column():
    weights = torch.tensor([[0.9, 0.08, 0.02], [0.1, 0.3, 0.6]])
    header, *rows = cells(attention_table(weights, ["x", "y"], ["a", "b", "c"]))
    assert [cell.text for cell in header[1]] == ["a", "b", "c"] and [row[0] for row in rows] == [
        "x",
        "y",
    ]
    for (word, row), expected in zip(rows, weights.tolist(), strict=True):
        for source, cell, weight in zip("abc", row, expected, strict=True):
            assert cell.get("title") == f"{word} looks at {source}: {weight:.2f}"
            assert (cell.text or "") == (f"{weight:.2f}" if weight >= explorer.SHOWN_FROM else "")
        by_weight = sorted(range(3), key=lambda i: expected[i])
        assert by_weight == sorted(range(3), key=lambda i: darkness(row[i])), "darker is more"


def test_the_largest_weight_of_each_row_is_bold_and_is_first_in_the_plain_text():
    table = attention_table(
        torch.tensor([[0.2, 0.8], [0.7, 0.3]]), ["x", "y"], ["a", "b"], title="two words"
    )
    assert re.findall(r"<b>(.*?)</b>", table.text) == ["0.80", "0.70"]
    assert repr(table) == "two words\nx: b 0.80, a 0.20\ny: a 0.70, b 0.30"


def test_words_cannot_break_the_table():
    nasty = ['<script>alert("1")</script>', "\"&amp;' onload=x"]
    table = attention_table(torch.eye(2), nasty, nasty, title="<b>")
    rows = cells(table)
    assert [row[0] for row in rows[1:]] == nasty and "<script" not in table.text
    assert ElementTree.fromstring(table.text).find("caption").text == "<b>"
    assert all(key in {"style", "title"} for _, row in rows for cell in row for key in cell.keys())


def test_noise_in_the_seventh_digit_does_not_change_the_text():
    weights = torch.tensor([[0.125, 0.125, 0.75], [0.25, 0.375, 0.375], [1 / 3, 1 / 3, 1 / 3]])
    noise = torch.tensor([[1e-7, -1e-7, 0.0]])
    words = ["a", "b", "c"]
    tables = [attention_table(weights + sign * noise, words, words) for sign in (0, 1, -1)]
    assert len({table.text for table in tables}) == len({table.plain for table in tables}) == 1


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"words\) = \(1, 2\), not \(2, 1\)"):
        attention_table(torch.ones(2, 1), ["x"], ["a", "b"])


@pytest.fixture
def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


def test_the_explorer_shows_a_table_where_no_widgets_run(translator, found, displayed):
    explore_attention(translator, GERMAN)
    (shown,) = displayed
    assert shown.widget is None and "cross-attention, layer 1, mean of 4 heads" in shown.text
    expected = found.maps["cross"][1].mean(dim=0)
    assert shown.text.count("<td") == expected.numel()
    assert (
        f"{expected[2, 6] + explorer.OFF_TIES:.2f}"
        in dict(line.split(": ") for line in shown.plain.splitlines()[1:-1])["bought"]
    )


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


@pytest.mark.parametrize("options", [{"kind": "self"}, {"layer": 2}, {"layer": -3}])
def test_an_attention_that_the_model_does_not_have_is_refused(translator, options):
    with pytest.raises(ValueError, match="kind must be one of cross|layer must be -2 to 1, not"):
        explore_attention(translator, GERMAN, **options)


def test_a_slider_shows_the_defaults_and_then_what_is_chosen(monkeypatch, displayed, capsys):
    calls = []

    def square(side=3, name="side"):
        calls.append((side, name))
        return side * side

    monkeypatch.setattr(explorer, "kernel_with_widgets", lambda: True)
    slider(square, side=(1, 9), name=["side", "edge"])
    assert calls == [(3, "side")] and displayed[0] == 9, "once: building the sliders calls nothing"
    number, choice, _ = displayed[1].widget.children
    assert (number.min, number.max, number.value) == (1, 9, 3) and choice.options == (
        "side",
        "edge",
    )
    number.value = 5
    choice.value = "edge"
    assert calls[1:] == [(5, "side"), (5, "edge")] and 25 in displayed


def test_a_slider_without_a_static_form_is_refused(displayed):
    with pytest.raises(ValueError, match="default value for 'side'"):
        slider(lambda side: side, side=(1, 9))
    with pytest.raises(ValueError, match="default value for 'width'"):
        slider(lambda side=1: side, width=(1, 9))
    assert displayed == []


def test_a_hint_stands_where_no_widgets_run(displayed):
    slider(lambda side=3: None, side=(1, 9))
    assert (
        repr(displayed[-1]) == "In JupyterLab, run this cell to move: side."
        and displayed[-1].widget is None
    )
