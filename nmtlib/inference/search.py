"""From probabilities to a translation: greedy search, sampling, beam search; all batched, all with
the cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nmtlib.data.vocab import BOS, EOS, PAD, UNK
from nmtlib.inference.kernels import onednn_linears
from nmtlib.model.transformer import Transformer

NEVER_SAID = [PAD, BOS, UNK]  # a translation is made of words


@dataclass(frozen=True)
class Hypothesis:
    """One translation: its ids without BOS and EOS, its log-probability (nats), and the score it
    was ranked by.
    """

    ids: list[int]
    log_prob: float
    score: float


def length_limits(source: Tensor, table_length: int, max_length: int | None = None) -> Tensor:
    """How many tokens, EOS included, the translation of each source (B, S) may have: (B,).

    Twice the source and ten more, never the reference's length, which a real translator does not
    know. `max_length` (words, without EOS) replaces that rule; the position table bounds both.
    """
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length is a number of words of at least 1, not {max_length}")
    words = (source != PAD).sum(dim=1)  # (B,)
    limits = 2 * words + 10 if max_length is None else torch.full_like(words, max_length + 1)
    return limits.clamp(max=table_length)


def _in_eval_mode(search: Callable) -> Callable:
    """Run a search without gradients and without dropout, and leave the model in the mode it was
    in.
    """

    @functools.wraps(search)
    def run(model: Transformer, source: Tensor, *args, **kwargs):
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode(), onednn_linears(model):
                return search(model, source, *args, **kwargs)
        finally:
            model.train(was_training)

    return run


def _score_type(dtype: torch.dtype) -> torch.dtype:
    """The type of sums of log-probabilities: float32 at least, for in bfloat16 two beginnings of
    many score alike.
    """
    return torch.promote_types(dtype, torch.float32)


def _log_probs(logits: Tensor, length: int, limits: Tensor, min_length: int = 0) -> Tensor:
    """Log-probabilities (B, ..., V) of token number `length`, -inf for what may not be said at this
    place.
    """
    logp = logits.log_softmax(dim=-1, dtype=_score_type(logits.dtype))
    logp[..., NEVER_SAID] = -math.inf
    if length <= min_length:
        logp[..., EOS] = -math.inf
    at_limit = limits == length
    if at_limit.any():  # only EOS is left
        words = torch.arange(logp.size(-1), device=logp.device) != EOS
        logp[at_limit] = logp[at_limit].masked_fill(words, -math.inf)
    return logp


def _search_one(
    model: Transformer, source: Tensor, max_length: int | None, choose: Callable[[Tensor], Tensor]
) -> list[list[int]]:
    """One hypothesis a sentence; `choose` turns log-probabilities (N, V) into the next tokens (N,)."""
    limits = length_limits(source, model.config.max_length, max_length)
    state = model.start(source)
    said = torch.full((len(source), int(limits.max())), PAD, device=source.device)
    open_rows = torch.arange(len(source), device=source.device)  # sentences without EOS so far
    tokens = torch.full_like(open_rows, BOS)
    for length in range(1, said.size(1) + 1):
        tokens = choose(_log_probs(model.step(tokens, state), length, limits[open_rows]))  # (N,)
        said[open_rows, length - 1] = tokens
        going_on = (tokens != EOS).nonzero().squeeze(1)
        if not len(going_on):
            break
        if len(going_on) < len(tokens):  # finished sentences leave the batch
            state.select_hypotheses(going_on)
            state.select_sentences(going_on)
            open_rows, tokens = open_rows[going_on], tokens[going_on]
    return [_words(row) for row in said.tolist()]


def _words(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


@_in_eval_mode
def greedy_search(
    model: Transformer, source: Tensor, *, max_length: int | None = None
) -> list[list[int]]:
    """Say the most probable next token until EOS.

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
    """Draw each next token from the model's distribution.

    `temperature` below 1 sharpens it; `top_k` keeps the k most probable tokens, `top_p` the fewest
    whose probabilities reach p (nucleus sampling, Holtzman et al. 2020).  source (B, S) -> B lists
    of ids. Raises ValueError for a temperature of 0 or less, top_k below 1, or top_p outside (0,
    1].
    """
    if temperature <= 0 or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
        raise ValueError(
            f"sampling needs temperature > 0, 0 < top_p <= 1, top_k >= 1; "
            f"given {temperature}, {top_p}, {top_k}"
        )

    def choose(logp: Tensor) -> Tensor:
        logp, words = (logp / temperature).sort(dim=-1, descending=True)  # (N, V)
        if top_k is not None:
            logp[:, top_k:] = -math.inf
        p = logp.softmax(dim=-1)
        p = p.masked_fill(
            p.cumsum(dim=-1) - p >= top_p, 0.0
        )  # the mass *before* a token decides on it
        return words.gather(-1, torch.multinomial(p, 1, generator=generator)).squeeze(-1)  # (N,)

    return _search_one(model, source, max_length, choose)


def length_norm(length: int | Tensor, penalty: float) -> float | Tensor:
    """What a log-probability is divided by, ((5 + length) / 6) ** penalty.  Wu et al. 2016, eq. 14.

    `length` counts EOS.  Log-probabilities are negative: a greater penalty helps longer
    translations.
    """
    return ((5 + length) / 6) ** penalty


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` greatest of scores (n, w, V), greatest first, and their places in w and in V: (n,
    count) each.
    """
    # They stand in the `count` columns that have the greatest maxima, and V maxima are sorted
    # sooner than w * V scores.
    columns = scores.amax(dim=1).topk(min(count, scores.size(2)), dim=1).indices  # (n, c)
    few = scores.gather(2, columns[:, None].expand(-1, scores.size(1), -1)).flatten(1)  # (n, w * c)
    values, places = few.topk(min(count, few.size(1)), dim=1)  # (n, count)
    return values, places // columns.size(1), columns.gather(1, places % columns.size(1))


class _Finished:
    """The best `size` finished hypotheses of each of B sentences, best first."""

    def __init__(self, sentences: int, size: int, longest: int, like: Tensor):
        self.score = like.new_full((sentences, size), -math.inf)
        self.log_prob = like.new_full((sentences, size), -math.inf)
        self.ids = torch.full((sentences, size, longest), PAD, device=like.device)
        self.count = torch.zeros(sentences, dtype=torch.long, device=like.device)

    def add(self, rows: Tensor, ids: Tensor, log_prob: Tensor, score: Tensor) -> None:
        """Offer hypotheses (n, w) of the sentences `rows` (n,); those with a score of -inf are no
        candidates.
        """
        self.count[rows] += (score > -math.inf).sum(dim=1)
        padded = self.ids.new_full((*ids.shape[:2], self.ids.size(2)), PAD)
        padded[..., : ids.size(2)] = ids
        score, best = torch.cat([self.score[rows], score], dim=1).topk(self.score.size(1), dim=1)
        self.score[rows] = score
        self.log_prob[rows] = torch.cat([self.log_prob[rows], log_prob], dim=1).gather(1, best)
        every = torch.cat([self.ids[rows], padded], dim=1)
        self.ids[rows] = every.gather(1, best[..., None].expand(-1, -1, every.size(2)))

    def hypotheses(self, n_best: int) -> list[list[Hypothesis]]:
        """The `n_best` of each sentence, best first."""
        rows = zip(self.ids.tolist(), self.log_prob.tolist(), self.score.tolist(), strict=True)
        return [
            [
                Hypothesis(_words(ids), p, s)
                for ids, p, s in zip(*row, strict=True)
                if s > -math.inf
            ][:n_best]
            for row in rows
        ]


@_in_eval_mode
def beam_search(
    model: Transformer,
    source: Tensor,
    beam: int = 5,
    *,
    n_best: int = 1,
    length_penalty: float = 1.0,
    min_length: int = 0,
    max_length: int | None = None,
) -> list[list[Hypothesis]]:
    """Keep the `beam` most probable beginnings, and rank what ends by log-probability /
    `length_norm`.

    source (B, S) -> for each sentence its `n_best` hypotheses, best first.  A sentence is finished
    when `beam` hypotheses have ended, or when no open one can still enter the n best.  Lengths are
    in words. Raises ValueError for a beam or n_best below 1, or n_best above beam.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"beam search needs 1 <= n_best <= beam, not n_best {n_best}, beam {beam}")
    limits = length_limits(source, model.config.max_length, max_length)  # (B,)
    state = model.start(source)
    rows = torch.arange(len(source), device=source.device)  # (n,): the sentences still searched
    ids = torch.full(
        (len(source), 1, 1), BOS, device=source.device
    )  # (n, w, length): one beginning at first
    log_prob = torch.zeros(
        len(source), 1, dtype=_score_type(model.output.weight.dtype), device=source.device
    )  # (n, w)
    finished = _Finished(len(source), beam, int(limits.max()), log_prob)

    for length in range(1, int(limits.max()) + 1):
        logits = model.step(ids[..., -1].flatten(), state).unflatten(0, ids.shape[:2])  # (n, w, V)
        logp = _log_probs(logits, length, limits[rows], min_length).add_(
            log_prob[..., None]
        )  # (n, w, V)
        # At most one candidate of each beginning is EOS, so 2 * beam of them hold `beam` that go
        # on.
        log_prob, parents, words = _best(logp, 2 * beam)  # (n, 2 beam) each
        grown = torch.cat(
            [ids.gather(1, parents[..., None].expand(-1, -1, length)), words[..., None]], dim=2
        )

        ends = words == EOS
        among_best = torch.arange(words.size(1), device=words.device) < beam
        score = (log_prob / length_norm(length, length_penalty)).masked_fill(
            ~(ends & among_best), -math.inf
        )
        finished.add(rows, grown[..., 1:], log_prob, score)

        log_prob, order = log_prob.masked_fill(ends, -math.inf).topk(
            min(beam, log_prob.size(1)), dim=1
        )  # (n, w)
        ids = grown.gather(1, order[..., None].expand(-1, -1, length + 1))
        parents = parents.gather(1, order)
        # Scores only fall, except for the norm: the best that an open hypothesis can reach is at
        # one of the ends.
        reachable = torch.maximum(
            log_prob[:, 0] / length_norm(limits[rows], length_penalty),
            log_prob[:, 0] / length_norm(length + 1, length_penalty),
        )
        done = (finished.count[rows] >= beam) | (finished.score[rows, n_best - 1] >= reachable)
        keep = (~done).nonzero().squeeze(1)
        if not len(keep):
            break
        width = logits.size(1)
        state.select_hypotheses((keep[:, None] * width + parents[keep]).flatten())
        if len(keep) < len(rows):
            state.select_sentences(keep)
            rows, ids, log_prob = rows[keep], ids[keep], log_prob[keep]
    return finished.hypotheses(n_best)
