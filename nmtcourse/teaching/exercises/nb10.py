"""The judges of notebook 10."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, NoReturn

import torch
from torch import Tensor

from nmtcourse import bugs
from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, call, equal, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib import beam_search, load_corpus
from nmtlib.data import EOS, PAD, collate
from nmtlib.inference.search import Hypothesis
from nmtlib.inference.translator import Translator
from nmtlib.model import Transformer
from nmtlib.model.config import TransformerConfig

BEAM = 3
WORDS = 12  # of an untrained model
SENTENCES = 80  # enough for one that tells each wrong answer
LOST = [  # a beam of 5 stops before it finds the best translation of these
    "der Hund ist so klein wie unsere Katze .",
    "die Frau will nicht einkaufen , weil sie müde ist .",
    "die Nachbarin glaubt , dass ihr Auto neben dem Haus ist .",
]
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
        if isinstance(first, dict) and isinstance(row, dict) and set(row) != set(first):
            raise Wrong(say(f"{what}: {name} should have the words of first: {show(row)}"))
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
    model, batch = translator.model, draw_sources(translator, draw)  # (B, S)
    found = beam_search(model, batch, BEAM, n_best=BEAM)
    for row, expected in zip(batch, found, strict=True):
        by_sum = sorted(expected, key=lambda hypothesis: -hypothesis.log_prob)
        by_length = sorted(expected, key=lambda hypothesis: len(hypothesis.ids))
        if expected in (by_sum, by_length) or judged == 3:
            continue  # other rankings would give the same
        for n in (1, BEAM):
            require_hypotheses(n_best, model, row, BEAM, expected[:n])
        judged += 1
    lost = batch[: len(LOST)]
    for row, expected in zip(lost, beam_search(model, lost, 5, n_best=2), strict=True):
        require_hypotheses(n_best, model, row, 5, expected)
    return f"{judged + len(LOST)} sentences"


def require_hypotheses(
    n_best: Callable[[Any, Tensor, int, int], Any],
    model: Any,
    row: Tensor,
    beam: int,
    expected: Answers,
) -> None:
    """Raise Wrong unless a function gives the ids and scores of the expected hypotheses."""
    n = len(expected)
    given = call(n_best, model, row[row != PAD][None], beam, n)
    what = f"n_best(model, source, {beam}, {n})"
    pairs = isinstance(given, list | tuple) and all(
        isinstance(item, list | tuple) and len(item) == 2 for item in given
    )
    if not pairs:
        raise Wrong(say(f"{what} should be pairs of ids and score, but it is {show(given)}"))
    require_equal(f"the ids of {what}", [list(i) for i, _ in given], [h.ids for h in expected])
    scores = [hypothesis.score for hypothesis in expected]
    found = [score for _, score in given]
    if not equal(found, scores, 1e-3):
        raise Wrong(say(f"the scores of {what} should be {show(scores)}, but are {show(found)}"))


def judge_3(cached_beam: Callable[[Any, Tensor, int], Any], *, draw: Random) -> str:
    """A beam search with a cache, on sentences that a search with one mistake gets wrong."""
    translator, judged = load_toy("de-en"), 0
    batch = draw_sources(translator, draw)  # (B, S)
    few = torch.randint(4, WORDS, (40, 5))  # (B, S)
    endless = new_model()
    with torch.no_grad():
        endless.output.bias[EOS] -= 50  # only the limit ends it
    for model, sources, beams in (
        (translator.model, batch, (2, 5)),
        (new_model(), few, (1, 2, 5)),
        (endless, few, (2,)),
    ):
        for beam in beams:
            for row, expected in choose_telling(model, sources, beam):
                with torch.no_grad():
                    given = call(cached_beam, StepsOnly(model), row[row != PAD][None], beam)
                require_equal(f"cached_beam(model, source, {beam})", given, expected)
                judged += 1
    return f"{judged} sentences"


def new_model() -> Transformer:
    """Untrained, of so few words that its translations have many lengths; float64 has no ties."""
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(TransformerConfig(WORDS, WORDS, **sizes)).double().eval()
    with torch.no_grad():
        model.output.weight *= 2
        model.output.bias[EOS] += 1
    return model


def choose_telling(model: Any, batch: Tensor, beam: int) -> list[tuple[Tensor, list[int]]]:
    """For each mistake a source that it gets wrong, where there is one, and its translation."""
    expected = search(model, batch, beam)
    mistakes: list[dict[str, float]] = [{"length_penalty": 0}, {"length_penalty": 2}]
    mistakes += [{"patience": 2}, {"max_length": 59}]
    mistaken = [search(model, batch, beam, **mistake) for mistake in mistakes]
    mistaken += [search(model, batch, other) for other in (1, BEAM, 5) if other != beam]
    with bugs.plant("cache-not-reordered"):
        mistaken.append(search(model, batch, beam))
    rows = set()
    for found in mistaken:
        differ = [i for i, ids in enumerate(found) if ids != expected[i]]
        rows.update(differ[:1])
    return [(batch[i], expected[i]) for i in sorted(rows)]


def search(model: Any, batch: Tensor, beam: int, **settings: Any) -> list[list[int]]:
    """The best translation of each source, as ids."""
    return [best.ids for best, *_ in beam_search(model, batch, beam, **settings)]


class StepsOnly:
    """A model that can decode with a cache, and in no other way."""

    def __init__(self, model: Any):
        self.start, self.step, self.config = model.start, model.step, model.config

    def __call__(self, *_: Any) -> NoReturn:
        raise TypeError("use model.start(source) and model.step(tokens, state)")


def draw_sources(translator: Translator, draw: Random) -> Tensor:
    """`LOST`, then sources with a word that the model does not know, so that it is uncertain."""
    sources = [*LOST]
    for pair in draw.sample(load_corpus("toy-de-en").test, SENTENCES):
        words = pair.source.split()
        words[draw.randrange(1, len(words) - 1)] = UNKNOWN
        sources.append(" ".join(words))
    return collate([translator.example(source, "") for source in sources]).source
