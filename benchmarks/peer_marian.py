"""How to connect Hugging Face's MarianMTModel; its weights are random, nothing is downloaded."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes

PAD, BOS, EOS = 0, 1, 2


def make_model(sizes: Sizes) -> nn.Module:
    """A new MarianMTModel.  Raises ImportError without the package transformers."""
    import transformers

    half = {"layers": sizes.n_layers, "attention_heads": sizes.n_heads, "ffn_dim": sizes.d_ff}
    halves = {f"{side}_{name}": half[name] for side in ("encoder", "decoder") for name in half}
    dropouts = ("dropout", "attention_dropout", "activation_dropout")
    config = transformers.MarianConfig(
        vocab_size=sizes.source_vocab_size,
        decoder_vocab_size=sizes.target_vocab_size,
        d_model=sizes.d_model,
        **halves,
        **dict.fromkeys(dropouts, sizes.dropout),
        max_position_embeddings=sizes.max_length,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config)


def logits(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Source ids (B, S) and decoder input (B, T) -> logits (B, T, V)."""
    mask = (source != PAD).long()
    return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


@torch.no_grad()
def translate(model: nn.Module, words: list[str], longest: int) -> list[str]:
    """A beam search for the words w4, w5, and so on."""
    source = torch.tensor([[*(int(word[1:]) for word in words), EOS]])
    (ids,) = model.eval().generate(
        source,
        attention_mask=torch.ones_like(source),
        num_beams=3,
        do_sample=False,
        length_penalty=1.0,
        max_new_tokens=longest,
        early_stopping=False,
    )
    return [f"w{i}" for i in ids.tolist() if i not in (PAD, BOS, EOS)]


def marian() -> Adapter:
    """The adapter of MarianMTModel: tied embeddings, sines before cosines, post-norm."""
    import transformers  # noqa: F401 (missing, it is missed here and not in every check)

    return Adapter(
        name="MarianMTModel",
        pad=PAD,
        bos=BOS,
        eos=EOS,
        source_eos=True,
        make_model=make_model,
        logits=logits,
        translate=translate,
    )
