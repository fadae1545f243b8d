"""Our models in CTranslate2's format, where every switch of them has its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.recipes.optional import need
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import MultiHeadAttention
from nmtlib.specials import BOS, EOS, SPECIALS, UNK


def to_ctranslate2(
    translator: Translator, folder: Path, *, quantization: str | None = None
) -> None:
    """A folder for `ctranslate2.Translator`; every switch of our model has its place there."""
    ctranslate2 = need("ctranslate2")
    model, c = translator.model, translator.model.config
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (c.n_encoder_layers, c.n_decoder_layers), c.n_heads, pre_norm=c.norm == "pre"
    )
    sides = (
        (spec.encoder, model.encoder, model.source_positions, model.encoder_norm),
        (spec.decoder, model.decoder, model.target_positions, model.decoder_norm),
    )
    for side, layers, positions, norm in sides:
        side.scale_embeddings = model.source_embedding.scale
        side.position_encodings.encodings = array(positions.table)
        if c.norm == "pre":
            fill_norm(side.layer_norm, norm)
        for to, layer in zip(side.layer, layers, strict=True):
            fill_attention(to.self_attention, layer.self_attention, fused=True)
            fill_norm(to.self_attention.layer_norm, layer.residuals[0].norm)
            if layers is model.decoder:
                fill_attention(to.attention, layer.cross_attention, fused=False)
                fill_norm(to.attention.layer_norm, layer.residuals[1].norm)
            fill_linear(to.ffn.linear_0, layer.feed_forward.fc1)
            fill_linear(to.ffn.linear_1, layer.feed_forward.fc2)
            fill_norm(to.ffn.layer_norm, layer.residuals[-1].norm)
    spec.encoder.embeddings[0].weight = array(model.source_embedding.weight)
    spec.decoder.embeddings.weight = array(model.target_embedding.weight)
    fill_linear(spec.decoder.projection, model.output)
    spec.register_source_vocabulary(translator.source.vocab.tokens)
    spec.register_target_vocabulary(translator.target.vocab.tokens)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        SPECIALS[i] for i in (UNK, BOS, EOS)
    )
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIALS[BOS], True
    spec.config.layer_norm_epsilon = model.decoder[0].residuals[0].norm.eps
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def array(tensor: Tensor) -> Any:
    """A tensor as the numpy array that CTranslate2 takes."""
    return tensor.detach().float().numpy().copy()  # a copy, for quantization works in place


def fill_norm(to: Any, norm: nn.LayerNorm) -> None:
    """Copy a layer norm into CTranslate2's specification."""
    to.gamma, to.beta = array(norm.weight), array(norm.bias)


def fill_linear(to: Any, *layers: nn.Linear) -> None:
    """Copy linear maps into CTranslate2's specification, several of one input below each other."""
    to.weight = array(torch.cat([layer.weight for layer in layers]))
    to.bias = array(torch.cat([layer.bias for layer in layers]))


def fill_attention(to: Any, attention: MultiHeadAttention, *, fused: bool) -> None:
    """Copy an attention; self-attention has query, key and value in one map, cross-attention the
    query apart.
    """
    query, key, value = attention.query, attention.key, attention.value
    for linear, layers in zip(
        to.linear, [(query, key, value)] if fused else [(query,), (key, value)], strict=False
    ):
        fill_linear(linear, *layers)
    fill_linear(to.linear[-1], attention.output)
