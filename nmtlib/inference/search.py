"""From probabilities to a translation: greedy search and beam search, both in batches.

A model is anything with `start`, `step`, `config`, `output` and the modes of a module: a
`Transformer`, or several of them that translate together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from nmtlib.arguments import Ids, checked
from nmtlib.errors import require
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


def in_eval_mode(search: Callable) -> Callable:
    """Run a search without gradients and dropout, then restore the mode of the model."""
    search = checked(source=Ids, beam=Annotated[int, Field(le=1000)], n_best=int)(search)

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

    `shortest` is the least limit: before it, no sentence can be at its limit.  Raises
    FloatingPointError where the model has diverged.
    """
    logp = logits.log_softmax(dim=-1, dtype=_score_type(logits.dtype))  # (B, ..., V)
    # A logit that is NaN or infinite makes its whole row NaN, so one column tells.
    if logp[..., EOS].isnan().any():
        raise FloatingPointError(
            "the model gives logits that are not finite numbers, so it has diverged: translate "
            "with an earlier checkpoint, or train again with a smaller learning rate"
        )
    for token in NEVER_GENERATED:
        logp[..., token] = -math.inf
    if length >= shortest:  # at its limit a translation can only end
        others = torch.arange(logp.size(-1), device=logp.device) != EOS  # (V,)
        at_limit = (limits == length).view(-1, *[1] * (logp.dim() - 1))  # (B, ..., 1)
        logp.masked_fill_(at_limit & others, -math.inf)
    return logp


def search_one(
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


@in_eval_mode
def greedy_search(
    model: Transformer, source: Tensor, *, max_length: int | None = None
) -> list[list[int]]:
    """Generate the most probable next token until EOS.

    source (B, S) -> B lists of ids without BOS and EOS, none longer than `length_limits`.
    """
    return search_one(model, source, max_length, lambda logp: logp.argmax(dim=-1))


def length_norm(length: int | Tensor, penalty: float) -> float | Tensor:
    """The divisor of a log-probability, ((5 + length) / 6) ** penalty.  Wu et al. 2016, eq. 14.

    `length` counts EOS.  Log-probabilities are negative, so a greater penalty favours longer
    translations.
    """
    return ((5 + length) / 6) ** penalty


@in_eval_mode
def beam_search(
    model: Transformer,
    source: Tensor,
    beam: int = 5,
    *,
    n_best: int = 1,
    length_penalty: float = 1.0,
    patience: float = 1.0,
    max_length: int | None = None,
) -> list[list[Hypothesis]]:
    """Keep the `beam` best prefixes; rank finished ones by log-probability / `length_norm`.

    source (B, S) -> for each sentence its `n_best` hypotheses, best first.  A search ends when no
    live prefix can change them, or when `patience` * `beam` hypotheses have finished (Kasai et al.
    2022); math.inf waits for the first of the two alone.  Raises ValueError.
    """
    steep = not abs(length_penalty) <= STEEPEST  # as is NaN
    if not 1 <= n_best <= beam or steep or not patience >= 1:
        raise ValueError(
            f"beam search needs 1 <= n_best <= beam, a length_penalty from -10 to 10 and patience "
            f">= 1; given n_best {n_best}, beam {beam}, length_penalty {length_penalty}, patience "
            f"{patience}"
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
        done |= finished.count[beams.rows] >= patience * beam
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
    rows = beams.rows
    # A longer prefix is never more probable, so none ends better than the best live one now.  Its
    # score also depends on the length, and is greatest at the next length or at the last.
    best_live = beams.log_prob[:, 0]  # (n,)
    if_short = best_live / length_norm(beams.ids.size(2), length_penalty)  # (n,)
    if_long = best_live / length_norm(limits[rows], length_penalty)  # (n,)
    nth_best = finished.score[rows, n_best - 1]  # (n,): -inf where fewer have finished
    return nth_best >= torch.maximum(if_long, if_short)


def _select(keep: Tensor, beams: Beams, state: DecoderState, width: int) -> Beams:
    """Continue with the rows `keep` (n',); the cache, `width` to a row, follows the prefixes."""
    # The cache holds the prefixes of all sentences one below the other: with a width of 3, those
    # of sentence 2 are its rows 6, 7, 8.  Where sentences 0 and 2 stay, and their new prefixes
    # continue the prefixes 1 1 0 and 2 0 0, the cache takes its rows 1 1 0 8 6 6.
    state.reorder((keep[:, None] * width + beams.parents[keep]).flatten())
    if len(keep) == len(beams.rows):
        return beams
    state.select_sentences(keep)
    return Beams(*(part[keep] for part in beams))


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ids without BOS and EOS, log-probability (nats), the score that ranks it."""

    ids: list[int]
    log_prob: float
    score: float


class Beams(NamedTuple):
    """Prefixes of translations: w for each of n sentences, the most probable first."""

    rows: Tensor  # (n,): which sentence of the batch
    ids: Tensor  # (n, w, length), BOS first
    log_prob: Tensor  # (n, w)
    parents: Tensor  # (n, w): which prefix of the step before each one continues

    @classmethod
    def begin(cls, sentences: int, dtype: torch.dtype, device: torch.device) -> Beams:
        """BOS alone for each sentence."""
        rows = torch.arange(sentences, device=device)
        ids = torch.full((sentences, 1, 1), BOS, device=device)
        log_prob = torch.zeros(sentences, 1, dtype=dtype, device=device)
        return cls(rows, ids, log_prob, torch.zeros_like(ids[..., 0]))  # no step before: no parents

    def grow(self, logp: Tensor, count: int) -> Beams:
        """The `count` best prefixes with one more token; logp (n, w, V) is that of all of them."""
        log_prob, parents, tokens = best(logp, count)  # (n, count) each
        grown = torch.cat([_pick(self.ids, parents), tokens[..., None]], dim=2)
        return Beams(self.rows, grown, log_prob, parents)  # ids (n, count, length + 1)

    def prune(self, beam: int) -> Beams:
        """The `beam` best of those that have not finished."""
        ended = self.ids[..., -1] == EOS  # (n, w)
        width = min(beam, ended.size(1))
        log_prob, order = self.log_prob.masked_fill(ended, -math.inf).topk(width, dim=1)
        return Beams(self.rows, _pick(self.ids, order), log_prob, self.parents.gather(1, order))


class Finished:
    """The `beam` best finished hypotheses of each of B sentences, best first."""

    def __init__(self, sentences: int, beam: int, longest: int, like: Tensor):
        self.score = like.new_full((sentences, beam), -math.inf)
        self.log_prob = like.new_full((sentences, beam), -math.inf)
        self.ids = torch.full((sentences, beam, longest), PAD, device=like.device)
        self.count = torch.zeros(sentences, dtype=torch.long, device=like.device)

    def add(self, candidates: Beams, norm: float | Tensor) -> None:
        """Add those of the first `beam` that end with EOS; a score is log-probability / `norm`."""
        rows, ids, log_prob = candidates.rows, candidates.ids[..., 1:], candidates.log_prob
        beam = self.score.size(1)
        among_first = torch.arange(ids.size(1), device=ids.device) < beam
        ended = (ids[..., -1] == EOS) & among_first  # (n, c)
        score = (log_prob / norm).masked_fill(~ended, -math.inf)  # (n, c)
        self.count[rows] += (score > -math.inf).sum(dim=1)

        # Hypotheses of earlier steps and these compete: the `beam` best stay.  With beam 2, scores
        # -0.9 and -2.0 before, and new ones -1.1 and -inf (not ended), -0.9 and -1.1 stay: the
        # entries 0 and 2 of both together.
        padded = self.ids.new_full((*ids.shape[:2], self.ids.size(2)), PAD)  # (n, c, longest)
        padded[..., : ids.size(2)] = ids
        score, order = torch.cat([self.score[rows], score], dim=1).topk(beam, dim=1)  # (n, beam)
        self.score[rows] = score
        self.log_prob[rows] = torch.cat([self.log_prob[rows], log_prob], dim=1).gather(1, order)
        self.ids[rows] = _pick(torch.cat([self.ids[rows], padded], dim=1), order)

    def hypotheses(self, n_best: int) -> list[list[Hypothesis]]:
        """The `n_best` of each sentence, best first."""
        rows = zip(self.ids.tolist(), self.log_prob.tolist(), self.score.tolist(), strict=True)
        return [
            [Hypothesis(until_eos(i), p, s) for i, p, s in zip(*row, strict=True) if s > -math.inf][
                :n_best
            ]
            for row in rows
        ]


def _pick(ids: Tensor, order: Tensor) -> Tensor:
    """From ids (n, w, length) the entries `order` (n, m) of each row: (n, m, length)."""
    return ids.gather(1, order[..., None].expand(-1, -1, ids.size(2)))


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` greatest of scores (n, w, V), greatest first, and their indices in w and in V."""
    # They are in the `count` columns with the greatest maxima, and sorting V maxima is quicker than
    # sorting w * V scores.  For one sentence, two prefixes, four tokens and count 2:
    #     prefix 0:  -1  -9  -4  -9
    #     prefix 1:  -9  -2  -3  -9
    #     maxima:    -1  -2  -3  -9    so the two best are in columns 0 and 1, and of their four
    # scores they are -1 (prefix 0, token 0) and -2 (prefix 1, token 1).
    columns = scores.amax(dim=1).topk(min(count, scores.size(2)), dim=1).indices  # (n, c)
    few = scores.gather(2, columns[:, None].expand(-1, scores.size(1), -1)).flatten(1)  # (n, w * c)
    values, order = few.topk(min(count, few.size(1)), dim=1)  # (n, count)
    return values, order // columns.size(1), columns.gather(1, order % columns.size(1))


def until_eos(ids: list[int]) -> list[int]:
    """The ids before the first EOS."""
    return ids[: ids.index(EOS)] if EOS in ids else ids
