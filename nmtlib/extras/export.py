"""Take a trained run elsewhere, with the same weights: plain safetensors, Hugging Face,
CTranslate2, ONNX.

Each format is one function that fills an empty folder; `export` adds what all of them share: the
tokenizers with their vocabularies, and a README.md whose code loads the model and translates.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from nmtlib.data.tokenizers import BPETokenizer
from nmtlib.data.vocab import BOS, EOS, PAD, SPECIALS, UNK
from nmtlib.extras.export_readme import readme
from nmtlib.inference.search import NEVER_SAID
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import MultiHeadAttention
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer

QUANTIZATIONS = (
    "int8",
    "int8_float32",
    "int16",
    "float16",
    "bfloat16",
    "float32",
)  # those of CTranslate2


def export(
    run: str | Path, to: str, out: str | Path | None = None, *, quantization: str | None = None
) -> Path:
    """Write the model of a run folder in the format `to` (one of `FORMATS`) into the folder `out`;
    returns `out`.

    `out` defaults to a folder in the run named after the format.  `quantization` is for CTranslate2
    alone. Raises FileExistsError for a folder that is not empty, ModuleNotFoundError where the
    package of the format is not installed, ValueError for another format or a model that the format
    cannot express.
    """
    if to not in FORMATS:
        raise ValueError(f"unknown format {to!r}; expected one of {', '.join(FORMATS)}")
    if quantization is not None and (to != "ctranslate2" or quantization not in QUANTIZATIONS):
        raise ValueError(
            f"quantization {quantization!r} is not for {to}: ctranslate2 alone knows "
            f"{', '.join(QUANTIZATIONS)}"
        )
    out = Path(run) / to if out is None else Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(
            f"{out} is there already and not empty; nothing is overwritten: choose another --out"
        )
    translator = Translator.load(run, device="cpu")
    out.parent.mkdir(parents=True, exist_ok=True)
    # Made beside its place and moved there when it is complete, so that a failure leaves nothing
    # behind.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as parent:
        folder = Path(parent) / out.name
        folder.mkdir()
        FORMATS[to](translator, folder, **({"quantization": quantization} if quantization else {}))
        for side, codec in (("source", translator.source), ("target", translator.target)):
            (folder / f"{side}.json").write_text(codec.to_json(), "utf-8")
            if isinstance(
                codec.tokenizer, BPETokenizer
            ):  # which the `tokenizers` library reads without nmtlib
                (folder / f"{side}-tokenizer.json").write_text(codec.tokenizer.model, "utf-8")
        (folder / "README.md").write_text(readme(to, translator.model), "utf-8")
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return out


def to_safetensors(translator: Translator, folder: Path) -> None:
    """model.safetensors, its names those of the model's modules (a tied tensor once), and
    config.json.
    """
    model = translator.model
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    config = json.dumps(asdict(model.config), indent=2)
    header = {"format": "pt", "config": config}
    (folder / "model.safetensors").write_bytes(save(weights, metadata=header))
    (folder / "config.json").write_text(config + "\n", "utf-8")


HF_PARTS = (  # ours -> theirs, as regular expressions
    (r"^(encoder|decoder)\.(\d+)\.", r"model.\1.layers.\2."),
    (r"^(encoder|decoder)_norm\.", r"model.\1.layer_norm."),
    (r"(?<=\d\.)self_attention\.", "self_attn."),
    (r"(?<=\d\.)cross_attention\.", "encoder_attn."),
    (r"(?<=attn\.)(q|k|v)(uery|ey|alue)\.", r"\1_proj."),
    (r"(?<=attn\.)output\.", "out_proj."),
    (r"feed_forward\.expand\.", "fc1."),
    (r"feed_forward\.contract\.", "fc2."),
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
    translator: Translator, folder: Path, *, family: str, architecture: str, norm: str
) -> None:
    """A folder for `from_pretrained`, written without the transformers package.

    Marian is our post-norm model, Pegasus our pre-norm one.
    Raises ValueError for a model that the architecture cannot express.
    """
    c = translator.model.config
    if c.norm != norm:
        raise ValueError(
            f"{architecture} is {norm}-norm and cannot hold this {c.norm}-norm model; "
            f"use --to {'pegasus' if c.norm == 'pre' else 'marian'}"
        )
    if c.positions != "sinusoidal":
        raise ValueError(
            f"{architecture} computes sinusoidal positions and cannot hold {c.positions} ones; "
            "use --to ctranslate2 or onnx"
        )
    if family == "pegasus" and c.tied != "all":
        raise ValueError(
            f"{architecture} has one embedding for both sides (tied='all'), but this model has "
            f"tied={c.tied!r}; use --to ctranslate2 or onnx"
        )
    start = {
        "decoder_start_token_id": BOS,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
    config = start | {
        "architectures": [architecture],
        "model_type": family,
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
    if family == "marian":
        config |= {
            "decoder_vocab_size": c.target_vocab_size,
            "share_encoder_decoder_embeddings": c.tied == "all",
        }
    # `early_stopping` ends a sentence, as our beam search does, when as many hypotheses as the beam
    # is wide have ended.
    generation = start | {
        "suppress_tokens": NEVER_SAID,
        "forced_eos_token_id": EOS,
        "early_stopping": True,
        "length_penalty": 0.0,
        "max_length": c.max_length,
        "num_beams": translator.settings.decoding.beam,
    }
    (folder / "model.safetensors").write_bytes(
        save(hf_weights(translator.model), metadata={"format": "pt"})
    )
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", "utf-8")


def hf_weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights under the names of Marian and Pegasus, for the position table that these build
    themselves.

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
            r"norm|attention\.output|contract", name
        ):  # writes the stream, by its first dimension
            tensor = tensor[halves]
        elif tensor.dim() == 2:  # reads it, by its last
            tensor = tensor[:, halves]
        weights[hf_name(name)] = tensor.contiguous()
    weights["final_logits_bias"] = weights["final_logits_bias"][None]  # (1, V)
    if model.config.tied == "all":
        weights["model.shared.weight"] = weights.pop("model.encoder.embed_tokens.weight")
    return weights


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
            fill_linear(to.ffn.linear_0, layer.feed_forward.expand)
            fill_linear(to.ffn.linear_1, layer.feed_forward.contract)
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
    for place, layers in zip(
        to.linear, [(query, key, value)] if fused else [(query,), (key, value)], strict=False
    ):
        fill_linear(place, *layers)
    fill_linear(to.linear[-1], attention.output)


def to_onnx(translator: Translator, folder: Path) -> None:
    """model.onnx: source ids (B, S) and target ids (B, T), both int64, -> logits (B, T, V); B, S
    and T are free.
    """
    need("onnx")
    need("onnxscript")
    model = copy.deepcopy(translator.model)
    for embedding in (model.source_embedding, model.target_embedding):
        # Our check of the ids looks at their values, which a graph for any ids cannot do.
        embedding.forward = MethodType(scaled_lookup, embedding)
    batch, longest = torch.export.Dim("batch"), model.config.max_length
    shapes = (
        {0: batch, 1: torch.export.Dim("source_length", max=longest)},
        {0: batch, 1: torch.export.Dim("target_length", max=longest)},
    )
    source, target = torch.full((2, 5), UNK), torch.full((2, 3), UNK)
    with torch.no_grad():
        torch.onnx.export(
            model,
            (source, target),
            folder / "model.onnx",
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
            input_names=["source", "target"],
            output_names=["logits"],
            external_data=False,
        )


def scaled_lookup(embedding: TokenEmbedding, ids: Tensor) -> Tensor:
    """`TokenEmbedding.forward` without its check."""
    return nn.Embedding.forward(embedding, ids) * embedding.scale


def need(package: str) -> ModuleType:
    """Import an optional package.  Raises ModuleNotFoundError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"this export needs the package {package}: pip install {package}"
        ) from None


FORMATS: dict[str, Callable[..., None]] = {
    "safetensors": to_safetensors,
    "marian": partial(to_hugging_face, family="marian", architecture="MarianMTModel", norm="post"),
    "pegasus": partial(
        to_hugging_face,
        family="pegasus",
        architecture="PegasusForConditionalGeneration",
        norm="pre",
    ),
    "ctranslate2": to_ctranslate2,
    "onnx": to_onnx,
}
