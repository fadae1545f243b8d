"""Architecture diagrams, drawn by code; each function returns a matplotlib figure.

`canvas` is the drawing kit, `stacks` holds layers and model, `heads` attention, `tables` what is
best shown as tables of numbers, `clocks` positions, `norms` what is normalised together, `maps` the
course.  The first sentence about a function is the label of its figures.
"""

from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import ParamSpec

from matplotlib.figure import Figure

from nmtcourse.teaching.diagrams.clocks import clocks
from nmtcourse.teaching.diagrams.heads import attention_head, masked_self_attention, multi_head
from nmtcourse.teaching.diagrams.maps import course_map
from nmtcourse.teaching.diagrams.norms import layer_and_batch_norm
from nmtcourse.teaching.diagrams.stacks import (
    decoder_layer,
    encoder_layer,
    residual_and_norm,
    whole_model,
)
from nmtcourse.teaching.diagrams.tables import (
    cross_attention,
    embedding_lookup,
    masks,
    trained_heads,
)

__all__ = [
    "attention_head",
    "clocks",
    "course_map",
    "cross_attention",
    "decoder_layer",
    "embedding_lookup",
    "encoder_layer",
    "layer_and_batch_norm",
    "masked_self_attention",
    "masks",
    "multi_head",
    "residual_and_norm",
    "trained_heads",
    "whole_model",
]

P = ParamSpec("P")


def sentence(draw: Callable) -> str:
    """The first sentence of the docstring of a function that draws: what readers hear of it."""
    summary = (getdoc(draw) or draw.__name__).split("\n\n")[0].split(".  ")[0]
    return " ".join(summary.split()).rstrip(".")


def labelled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """The same function, whose figures carry its first sentence as their label."""

    @wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> Figure:
        figure = draw(*arguments, **options)
        figure.set_label(sentence(draw))
        return figure

    return drawn


globals().update({name: labelled(globals()[name]) for name in __all__})
