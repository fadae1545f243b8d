"""Reference results for decoding: models with known probabilities, and correct searches.

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

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build, logits, pad, random_rows, source_rows

Words = tuple[int, ...]
DEPTH = 5  # words in the longest beginning whose probabilities are known
MARGIN = 0.01  # nats: closer calls may go either way in float32
WIDTH = 4  # of a beam: as many as the three words and EOS
UNSAID = 5  # more words, which are never said: a search may ask for the best 2 * WIDTH ids and some


def word_ids(adapter: Adapter) -> range:
    """The three words that a talkative model knows."""
    return range(adapter.first_word, adapter.first_word + 3)


def unsaid(adapter: Adapter) -> list[int]:
    """The ids that are neither EOS nor one of the three words: some searches forbid specials."""
    said = {adapter.eos, *word_ids(adapter)}
    return [i for i in range(vocabulary_size(adapter)) if i not in said]


def vocabulary_size(adapter: Adapter) -> int:
    """The size of a talkative model's vocabulary."""
    return adapter.first_word + 3 + UNSAID


# The runner makes a new adapter for every run, so nothing old is found in these caches.
@functools.lru_cache(maxsize=16)
def speaker(adapter: Adapter, seed: int) -> nn.Module:
    """A model that has learned a little of random translations: it has opinions, but is not sure.

    It all but never says anything but three words and EOS.  It is shared between checks: they must
    not change it.
    """
    source, words = sources(adapter, seed, 48), word_ids(adapter)
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (48,), generator=generator).tolist()
    targets = random_rows(words.start, words.stop, lengths, generator)
    return learn(adapter, seed, source, targets, [1.0] * 48, 60)


@functools.lru_cache(maxsize=16)
def torn(adapter: Adapter, seed: int, short: float) -> nn.Module:
    """A model that says one word with the probability `short`, and otherwise mostly three others.

    The rest are long random sentences, so that nothing improbable is soon at its end and fills the
    beam.  What it reads does not matter.
    """
    source, (a, b, c) = sources(adapter, seed, 6), word_ids(adapter)
    targets = [[a]] * 6 + [[b, c, b]] * 6 + rambling(adapter)
    shares = [short] * 6 + [0.88 - short] * 6 + [0.12] * 6
    return learn(adapter, seed, source.repeat(3, 1), targets, shares, 100)


def rambling(adapter: Adapter) -> list[list[int]]:
    """Six long sentences that do not end."""
    a, b, c = word_ids(adapter)
    first = [[a, b, b, a, c], [a, c, a, c, b], [b, a, c, b, a]]
    return [*first, [b, b, a, a, c], [c, a, b, c, c], [c, c, c, b, a]]


@functools.lru_cache(maxsize=16)
def ending(adapter: Adapter, seed: int) -> nn.Module:
    """A model that mostly says one word and EOS, or four other words, and has no idea after EOS.

    So whoever reads on after EOS finds every tail improbable, and prefers what ends late.
    """
    source, (a, b, c) = sources(adapter, seed, 6), word_ids(adapter)
    tails = list(itertools.product((a, b, c), repeat=3))
    targets = [[a, adapter.eos, *tail] for tail in tails] + [[b, c, c, b]] * 6 + rambling(adapter)
    shares = [0.55 / len(tails)] * len(tails) + [0.35 / 6] * 6 + [0.1 / 6] * 6
    return learn(adapter, seed, source.repeat(7, 1)[: len(shares)], targets, shares, 70)


@functools.lru_cache(maxsize=16)
def rambler(adapter: Adapter, seed: int) -> tuple[nn.Module, Tensor]:
    """A model that generates the same long word sequence for every source, and its sources."""
    a, b, c = word_ids(adapter)
    source = sources(adapter, seed, 4)
    model = learn(adapter, seed, source, [[a, c, b, c, a]] * 4, [1.0] * 4, 60)
    return model, source[:1]


def learn(
    adapter: Adapter,
    seed: int,
    source: Tensor,
    targets: list[list[int]],
    shares: list[float],
    updates: int,
) -> nn.Module:
    """Train a small model on sentences with their shares; those of `DEPTH` words do not end."""
    size = vocabulary_size(adapter)
    model = build(adapter, seed, noise=0.5, source_vocab_size=size, target_vocab_size=size)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    target = pad([[adapter.bos, *words] for words in targets], adapter.pad)
    ends = [adapter.eos if len(words) < DEPTH else adapter.pad for words in targets]
    labels = pad([[*words, end] for words, end in zip(targets, ends, strict=True)], adapter.pad)
    weights = torch.tensor(shares)[:, None] / sum(shares)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - update / updates)
        table = logits(adapter, model, source, target, grad=True)
        each = F.cross_entropy(
            table.transpose(1, 2), labels, ignore_index=adapter.pad, reduction="none"
        )  # (B, T)
        never_said = table.log_softmax(-1)[..., unsaid(adapter)]
        loss = (each * weights).sum() + (never_said + 9).relu().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def sources(adapter: Adapter, seed: int, count: int = 24) -> Tensor:
    """Random sentences of one to six words, with padding: (count, S)."""
    generator, words = torch.Generator().manual_seed(seed), word_ids(adapter)
    lengths = [6, *torch.randint(1, 7, (count,), generator=generator).tolist()[1:]]
    rows = random_rows(words.start, words.stop, lengths, generator)
    return source_rows(adapter, rows)


def likely_paths(
    adapter: Adapter, model: nn.Module, source: Tensor, start: int, limit: int = 10
) -> list[Words | None]:
    """For each source the words of the most probable next token from `start` on, without a cache.

    None where no EOS comes within `limit` words, or where a choice is too close to call.
    """
    target = torch.full((len(source), 1), start)
    paths: list[Words | None] = [None] * len(source)
    going = [True] * len(source)
    for length in range(limit + 1):
        best = logits(adapter, model, source, target)[:, -1].log_softmax(-1).topk(2, dim=-1)
        gaps = best.values.diff().neg().flatten().tolist()
        for row, word in enumerate(best.indices[:, 0].tolist()):
            if going[row] and (gaps[row] < MARGIN or word in unsaid(adapter)):
                going[row] = False
            elif going[row] and word == adapter.eos:
                paths[row], going[row] = tuple(target[row, 1 : length + 1].tolist()), False
        target = torch.cat([target, best.indices[:, :1]], dim=1)
    return paths


Table = dict[Words, list[float]]  # beginning -> log-probability of every next token


def conditionals(adapter: Adapter, model: nn.Module, source: Tensor) -> Table:
    """The log-probabilities after every beginning of `DEPTH` words; source (1, S)."""
    every = list(itertools.product(word_ids(adapter), repeat=DEPTH))
    target = torch.tensor([[adapter.bos, *words] for words in every])
    table = logits(adapter, model, source.expand(len(every), -1), target)
    logp = table.double().log_softmax(-1).tolist()
    return {words[:n]: logp[row][n] for row, words in enumerate(every) for n in range(DEPTH + 1)}


@dataclass(frozen=True)
class Variant:
    """One way to search.

    `norm` turns a number of words into what the log-probability is divided by; `longest` is the
    most words; with `shrink` a finished hypothesis keeps its place; with `cut` one that reached
    `longest` is returned without EOS; `stop` is 'full' (as many have finished as the beam is wide)
    or 'never'; in a wrong search 'first' (the best one has finished) or 'any' (one has).
    """

    norm: Callable[[int], float]
    longest: int = 4
    shrink: bool = False
    cut: bool = False
    stop: str = "full"

    def candidates(
        self, table: Table, adapter: Adapter, going: list[tuple[float, Words]], length: int
    ) -> list[tuple[float, Words, bool]]:
        """Each (log-probability, words, whether it ends) after `length` words, best first."""
        found = []
        for logp, words in going:
            row = table[words]
            found.append((logp + row[adapter.eos], words, True))
            if length < self.longest:
                found += [(logp + row[w], (*words, w), False) for w in word_ids(adapter)]
            elif self.cut:
                found.append((logp, words, True))
        return sorted(found, reverse=True)

    def stops(self, ends: list[bool], finished: int, width: int) -> bool:
        """Whether the search is over, given which of the best candidates end, best first."""
        hasty = (self.stop == "first" and ends[0]) or (self.stop == "any" and any(ends))
        return hasty or (self.stop == "full" and finished >= width)


def find(table: Table, adapter: Adapter, width: int, variant: Variant) -> tuple[Words, float]:
    """The best hypothesis of a beam search on known probabilities, and its lead over the next."""
    going: list[tuple[float, Words]] = [(0.0, ())]
    finished: dict[Words, float] = {}
    for length in range(variant.longest + 1):
        candidates = variant.candidates(table, adapter, going, length)
        best = candidates[: width - len(finished) if variant.shrink else width]
        for logp, words, ended in best:
            if ended:
                score = logp / variant.norm(max(len(words), 1))
                finished[words] = max(score, finished.get(words, score))
        if variant.stops([ended for *_, ended in best], len(finished), width):
            break
        places = max(width - len(finished), 0) if variant.shrink else width
        going = [(logp, words) for logp, words, ended in candidates if not ended][:places]
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
    lengths, either, stops = (longest, longest - 1, longest + 1), (False, True), ("full", "never")
    agreed = None
    for ways in itertools.product(norms(penalty), lengths, either, either, stops):
        words, lead = find(table, adapter, width, Variant(*ways))
        agreed = agreed or words
        if not words or words != agreed or lead < MARGIN:
            return None
    return agreed


def tables(adapter: Adapter, model: nn.Module, every: Tensor) -> Iterator[tuple[Tensor, Table]]:
    """Each source (1, S) unpadded, and its probabilities, if only the three words are likely."""
    for row in every:
        source = row[row != adapter.pad][None]
        table = conditionals(adapter, model, source)
        if max(logp[i] for logp in table.values() for i in unsaid(adapter)) < -5:
            yield source, table
