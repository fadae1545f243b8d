"""How to connect Hugging Face's MarianMTModel; its weights are random, nothing is downloaded."""

from __future__ import annotations

from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Hypothesis, Sizes

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


def beam_search(
    model: nn.Module, source: Tensor, beam: int, penalty: float, longest: int
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, without scores."""
    ids = model.generate(
        source,
        attention_mask=(source != PAD).long(),
        num_beams=beam,
        num_return_sequences=beam,
        do_sample=False,
        length_penalty=penalty,
        max_new_tokens=longest + 1,
        early_stopping=False,
    )
    rows = [row[1:] for row in ids.tolist()]
    ended = [row[: row.index(EOS)] if EOS in row else row for row in rows]
    found = [([i for i in row if i != PAD], None) for row in ended]
    return [found[i : i + beam] for i in range(0, len(found), beam)]


def greedy(model: nn.Module, source: Tensor, longest: int) -> list[list[int]]:
    """A beam of one."""
    return [hypotheses[0][0] for hypotheses in beam_search(model, source, 1, 0.0, longest)]


def marian() -> Adapter:
    """The adapter of MarianMTModel: tied embeddings, sines before cosines, post-norm."""
    import transformers  # noqa: F401 (missing, it is missed here and not in every check)

    return Adapter(
        name="MarianMTModel",
        pad=PAD,
        bos=BOS,
        eos=EOS,
        pad_unsmoothed=False,
        make_model=make_model,
        logits=logits,
        beam=beam_search,
        greedy=greedy,
    )
