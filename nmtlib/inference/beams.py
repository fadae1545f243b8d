"""What a beam search holds: live prefixes, and hypotheses that have finished."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmtlib.specials import BOS, EOS, PAD


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
        return cls(rows, ids, torch.zeros(sentences, 1, dtype=dtype, device=device), ids[..., 0])

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

        # Hypotheses of earlier steps and these compete: the `beam` best stay.
        padded = self.ids.new_full((*ids.shape[:2], self.ids.size(2)), PAD)  # (n, c, longest)
        padded[..., : ids.size(2)] = ids
        score, order = torch.cat([self.score[rows], score], dim=1).topk(beam, dim=1)  # (n, beam)
        self.score[rows] = score
        self.log_prob[rows] = torch.cat([self.log_prob[rows], log_prob], dim=1).gather(1, order)
        self.ids[rows] = _pick(torch.cat([self.ids[rows], padded], dim=1), order)

    def hypotheses(self, n_best: int) -> list[list[Hypothesis]]:
        """The `n_best` of each sentence, best first."""
        found = zip(self.ids.tolist(), self.log_prob.tolist(), self.score.tolist(), strict=True)
        return [
            [Hypothesis(until_eos(i), p, s) for i, p, s in zip(*row, strict=True) if s > -math.inf][
                :n_best
            ]
            for row in found
        ]


def _pick(ids: Tensor, order: Tensor) -> Tensor:
    """From ids (n, w, length) the entries `order` (n, m) of each row: (n, m, length)."""
    return ids.gather(1, order[..., None].expand(-1, -1, ids.size(2)))


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` greatest of scores (n, w, V), greatest first, and their indices in w and in V."""
    # They are in the `count` columns with the greatest maxima, and sorting V maxima is quicker than
    # sorting w * V scores.
    columns = scores.amax(dim=1).topk(min(count, scores.size(2)), dim=1).indices  # (n, c)
    few = scores.gather(2, columns[:, None].expand(-1, scores.size(1), -1)).flatten(1)  # (n, w * c)
    values, order = few.topk(min(count, few.size(1)), dim=1)  # (n, count)
    return values, order // columns.size(1), columns.gather(1, order % columns.size(1))


def until_eos(ids: list[int]) -> list[int]:
    """The ids before the first EOS."""
    return ids[: ids.index(EOS)] if EOS in ids else ids
