"""The bundled corpora: a small German, English and Mandarin, written by a grammar.

A `Sampler` draws a meaning, a renderer for each language puts it into words, and words that stand
for the same part of the meaning are aligned.  One meaning has one sentence in each language and
each sentence one meaning, so a perfect translator reaches 100 BLEU in either direction, and every
wrong word is a mistake.
"""

from __future__ import annotations

import random
from functools import lru_cache

from nmtcourse.toy import english, german, mandarin
from nmtcourse.toy.meaning import Item, Sentence
from nmtcourse.toy.sampler import Sampler
from nmtcourse.toy.splits import HELD_OUT, combinations, is_held_out
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.errors import require, require_one_of

__all__ = [
    "HELD_OUT",
    "LIMITS",
    "RENDERERS",
    "TOY_CORPORA",
    "combinations",
    "load_toy",
    "translate",
]

RENDERERS = {"de": german.render, "en": english.render, "zh": mandarin.render}
TOY_CORPORA = {"toy-de-en": ("de", "en"), "toy-en-zh": ("en", "zh")}
# What one seed may be asked for.  The grammar knows more, but finds new sentences ever more slowly.
LIMITS = {"train + validation + test": 200_000, "challenge": 20_000}


def translate(sentence: Sentence, source: str, target: str) -> Pair:
    """One meaning in two languages ("de", "en", "zh") with its gold alignment."""
    left, right = RENDERERS[source](sentence), RENDERERS[target](sentence)
    words = (" ".join(word for word, _ in side) for side in (left, right))
    return Pair(*words, align(left, right))


def align(source: list[Item], target: list[Item]) -> tuple[tuple[int, int], ...]:
    """The positions of words that share a key.

    >>> align([("im", ("in", "the")), ("Park", ("park",))], [("in", ("in",)), ("the", ("the",))])
    ((0, 0), (0, 1))
    """
    positions: dict[str, list[int]] = {}
    for position, (_, keys) in enumerate(target):
        for key in keys:
            positions.setdefault(key, []).append(position)
    links = {
        (i, j) for i, (_, keys) in enumerate(source) for key in keys for j in positions.get(key, ())
    }
    return tuple(sorted(links))


def load_toy(
    name: str,
    *,
    train: int = 20_000,
    validation: int = 1_000,
    test: int = 1_000,
    challenge: int = 1_000,
    seed: int = 0,
) -> Corpus:
    """The corpus "toy-de-en" or "toy-en-zh" with as many pairs in each split as asked for.

    No sentence occurs in two pairs, on either side.  The challenge pairs hold the combinations of
    `HELD_OUT`, the others none.  Validation, test and challenge do not change with the size of
    train, and a smaller train is the beginning of a larger one, so results on one seed compare.

    Raises ValueError for an unknown name, a negative size, or more pairs than `LIMITS`.

    >>> load_toy("toy-en-zh", train=1, validation=0, test=0, challenge=0).train[0].target
    '我们 的 咖啡 很 凉 。'
    """
    require_one_of("name", TOY_CORPORA, name)
    _check_sizes(train=train, validation=validation, test=test, challenge=challenge)
    plain, held_out = _draw(name, train + validation + test, challenge, seed)
    start = validation + test
    splits = plain[start:], plain[:validation], plain[validation:start], held_out
    return Corpus(name, *TOY_CORPORA[name], *map(list, splits))


@lru_cache(maxsize=2)  # a second or more for what is asked for again and again
def _draw(
    name: str, n_plain: int, n_held_out: int, seed: int
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """The first new pairs of a seed, those without and those with a held-out combination."""
    sampler = Sampler(random.Random(seed))
    sources, targets = set(), set()
    plain: list[Pair] = []
    held_out: list[Pair] = []
    while len(plain) < n_plain or len(held_out) < n_held_out:
        sentence = sampler.sentence()
        pairs, wanted = (held_out, n_held_out) if is_held_out(sentence) else (plain, n_plain)
        if len(pairs) == wanted:
            continue
        pair = translate(sentence, *TOY_CORPORA[name])
        if pair.source not in sources and pair.target not in targets:
            sources.add(pair.source)
            targets.add(pair.target)
            pairs.append(pair)
    return tuple(plain), tuple(held_out)


def _check_sizes(**sizes: int) -> None:
    for split, size in sizes.items():
        require(size >= 0, split, "0 pairs or more", size)
    for splits, limit in LIMITS.items():
        asked = sum(sizes[split] for split in splits.split(" + "))
        require(asked <= limit, splits, f"at most {limit} pairs", asked)
