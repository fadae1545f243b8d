"""From probabilities to a translation: greedy search, sampling, beam search; all in batches.

A model is anything with `start`, `step`, `config`, `output` and the modes of a module: a
`Transformer`, or several of them that translate together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from nmtlib.errors import require
from nmtlib.inference.beams import Beams, Finished, Hypothesis, until_eos
from nmtlib.model.layers import DecoderState
from nmtlib.model.transformer import Transformer
from nmtlib.specials import BOS, EOS, PAD, UNK

NEVER_GENERATED = [PAD, BOS, UNK]
STEEPEST = 10.0  # length penalties beyond it leave the range of float32 in long translations


def length_limits(source: Tensor, table_length: int, max_length: int | None = None) -> Tensor:
    """How many tokens, EOS included, the translation of each source (B, S) may have: (B,).

    Twice the source and ten more, never the reference's length, which a real translator does not
    know.  `max_length` (without EOS) replaces that rule; the position table bounds both.
    """
    words = (source != PAD).sum(dim=1)  # (B,)
    if max_length is None:
        return (2 * words + 10).clamp(max=table_length)  # (B,)
    require(max_length >= 1, "max_length", "1 word or more", max_length)
    return torch.full_like(words, max_length + 1).clamp(max=table_length)  # (B,)


def _in_eval_mode(search: Callable) -> Callable:
    """Run a search without gradients and dropout, then restore the mode of the model."""

    @functools.wraps(search)
    def run(model: Transformer, source: Tensor, *args: object, **kwargs: object) -> list:
        if not len(source):
            return []
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                return search(model, source, *args, **kwargs)
        finally:
            model.train(was_training)

    return run


def _score_type(dtype: torch.dtype) -> torch.dtype:
    """The type of summed log-probabilities: float32 at least, as bfloat16 makes many sums equal."""
    return torch.promote_types(dtype, torch.float32)


def _log_probs(logits: Tensor, length: int, limits: Tensor, shortest: int) -> Tensor:
    """Log-probabilities (B, ..., V) of token number `length`; -inf for what is not allowed.

    `shortest` is the least limit: before it, no sentence can be at its limit.
    """
    logp = logits.log_softmax(dim=-1, dtype=_score_type(logits.dtype))  # (B, ..., V)
    for token in NEVER_GENERATED:
        logp[..., token] = -math.inf
    if length >= shortest:  # at its limit a translation can only end
        others = torch.arange(logp.size(-1), device=logp.device) != EOS  # (V,)
        at_limit = (limits == length).view(-1, *[1] * (logp.dim() - 1))  # (B, ..., 1)
        logp.masked_fill_(at_limit & others, -math.inf)
    return logp


def _search_one(
    model: Transformer, source: Tensor, max_length: int | None, choose: Callable[[Tensor], Tensor]
) -> list[list[int]]:
    """One hypothesis a sentence; `choose` makes next tokens (N,) of log-probabilities (N, V)."""
    limits = length_limits(source, model.config.max_length, max_length)  # (B,)
    shortest, longest = torch.stack(limits.aminmax()).tolist()
    state = model.start(source)
    generated = torch.full((len(source), longest), PAD, device=source.device)
    open_rows = torch.arange(len(source), device=source.device)  # sentences without EOS so far
    tokens, done = torch.full_like(open_rows, BOS), open_rows < 0
    for length in range(1, longest + 1):
        logits = model.step(tokens, state)  # (N, V)
        tokens = choose(_log_probs(logits, length, limits[open_rows], shortest))  # (N,)
        generated[open_rows, length - 1] = tokens
        done = done | (tokens == EOS)
        keep = (~done).nonzero().squeeze(1)
        if not len(keep):
            break
        if len(keep) < len(tokens):  # finished sentences leave the batch
            state.reorder(keep)
            state.select_sentences(keep)
            open_rows, tokens, done = open_rows[keep], tokens[keep], done[keep]
    return [until_eos(row) for row in generated.tolist()]


@_in_eval_mode
def greedy_search(
    model: Transformer, source: Tensor, *, max_length: int | None = None
) -> list[list[int]]:
    """Generate the most probable next token until EOS.

    source (B, S) -> B lists of ids without BOS and EOS, none longer than `length_limits`.
    """
    return _search_one(model, source, max_length, lambda logp: logp.argmax(dim=-1))


@_in_eval_mode
def sample(
    model: Transformer,
    source: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    max_length: int | None = None,
) -> list[list[int]]:
    """Sample each next token from the model's distribution: source (B, S) -> B lists of ids.

    `temperature` below 1 sharpens it; `top_k` keeps the k most probable tokens, `top_p` the fewest
    whose probabilities reach p (nucleus sampling, Holtzman et al. 2020).  Raises ValueError for a
    temperature of 0 or less, top_k below 1, or top_p outside (0, 1].
    """
    if not temperature > 0 or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
        raise ValueError(
            f"sampling needs temperature > 0, 0 < top_p <= 1, top_k >= 1; "
            f"given {temperature}, {top_p}, {top_k}"
        )

    def choose(logp: Tensor) -> Tensor:
        logp, tokens = (logp / temperature).sort(dim=-1, descending=True)  # (N, V)
        if top_k is not None:
            logp[:, top_k:] = -math.inf
        p = logp.softmax(dim=-1)  # (N, V)
        before = p.cumsum(dim=-1) - p  # the mass before a token decides whether it stays
        p = p.masked_fill(before >= top_p, 0.0)
        return tokens.gather(-1, torch.multinomial(p, 1, generator=generator)).squeeze(-1)  # (N,)

    return _search_one(model, source, max_length, choose)


def length_norm(length: int | Tensor, penalty: float) -> float | Tensor:
    """The divisor of a log-probability, ((5 + length) / 6) ** penalty.  Wu et al. 2016, eq. 14.

    `length` counts EOS.  Log-probabilities are negative, so a greater penalty favours longer
    translations.
    """
    return ((5 + length) / 6) ** penalty


@_in_eval_mode
def beam_search(
    model: Transformer,
    source: Tensor,
    beam: int = 5,
    *,
    n_best: int = 1,
    length_penalty: float = 1.0,
    max_length: int | None = None,
) -> list[list[Hypothesis]]:
    """Keep the `beam` best prefixes; rank finished ones by log-probability / `length_norm`.

    source (B, S) -> for each sentence its `n_best` hypotheses, best first.  Raises ValueError.
    """
    if not 1 <= n_best <= beam or not abs(length_penalty) <= STEEPEST:  # not so for NaN
        raise ValueError(
            f"beam search needs 1 <= n_best <= beam and a length_penalty from -10 to 10; given "
            f"n_best {n_best}, beam {beam}, length_penalty {length_penalty}"
        )
    limits = length_limits(source, model.config.max_length, max_length)  # (B,)
    shortest, longest = torch.stack(limits.aminmax()).tolist()
    state = model.start(source)
    beams = Beams.begin(len(source), _score_type(model.output.weight.dtype), source.device)
    finished = Finished(len(source), beam, longest, beams.log_prob)
    for length in range(1, longest + 1):
        # Expand: read the newest token of each prefix, and score the prefix with each next token.
        # One of these is EOS, so of 2 * beam candidates at least `beam` stay live.
        logits = model.step(beams.ids[..., -1].flatten(), state).unflatten(0, beams.log_prob.shape)
        logp = _log_probs(logits, length, limits[beams.rows], shortest)  # (n, w, V)
        candidates = beams.grow(logp.add_(beams.log_prob[..., None]), 2 * beam)
        # Finish: candidates with EOS are compared with those that finished before.
        finished.add(candidates, length_norm(length, length_penalty))
        # Prune: the `beam` best of the others stay live, if they can still change the n best.
        beams = candidates.prune(beam)
        done = _decided(beams, finished, limits, n_best, length_penalty)  # (n,)
        beams.log_prob.masked_fill_(done[:, None], -math.inf)  # such a row adds nothing any more
        keep = (~done).nonzero().squeeze(1)  # (n',)
        if not len(keep):
            break
        beams = _select(keep, beams, state, logits.size(1))
    return finished.hypotheses(n_best)


def _decided(
    beams: Beams, finished: Finished, limits: Tensor, n_best: int, length_penalty: float
) -> Tensor:
    """Which sentences need no further step, (n,), bool: nothing can change their n best."""
    rows, beam = beams.rows, finished.score.size(1)
    enough = finished.count[rows] >= beam  # (n,): as many have finished as the beam is wide
    # A longer prefix is never more probable, so none ends better than the best live one now.  Its
    # score also depends on the length, and is greatest at the next length or at the last.
    best_live = beams.log_prob[:, 0]  # (n,)
    if_short = best_live / length_norm(beams.ids.size(2), length_penalty)  # (n,)
    if_long = best_live / length_norm(limits[rows], length_penalty)  # (n,)
    nth_best = finished.score[rows, n_best - 1]  # (n,): -inf where fewer have finished
    return enough | (nth_best >= torch.maximum(if_long, if_short))


def _select(keep: Tensor, beams: Beams, state: DecoderState, width: int) -> Beams:
    """Continue with the rows `keep` (n',); the cache, `width` to a row, follows the prefixes."""
    state.reorder((keep[:, None] * width + beams.parents[keep]).flatten())
    if len(keep) == len(beams.rows):
        return beams
    state.select_sentences(keep)
    return Beams(*(part[keep] for part in beams))
