"""BPE dropout: the same sentences in other pieces every epoch.  Provilkov et al. 2020.

Byte-pair encoding cuts a word in one way only.  Where some merges are left out at random, the model
meets rare pieces more often and learns how words are made; it is trained so, but translates with
the usual pieces. The randomness of the `tokenizers` library cannot be seeded, so the merges are
replayed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Pair
from nmtlib.data.tokenizers import BPETokenizer

SAMPLES = 8  # ways to cut a word that one epoch draws at most; the next epoch draws others


def cut(
    word: str, ranks: Mapping[tuple[str, str], int], dropout: float, random: Random
) -> list[str]:
    """The pieces of a word: at every step each possible merge is left out with probability
    `dropout`.

    Provilkov et al. 2020, algorithm 1.  `ranks` numbers the merges, first learnt first; with a
    dropout of 0 this is byte-pair encoding itself.

    >>> cut("aabb", {("a", "a"): 0, ("b", "b"): 1, ("aa", "bb"): 2}, 0.0, Random(0))
    ['aabb']
    """
    pieces = list(word)
    while True:
        merges = [
            (ranks[pair], place)
            for place, pair in enumerate(pairwise(pieces))
            if pair in ranks and random.random() >= dropout
        ]
        if not merges:
            return pieces
        _, place = min(merges)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


class Resegmenter:
    """Encodes the same sentences again and again: called with a seed it gives their ids, without
    BOS and EOS.

    Each word occurs in up to `SAMPLES` ways a call, which keeps an epoch of 29,000 pairs to a few
    seconds. A tokenizer other than BPE has one way only, so its ids are always the same.
    """

    def __init__(self, codec: Codec, texts: Sequence[str], dropout: float):
        """Raises ValueError for a dropout outside [0, 1]."""
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout is a probability in [0, 1], not {dropout}")
        self.codec, self.dropout = codec, dropout
        self.fixed: list[list[int]] | None = None
        if isinstance(bpe := codec.tokenizer, BPETokenizer):
            self.ranks = bpe.merges()
            self.sentences = [bpe.words(text) for text in texts]
            self.counts = Counter(word for sentence in self.sentences for word in sentence)
        else:
            self.fixed = codec.encode_all(texts)

    def __call__(self, seed: int) -> list[list[int]]:
        """The ids of every sentence, the same for the same seed."""
        if self.fixed is not None:
            return self.fixed
        random = Random(seed)
        ways = {
            word: [
                self.codec.vocab.encode(cut(word, self.ranks, self.dropout, random))
                for _ in range(min(count, SAMPLES))
            ]
            for word, count in self.counts.items()
        }
        return [
            [i for word in sentence for i in random.choice(ways[word])]
            for sentence in self.sentences
        ]


def examples_by_epoch(
    pairs: Sequence[Pair],
    source: Codec,
    target: Codec,
    dropout: float,
    *,
    seed: int,
    max_length: int,
    max_tokens: int,
) -> Callable[[int], list[Example]]:
    """A function of the epoch, counted from 0: the training pairs as ids, which depend on seed and
    epoch alone.

    A pair that becomes longer than `max_length` on one side, or too long for a batch of
    `max_tokens`, is cut as usual in that epoch.  Pairs that are longer than `max_length` anyhow are
    left out.
    """
    sides = (
        source.encode_all([p.source for p in pairs]),
        target.encode_all([p.target for p in pairs]),
    )
    plain = [make_example(*pair) for pair in zip(*sides, strict=True)]
    kept = [i for i, example in enumerate(plain) if fits(example, max_length)]
    sources = Resegmenter(source, [pairs[i].source for i in kept], dropout)
    targets = Resegmenter(target, [pairs[i].target for i in kept], dropout)
    longest = min(max_length, max_tokens - 1)

    @lru_cache(maxsize=1)  # the trainer looks at the first epoch before it trains on it
    def examples(epoch: int) -> list[Example]:
        first = 2 * (seed * 100_003 + epoch)
        fresh = map(
            make_example, sources(first), targets(first + 1)
        )  # sides that share a word cut it apart
        return [new if fits(new, longest) else plain[i] for i, new in zip(kept, fresh, strict=True)]

    return examples
