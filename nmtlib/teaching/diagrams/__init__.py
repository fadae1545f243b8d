"""Architecture diagrams, drawn by code; each function returns a matplotlib figure.

`canvas` is the drawing kit, `stacks` holds layers and model, `heads` attention, `tables` what is
best shown as tables of numbers, `clocks` positions, `norms` what is normalised together, `maps` the
course and the package.
"""

from nmtlib.teaching.diagrams.clocks import clocks
from nmtlib.teaching.diagrams.heads import attention_head, masked_self_attention, multi_head
from nmtlib.teaching.diagrams.maps import course_map, data_flow
from nmtlib.teaching.diagrams.norms import layer_and_batch_norm
from nmtlib.teaching.diagrams.stacks import (
    decoder_layer,
    encoder_layer,
    residual_and_norm,
    whole_model,
)
from nmtlib.teaching.diagrams.tables import cross_attention, embedding_lookup, masks, trained_heads

__all__ = [
    "attention_head",
    "clocks",
    "course_map",
    "cross_attention",
    "data_flow",
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
