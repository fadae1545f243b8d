"""Remarks about a corpus before a training and after an evaluation, in a line or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Corpus
from nmtlib.settings import Settings
from nmtlib.specials import UNK

if TYPE_CHECKING:
    from nmtlib.inference.translator import Translator

MOST = 200_000  # pairs; of a larger corpus the first are looked at before training
NAMED = 8


def before_training(settings: Settings, corpus: Corpus, codecs: tuple[Codec, Codec]) -> list[str]:
    """What is wrong with a reader's own corpus; for fine-tuning also what the vocabularies lack."""
    lines = []
    if settings.training.init_from:
        lines += unreadable(codecs, corpus, "train", 0.001)
    if settings.corpus.name:
        return lines
    from nmtcourse.doctor.diagnosis import diagnose  # 13 modules that a named corpus never needs
    from nmtcourse.doctor.opening import of_pairs
    from nmtcourse.doctor.report import short
    from nmtlib.settings import FILES

    tags = settings.corpus.source_language, settings.corpus.target_language
    tags = tags if all(tags) else (corpus.source_language, corpus.target_language)
    splits = {name: getattr(corpus, name)[:MOST] for name in FILES if getattr(corpus, name)}
    report = diagnose(corpus.name, [of_pairs(name, pairs) for name, pairs in splits.items()], tags)
    return [*lines, *short(report)]


def after_evaluation(
    translator: Translator, corpus: Corpus, split: str, hypotheses: Sequence[str]
) -> list[str]:
    """What a reader of the scores should know about the references."""
    from nmtcourse.formats.languages import UNSPACED, script_of, unspaced

    pairs = corpus.split(split)
    references = [pair.target for pair in pairs]
    lines = unreadable((translator.source, translator.target), corpus, split, 0.02)
    if unspaced(references, corpus.target_language):
        lines.append(
            "references hardly have spaces, and BLEU counts words: read chrF, or give the tag of "
            "the language (zh, ja, th, …)"
        )
    elif script_of(corpus.target_language) not in UNSPACED:
        if max(len(reference.split()) for reference in references) < 4:
            lines.append(
                "no reference has four tokens: BLEU is 0 by definition, or what smoothing makes "
                "of it; read chrF"
            )
    different = len(set(hypotheses))
    if different < 0.5 * len({pair.source for pair in pairs}) and len(pairs) >= 20:
        lines.append(
            f"only {different:,} of {len(hypotheses):,} translations are different: a model that "
            "was trained too briefly, or at too high a rate, writes what is usual (notebooks 10 "
            "and 13, sections 5 and 2)"
        )
    lines += without_leaks(translator, corpus, split, hypotheses)
    return [f"  {line}" for line in lines]


def unreadable(codecs: tuple[Codec, Codec], corpus: Corpus, split: str, least: float) -> list[str]:
    """How many sentences have tokens that a model cannot read, or never writes."""
    lines = []
    pairs = corpus.split(split)
    for codec, side, can in zip(codecs, ("source", "target"), ("read", "write"), strict=True):
        texts = [getattr(pair, side) for pair in pairs]
        unknown: Counter[str] = Counter()
        sentences = 0
        for text, tokens in zip(texts, codec.tokenizer.encode_all(texts), strict=True):
            ids = codec.vocab.encode(tokens)
            if UNK in ids:
                sentences += 1
                unknown.update(_names(codec, text, tokens, ids))
        if sentences > least * len(texts):
            named = " ".join(word for word, _ in unknown.most_common(NAMED))
            lines.append(
                f"{split}: {sentences:,} of {len(texts):,} {side} sentences have words or "
                f"characters that the model cannot {can}: {named}"
                + (" …" if len(unknown) > NAMED else "")
            )
    return lines


def _names(codec: Codec, text: str, tokens: Sequence[str], ids: Sequence[int]) -> list[str]:
    """The unknown tokens; where the tokenizer itself gives <UNK>, the unknown characters."""
    named = [token for token, i in zip(tokens, ids, strict=True) if i == UNK and token != "<UNK>"]
    known = codec.vocab.tokens
    return named or [c for c in set(text) if not c.isspace() and not any(c in t for t in known)]


def without_leaks(
    translator: Translator, corpus: Corpus, split: str, hypotheses: Sequence[str]
) -> list[str]:
    """The scores without pairs whose source is in train, ignoring case and punctuation."""
    from nmtcourse.doctor.texts import key_of
    from nmtlib.inference.evaluate import bleu_tokenizer, score

    if split == "train":
        return []
    seen = {key_of(pair.source) for pair in corpus.train}
    pairs = corpus.split(split)
    fresh = [i for i, pair in enumerate(pairs) if key_of(pair.source) not in seen]
    if len(fresh) in (0, len(pairs)):
        return []
    how = bleu_tokenizer(translator, corpus), translator.settings.tokenizer.lowercase
    rest = score([hypotheses[i] for i in fresh], [pairs[i] for i in fresh], *how)
    return [
        f"without the {len(pairs) - len(fresh):,} pairs whose source is in the training data, at "
        f"least but for case, spaces or punctuation: BLEU {rest.bleu:.2f}   chrF {rest.chrf:.2f}"
    ]
