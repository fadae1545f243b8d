"""Homework 11: alignment error rate, BLEU of a test set, paired bootstrap."""

import math
from collections import Counter
from collections.abc import Callable

import torch
from sacrebleu.metrics import BLEU
from torch import Tensor

from nmtcourse.homework.compare import holds, same, shaped
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment
from nmtcourse.teaching.alignment import alignment_error_rate as error_rate

homework = Assignment(
    "11",
    "evaluation",
    "Evaluation",
    opening="""
        You write three measures and meet what each is blind to: the error rate of alignments, BLEU
        of a whole test set, and the paired bootstrap, which tells luck from difference.
        """,
    imports=(
        "import math\nfrom collections import Counter\nfrom collections.abc import Callable\n\n"
        "import torch\nfrom torch import Tensor"
    ),
)

Links = list[set[tuple[int, int]]]


@homework.task(
    "easy",
    "Alignment error rate",
    """
    A link is a pair (source position, target position). `found` and `gold` hold a set of links for
    each sentence. With A all links found and S all gold links of the **whole** test set, return
    $1 - 2\\,|A \\cap S| / (|A| + |S|)$. The link (0, 0) of two sentences is two links.
    Different numbers of sentences are a `ValueError`, and so are no links at all, neither found nor
    gold.
    """,
    hints=(
        "A link counts as right only in its own sentence. How do you count over all of them?",
        "Add up three numbers over the sentences, and divide once at the end.",
    ),
    read="notebook 11, section 7",
    mistakes={
        "The mean of the sentences' rates is taken: short sentences count as much as long ones.": [
            (
                "    return 1 - 2 * right / total",
                "    rates = [1 - 2 * len(a & s) / max(len(a) + len(s), 1) for a, s in pairs]\n"
                "    return sum(rates) / len(rates)",
            )
        ],
        "Links of different sentences are thrown together, so that wrong ones look right.": [
            (
                "right = sum(len(a & s) for a, s in pairs)",
                "right = len(set().union(*found) & set().union(*gold))",
            )
        ],
        "Equal links of two sentences became one, in what is right and in what is counted.": [
            (
                "right = sum(len(a & s) for a, s in pairs)",
                "a, s = set().union(*found), set().union(*gold)",
            ),
            ("total = sum(len(a) + len(s) for a, s in pairs)", "total = len(a) + len(s)"),
            ("2 * right", "2 * len(a & s)"),
        ],
        "This is the F1 itself, not 1 minus it.": [("1 - 2 * right", "2 * right")],
        "The factor 2 is missing: even perfect links are half wrong.": [("2 * right", "right")],
        "Only the links found are counted below, so missing ones cost nothing.": [
            ("sum(len(a) + len(s) for a, s in pairs)", "2 * sum(len(a) for a, s in pairs)")
        ],
        "Only the gold links are counted below, so wrong ones cost nothing.": [
            ("sum(len(a) + len(s) for a, s in pairs)", "2 * sum(len(s) for a, s in pairs)")
        ],
        "Different numbers of sentences raise no ValueError.": [
            ("if len(found) != len(gold):", "if False:"),
            ("zip(found, gold, strict=True)", "zip(found, gold)"),
        ],
        "No link at all is not refused.": [
            ("if not total:", "if False:"),
            ("/ total", "/ max(total, 1)"),
        ],
    },
)
def alignment_error_rate(
    found: list[set[tuple[int, int]]], gold: list[set[tuple[int, int]]]
) -> float:
    """How far the links found are from the gold links: 0 is perfect, 1 has none right."""
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


def some_links(draw: Draw, sentences: int) -> Links:
    """Random links; some sentences have none."""
    sizes = [draw.random.choice([0, 2, 5, 8]) for _ in range(sentences)]
    return [
        {(draw.random.randint(0, 3), draw.random.randint(0, 3)) for _ in range(n)} for n in sizes
    ]


@homework.check(alignment_error_rate, "Compute one sentence with three links by hand.")
def knows_the_extremes(answer, draw: Draw):
    """Perfect links give 0, and links of which none is right give 1."""
    gold = [{(0, 0), (1, 2)}, {(2, 1)}]
    same(float(answer(gold, [set(s) for s in gold])), 0.0, "the rate of perfect links")
    moved = [{(i + 5, j) for i, j in s} for s in gold]
    same(float(answer(moved, gold)), 1.0, "the rate of links that are all wrong")


@homework.check(alignment_error_rate, "Add up over all sentences before you divide.", worth=2)
def is_that_of_the_test_set(answer, draw: Draw):
    """The rate is that of all sentences together, also where some have no links."""
    (n,) = draw.sizes(1, 3)
    found, gold = some_links(draw, n), [*some_links(draw, n - 1), {(0, 0)}]
    same(float(answer(found, gold)), error_rate(found, gold), f"the rate of {n} sentences")


@homework.check(alignment_error_rate, "What can go wrong with what is given?", draws=1)
def refuses_what_has_no_rate(answer, draw: Draw):
    """Different numbers of sentences, and no links at all, raise ValueError."""
    for found, gold, what in (
        ([{(0, 0)}], [{(0, 0)}, {(1, 1)}], "1 and 2 sentences"),
        ([{(0, 0)}, {(1, 1)}], [{(0, 0)}], "2 and 1 sentences"),
        ([set(), set()], [set(), set()], "no links"),
    ):
        try:
            answer(found, gold)
        except ValueError:
            continue
        except Exception as error:
            holds(False, f"{type(error).__name__} for {what}", "ValueError")
        holds(False, f"no error for {what}", "ValueError")


@homework.task(
    "medium",
    "BLEU",
    """
    Write BLEU (Papineni et al. 2002) of a test set, from 0 to 100: lists of tokens, one reference
    for each hypothesis, n-grams from 1 to 4 with equal weights, the brevity penalty of the whole
    set, and no smoothing: if no n-gram of some order matches in the whole set, BLEU is 0. Sentences
    shorter than 4 tokens, also empty ones, may occur. No finished BLEU is allowed.
    """,
    hints=(
        "Which ten numbers of a sentence are needed, and when are they added up?",
        "`Counter(a) & Counter(b)` takes the smaller count of each n-gram.",
    ),
    read="notebook 11, section 1",
    sealed=("sacrebleu", "nltk.translate", "nmtlib.inference", "nmtcourse.recipes"),
    mistakes={
        "Each sentence got a BLEU of its own; counts are added up over the set first.": [
            (
                "    c = sum(len(h) for h in hypotheses)\n",
                "    if len(hypotheses) > 1:\n"
                "        pairs = zip(hypotheses, references, strict=True)\n"
                "        return sum(bleu([h], [x]) for h, x in pairs) / len(hypotheses)\n"
                "    c = sum(len(h) for h in hypotheses)\n",
            )
        ],
        "Counts are not clipped: a word said five times is right five times.": [
            ("(mine & theirs).total()", "sum(c for gram, c in mine.items() if gram in theirs)")
        ],
        "Each different n-gram counts once, however often it is said.": [
            ("(mine & theirs).total()", "len(mine & theirs)")
        ],
        "This is recall: what matches is divided by the n-grams of the reference.": [
            ("total[n - 1] += mine.total()", "total[n - 1] += theirs.total()")
        ],
        "The brevity penalty is missing.": [("min(0.0, 1 - r / c)", "0.0")],
        "The brevity penalty is upside down: it punishes long translations.": [
            ("1 - r / c", "1 - c / r")
        ],
        "Too long translations are rewarded: the penalty is at most 1.": [
            ("min(0.0, 1 - r / c)", "1 - r / c")
        ],
        "The precisions are averaged as they are, not by their logarithms.": [
            (
                "math.exp(sum(math.log(m / t) for m, t in zip(match, total, strict=True)) / 4)",
                "sum(m / t for m, t in zip(match, total, strict=True)) / 4",
            )
        ],
        "Only n-grams up to 3 count.": [
            ("if not min(match):", "match, total = match[:3], total[:3]\n    if not min(match):"),
            ("strict=True)) / 4", "strict=True)) / 3"),
        ],
        "The logarithms are added up, not averaged over the four orders.": [
            ("strict=True)) / 4", "strict=True))")
        ],
        "The result runs from 0 to 1.": [("return 100 * ", "return ")],
    },
)
def bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU (0 to 100) of a test set of lists of tokens."""
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


def texts(draw: Draw, count: int, longer: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """References of a few words, and hypotheses with mistakes, `longer` words longer."""
    words, hypotheses, references = ("a", "ab", "b", "A", "."), [], []
    for _ in range(count):
        reference = [draw.random.choice(words) for _ in range(draw.random.randint(5, 14))]
        hypothesis = [
            w if draw.random.random() < 0.8 else draw.random.choice(words) for w in reference
        ]
        if longer < 0:
            hypothesis = hypothesis[:longer]
        hypotheses.append(hypothesis + [draw.random.choice(words) for _ in range(longer)])
        references.append(reference)
    return hypotheses, references


def by_sacrebleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU by sacreBLEU, of tokens as they are."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    joined = [" ".join(h) for h in hypotheses], [[" ".join(r) for r in references]]
    return metric.corpus_score(*joined).score


def compare(answer, hypotheses: list, references: list, what: str) -> None:
    """Raise Finding where BLEU is not that of sacreBLEU."""
    expected = by_sacrebleu(hypotheses, references)
    found = answer(hypotheses, references)
    same(float(found), expected, f"BLEU of {what}", tolerance=1e-5)


@homework.check(bleu, "What is BLEU of a perfect translation?", worth=0)
def is_100_for_perfection(answer, draw: Draw):
    """A perfect translation has 100."""
    references = texts(draw, 4)[1]
    same(
        float(answer(references, references)),
        100.0,
        "BLEU of a perfect translation",
        tolerance=1e-6,
    )


@homework.check(bleu, "Compute the ten numbers of one sentence by hand.", worth=2)
def is_that_of_sacrebleu(answer, draw: Draw):
    """BLEU of translations of the right length is that of sacreBLEU."""
    count = (6, 6, 120)[draw.number]
    compare(answer, *texts(draw, count), f"{count} sentences")
    repeated = (
        [["a", "a", "a", "a", "b", "c", "d", "e"]],
        [["a", "b", "c", "d", "e", "a", "b", "c"]],
    )
    compare(answer, *repeated, "a sentence with repeated words")


@homework.check(bleu, "When is a translation too short, and what does that cost?")
def knows_the_brevity_penalty(answer, draw: Draw):
    """Short translations are punished by the lengths of the whole set, long ones are not."""
    compare(answer, *texts(draw, 5, 3), "translations that are too long")
    compare(answer, *texts(draw, 5, -2), "translations that are too short")


@homework.check(bleu, "Which counts are 0, and for which sentences?")
def survives_short_sentences(answer, draw: Draw):
    """Sentences of 0 to 3 tokens add what they have; without any 4-gram that matches BLEU is 0."""
    hypotheses, references = texts(draw, 5)
    short = [["a"], [], ["b", "c"], ["c", "a", "b"]]
    compare(
        answer, [*hypotheses, *short], [*references, ["a"], ["b"], *short[2:]], "short sentences"
    )
    compare(answer, [["a", "b"]], [["a", "b"]], "two words alone")
    compare(answer, [[*"abcxde"]], [[*"abcdex"]], "a sentence without a 4-gram that matches")


@homework.task(
    "hard",
    "Paired bootstrap",
    """
    Two systems have translated the same N sentences. `one` and `other` (N, C) hold counts of each
    sentence, and `score` makes a number of the **summed** counts (C,) of a test set. Draw a test
    set of N sentences with replacement, `times` times, and return the differences (times,) in
    float64: the score of `other` minus that of `one`, on the same draw. All randomness comes from
    `generator`.
    """,
    hints=(
        "What is drawn: counts, or numbers of sentences?",
        "`torch.randint(N, (N,), generator=generator)` draws one test set; both systems take it.",
    ),
    read="notebook 11, section 5",
    mistakes={
        "Each system gets a draw of its own: the test is not paired.": [
            (
                "score(one[draw].sum(0))",
                "score(one[torch.randint(n, (n,), generator=generator)].sum(0))",
            )
        ],
        "Sentences are drawn without replacement: every draw is the same set.": [
            (
                "torch.randint(n, (n,), generator=generator)",
                "torch.randperm(n, generator=generator)",
            )
        ],
        "The scores of single sentences are averaged, not the score of the sums taken.": [
            (
                "score(other[draw].sum(0)) - score(one[draw].sum(0))",
                "sum(score(other[i]) - score(one[i]) for i in draw) / n",
            )
        ],
        "The sign is the other way round: other minus one.": [
            (
                "score(other[draw].sum(0)) - score(one[draw].sum(0))",
                "score(one[draw].sum(0)) - score(other[draw].sum(0))",
            )
        ],
        "Test sets of half the size are drawn: the differences spread too far.": [
            ("(n,), generator", "(n // 2,), generator")
        ],
        "One test set is drawn and used again and again.": [
            (
                "    for _ in range(times):\n        draw",
                "    draw = torch.randint(n, (n,), generator=generator)\n"
                "    for _ in range(times):\n        _",
            ),
        ],
        "The generator is not used: the result cannot be repeated.": [
            (", generator=generator", "")
        ],
        "Only one of the two systems is drawn; the other is scored on all sentences.": [
            ("score(one[draw].sum(0))", "score(one.sum(0))")
        ],
        "The last sentence is never drawn.": [("randint(n, (n,)", "randint(n - 1, (n,)")],
        "Half of each test set comes from the first half of the sentences.": [
            (
                "        found.append",
                "        draw = draw % max(n // 2, 1) + (torch.arange(n) % 2) * (n // 2)\n"
                "        found.append",
            )
        ],
    },
)
def bootstrap(
    one: Tensor,
    other: Tensor,
    score: Callable[[Tensor], float],
    times: int,
    generator: torch.Generator,
) -> Tensor:
    """Differences (times,) between two systems on drawn test sets."""
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
    """The differences by an answer, of the right shape and type."""
    found = answer(one, other, score, times, torch.Generator().manual_seed(seed))
    shaped(found, (times,), "the result")
    holds(found.dtype == torch.float64, f"{found.dtype}", "torch.float64")
    return found


@homework.check(bootstrap, "Both systems must be scored on the same sentences.", worth=2)
def is_paired(answer, draw: Draw):
    """A system that is better by 1 on each sentence is better by N on every draw."""
    (n,) = draw.sizes(1, 20, 40)
    one = draw.normal(n, 2) * 5
    found = run(answer, one, one + 1, first_count, 7, draw.number)
    same(found, torch.full((7,), float(n), dtype=torch.float64), "a difference", tolerance=1e-4)


@homework.check(bootstrap, "What is drawn, how many of it, and is it put back?", worth=2)
def spreads_as_it_should(answer, draw: Draw):
    """The differences of sums spread as theory says, around the true difference."""
    n, times = 40, 1500
    one, gap = draw.normal(n, 1), draw.normal(n, 1)
    gap[-1], gap[0] = 30, -30  # the first and the last sentence matter most
    found = run(answer, one, one + gap, first_count, times, draw.random.randint(0, 999))
    theory = float(gap.std(unbiased=False) * math.sqrt(n))
    off = (float(found.mean()) - float(gap.sum())) / (theory / math.sqrt(times))
    holds(abs(off) < 5, f"the mean is {off:.0f} standard errors off", "less than 5")
    share = float(found.std()) / theory
    holds(0.88 < share < 1.12, f"the spread is {share:.1f} times that of theory", "1")
    rare = torch.zeros(20, 1)
    rare[draw.random.randint(0, 19)] = 1  # drawn 0, 1, 2, … times, and nothing else counts
    found = run(answer, torch.zeros(20, 1), rare, first_count, 60, draw.number)
    odd = found[(found != found.round()) | (found < 0)]
    holds(not len(odd), f"a difference of {float(odd.max()) if len(odd) else 0:.3g}", "0, 1, 2, …")


@homework.check(bootstrap, "Does what is drawn first say anything about what is drawn next?")
def draws_freely(answer, draw: Draw):
    """How often each sentence is drawn spreads as in free draws: no group has a fixed share."""
    n, times, drawn = 16, 900, []

    def remember(counts: Tensor) -> float:
        if counts.any():
            drawn.append(counts)  # of the identity matrix: how often each sentence was drawn
        return float(counts @ torch.arange(1.0, n + 1))

    run(answer, torch.zeros(n, n), torch.eye(n), remember, times, draw.number + 4)
    holds(len(drawn) >= times, f"{len(drawn)} test sets were scored", f"{times}")
    spread = torch.linalg.eigvalsh(torch.cov(torch.stack(drawn[-times:]).T))  # 0 once, else near 1
    low, high = float(spread[1]), float(spread[-1])
    holds(low > 0.6, f"the share of some group of sentences varies {low:.1f} times as much", "1")
    holds(high < 1.6, f"the share of some group of sentences varies {high:.1f} times as much", "1")


@homework.check(bootstrap, "BLEU is no mean over sentences: when are the counts added up?")
def scores_the_sums(answer, draw: Draw):
    """A score that is a ratio is taken of the sums of the draw."""
    n = 30
    below = draw.ids(1, 40, n).double()
    one = torch.stack([(below / 2).floor(), below], 1)
    other = torch.stack([below * (below > 20), below], 1)
    found = run(answer, one, other, ratio, 400, 3)
    expected = ratio(other.sum(0)) - ratio(one.sum(0))
    gap = abs(float(found.mean()) - expected)
    holds(
        gap < 0.03,
        f"the mean of differences of ratios is {float(found.mean()):.2f}",
        f"{expected:.2f}",
    )


@homework.check(bootstrap, "Where does each random number come from?")
def can_be_repeated(answer, draw: Draw):
    """The same generator gives the same differences, another one others, and draws differ."""
    one, other = draw.normal(15, 1), draw.normal(15, 1)
    first, again, new = (run(answer, one, other, first_count, 9, s) for s in (1, 1, 2))
    same(again, first, "a difference with the same seed")
    holds(not torch.equal(first, new), "the same differences with another seed", "others")
    holds(len(first.unique()) == 9, f"{len(first.unique())} different values in 9 draws", "9")


@homework.question(
    "Better, or lucky?",
    options=[
        "In less than 5 % of them: the difference is hardly luck.",
        "In 5 to 20 % of them.",
        "In more than 20 % of them: it may well be luck.",
    ],
    hints=("Count how many differences are 0 or less.", "`float((found <= 0).double().mean())`"),
    read="notebook 11, section 5",
    uses=(bootstrap,),
)
def is_it_luck(bootstrap) -> str:
    """
    Of 100 sentences, system B has 9 right that A has wrong, and A has 6 right that B has wrong; on
    the others they agree. The score is the number of sentences that are right. In what share of
    2,000 draws of **your** bootstrap is B not better?
    """
    one, other = torch.zeros(100, 1), torch.zeros(100, 1)
    one[:6], other[6:15] = 1, 1
    found = bootstrap(one, other, first_count, 2000, torch.Generator().manual_seed(0))
    share = float((found <= 0).double().mean())
    return "A" if share < 0.05 else "B" if share < 0.2 else "C"
