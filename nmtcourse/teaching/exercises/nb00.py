"""The judges of notebook 00."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from nmtcourse import bugs
from nmtcourse.teaching.course import exact_matches, load_toy
from nmtcourse.teaching.exercises import Wrong, agree, call
from nmtcourse.teaching.language import say
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Pair
from nmtlib.inference.search import Hypothesis
from nmtlib.inference.translator import Translator

STRANGERS = ("Drachen", "Zwerge", "Einhörner", "Piraten")  # not in the toy vocabulary


def judge_1(unknown_words: Callable[[str], list[str]], *, draw: Random) -> str:
    """The words of a text that the model cannot look up, in their order."""
    known = load_toy("de-en").source.vocab
    for pair in draw.sample(load_corpus("toy-de-en").test, 10):
        words = pair.source.split()
        words[draw.randrange(len(words) - 1)] = draw.choice(STRANGERS)
        changed = " ".join(words)
        capital = changed[0].upper() + changed[1:]
        # A word twice, a part of a known word, and a wide gap.
        twice = f"{changed} {changed}"
        part = draw.choice(
            [word for word in known.tokens if len(word) > 4 and word[:-1] not in known]
        )
        texts = (pair.source, changed, capital, changed.replace(" .", "."), twice)
        for text in (*texts, f"{part[:-1]} {pair.source}", changed.replace(" ", "  ", 1)):
            missing = [word for word in text.split() if word not in known]
            agree(unknown_words, text, expected=missing)
    return "70 texts"


def judge_2(three_best: Callable[[str], list[str]], *, draw: Random) -> str:
    """The three best translations of a sentence, as texts."""
    translator = load_toy("de-en")
    for pair in draw.sample(load_corpus("toy-de-en").test, 4):
        (found,) = translator.search([pair.source], n_best=3)
        texts = [translator.target.decode(hypothesis.ids) for hypothesis in found]
        agree(three_best, pair.source, expected=texts)
    return "4 sentences"


class Listener(Translator):
    """A translator that notes how many sentences each search has."""

    def __init__(self, translator: Translator):
        model, settings = translator.model, translator.settings
        super().__init__(model, translator.source, translator.target, settings)
        self.sizes: list[int] = []

    def __repr__(self) -> str:
        return "model"  # as a message names it

    def search(self, sentences: Sequence[str], **options: Any) -> list[list[Hypothesis]]:
        """Search as usual."""
        self.sizes.append(len(sentences))
        return super().search(sentences, **options)


def greedy_pairs(translator: Translator, draw: Random) -> list[Pair]:
    """Pairs whose target a beam of 1 finds, and the usual beam does not: words in disorder."""
    sources = []
    for pair in draw.sample(load_corpus("toy-de-en").validation, 25):
        words = pair.source.split()
        sources.append(" ".join(draw.sample(words, len(words))))
    greedy, usual = translator.translate(sources, beam=1), translator.translate(sources)
    found = [Pair(*row[:2]) for row in zip(sources, greedy, usual, strict=True) if row[1] != row[2]]
    return found[:5]


def judge_3(exact_alone: Callable[[Translator, list[Pair]], int], *, draw: Random) -> str:
    """How many pairs a translator translates exactly, one sentence at a time."""
    pairs = draw.sample(load_corpus("toy-de-en").validation, 30)
    damaged = [Pair(pair.source, pairs[i - 1].target) for i, pair in enumerate(pairs[:12])]
    healthy = load_toy("de-en")
    listener = Listener(healthy)
    reordered = [Pair(pair.source, " ".join(pair.target.split()[::-1])) for pair in pairs[:5]]
    # A target that the translation only begins with, and pairs that are given twice.
    cut = [Pair(pair.source, pair.target.rsplit(" ", 1)[0]) for pair in pairs[:4]]
    cases = (
        pairs,
        [*damaged, *pairs[12:20]],
        [*reordered, *greedy_pairs(healthy, draw)],
        [*cut, *pairs[4:8], *pairs[4:8]],
    )
    for these in cases:
        expected = sum(exact_matches(healthy, [pair]) for pair in these)
        why = "a pair counts if model.translate([pair.source]) == [pair.target]"
        agree(exact_alone, listener, these, expected=expected, why=why)
    if not listener.sizes or max(listener.sizes) > 1:
        largest = max(listener.sizes, default=0)
        raise Wrong(
            say(f"one call of model.translate got {largest} sentences; give it one at a time")
        )
    with bugs.plant("cross-attention-no-padding-mask"):
        together, alone = exact_matches(healthy, pairs), call(exact_alone, listener, pairs)
    return f"of 30 sentences the broken code has {together} right in batches and {alone} alone"
