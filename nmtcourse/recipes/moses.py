"""BLEU on Moses' tokens, as papers on Multi30k report it: of lower-cased, normalized, cut text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmtcourse.recipes.optional import need
from nmtlib.inference.evaluate import Scorer
from nmtlib.inference.metrics import SacreScore, bleu_sacre

WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my")


def moses_tokens(sentences: Sequence[str], language: str) -> list[str]:
    """Lower-cased sentences with normalized punctuation, their tokens between single spaces.

    For Multi30k's references this gives the files that its publishers call `lc.norm.tok`.
    `language` is a code such as 'de', whose rules and abbreviations count.
    """
    moses = need("sacremoses")
    normalizer, tokenizer = moses.MosesPunctNormalizer(language), moses.MosesTokenizer(language)
    normal = (normalizer.normalize(sentence.lower()) for sentence in sentences)
    return [tokenizer.tokenize(sentence, return_str=True) for sentence in normal]


def bleu_moses(hypotheses: Sequence[str], references: Sequence[str], language: str) -> SacreScore:
    """Corpus BLEU of plain text by sacreBLEU, on `moses_tokens` in place of its own.

    For lower-cased captions it is close to 13a; a paper's figure is compared on its own tokens.
    """
    cut = [moses_tokens(sentences, language) for sentences in (hypotheses, references)]
    score, signature = bleu_sacre(*cut, tokenize="none", lowercase=True)
    return SacreScore(score, signature.replace("tok:none", "tok:moses"))


def moses_scorer(language: str) -> Scorer:
    """For `evaluate`: `bleu_moses` and its signature as further entries of an evaluation.

    Raises ModuleNotFoundError without the package, ValueError for a language without spaces.
    """
    need("sacremoses")
    if language in WITHOUT_SPACES:
        raise ValueError(
            f"Moses cuts text at spaces, which {language!r} does not write; leave out --moses"
        )

    def scorer(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        score, signature = bleu_moses(hypotheses, references, language)
        return {"bleu_moses": score, "moses_signature": signature}

    return scorer
