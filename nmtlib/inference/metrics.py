"""How good is a translation?  BLEU by NLTK and by sacreBLEU, chrF, and the share of right tokens.

NLTK's BLEU reads *token lists* and runs from 0 to 1: whoever cuts the tokens decides on the score,
so it compares models that share a tokenizer.  sacreBLEU and chrF read *plain text* and run from 0
to 100: sacreBLEU tokenizes by itself and says how in its signature, so that others can compare
(Post 2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch

from nmtlib.data.vocab import PAD

BleuTokenize = Literal["13a", "zh", "none"]


class BleuScore(NamedTuple):
    """Corpus BLEU from 0 to 100, and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


class ChrfScore(NamedTuple):
    """Corpus chrF from 0 to 100, and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


def bleu_nltk(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU in [0, 1] of token lists, one reference each, without smoothing.

    0.0 where no n-gram of some length from 1 to 4 matches (NLTK itself gives 1e-78 or so and
    warns). It differs slightly from sacreBLEU with tokenize="none" where hypotheses have fewer than
    4 tokens: NLTK counts one n-gram of each length even there.

    Raises ValueError for unequal or empty lists, and for a sentence that is no list of token
    strings: of a plain string, NLTK would silently score the *letters*. Source: Papineni et al.
    2002, "BLEU: a Method for Automatic Evaluation of Machine Translation".

    >>> bleu_nltk([["a", "dog", "runs", "home"]], [["a", "dog", "runs", "home"]])
    1.0
    """
    from nltk.translate.bleu_score import corpus_bleu

    _check_lengths(hypotheses, references)
    _refuse_strings(hypotheses, references)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return float(corpus_bleu([[reference] for reference in references], hypotheses))
        except (
            UserWarning
        ):  # NLTK's way to say that some precision is zero, and with it the product
            return 0.0


def bleu_sacre(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: BleuTokenize = "13a",
    lowercase: bool = False,
) -> BleuScore:
    """Corpus BLEU of plain text by sacreBLEU, one reference each.

    `tokenize` is "13a" for languages with spaces, "zh" for Chinese (13a would take a Chinese
    sentence for one long word), "none" for text whose tokens stand apart already.  `lowercase`
    ignores the case. Raises ValueError for another tokenizer, unequal or empty lists, and a
    sentence that is no string. Source: Post 2018, "A Call for Clarity in Reporting BLEU Scores".

    >>> bleu_sacre(["a dog runs home"], ["a dog runs home"]).signature.split("|version")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    from sacrebleu.metrics import BLEU

    if tokenize not in get_args(BleuTokenize):
        raise ValueError(
            f"unknown tokenize {tokenize!r}; expected one of {', '.join(get_args(BleuTokenize))}"
        )
    _check_texts(hypotheses, references)
    # `force` silences the complaint about tokenized text, which "none" asks for.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    score = metric.corpus_score(hypotheses, [references]).score
    return BleuScore(score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> ChrfScore:
    """Corpus chrF2 of plain text by sacreBLEU, one reference each: F-score over 1- to 6-grams of
    characters.

    It needs no tokenizer and gives credit for a right stem with a wrong ending.
    Raises ValueError for unequal or empty lists, and for a sentence that is no string.
    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """
    from sacrebleu.metrics import CHRF

    _check_texts(hypotheses, references)
    metric = CHRF()
    score = metric.corpus_score(hypotheses, [references]).score
    return ChrfScore(score, str(metric.get_signature()))


def token_accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """The share, from 0 to 1, of non-PAD labels (B, T) that have the highest of the logits (B, T,
    V).

    Raises ValueError where the shapes do not fit or all labels are PAD.

    >>> token_accuracy(torch.eye(6)[None, 3:], torch.tensor([[3, 5, PAD]]))
    0.5
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} do not fit; expected (B, T, V) and (B, T)"
        )
    counted = labels != PAD  # (B, T)
    if not counted.any():
        raise ValueError(
            f"all {labels.numel()} labels are PAD ({PAD}); expected at least one real label"
        )
    right = (logits.argmax(-1) == labels) & counted  # (B, T)
    return right.sum().item() / counted.sum().item()


def _check_lengths(hypotheses: Sequence, references: Sequence) -> None:
    for role, sentences in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(sentences, str):
            raise ValueError(
                f"{role} is one string, {_shown(sentences)}; expected a list with one entry a sentence"
            )
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise ValueError(
            f"{len(hypotheses)} hypotheses and {len(references)} references; "
            f"expected the same number of both, at least one"
        )


def _refuse_strings(hypotheses: Sequence, references: Sequence) -> None:
    for role, sentences in (("hypothesis", hypotheses), ("reference", references)):
        for i, sentence in enumerate(sentences):
            if not (
                isinstance(sentence, list | tuple)
                and all(isinstance(token, str) for token in sentence)
            ):
                raise ValueError(
                    f"{role} {i} is {_shown(sentence)}; expected one flat list of token strings such as "
                    f"['a', 'dog'] (a string would be scored letter by letter): tokenize it first"
                )


def _check_texts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    _check_lengths(hypotheses, references)
    for role, sentences in (("hypothesis", hypotheses), ("reference", references)):
        for i, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise ValueError(
                    f"{role} {i} is {_shown(sentence)}; expected plain text, for the metric tokenizes by "
                    f"itself: decode the tokens to a string first"
                )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
