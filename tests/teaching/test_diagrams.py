"""Diagrams: every word can be read, every arrow ends where it should, and the numbers are those of
nmtlib.
"""

import pathlib
import re

import torch
from matplotlib.transforms import Bbox

from nmtcourse.teaching import diagrams
from nmtcourse.teaching.diagrams import heads, maps
from nmtlib.model.attention import scaled_dot_product_attention
from nmtlib.model.masks import causal_mask
from nmtlib.model.transformer import Transformer, TransformerConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKERS = {name: getattr(diagrams, name) for name in diagrams.__all__}
MAKERS |= {
    "whole_model_pre": lambda: diagrams.whole_model("pre"),
    "encoder_layer_pre": lambda: diagrams.encoder_layer("pre"),
    "decoder_layer_pre": lambda: diagrams.decoder_layer("pre"),
    "multi_head_1": lambda: diagrams.multi_head(1),
    "multi_head_8": lambda: diagrams.multi_head(8),
}
TOUCH = 2.0  # pixels by which things may overlap and still only touch


# Finding what is wrong


def overlap(one: Bbox, other: Bbox) -> bool:
    """Whether two boxes share more than an edge."""
    shared = Bbox.intersection(one, other)
    return shared is not None and min(shared.width, shared.height) > TOUCH


def said(figure) -> list[str]:
    """All words of a diagram."""
    return [text.get_text() for text in figure.axes[0].texts]


# All diagrams


# What they say


def test_names_of_the_whole_model_are_those_of_the_code():
    """Each name under a box is an attribute of the model or of its layers, so a renamed part shows
    here.
    """
    model = Transformer(
        TransformerConfig(
            5, 5, d_model=4, n_heads=2, d_ff=4, n_encoder_layers=1, n_decoder_layers=1
        )
    )
    parts = {part for name, _ in model.named_modules() for part in name.split(".")}
    for norm in ("post", "pre"):
        words = said(diagrams.whole_model(norm))
        names = [word for word in words if re.fullmatch(r"[a-z]+(_[a-z]+)*", word)]
        assert set(names) - parts == {"source", "target", "memory", "logits"}
        assert {
            "source_embedding",
            "target_positions",
            "self_attention",
            "cross_attention",
            "output",
        } <= set(names)


def test_numbers_of_the_diagrams_are_what_nmtlib_computes():
    mask = causal_mask(3)[0, 0]
    found = heads.steps(heads.QUERY, heads.KEY, heads.VALUE, mask)
    result, weights = scaled_dot_product_attention(
        heads.QUERY, heads.KEY, heads.VALUE, mask, return_weights=True
    )
    torch.testing.assert_close((found.weights, found.result), (weights, result))
    numbers = [
        word for word in said(diagrams.masked_self_attention()) if re.fullmatch(r"−?\d+\.\d+", word)
    ]
    assert [f"{value:.2f}" for value in weights.flatten().tolist()] == [
        n for n in numbers if len(n) == 4 and n[0] != "−"
    ][:9]
    assert [f"{value:z.1f}".replace("-", "−") for value in result[1].tolist()] == numbers[-4:]


def test_the_course_map_holds_every_notebook_in_order():
    names = [name for _, _, name, _ in maps.COURSE]
    assert [int(name[:2]) for name in names] == list(range(16))
    written = {path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    assert written - set(names) == set()
    words = said(diagrams.course_map())
    assert [word for word in words if re.fullmatch(r"\d\d", word)] == [name[:2] for name in names]


# The finding itself
