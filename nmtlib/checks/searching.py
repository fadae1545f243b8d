"""What decoding must find: tiny talkative models, all their probabilities, and the searches that
are all right.

Implementations differ in details that are nobody's mistake: how the length norm counts, whether
finished hypotheses keep a place in the beam, when a search may stop.  A check asks only what every
one of these would answer alike.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import build, logits, pad

Words = tuple[int, ...]
DEPTH = 5  # words in the longest beginning whose probabilities are known
MARGIN = 0.01  # nats: closer calls may go either way in float32


def word_ids(adapter: Adapter) -> range:
    """The three words that a talkative model knows."""
    return range(adapter.first_word, adapter.first_word + 3)


def specials(adapter: Adapter) -> list[int]:
    """The ids that are neither words nor EOS: some searches forbid them, others do not."""
    return [i for i in range(adapter.first_word) if i != adapter.eos]


@functools.lru_cache(
    maxsize=16
)  # the runner makes a new adapter for every run, so nothing old is found here
def speaker(adapter: Adapter, seed: int) -> nn.Module:
    """A model of three words that has learned a little of random translations: it has opinions, but
    is not sure.

    It all but never says PAD, BOS or UNK.  It is shared between checks: they must not change it.
    """
    source, words = sources(adapter, seed, 48), word_ids(adapter)
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (48,), generator=generator).tolist()
    targets = [
        torch.randint(words.start, words.stop, (n,), generator=generator).tolist() for n in lengths
    ]
    return learn(adapter, seed, source, targets, [1.0] * 48, 60)


@functools.lru_cache(maxsize=16)
def torn(adapter: Adapter, seed: int, short: float) -> nn.Module:
    """A model that, whatever it reads, says one word with the probability `short`, and otherwise
    mostly three others.

    The rest are long random sentences, so that nothing improbable is soon at its end and fills the
    beam.
    """
    source, (a, b, c) = sources(adapter, seed, 6), word_ids(adapter)
    rambling = [
        [a, b, b, a, c],
        [a, c, a, c, b],
        [b, a, c, b, a],
        [b, b, a, a, c],
        [c, a, b, c, c],
        [c, c, c, b, a],
    ]
    shares = [short] * 6 + [0.88 - short] * 6 + [0.12] * 6
    return learn(
        adapter, seed, source.repeat(3, 1), [[a]] * 6 + [[b, c, b]] * 6 + rambling, shares, 100
    )


def learn(
    adapter: Adapter,
    seed: int,
    source: Tensor,
    targets: list[list[int]],
    shares: list[float],
    updates: int,
) -> nn.Module:
    """Train a small model on some sentences, each with its share in the loss; those of `DEPTH`
    words do not end.
    """
    size = adapter.first_word + 3
    model = build(adapter, seed, noise=0.5, source_vocab_size=size, target_vocab_size=size)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    target = pad([[adapter.bos, *words] for words in targets], adapter.pad)
    labels = pad(
        [[*words, adapter.eos if len(words) < DEPTH else adapter.pad] for words in targets],
        adapter.pad,
    )
    weights = torch.tensor(shares)[:, None] / sum(shares)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - update / updates)
        table = logits(adapter, model, source, target, grad=True)
        each = F.cross_entropy(
            table.transpose(1, 2), labels, ignore_index=adapter.pad, reduction="none"
        )  # (B, T)
        never_said = table.log_softmax(-1)[..., specials(adapter)]
        loss = (each * weights).sum() + (never_said + 9).relu().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def sources(adapter: Adapter, seed: int, count: int = 24) -> Tensor:
    """Random sentences of one to six words, EOS, and padding: (count, 7)."""
    generator, words = torch.Generator().manual_seed(seed), word_ids(adapter)
    lengths = torch.randint(1, 7, (count,), generator=generator).tolist()
    rows = [
        torch.randint(words.start, words.stop, (n,), generator=generator).tolist()
        for n in [6, *lengths[1:]]
    ]
    return pad([[*row, adapter.eos] for row in rows], adapter.pad)


def likely_paths(
    adapter: Adapter, model: nn.Module, source: Tensor, start: int, limit: int = 10
) -> list[Words | None]:
    """For each source the words of the most probable next token, again and again, by full decoding
    from `start`.

    None where no EOS comes within `limit` words, or where a choice is too close to call.
    """
    target = torch.full((len(source), 1), start)
    paths: list[Words | None] = [None] * len(source)
    going = [True] * len(source)
    for length in range(limit + 1):
        best = logits(adapter, model, source, target)[:, -1].log_softmax(-1).topk(2, dim=-1)
        for row, (word, gap) in enumerate(
            zip(best.indices[:, 0].tolist(), best.values.diff().neg(), strict=True)
        ):
            if going[row] and (float(gap) < MARGIN or word in specials(adapter)):
                going[row] = False
            elif going[row] and word == adapter.eos:
                paths[row], going[row] = tuple(target[row, 1 : length + 1].tolist()), False
        target = torch.cat([target, best.indices[:, :1]], dim=1)
    return paths


Table = dict[Words, list[float]]  # beginning -> log-probability of every next token


def conditionals(adapter: Adapter, model: nn.Module, source: Tensor) -> Table:
    """The log-probabilities after every beginning of at most `DEPTH` words; source (1, S)."""
    every = list(itertools.product(word_ids(adapter), repeat=DEPTH))
    target = torch.tensor([[adapter.bos, *words] for words in every])
    logp = (
        logits(adapter, model, source.expand(len(every), -1), target)
        .double()
        .log_softmax(-1)
        .tolist()
    )
    return {words[:n]: logp[row][n] for row, words in enumerate(every) for n in range(DEPTH + 1)}


@dataclass(frozen=True)
class Variant:
    """One way to search; all of them are right.

    `norm` turns a number of words into what the log-probability is divided by; `longest` is the
    most words; with `shrink` a finished hypothesis keeps its place in the beam; with `cut` a
    hypothesis that reached `longest` is returned without EOS; `stop` is 'full' (as many have
    finished as the beam is wide) or 'never', or, for a search that is wrong, 'first' (the best one
    has finished) or 'any' (one has finished).
    """

    norm: Callable[[int], float]
    longest: int = 4
    shrink: bool = False
    cut: bool = False
    stop: str = "full"


def find(table: Table, adapter: Adapter, width: int, variant: Variant) -> tuple[Words, float]:
    """The best hypothesis of a beam search on known probabilities, and by how much it is better
    than the next.
    """
    going: list[tuple[float, Words]] = [(0.0, ())]
    finished: dict[Words, float] = {}
    for length in range(variant.longest + 1):
        candidates = []
        for logp, words in going:
            row = table[words]
            candidates.append((logp + row[adapter.eos], words, True))
            if length < variant.longest:
                candidates += [(logp + row[w], (*words, w), False) for w in word_ids(adapter)]
            elif variant.cut:
                candidates.append((logp, words, True))
        candidates.sort(reverse=True)
        best = candidates[: width - len(finished) if variant.shrink else width]
        for logp, words, ended in best:
            if ended:
                score = logp / variant.norm(max(len(words), 1))
                finished[words] = max(score, finished.get(words, score))
        ends = [ended for *_, ended in best]
        if (variant.stop == "first" and ends[0]) or (variant.stop == "any" and any(ends)):
            break
        if variant.stop == "full" and len(finished) >= width:
            break
        places = width - len(finished) if variant.shrink else width
        going = [(logp, words) for logp, words, ended in candidates if not ended][: max(places, 0)]
        if not going:
            break
    ranked = sorted(((score, words) for words, score in finished.items()), reverse=True)
    if not ranked:
        return (), 0.0
    return ranked[0][1], ranked[0][0] - ranked[1][0] if len(ranked) > 1 else 9.0


def norms(penalty: float) -> list[Callable[[int], float]]:
    """The length norms in use: of Wu et al. 2016, or the length itself, with EOS or without."""
    if not penalty:
        return [lambda n: 1.0]
    return [
        lambda n: ((6 + n) / 6) ** penalty,
        lambda n: ((5 + n) / 6) ** penalty,
        lambda n: (n + 1) ** penalty,
        lambda n: n**penalty,
    ]


def consensus(
    table: Table, adapter: Adapter, width: int, penalty: float, longest: int = 4
) -> Words | None:
    """What all right searches find, or None where they disagree, or where it is a close call.

    `longest` may be understood as one word more or less.
    """
    agreed = None
    for norm, limit, shrink, cut, stop in itertools.product(
        norms(penalty),
        (longest, longest - 1, longest + 1),
        (False, True),
        (False, True),
        ("full", "never"),
    ):
        words, gap = find(table, adapter, width, Variant(norm, limit, shrink, cut, stop))
        agreed = agreed or words
        if not words or words != agreed or gap < MARGIN:
            return None
    return agreed


def tables(adapter: Adapter, model: nn.Module, every: Tensor) -> Iterator[tuple[Tensor, Table]]:
    """Each source (1, S) without its padding, and its probabilities, where PAD, BOS and UNK have no
    part in them.
    """
    for row in every:
        source = row[row != adapter.pad][None]
        table = conditionals(adapter, model, source)
        if max(logp[i] for logp in table.values() for i in specials(adapter)) < -5:
            yield source, table
