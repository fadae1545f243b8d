"""Checks of BLEU: what is counted is words, and Chinese has no spaces between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.registry import Finding, check

# Some n-grams of each size match, so no implementation needs its smoothing; all tokenizers agree
# on the words.
HYPOTHESES = [
    "the small dog runs over the green field",
    "a man reads the old book in the garden",
    "two children play with a red ball",
]
REFERENCES = [
    "the small dog runs across the green field",
    "a man reads an old book in the garden today",
    "two children play with the red ball",
]


def corpus_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """BLEU in [0, 1] of token sequences, one reference each, unsmoothed.  Papineni et al. 2002.

    A string is a sequence of letters: that is how letters come to be scored.
    """
    matches, totals = [0] * 4, [0] * 4
    for pair in zip(hypotheses, references, strict=True):
        for n in range(4):
            said, wanted = (
                Counter(zip(*(side[i:] for i in range(n + 1)), strict=False)) for side in pair
            )
            matches[n] += (said & wanted).total()
            totals[n] += said.total()
    if not all(matches):
        return 0.0
    lengths = [sum(map(len, side)) for side in (hypotheses, references)]
    precision = math.exp(sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    return min(1.0, math.exp(1 - lengths[1] / lengths[0])) * precision


def compare(found: float) -> str:
    """Compare a score of `HYPOTHESES` with BLEU over words, on either scale."""
    words = corpus_bleu([h.split() for h in HYPOTHESES], [r.split() for r in REFERENCES])
    letters = corpus_bleu(HYPOTHESES, REFERENCES)
    for scale in (1, 100):
        if abs(found / scale - words) < 1e-3:
            return f"{found:.4g}; BLEU over words is {words:.4f}"
        if abs(found / scale - letters) < 1e-3:
            raise Finding(
                f"BLEU is {found:.4g}, which is that of the letters; over words it is {words:.4f}",
                "Strings are given in place of lists of tokens: a string is a list of its letters.",
            )
    raise Finding(f"BLEU is {found:.4g}, expected {words:.4f} (or 100 times that)")


@check("metrics.bleu", "bleu")
def bleu(adapter: Adapter, seed: int) -> str:
    """BLEU of plain text counts words, as sacreBLEU does."""
    return compare(float(adapter.bleu(list(HYPOTHESES), list(REFERENCES), "en")))


@check("metrics.word_bleu", "word_bleu")
def word_bleu(adapter: Adapter, seed: int) -> str:
    """BLEU of tokenized text counts the tokens, as NLTK does with lists of them."""
    return compare(float(adapter.word_bleu(list(HYPOTHESES), list(REFERENCES))))


@check("metrics.bleu_chinese", "bleu")
def bleu_chinese(adapter: Adapter, seed: int) -> str:
    """Chinese is cut into characters or words before BLEU counts them."""
    same = "他昨天在城里的图书馆看了一本很有意思的书"
    found = float(adapter.bleu([same[:-1] + "报"], [same], "zh"))
    perfect = float(adapter.bleu([same], [same], "zh"))
    if perfect <= 0:
        raise Finding(f"a translation equal to its reference has the BLEU {perfect:.3g}")
    wrong = f"one wrong character among {len(same)} brings BLEU from {perfect:.4g} to"
    if found < 0.3 * perfect:
        raise Finding(f"{wrong} {found:.2g}")
    return f"{wrong} {found:.4g}"
