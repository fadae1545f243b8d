"""Homework 11: alignment error rate, corpus BLEU, paired bootstrap."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from nmtcourse.homework.compare import holds, refuses, same, shaped
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Made
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "11",
    "evaluation",
    "Evaluation",
    opening="""
    You write three metrics and learn what each cannot see: the alignment error rate, corpus BLEU,
    and the paired bootstrap, which tells a difference from chance.
    """,
    imports=(
        "import math\nfrom collections import Counter\nfrom collections.abc import Callable\n\n"
        "import torch\nfrom torch import Tensor"
    ),
)


Links = list[set[tuple[int, int]]]
WORDS = ("a", "ab", "b", "A", ".")


def some_links(draw: Draw, sentences: int) -> Links:
    """Random links, near and far; some sentences have none."""
    sizes = [draw.random.choice((0, 1, 2, 5, 8)) for _ in range(sentences)]
    places = (0, 1, 2, 3, draw.one_of([4, 12, 1200]))
    return [
        {(draw.random.choice(places), draw.random.choice(places)) for _ in range(n)} for n in sizes
    ]


def gold_links(draw: Draw) -> Links:
    """Links of some sentences, of which the last has one."""
    return draw.shuffled([*some_links(draw, draw.sizes(1)[0] - 1), {(0, draw.choose(3))}])


def found_links(draw: Draw, known: dict) -> Links:
    """Links for as many sentences: any, the right ones, wrong ones, or none."""
    gold, kind = known["gold"], draw.one_of(["", "", "perfect", "wrong", "none"])
    if kind == "perfect":
        return [{*links} for links in gold]
    if kind == "wrong":
        return [{(i + 5, j) for i, j in links} for links in gold]
    return [set() for _ in gold] if kind else some_links(draw, len(gold))


def texts(draw: Draw, low: int = 0, high: int = 9) -> list[list[str]]:
    """References of some words; a few of them are longer if any number of words may be left."""
    count = draw.sizes(1, 1, 6, large=60)[0]
    found = [draw.random.choices(WORDS, k=draw.random.randint(low, high)) for _ in range(count)]
    return found if low or draw.choose(2) else [*found, draw.random.choices(WORDS, k=9)]


def translated(draw: Draw, known: dict, lengths: tuple[int, ...] = (0, 0, -2, 2)) -> list:
    """Hypotheses: references with errors, or without, longer or shorter in some sentences."""
    hypotheses, wrong, longer = [], draw.one_of([0.2, 0.0, 0.8]), draw.one_of(lengths)
    for number, reference in enumerate(known["references"]):
        kept = [draw.random.choice(WORDS) if draw.random.random() < wrong else w for w in reference]
        if longer and (not number or draw.random.random() < 0.5):
            kept = kept[:longer] if longer < 0 else [*kept, *draw.random.choices(WORDS, k=longer)]
        hypotheses.append(kept)
    return hypotheses


@homework.task(
    "easy",
    "Alignment error rate",
    """
    A link is a pair (source position, target position). `found` and `gold` contain a set of links
    for each sentence. With A all found links and S all gold links of the **whole** test set, return
    $1 - 2\\,|A \\cap S| / (|A| + |S|)$. The link (0, 0) in two sentences counts as two links. Raise
    a `ValueError` if the numbers of sentences differ, or if neither side has any link.
    """,
    hints=(
        "A link is right only within its own sentence. How do you count over all sentences?",
        "Add up three numbers over the sentences, and divide once at the end.",
    ),
    read="notebook 11b, section 1",
    mistakes=r"""
    The sentences' rates are averaged: short sentences weigh as much as long ones.
        return 1 - 2 * right / total
        => rates = [1 - 2 * len(a & s) / max(len(a) + len(s), 1) for a, s in pairs]
        \n    return sum(rates) / len(rates)
    Links of different sentences are pooled, so that wrong ones look right.
        = sum(len(a & s) for a, s in pairs) => = len(set().union(*found) & set().union(*gold))
    Equal links in two sentences count as one.
        right = sum(len(a & s) for a, s in pairs) => a, s = set().union(*found), set().union(*gold)
        total = sum(len(a) + len(s) for a, s in pairs) => total = len(a) + len(s)
        2 * right => 2 * len(a & s)
    The F1 score is returned, not 1 minus F1.
        1 - 2 * right => 2 * right
    The factor 2 is missing: perfect links get a rate of 0.5.
        2 * right => right
    The denominator lacks the gold links, so missing links cost nothing.
        sum(len(a) + len(s) for a, s in pairs) => 2 * sum(len(a) for a, s in pairs)
    The denominator lacks the found links, so wrong links cost nothing.
        sum(len(a) + len(s) for a, s in pairs) => 2 * sum(len(s) for a, s in pairs)
    Different numbers of sentences raise no ValueError.
        if len(found) != len(gold): => if False:
        zip(found, gold, strict=True) => zip(found, gold)
    No links at all raises no ValueError.
        if not total: => if False:
        / total => / max(total, 1)
    """,
    signature={"gold": Made(gold_links), "found": Made(found_links, needs=True)},
)
def alignment_error_rate(
    found: list[set[tuple[int, int]]], gold: list[set[tuple[int, int]]]
) -> float:
    """The alignment error rate: 0 is perfect, 1 has no link right."""
    ### BEGIN SOLUTION
    if len(found) != len(gold):
        raise ValueError(f"{len(found)} and {len(gold)} sentences")
    pairs = list(zip(found, gold, strict=True))
    right = sum(len(a & s) for a, s in pairs)
    total = sum(len(a) + len(s) for a, s in pairs)
    if not total:
        raise ValueError("no links at all")
    return 1 - 2 * right / total
    ### END SOLUTION


homework.promise(
    alignment_error_rate,
    "The rate is that of all sentences together, including sentences without links: 0 for perfect "
    "links, 1 if all are wrong, or if one side has none.",
    "Add up over all sentences before you divide.",
    worth=3,
)


@homework.check(alignment_error_rate, "Which inputs are invalid?")
def refuses_what_has_no_rate(answer, draw):
    """Different numbers of sentences, and no links at all, raise ValueError."""
    n, more = draw.choose(4), draw.size(1, 3)
    short_one, long_one = some_links(draw, n), [*some_links(draw, n + more - 1), {(0, 0)}]
    found, gold = draw.one_of([(short_one, long_one), (long_one, short_one)])
    refuses(answer, (found, gold), f"{len(found)} and {len(gold)} sentences")
    refuses(answer, ([set() for _ in range(n)], [set() for _ in range(n)]), f"no links in {n}")


@homework.task(
    "medium",
    "BLEU",
    """
    Write corpus BLEU (Papineni et al. 2002), from 0 to 100. Hypotheses and references are lists of
    tokens without spaces, one reference for each hypothesis. Use n-grams from 1 to 4 with equal
    weights, the brevity penalty of the whole test set, and no smoothing: if no n-gram of some order
    matches in the whole set, BLEU is 0. Sentences may be shorter than 4 tokens, or empty. Do not
    call a library's BLEU.
    """,
    hints=(
        "Which ten numbers does each sentence contribute, and when are they added up?",
        "`Counter(a) & Counter(b)` takes the smaller count of each n-gram.",
    ),
    read="notebook 11, section 1",
    sealed=("sacrebleu", "nltk.translate", "nmtlib.inference", "nmtcourse.recipes"),
    mistakes=r"""
    BLEU is computed for each sentence; counts should be added up over the set first.
        c = sum(len(h) for h in hypotheses)\n
        => if len(hypotheses) > 1:
        \n        pairs = zip(hypotheses, references, strict=True)
        \n        return sum(bleu([h], [x]) for h, x in pairs) / len(hypotheses)
        \n    c = sum(len(h) for h in hypotheses)
        \n
    Counts are not clipped: a repeated word is right each time.
        (mine & theirs).total() => sum(c for gram, c in mine.items() if gram in theirs)
    Each distinct n-gram counts once, however often it occurs.
        (mine & theirs).total() => len(mine & theirs)
    This is recall: matches are divided by the n-grams of the reference.
        total[n - 1] += mine.total() => total[n - 1] += theirs.total()
    The brevity penalty is missing.
        min(0.0, 1 - r / c) => 0.0
    The brevity penalty is inverted: it penalises long translations.
        1 - r / c => 1 - c / r
    Long translations are rewarded: the brevity penalty is at most 1.
        min(0.0, 1 - r / c) => 1 - r / c
    The precisions are averaged, not their logarithms.
        math.exp(sum(math.log(m / t) for m, t in zip(match, total, strict=True)) / 4)
        => sum(m / t for m, t in zip(match, total, strict=True)) / 4
    Only n-grams up to length 3 count.
        if not min(match): => match, total = match[:3], total[:3]\n    if not min(match):
        strict=True)) / 4 => strict=True)) / 3
    The logarithms are added up, not averaged over the four orders.
        strict=True)) / 4 => strict=True))
    The result ranges from 0 to 1.
        return 100 * => return
    """,
    signature={"references": Made(texts), "hypotheses": Made(translated, needs=True)},
)
def bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Corpus BLEU (0 to 100) of lists of tokens."""
    ### BEGIN SOLUTION
    match, total = [0] * 4, [0] * 4
    c = sum(len(h) for h in hypotheses)
    r = sum(len(x) for x in references)
    for h, x in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            mine, theirs = (
                Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in (h, x)
            )
            match[n - 1] += (mine & theirs).total()
            total[n - 1] += mine.total()
    if not min(match):
        return 0.0
    precision = math.exp(sum(math.log(m / t) for m, t in zip(match, total, strict=True)) / 4)
    return 100 * precision * math.exp(min(0.0, 1 - r / c))
    ### END SOLUTION


homework.promise(
    bleu,
    "For translations of the right length BLEU is that of the paper: 100 for a perfect one.",
    "Compute the ten numbers of one sentence by hand.",
    worth=2,
    references=Made(partial(texts, low=5, high=14)),
    hypotheses=Made(partial(translated, lengths=(0,)), needs=True),
)
homework.promise(
    bleu,
    "Short translations are penalised by the lengths of the whole set; long ones are not.",
    "When is a translation too short, and what is the penalty?",
    references=Made(partial(texts, low=6, high=14)),
    hypotheses=Made(partial(translated, lengths=(-2, 3, -1, 1)), needs=True),
)
homework.promise(
    bleu,
    "Sentences of 0 to 3 tokens contribute what they have; without a matching 4-gram BLEU is 0.",
    "Which counts are 0, and for which sentences?",
)


@homework.task(
    "hard",
    "Paired bootstrap",
    """
    Two systems have translated the same N sentences. `one` and `other` (N, C) contain counts for
    each sentence, as floating-point or whole numbers, and `score` computes a number from the
    **summed** counts (C,) of a test set. Sample a test set of N sentences with replacement, `times`
    times, and return the differences (times,) in float64: the score of `other` minus that of `one`,
    on the same sample. All randomness comes from `generator` itself, not from a copy: the next call
    with it draws other samples.
    """,
    hints=(
        "What is sampled: counts, or indices of sentences?",
        "`torch.randint(N, (N,), generator=generator)` samples one test set, for both systems.",
    ),
    read="notebook 11, section 5",
    mistakes=r"""
    Each system has its own sample: the test is not paired.
        score(one[draw].sum(0)) => score(one[torch.randint(n, (n,), generator=generator)].sum(0))
    Sentences are sampled without replacement: every sample is the same set.
        torch.randint(n, (n,), generator=generator) => torch.randperm(n, generator=generator)
    Scores of single sentences are averaged; the counts should be summed first.
        score(other[draw].sum(0)) - score(one[draw].sum(0))
        => sum(score(other[i]) - score(one[i]) for i in draw) / n
    The sign is wrong: it should be other minus one.
        other[draw].sum(0)) - score(one[draw].sum(0) => one[draw].sum(0)) - score(other[draw].sum(0)
    The samples have half the size: the differences vary too much.
        (n,), generator => (n // 2,), generator
    One sample is used again and again.
        for _ in range(times):\n        draw
        => draw = torch.randint(n, (n,), generator=generator)\n    for _ in range(times):\n        _
    The generator is not used: the result is not reproducible.
        , generator=generator =>
    Only one system is sampled; the other is scored on all sentences.
        score(one[draw].sum(0)) => score(one.sum(0))
    The last sentence is never sampled.
        randint(n, (n,) => randint(n - 1, (n,)
    Half of each sample comes from the first half of the sentences.
        found.append
        => draw = draw % max(n // 2, 1) + (torch.arange(n) % 2) * (n // 2)\n        found.append
    """,
)
def bootstrap(
    one: Tensor,
    other: Tensor,
    score: Callable[[Tensor], float],
    times: int,
    generator: torch.Generator,
) -> Tensor:
    """Differences (times,) between two systems on sampled test sets."""
    ### BEGIN SOLUTION
    n, found = len(one), []
    for _ in range(times):
        draw = torch.randint(n, (n,), generator=generator)
        found.append(score(other[draw].sum(0)) - score(one[draw].sum(0)))
    return torch.tensor(found, dtype=torch.float64)
    ### END SOLUTION


def first_count(counts: Tensor) -> float:
    """A score that is a plain sum."""
    return float(counts[0])


def ratio(counts: Tensor) -> float:
    """A score like BLEU: a ratio of sums."""
    return float(counts[0] / counts[1])


def run(answer, one: Tensor, other: Tensor, score: Callable, times: int, seed: int) -> Tensor:
    """An answer's differences, checked for shape, dtype, and where they come from."""
    generator, before = torch.Generator().manual_seed(seed), torch.get_rng_state()
    found = answer(one, other, score, times, generator)
    shaped(found, (times,), "the result")
    holds(found.dtype == torch.float64, f"a result of {found.dtype}", "torch.float64")
    untouched = torch.equal(before, torch.get_rng_state())
    holds(untouched, "torch's global generator was used or seeded", "the given one alone")
    moved = not torch.equal(generator.get_state(), torch.Generator().manual_seed(seed).get_state())
    holds(moved or not times, "the given generator draws the same numbers again", "new ones")
    return found


@homework.check(bootstrap, "Both systems must be scored on the same sentences.", worth=2)
def is_paired(answer, draw: Draw):
    """A system that is better by 1 on each sentence is better by N on every sample."""
    n, seed = draw.sizes(1)[0], draw.choose(3)
    one, better, tolerance = draw.normal(n, 2) * 5, 1, 1e-4
    kind = draw.choose(3)
    if kind == 1:
        one, better, tolerance = one.double(), 1 / 3, 1e-9
    elif kind == 2:
        one = draw.ids(0, 10**9, n, 2)
    found = run(answer, one, (one + better).to(one.dtype), first_count, 7, seed)
    expected = torch.full((7,), float(n * better), dtype=torch.float64)
    same(found, expected, f"a difference with N = {n}", tolerance=tolerance)


@homework.check(
    bootstrap, "What is sampled, how many, and with replacement?", worth=2, draws=2, shrinks=False
)
def spreads_as_it_should(answer, draw: Draw):
    """Differences of sums vary as theory predicts, around the true difference."""
    n, times = 40, 1000
    one, gap = draw.normal(n, 1), draw.normal(n, 1)
    gap[-1], gap[0] = 30, -30  # the first and the last sentence matter most
    found = run(answer, one, one + gap, first_count, times, draw.random.randint(0, 999))
    theory = float(gap.std(unbiased=False) * math.sqrt(n))
    off = (float(found.mean()) - float(gap.sum())) / (theory / math.sqrt(times))
    holds(abs(off) < 5, f"the mean is {off:.0f} standard errors off", "less than 5")
    share = float(found.std()) / theory
    holds(0.86 < share < 1.14, f"the standard deviation is {share:.1f} times that of theory", "1")
    rare = torch.zeros(20, 1)
    rare[draw.random.randint(0, 19)] = 1  # sampled 0, 1, 2, … times, and nothing else counts
    found = run(answer, torch.zeros(20, 1), rare, first_count, 60, draw.choose(9))
    odd = found[(found != found.round()) | (found < 0)]
    holds(not len(odd), f"a difference of {float(odd.max()) if len(odd) else 0:.3g}", "0, 1, 2, …")


@homework.check(
    bootstrap, "Are the sentences of a sample independent of each other?", draws=2, shrinks=False
)
def draws_freely(answer, draw: Draw):
    """Each group of sentences varies in number as in independent samples, within a sample and from
    one to the next.
    """
    n, times, drawn = 16, 900, []

    def remember(counts: Tensor) -> float:
        if counts.any():
            drawn.append(counts.double())  # how often each sentence was sampled: one is an identity
        return float(counts.double() @ torch.arange(1, n + 1).double())

    run(answer, torch.zeros(n, n), torch.eye(n), remember, times, draw.choose(9))
    holds(len(drawn) >= times, f"{len(drawn)} test sets were scored", f"{times}")
    last = torch.stack(drawn[-times:]) - 1
    spread = torch.linalg.eigvalsh(torch.cov(last.T))  # 0 if nothing was sampled, or near 1
    low, high = float(spread[1]), float(spread[-1])
    holds(low > 0.6, f"the share of some group of sentences varies {low:.1f} times as much", "1")
    holds(high < 1.6, f"the share of some group of sentences varies {high:.1f} times as much", "1")
    for step in (1, 2, 3):
        tied = float((last[step:] * last[:-step]).sum() / last.square().sum())
        holds(abs(tied) < 0.1, f"a sample and number {step} after it agree by {tied:.2f}", "0")


@homework.check(
    bootstrap, "BLEU is not a mean over sentences: when are the counts added up?", draws=2
)
def scores_the_sums(answer, draw: Draw):
    """A score that is a ratio is computed from the sums of the sample."""
    n = 30
    below = draw.ids(1, 40, n).double()
    one = torch.stack([(below / 2).floor(), below], 1)
    other = torch.stack([below * (below > 20), below], 1)
    found = run(answer, one, other, ratio, 400, 3)
    expected = ratio(other.sum(0)) - ratio(one.sum(0))
    mean = float(found.mean())
    holds(
        abs(mean - expected) < 0.03,
        f"the mean of differences of ratios is {mean:.2f}",
        f"{expected:.2f}",
    )


@homework.check(bootstrap, "Where does each random number come from?", draws=6)
def can_be_repeated(answer, draw: Draw):
    """The same generator gives the same differences, a different one different ones, and samples
    differ.
    """
    one, other = draw.normal(15, 1, scale=0.4), draw.normal(15, 1, scale=0.4)
    seed, step = draw.choose(3), draw.one_of([1, 2, 10, 256])
    first, new, again = (
        run(answer, one, other, first_count, 9, s) for s in (seed, seed + step, seed)
    )
    same(again, first, f"a difference with the seed {seed} again")
    holds(not torch.equal(first, new), "the same differences with a different seed", "others")
    holds(len(first.unique()) > 7, f"{len(first.unique())} different values in 9 samples", "9")


@homework.question(
    "Better, or chance?",
    options=[
        "In less than 5 %: the difference is unlikely to be chance.",
        "In 5 to 20 %.",
        "In more than 20 %: the difference may well be chance.",
    ],
    hints=("Count the differences that are 0 or less.", "`float((found <= 0).double().mean())`"),
    read="notebook 11, section 5",
    uses=(bootstrap,),
)
def is_it_luck(bootstrap) -> str:
    """
    Of 100 sentences, system B translates 9 correctly that A does not, and A translates 6 that B
    does not; on the others they agree. The score is the number of correct sentences. In what share
    of 2,000 samples of **your** bootstrap is B not better than A?
    """
    one, other = torch.zeros(100, 1), torch.zeros(100, 1)
    one[:6], other[6:15] = 1, 1
    found = bootstrap(one, other, first_count, 2000, torch.Generator().manual_seed(0))
    share = float((found <= 0).double().mean())
    return "A" if share < 0.05 else "B" if share < 0.2 else "C"
