"""The judges of notebook 10."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, NoReturn

import torch
from torch import Tensor

from nmtcheck import bugs
from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, call, equal, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib import beam_search, load_corpus
from nmtlib.data import PAD, collate
from nmtlib.inference.search import Hypothesis
from nmtlib.inference.translator import Translator

BEAM = 3
SENTENCES = 80  # enough for three that tell a wrong answer
UNKNOWN = "Birnen"  # no word of the vocabulary
Answers = list[Hypothesis]


def judge_1(misleading: Callable[[int], Any], *, draw: Random) -> str:
    """A tree of beam + 1 words whose most probable sentence a beam misses."""
    beams = draw.sample(range(1, 8), 4)
    for beam in sorted(beams):
        tree = call(misleading, beam)
        require_tree(f"misleading({beam})", tree, beam + 1)
        first, second = tree
        product = {(a, b): first[a] * second[a][b] for a in first for b in second[a]}
        best = max(product.values())
        found = max(p for (a, _), p in product.items() if count_better(first, a) < beam)
        if found > best * (1 - 1e-6):
            problem = f"a beam of {beam} finds a sentence with {found:.4f}, and the best has"
            raise Wrong(say(f"misleading({beam}): {problem} {best:.4f}"))
    return "4 widths"


def count_better(first: dict[str, float], word: str) -> int:
    """How many first words are more probable than this one; ties do not count."""
    return sum(p > first[word] + 1e-6 for p in first.values())


def require_tree(what: str, tree: Any, size: int) -> None:
    """Raise Wrong unless these are probabilities of first words, and of second words after each."""
    if not (isinstance(tree, tuple | list) and len(tree) == 2):
        raise Wrong(say(f"{what} should be (first, second), but it is {show(tree)}"))
    first, second = tree
    rows = {"first": first}
    if isinstance(second, dict):
        rows |= {f"second[{word!r}]": row for word, row in second.items()}
    for name, row in rows.items():
        if not isinstance(row, dict) or len(row) != size:
            raise Wrong(say(f"{what}: {name} should have {size} words, but it is {show(row)}"))
        if min(row.values()) < 0 or not math.isclose(sum(row.values()), 1, abs_tol=1e-6):
            raise Wrong(
                say(f"{what}: {name} should hold probabilities whose sum is 1: {show(row)}")
            )
    if not isinstance(second, dict) or set(second) != set(first):
        raise Wrong(say(f"{what}: second should have a row for each word of first"))


def judge_2(n_best: Callable[[Any, Tensor, int, int], Any], *, draw: Random) -> str:
    """The best few translations of a beam search, with their scores, best first."""
    translator, judged = load_toy("de-en"), 0
    batch = draw_sources(translator, draw)  # (B, S)
    for row, expected in zip(
        batch, beam_search(translator.model, batch, BEAM, n_best=BEAM), strict=True
    ):
        by_sum = sorted(expected, key=lambda hypothesis: -hypothesis.log_prob)
        by_length = sorted(expected, key=lambda hypothesis: len(hypothesis.ids))
        if expected in (by_sum, by_length) or judged == 3:
            continue  # other rankings would give the same
        source = row[row != PAD][None]  # (1, S)
        for n in (1, BEAM):
            require_hypotheses(call(n_best, translator.model, source, BEAM, n), expected[:n], n)
        judged += 1
    return f"{judged} sentences"


def require_hypotheses(given: Any, expected: Answers, n: int) -> None:
    """Raise Wrong unless these are the ids and scores of the expected hypotheses."""
    what = f"n_best(model, source, {BEAM}, {n})"
    pairs = isinstance(given, list | tuple) and all(
        isinstance(item, list | tuple) and len(item) == 2 for item in given
    )
    if not pairs:
        raise Wrong(say(f"{what} should be pairs of ids and score, but it is {show(given)}"))
    require_equal(f"the ids of {what}", [list(i) for i, _ in given], [h.ids for h in expected])
    scores = [hypothesis.score for hypothesis in expected]
    if not equal([score for _, score in given], scores, 1e-3):
        found = [score for _, score in given]
        raise Wrong(say(f"the scores of {what} should be {show(scores)}, but are {show(found)}"))


def judge_3(cached_beam: Callable[[Any, Tensor, int], Any], *, draw: Random) -> str:
    """A beam search with a cache, on sentences that come out wrong without the reordering."""
    translator, judged = load_toy("de-en"), 0
    steps_only: Any = StepsOnly(translator.model)
    batch = draw_sources(translator, draw)  # (B, S)
    expected = beam_search(translator.model, batch, BEAM)
    with bugs.plant("cache-not-reordered"):
        mistaken = beam_search(translator.model, batch, BEAM)
    for row, (best, *_), (other, *_) in zip(batch, expected, mistaken, strict=True):
        if best.ids == other.ids or judged == 3:
            continue  # a cache that is never reordered would pass
        with torch.no_grad():
            given = call(cached_beam, steps_only, row[row != PAD][None], BEAM)
        require_equal(f"cached_beam(model, source, {BEAM})", given, best.ids)
        judged += 1
    return f"{judged} sentences"


class StepsOnly:
    """A model that can decode with a cache, and in no other way."""

    def __init__(self, model: Any):
        self.start, self.step, self.config = model.start, model.step, model.config

    def __call__(self, *_: Any) -> NoReturn:
        raise TypeError("use model.start(source) and model.step(tokens, state)")


def draw_sources(translator: Translator, draw: Random) -> Tensor:
    """Sources (B, S) with a word that the model does not know, so that it is uncertain."""
    examples = []
    for pair in draw.sample(load_corpus("toy-de-en").test, SENTENCES):
        words = pair.source.split()
        words[draw.randrange(1, len(words) - 1)] = UNKNOWN
        examples.append(translator.example(" ".join(words), ""))
    return collate(examples).source
