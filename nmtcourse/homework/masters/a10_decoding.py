"""Homework 10: greedy search, beam search, attention with a key-value cache."""

import inspect
import math
import random
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from nmtcourse.homework.compare import holds
from nmtcourse.homework.inputs import LONG, Draw
from nmtcourse.homework.signatures import Float, Made, Whole
from nmtcourse.homework.task import Assignment

BOS, EOS = 1, 2


homework = Assignment(
    "10",
    "decoding",
    "Decoding",
    opening="""
    A model predicts probabilities; a search turns them into a translation. You write greedy search
    and beam search for one sentence, and the cache that makes both fast. In the first two tasks
    `log_probs(said)` is the model: it takes the list of ids generated so far, starting with BOS =
    1, and returns the log-probabilities (V,) of the next token. EOS is 2; PAD, BOS and UNK are so
    improbable for the model that you need not exclude them. As with a real model, each call costs
    time. Break ties as you like.
    """,
    imports=(
        "import math\nfrom collections.abc import Callable\n\nimport torch\n"
        "from torch import Tensor\nfrom torch.nn import functional as F"
    ),
)


class Model:
    """Log-probabilities that depend on the whole prefix; counts its calls.

    With `ties` they depend on its length, so that it does not matter which of equal ones is kept.
    """

    def __init__(
        self, draw: Draw, words: int, end: float = 0.0, ties: bool = False, low: float = -math.inf
    ):
        self.seed, self.words, self.calls = draw.value_seed, words, 0
        self.end, self.ties, self.low = end, ties, low

    def __call__(self, said: list[int]) -> Tensor:
        said, self.calls = [int(word) for word in said], self.calls + 1
        chance = random.Random(f"{self.seed} {len(said) if self.ties else said}")
        scores = torch.tensor([chance.gauss(0, 1.5) for _ in range(4 + self.words)])
        scores[4:] = scores[4:].round() if self.ties else scores[4:]
        scores[EOS] += self.end
        scores[[0, 1, 3]] = self.low
        return scores.double().log_softmax(-1)


def a_model(draw: Draw, ends: tuple[float, ...] = (1.0, 0.0, -9.0), most: int = 6) -> Model:
    """A model whose translations end early, late, or hardly ever."""
    words = 101 if draw.sizing == LONG else draw.size(1, most)
    return Model(draw, words, draw.one_of(ends), low=draw.one_of([-30.0, -math.inf]))


def toy(said: list[int]) -> Tensor:
    """A model with a moderately probable early end and a more probable late one."""
    tree = {(): {EOS: 0.22, 4: 0.68, 5: 0.1}, (4,): {EOS: 0.45, 5: 0.55}}
    tree[4, 5] = {EOS: 0.95, 4: 0.05}
    chances = tree.get(tuple(int(word) for word in said[1:]), {EOS: 1.0})
    return torch.tensor([chances.get(word, 0.0) for word in range(6)]).log()


def late(draw: Draw) -> Callable[[list[int]], Tensor]:
    """A model whose best translation is the third of three hypotheses, after an improbable end."""
    a, b, c, d, e = draw.shuffled(range(4, 9))
    tree = {(): {a: 0.5, b: 0.4, EOS: 0.1}, (a,): {c: 0.5, d: 0.5}, (b,): {e: 0.6, d: 0.4}}
    tree |= {(a, c): {c: 0.7, EOS: 0.3}, (a, d): {d: 0.7, EOS: 0.3}}

    def log_probs(said: list[int]) -> Tensor:
        chances = tree.get(tuple(int(word) for word in said[1:]), {EOS: 1.0})
        return torch.tensor([chances.get(word, 0.0) for word in range(9)]).log()

    return log_probs


@homework.task(
    "easy",
    "Greedy search",
    """
    Generate the most probable token repeatedly, until it is EOS or there are `longest` words.
    Return the list of words, without BOS and EOS. Do not call the model when its result no longer
    matters.
    """,
    hints=(
        "Write the loop without an end first, then the two conditions that end it.",
        "How many words are there before the first step, and when can it stop without a call?",
    ),
    read="notebook 10, section 1",
    given="BOS, EOS = 1, 2",
    mistakes=r"""
    BOS is returned among the words.
        return said[1:] => return said
    EOS is returned among the words.
        if word == EOS:\n            break\n        said.append(word)
        => said.append(word)\n        if word == EOS:\n            break
    EOS does not end the search.
        if word == EOS: => if word == -1:
    One word too few at the limit: BOS is not a word.
        len(said) - 1 < longest => len(said) < longest
    One word too many at the limit.
        len(said) - 1 < longest => len(said) - 2 < longest
    The least probable word is generated.
        argmax => argmin
    The model receives only the last word, not the whole prefix.
        log_probs(said) => log_probs(said[-1:])
    The prefix does not start with BOS.
        said = [BOS] => said = [EOS]
    """,
    signature={"log_probs": Made(a_model), "longest": Whole(0, 8)},
)
def greedy(log_probs: Callable[[list[int]], Tensor], longest: int) -> list[int]:
    """The most probable next word until EOS, at most `longest` words."""
    ### BEGIN SOLUTION
    said = [BOS]
    while len(said) - 1 < longest:
        word = int(log_probs(said).argmax())
        if word == EOS:
            break
        said.append(word)
    return said[1:]
    ### END SOLUTION


homework.promise(
    greedy,
    "The result is the words before EOS, even if there are none, at most `longest` of them.",
    "Follow your loop for a model that predicts two words and EOS.",
    worth=2,
    longest=9,
    log_probs=Made(partial(a_model, ends=(1.0, 4.0))),
)
homework.promise(
    greedy,
    "The model is called once for each word, and once for EOS unless the limit comes first.",
    "Is the model called twice for a word, or once more at the limit?",
)


@homework.task(
    "medium",
    "Beam search",
    """
    Write beam search for one sentence, starting with BOS alone. In each step, every live hypothesis
    is extended by every token; of **all** these candidates together, the `width` with the highest
    log-probability are kept. Kept candidates that end with EOS are finished; the others stay live.
    Stop when there is no live hypothesis, or when a finished one is at least as probable as the
    best live one. A hypothesis of `longest` words can only be extended by EOS. Return the words of
    the most probable finished hypothesis, without BOS and EOS, and its log-probability, including
    that of EOS. There is no length penalty. In notebook 10, by contrast, finished hypotheses do not
    take a place in the beam, and the search stops later. The vocabulary may be smaller than the
    beam. Try your search on the model `toy`.
    """,
    hints=(
        ("Keep pairs (ids, log-probability). Collect the candidates of one step in one flat list."),
        (
            "Two things are easily forgotten: the last step, which allows only EOS, and the "
            "stopping rule, which compares the best finished hypothesis with the best live one."
        ),
    ),
    read="notebook 10, sections 3 and 4",
    minutes=45,
    given=inspect.getsource(toy),
    example="""
    print(toy([BOS]).exp(), toy([BOS, 4]).exp())  # the best translation of a beam of 2 is [4, 5]
    """,
    mistakes=r"""
    Each hypothesis keeps its own best extension: the hypotheses do not compete.
        candidates += [([*said, w], total + logp[w]) for w in words]
        => w = max(words, key=logp.__getitem__); candidates += [([*said, w], total + logp[w])]
    Only the log-probability of the last word counts, not that of the hypothesis.
        total + logp[w] => 0.0 * total + logp[w]
    The log-probability of EOS is left out.
        c for c in best if c[0][-1] == => (c[0], c[1] - logp[EOS]) for c in best if c[0][-1] ==
    The search stops at the first finished hypothesis, although a better one may follow.
        if not open_ones or most >= open_ones[0][1]: => if finished:
    The search stops when `width` hypotheses are finished, which is a different rule.
        if not open_ones or most >= open_ones[0][1]: => if not open_ones or len(finished) >= width:
    Hypotheses of `longest` words are lost: a last step should extend them by EOS.
        [EOS] if len(said) > longest => [] if len(said) > longest
        max(finished, key => max(finished or [([BOS, EOS], -math.inf)], key
    The score is divided by the length.
        max(finished, key=lambda c: c[1]) => max(finished, key=lambda c: c[1] / len(c[0]))
    The beam is one hypothesis too narrow.
        [:width] => [: max(width - 1, 1)]
    The limit counts BOS as a word: EOS is forced one word too early.
        len(said) > longest => len(said) >= longest
    The limit is ignored: sentences become too long.
        [EOS] if len(said) > longest else range(len(logp)) => range(len(logp))
    The log-probability of the forced EOS at the limit is left out.
        total + logp[w]) => total + (len(said) <= longest) * logp[w])
    EOS is returned among the words.
        return ids[1:-1], total => return ids[1:], total
    """,
    signature={
        "log_probs": Made(lambda draw: a_model(draw, (-1.0, 0.5, 1.0)).__call__),
        "width": Whole(1, 6),
        "longest": Whole(0, 7),
    },
)
def beam_search(
    log_probs: Callable[[list[int]], Tensor], width: int, longest: int
) -> tuple[list[int], float]:
    """The most probable translation found by a beam of this width, and its log-probability."""
    ### BEGIN SOLUTION
    open_ones, finished = [([BOS], 0.0)], []
    while True:
        candidates = []
        for said, total in open_ones:
            logp = log_probs(said).tolist()
            words = [EOS] if len(said) > longest else range(len(logp))
            candidates += [([*said, w], total + logp[w]) for w in words]
        best = sorted(candidates, key=lambda c: -c[1])[:width]
        finished += [c for c in best if c[0][-1] == EOS]
        open_ones = [c for c in best if c[0][-1] != EOS]
        most = max([c[1] for c in finished], default=-math.inf)
        if not open_ones or most >= open_ones[0][1]:
            ids, total = max(finished, key=lambda c: c[1])
            return ids[1:-1], total
    ### END SOLUTION


homework.promise(
    beam_search,
    "A beam of 1 gives the result of greedy search, with its log-probability.",
    "With a width of 1, beam search is greedy search.",
    width=1,
)
homework.promise(
    beam_search,
    "A beam as wide as the number of hypotheses finds the most probable one.",
    "Compare the log-probabilities of whole hypotheses.",
    worth=2,
    log_probs=Made(lambda draw: a_model(draw, (-0.5, 0.0, 1.0), 3).__call__),
    width=90,
    longest=Whole(0, 3),
)
homework.promise(
    beam_search,
    "Beams of all widths find the described result, for early and late ends.",
    "Write down the candidates of each step and compare them with the task.",
    worth=2,
)


@homework.check(beam_search, "Which candidates are kept, and when does the search stop?")
def finds_late_ends(answer, width, longest, draw):
    """Good late ends are found, and the best log-probability where candidates are equal."""
    for model, wide in ((toy, 2), (late(draw), 3)):
        yield f"the result of a beam of {wide} for a good late end", tuple(answer(model, wide, 7))
    tied = Model(draw, words=draw.size(2, 6), ties=True)
    yield "the log-probability where candidates are equal", answer(tied, 1 + width, longest)[1]


@homework.check(
    beam_search, "What is a product of hundreds of probabilities?", draws=1, again=False
)
def adds_logarithms(answer, draw: Draw):
    """A sentence of 200 words has the right log-probability, below -700."""
    scores = torch.linspace(-1, 1, 100).double()
    scores[[0, 1, 3]], scores[EOS] = -math.inf, -9
    yield "the result of a beam of 2", tuple(answer(lambda said: scores.log_softmax(0), 2, 200))


@homework.check(beam_search, "When can no better hypothesis follow?", draws=6)
def stops_when_nothing_better_can_come(answer, width, draw):
    """The search ends when a finished hypothesis is at least as probable as every live one."""
    model = a_model(draw, (6.0, 2.0))
    answer(model, width, 30)
    calls, model.calls = model.calls, 0
    beam_search(model, width, 30)
    measured = f"{calls} calls of the model for a beam of {width}"
    holds(calls <= model.calls + width, measured, f"{model.calls}")


class Projection:
    """A projection that counts the vectors it is applied to."""

    def __init__(self, draw: Draw):
        self.matrix, self.calls = draw.normal(draw.named("D"), draw.named("K")), 0

    def __call__(self, x: Tensor) -> Tensor:
        holds(x.dim() == 3, f"a projection of vectors {tuple(x.shape)}", "(B, T, D)")
        self.calls += x.numel() // x.size(-1)
        return x @ self.matrix


def some_rows(draw: Draw) -> Tensor:
    """The parents of rows, fewer or more of them than before: any, or each the next one's."""
    size = draw.named("B")
    some = [draw.choose(size) for _ in range(draw.size(1, 5))]
    parents = torch.tensor(draw.one_of([some, [*range(1, size), 0]]))
    draw.known["B"] = len(parents)
    return parents


@homework.task(
    "hard",
    "Attention with a cache",
    """
    In decoding, words arrive one at a time, and the keys and values of earlier words do not change.
    Write a class that is built from three functions, which project vectors (B, T, D) to queries,
    keys and values (B, T, d_k). `step(x)` takes the next word of each sentence, (B, D), and returns
    (B, d_k): its attention to all words so far, including itself. Add a time axis to x before you
    project it. Project each word **once**; the functions return new tensors. Between two steps,
    beam search calls `reorder(parents)`: row n then continues the old row `parents[n]`; the number
    of parents may change, and they may repeat.
    """,
    hints=(
        "What must be kept for the next step, and what is needed only once?",
        "Append the new key and value, then attend; `reorder` indexes the rows of the cache.",
    ),
    read="notebook 10, sections 7 and 8",
    minutes=45,
    mistakes=r"""
    The cache is not reordered: rows continue with the words of other hypotheses.
        self.keys, self.values = self.keys[parents], self.values[parents] => pass
    A row is overwritten before it is read: create new tensors.
        self.keys, self.values = self.keys[parents], self.values[parents]
        => rows = list(enumerate(parents.tolist()))
        \n        for kept in (self.keys, self.values):
        \n            for n, parent in rows:
        \n                kept[n] = kept[parent].clone()
    The values are not reordered.
        self.keys, self.values = self.keys[parents], self.values[parents]
        => self.keys = self.keys[parents]; self.values = self.values[: len(parents)]
    The keys are not reordered.
        self.keys, self.values = self.keys[parents], self.values[parents]
        => self.values = self.values[parents]; self.keys = self.keys[: len(parents)]
    Only the newest word is kept: the cache is overwritten.
        torch.cat([self.keys, key], dim=1) => key
        torch.cat([self.values, value], dim=1) => value
    The word does not attend to itself.
        scores.softmax(-1) => torch.cat([scores[..., :-1], scores[..., -1:] - 1e9], -1).softmax(-1)
    Only the first word is seen: words are joined along the batch, or `is_causal` is set.
        torch.cat([self.keys, key], dim=1) => torch.cat([self.keys, key], dim=0)[: len(key)]
        .cat([self.values, value], dim=1) => .cat([self.values, value], dim=0)[: len(value)]
    All words are projected again in each step.
        .query(x), self.key(x), self.value(x) => .query(x), self.key(x), self.value(x); self.key(x)
    The scores are not divided by the root of d_k.
        / math.sqrt(query.size(-1)) =>
    The scores are divided by the root of D, not of d_k.
        math.sqrt(query.size(-1)) => math.sqrt(x.size(-1))
    The projected key is cached as the value.
        torch.cat([self.values, value], dim=1) => torch.cat([self.values, key], dim=1)
    """,
    signature={name: Made(Projection, half=True) for name in ("query", "key", "value")}
    | {"x": Float("B D"), "parents": Made(some_rows, half=True)},
    calls=8,
)
class StepAttention:
    """Causal self-attention, word by word, with cached keys and values."""

    def __init__(self, query: Callable, key: Callable, value: Callable):
        self.query, self.key, self.value = query, key, value
        ### BEGIN SOLUTION
        self.keys = self.values = None
        ### END SOLUTION

    def step(self, x: Tensor) -> Tensor:
        """The next word (B, D) -> its attention to all words so far, (B, d_k)."""
        ### BEGIN SOLUTION
        x = x[:, None]
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.keys is not None:
            key, value = torch.cat([self.keys, key], dim=1), torch.cat([self.values, value], dim=1)
        self.keys, self.values = key, value
        scores = query @ key.transpose(1, 2) / math.sqrt(query.size(-1))
        return (scores.softmax(-1) @ value)[:, 0]
        ### END SOLUTION

    def reorder(self, parents: Tensor) -> None:
        """Row n continues the old row `parents[n]`."""
        ### BEGIN SOLUTION
        self.keys, self.values = self.keys[parents], self.values[parents]
        ### END SOLUTION


homework.promise(
    StepAttention,
    "Step by step the results are those of causal attention on whole sentences, for two at once; "
    "each word is projected once.",
    "Compare the second step with causal attention over two words.",
    worth=3,
    parents=Made(lambda draw: torch.arange(draw.named("B")), half=True),
)
homework.promise(
    StepAttention,
    "After `reorder` each row continues its parent's words, whatever the number of rows.",
    "Which rows of keys and values belong to row n after reordering?",
    worth=2,
)


@homework.question(
    "What the cache saves",
    options=["21 positions.", "231 positions.", "441 positions."],
    hints=(
        "Give your search a `log_probs` that records `len(said)` of each call.",
        "Add up 1 + 2 + 3 + …",
    ),
    read="notebook 10, section 7",
    uses=(greedy,),
)
def how_many_positions_without_a_cache(greedy) -> str:
    """
    A translation has 20 words, then EOS. Without a cache, each call of the model computes all
    positions of its input again. How many positions is that in total, with **your** greedy search?
    """
    read = []
    words = [4 + number % 4 for number in range(20)]

    def counted(said: list[int]) -> Tensor:
        read.append(len(said))
        return torch.eye(9)[[*words, EOS][len(said) - 1]]

    greedy(counted, 30)
    return {21: "A", 231: "B"}.get(sum(read), "C")
