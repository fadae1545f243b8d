"""Our models as Hugging Face's: Marian for post-norm, Pegasus for pre-norm, the same logits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from nmtlib.files import write_atomically
from nmtlib.inference.search import NEVER_GENERATED
from nmtlib.inference.translator import Translator
from nmtlib.model.config import TransformerConfig
from nmtlib.model.transformer import Transformer
from nmtlib.specials import BOS, EOS, PAD

HF_PARTS = (  # ours -> theirs, as regular expressions
    (r"^(encoder|decoder)\.(\d+)\.", r"model.\1.layers.\2."),
    (r"^(encoder|decoder)_norm\.", r"model.\1.layer_norm."),
    (r"(?<=\d\.)self_attention\.", "self_attn."),
    (r"(?<=\d\.)cross_attention\.", "encoder_attn."),
    (r"(?<=attn\.)(q|k|v)(uery|ey|alue)\.", r"\1_proj."),
    (r"(?<=attn\.)output\.", "out_proj."),
    (r"feed_forward\.fc1\.", "fc1."),
    (r"feed_forward\.fc2\.", "fc2."),
    (r"residuals\.0\.norm\.", "self_attn_layer_norm."),
    (r"^(model\.decoder.*)residuals\.1\.norm\.", r"\1encoder_attn_layer_norm."),
    (r"residuals\.[12]\.norm\.", "final_layer_norm."),
    (r"^output\.weight", "lm_head.weight"),
    (r"^output\.bias", "final_logits_bias"),
    (r"^source_embedding\.", "model.encoder.embed_tokens."),
    (r"^target_embedding\.", "model.decoder.embed_tokens."),
)


def hf_name(name: str) -> str:
    """What Marian and Pegasus call one of our parameters."""
    for ours, theirs in HF_PARTS:
        name = re.sub(ours, theirs, name)
    return name


def to_hugging_face(
    translator: Translator, folder: Path, *, family: str, architecture: str
) -> None:
    """A folder for `from_pretrained`, written without the transformers package.

    Marian is our post-norm model, Pegasus our pre-norm one; `nmtlib.model.choices` has the rest.
    """
    c = translator.model.config
    config = hf_config(c) | FAMILIES[family](c) | {"architectures": [architecture]}
    # `early_stopping` ends a sentence as our beam search does: when as many hypotheses as the beam
    # is wide have ended.
    generation = SPECIAL_IDS | {
        "suppress_tokens": NEVER_GENERATED,
        "forced_eos_token_id": EOS,
        "early_stopping": True,
        "length_penalty": 0.0,
        "max_length": c.max_length,
        "num_beams": translator.settings.decoding.beam,
    }
    weights = save(hf_weights(translator.model), metadata={"format": "pt"})
    write_atomically(folder / "model.safetensors", weights)
    write_atomically(folder / "config.json", json.dumps(config, indent=2) + "\n")
    write_atomically(folder / "generation_config.json", json.dumps(generation, indent=2) + "\n")


SPECIAL_IDS = {
    "decoder_start_token_id": BOS,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": PAD,
}
FAMILIES = {
    "pegasus": lambda c: {"model_type": "pegasus"},
    "marian": lambda c: {
        "model_type": "marian",
        "decoder_vocab_size": c.target_vocab_size,
        "share_encoder_decoder_embeddings": c.tied == "all",
    },
}


def hf_config(c: TransformerConfig) -> dict[str, Any]:
    """Our configuration under the names that both architectures share."""
    return SPECIAL_IDS | {
        "is_encoder_decoder": True,
        "d_model": c.d_model,
        "vocab_size": c.source_vocab_size,
        "max_position_embeddings": c.max_length,
        "scale_embedding": True,
        "encoder_layers": c.n_encoder_layers,
        "decoder_layers": c.n_decoder_layers,
        "activation_function": "relu",
        "encoder_attention_heads": c.n_heads,
        "decoder_attention_heads": c.n_heads,
        "encoder_ffn_dim": c.d_ff,
        "decoder_ffn_dim": c.d_ff,
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
        "activation_dropout": c.dropout,
        "tie_word_embeddings": c.tied != "none",
        "forced_eos_token_id": None,
    }


def hf_weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights under the names of Marian and Pegasus, for the position table of these.

    It holds all sines in its first half and all cosines in the second, where ours has them in
    turns.  So whatever writes the residual stream or reads it is permuted in the same way, which
    changes no logit.
    """
    halves = torch.cat(
        [torch.arange(0, model.config.d_model, 2), torch.arange(1, model.config.d_model, 2)]
    )  # (D,)
    weights: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensor = parameter.detach()
        if re.search(
            r"norm|attention\.output|fc2", name
        ):  # writes the stream, by its first dimension
            tensor = tensor[halves]
        elif tensor.dim() == 2:  # reads it, by its last
            tensor = tensor[:, halves]
        weights[hf_name(name)] = tensor.contiguous()
    weights["final_logits_bias"] = weights["final_logits_bias"][None]  # (1, V)
    if model.config.tied == "all":
        weights["model.shared.weight"] = weights.pop("model.encoder.embed_tokens.weight")
    return weights
