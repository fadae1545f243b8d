"""How to connect lucidrains' x-transformers; weights are random, nothing is downloaded."""

from __future__ import annotations

from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes

PAD = 0


def make_model(sizes: Sizes) -> nn.Module:
    """A new XTransformer.  Raises ImportError without the package x_transformers."""
    from x_transformers import XTransformer

    half = {
        "depth": sizes.n_layers,
        "heads": sizes.n_heads,
        "attn_dim_head": sizes.d_model // sizes.n_heads,
        "ff_mult": sizes.d_ff / sizes.d_model,
        "max_seq_len": sizes.max_length,
        "attn_dropout": sizes.dropout,
        "ff_dropout": sizes.dropout,
    }
    halves = {f"{side}_{name}": half[name] for side in ("enc", "dec") for name in half}
    vocabularies = {
        "enc_num_tokens": sizes.source_vocab_size,
        "dec_num_tokens": sizes.target_vocab_size,
    }
    return XTransformer(dim=sizes.d_model, tie_token_emb=False, **vocabularies, **halves)


def encode(model: nn.Module, source: Tensor) -> Tensor:
    """Source ids (B, S) -> memory (B, S, D)."""
    return model.encoder(source, mask=source != PAD, return_embeddings=True)


def decode(model: nn.Module, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
    """Decoder input (B, T) and memory -> logits (B, T, V)."""
    return model.decoder.net(target, context=memory, context_mask=source != PAD)


def logits(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Source ids (B, S) and decoder input (B, T) -> logits (B, T, V)."""
    return decode(model, target, encode(model, source), source)


def x_transformer() -> Adapter:
    """The adapter: pre-norm, learned positions."""
    import x_transformers  # noqa: F401 (missing, it is missed here and not in every check)

    return Adapter(
        name="x-transformers",
        fixed_positions=False,
        scaled_embedding=False,
        make_model=make_model,
        logits=logits,
        encode=encode,
        decode=decode,
    )
