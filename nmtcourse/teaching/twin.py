"""PyTorch's `nn.Transformer` with the weights of ours, to compare what both compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nmtlib.data.batching import Batch
from nmtlib.model.choices import require_expressible
from nmtlib.model.layers import DecoderLayer
from nmtlib.model.transformer import Transformer
from nmtlib.specials import PAD


def torch_twin(ours: Transformer) -> nn.Transformer:
    """PyTorch's two stacks, in float64, with the weights of ours.

    `nn.Transformer` closes each stack with one more norm.  Post-norm has none there (Vaswani et al.
    2017, 3.1: a layer ends in a norm already), so it is taken out.  Raises ValueError for a model
    that it cannot express.
    """
    c = ours.config
    require_expressible(c, "nn.Transformer")
    sizes = (c.d_model, c.n_heads, c.n_encoder_layers, c.n_decoder_layers, c.d_ff)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a note that pre-norm takes no shortcut
        twin = nn.Transformer(*sizes, dropout=0.0, batch_first=True, norm_first=c.norm == "pre")
    twin = twin.double()
    if c.norm == "post":
        twin.encoder.norm = twin.decoder.norm = None
    for mine, theirs in tensor_pairs(ours, twin):
        theirs.data = torch.cat([tensor.data for tensor in mine])
    return twin


def tensor_pairs(
    ours: Transformer, twin: nn.Transformer
) -> Iterator[tuple[list[nn.Parameter], nn.Parameter]]:
    """For each tensor of the twin, the tensors of ours that it holds, one below the other.

    PyTorch keeps the maps of query, key and value in one tall matrix.
    """
    layers = zip(
        [*ours.encoder, *ours.decoder], [*twin.encoder.layers, *twin.decoder.layers], strict=True
    )
    for a, b in layers:
        attentions = [(a.self_attention, b.self_attn)]
        if isinstance(a, DecoderLayer):
            attentions.append((a.cross_attention, b.multihead_attn))
        same = [(a.feed_forward.fc1, b.linear1), (a.feed_forward.fc2, b.linear2)]
        for number, residual in enumerate(a.residuals, start=1):  # PyTorch counts norms from 1
            same.append((residual.norm, getattr(b, f"norm{number}")))
        same += [(one.output, other.out_proj) for one, other in attentions]
        for kind in ("weight", "bias"):
            for one, other in attentions:
                three = [getattr(part, kind) for part in (one.query, one.key, one.value)]
                yield three, getattr(other, f"in_proj_{kind}")
            for one, other in same:
                yield [getattr(one, kind)], getattr(other, kind)
    for name in ("encoder", "decoder"):
        if (norm := getattr(twin, name).norm) is not None:
            closing = getattr(ours, f"{name}_norm")
            yield [closing.weight], norm.weight
            yield [closing.bias], norm.bias


def twin_logits(ours: Transformer, twin: nn.Transformer, batch: Batch) -> Tensor:
    """The logits (B, T, V) of our embeddings and output layer around PyTorch's stacks."""
    source, target = batch.source, batch.decoder_input
    length = target.size(1)
    x = twin(
        ours.source_positions(ours.source_embedding(source)),
        ours.target_positions(ours.target_embedding(target)),
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),  # True hides, in PyTorch
        src_key_padding_mask=source == PAD,
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )  # (B, T, D)
    return ours.output(x)  # (B, T, V)
