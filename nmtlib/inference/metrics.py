"""How good is a translation?  BLEU by NLTK and by sacreBLEU, and chrF.

NLTK's BLEU reads *token lists* and is from 0 to 1.  The score depends on the tokenizer, so it
compares models that share one.  sacreBLEU and chrF read *plain text* and are from 0 to 100:
sacreBLEU tokenizes by itself, and its signature says how, so that others can compare (Post 2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from nmtlib.errors import require_one_of

BleuTokenize = Literal["13a", "zh", "none", "char"]


class SacreScore(NamedTuple):
    """A score from 0 to 100, and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


def bleu_nltk(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU in [0, 1] of token lists, one reference each, without smoothing.

    0.0 where no n-gram of some length from 1 to 4 matches.  Differs slightly from sacreBLEU with
    tokenize="none" where hypotheses have fewer than 4 tokens: NLTK counts one n-gram of each length
    even there.  Raises ValueError for unequal or empty lists, and for a plain string in place of a
    token list: NLTK would silently score the *letters*.  Source: Papineni et al. 2002.

    >>> bleu_nltk([["a", "dog", "runs", "home"]], [["a", "dog", "runs", "home"]])
    1.0
    """
    from nltk.translate.bleu_score import corpus_bleu

    _check(hypotheses, references, _is_token_list, _TOKENS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return float(corpus_bleu([[reference] for reference in references], hypotheses))
        except UserWarning:  # how NLTK says that some precision is zero, and with it the product
            return 0.0


def bleu_sacre(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: BleuTokenize = "13a",
    lowercase: bool = False,
) -> SacreScore:
    """Corpus BLEU of plain text by sacreBLEU, one reference each.  Source: Post 2018.

    `tokenize` is "13a" for languages with spaces, "zh" for Chinese, "char" for others without
    spaces, and "none" for text that is tokenised already.  `lowercase` ignores the case.
    Raises ValueError for another tokenizer, unequal or empty lists, and what is not plain text.

    >>> bleu_sacre(["a dog runs home"], ["a dog runs home"]).signature.split("|version")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    from sacrebleu.metrics import BLEU

    require_one_of("tokenize", get_args(BleuTokenize), tokenize)
    # `force` silences the warning about tokenised text: "none" expects it.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _by_sacre(metric, hypotheses, references)


def chrf(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> SacreScore:
    """Corpus chrF2 by sacreBLEU: the F-score over 1- to 6-grams of characters.  Popović 2015.

    It needs no tokenizer and gives credit for a right stem with a wrong ending.  `lowercase`
    ignores the case.  Raises ValueError for unequal or empty lists, and what is not plain text.
    """
    from sacrebleu.metrics import CHRF

    return _by_sacre(CHRF(lowercase=lowercase), hypotheses, references)


def _by_sacre(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> SacreScore:
    _check(hypotheses, references, lambda sentence: isinstance(sentence, str), _TEXT)
    score = metric.corpus_score(hypotheses, [references]).score
    return SacreScore(score, str(metric.get_signature()))


_TEXT = "plain text, because the metric tokenizes by itself: decode the tokens to a string first"
_TOKENS = "a list of token strings (a string would be scored letter by letter): tokenize it first"


def _is_token_list(sentence: object) -> bool:
    return isinstance(sentence, list | tuple) and all(isinstance(token, str) for token in sentence)


def _check(
    hypotheses: Sequence, references: Sequence, fits: Callable[[object], bool], expected: str
) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("hypotheses or references is one string; expected a list of sentences")
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise ValueError(
            f"{len(hypotheses)} hypotheses and {len(references)} references; expected the same "
            "number of both, at least one"
        )
    for role, sentences in (("hypothesis", hypotheses), ("reference", references)):
        for i, sentence in enumerate(sentences):
            if not fits(sentence):
                raise ValueError(f"{role} {i} is {repr(sentence)[:60]}; expected {expected}")
