"""The maps are those of the model, and the page of the explorer is framed."""

import re
from pathlib import Path

import pytest
import torch

from nmtcourse.teaching import explorer
from nmtcourse.teaching.course import ENGLISH, GERMAN, load_toy
from nmtcourse.teaching.explorer import attention_maps
from nmtlib.data.batching import collate
from nmtlib.model.attention import MultiHeadAttention, record_attention


@pytest.fixture(scope="module")
def translator():
    return load_toy()


@pytest.fixture(scope="module")
def found(translator):
    return attention_maps(translator, GERMAN)


def test_each_map_fits_its_words_and_its_rows_sum_to_one(translator, found):
    config = translator.model.config
    layers = {"encoder-self": config.n_encoder_layers}
    for kind in ("cross", "encoder-self", "decoder-self"):
        assert len(found.maps[kind]) == layers.get(kind, config.n_decoder_layers)
        for weights in found.maps[kind]:
            words = len(found.rows[kind]), len(found.columns[kind])
            assert weights.shape == (config.n_heads, *words)
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
    later = [weights.triu(1) for weights in found.maps["decoder-self"]]
    assert not any(map(torch.any, later)), "a row reads no later word"


def test_the_page_is_framed_and_its_picture_stays_without_trust(monkeypatch):
    monkeypatch.chdir(explorer.ROOT / "notebooks" / "zh")
    monkeypatch.setattr(explorer, "chosen_language", lambda: "zh")
    shown = explorer.show_explorer().text
    paths = re.findall(r'src="([^"#]+)', shown)
    assert len(paths) == 2 and all(Path(path).is_file() for path in paths), paths
    assert "explorer.html#lang=zh" in shown and shown.startswith("<style>.explorer img")
