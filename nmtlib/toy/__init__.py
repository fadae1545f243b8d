"""The bundled corpora: a small German, English and Mandarin, written by a grammar instead of
downloaded.

A `Sampler` draws a meaning, a renderer for each language puts it into words, and words that stand
for the same part of the meaning are aligned.  One meaning has one sentence in each language and
each sentence one meaning, so a perfect translator reaches 100 BLEU in either direction, and every
wrong word is a mistake.
"""

from __future__ import annotations

import random

from nmtlib.data.corpus import Corpus, Pair
from nmtlib.toy import english, german, mandarin
from nmtlib.toy.meaning import Item, Sentence
from nmtlib.toy.sampler import Sampler
from nmtlib.toy.splits import HELD_OUT, combinations, is_held_out

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
# What one seed is asked for at most.  The grammar knows more, but finds new sentences more and more
# slowly.
LIMITS = {"train + validation + test": 200_000, "challenge": 20_000}


def translate(sentence: Sentence, source: str, target: str) -> Pair:
    """One meaning in two languages ("de", "en", "zh") with its gold alignment."""
    left, right = RENDERERS[source](sentence), RENDERERS[target](sentence)
    return Pair(
        " ".join(word for word, _ in left), " ".join(word for word, _ in right), align(left, right)
    )


def align(source: list[Item], target: list[Item]) -> tuple[tuple[int, int], ...]:
    """The positions of words that share a key.

    >>> align([("im", ("in", "the")), ("Park", ("park",))], [("in", ("in",)), ("the", ("the",)), ("park", ("park",))])
    ((0, 0), (0, 1), (1, 2))
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
    """The corpus "toy-de-en" or "toy-en-zh" with as many pairs a split as asked for.

    No sentence stands in two pairs, on either side.  The challenge pairs hold the combinations of
    `HELD_OUT`, the others none.  Validation, test and challenge do not change with the size of
    train, and a smaller train is the beginning of a larger one, so results on the same seed
    compare.

    Raises ValueError for an unknown name, a negative size, or more pairs than `LIMITS`.

    >>> load_toy("toy-en-zh", train=1, validation=0, test=0, challenge=0).train[0].target
    '我们 的 咖啡 很 凉 。'
    """
    if name not in TOY_CORPORA:
        raise ValueError(f"unknown toy corpus {name!r}; there are {', '.join(TOY_CORPORA)}")
    _check_sizes(train=train, validation=validation, test=test, challenge=challenge)
    plain, held_out = _draw(name, train + validation + test, challenge, seed)
    start = validation + test
    source, target = TOY_CORPORA[name]
    return Corpus(
        name, source, target, plain[start:], plain[:validation], plain[validation:start], held_out
    )


def _draw(name: str, n_plain: int, n_held_out: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """The first new pairs of a seed, those without and those with a held-out combination."""
    sampler = Sampler(random.Random(seed))
    seen: tuple[set[str], set[str]] = (set(), set())
    plain: list[Pair] = []
    held_out: list[Pair] = []
    while len(plain) < n_plain or len(held_out) < n_held_out:
        sentence = sampler.sentence()
        pairs, wanted = (held_out, n_held_out) if is_held_out(sentence) else (plain, n_plain)
        if len(pairs) == wanted:
            continue
        pair = translate(sentence, *TOY_CORPORA[name])
        if pair.source in seen[0] or pair.target in seen[1]:
            continue
        seen[0].add(pair.source)
        seen[1].add(pair.target)
        pairs.append(pair)
    return plain, held_out


def _check_sizes(**sizes: int) -> None:
    for split, size in sizes.items():
        if size < 0:
            raise ValueError(f"{split}={size}: a split has 0 pairs or more")
    for splits, limit in LIMITS.items():
        asked = sum(sizes[split] for split in splits.split(" + "))
        if asked > limit:
            raise ValueError(
                f"{splits}: {asked} pairs asked for, at most {limit} can be had; ask for fewer"
            )
