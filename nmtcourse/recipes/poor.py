"""Why a translation is empty, repeats itself or copies the sentence: what the run tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from nmtcourse.formats.languages import (
    distinct_words,
    fits,
    is_unspaced,
    script_of,
    script_of_line,
)
from nmtlib.data.corpus import is_visible
from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.training.history import read_history

FEW_UPDATES = 1_000  # some thousand are usual
HIGH_PERPLEXITY = 60.0  # on validation; a model that translates is far below
TIMES = 4  # that something is said in a row


def explain_poor(
    translator: Translator, run: Run, sentences: Sequence[str], translations: Sequence[str]
) -> list[str]:
    """A line about each kind of poor translation among some, with what may have caused it."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for sentence, translation in zip(sentences, translations, strict=True):
        if kind := kind_of(sentence, translation):
            kinds.setdefault(kind, []).append((sentence, translation))
    lines = []
    for kind, pairs in kinds.items():
        sentence = pairs[0][0]
        more = f" ({len(pairs):,} of {len(sentences):,})" if len(sentences) > 1 else ""
        causes = "; ".join(causes_of(translator, run, sentence))
        lines.append(f"the translation of {sentence[:60]!r} {kind}{more}: {causes}")
    return lines


def kind_of(sentence: str, translation: str) -> str:
    """What is poor about a translation, '' for nothing that can be seen."""
    if not is_visible(sentence):
        return ""
    if not is_visible(translation):
        return "is empty"
    if repeats(translation) and not repeats(sentence):
        return "repeats itself"
    if len(sentence.split()) > 2 and letters(sentence) == letters(translation):
        return "is a copy of it"
    return ""


def letters(text: str) -> str:
    """The letters and digits of a text, whatever their case."""
    return "".join(character for character in text.casefold() if character.isalnum())


def repeats(text: str) -> bool:
    """Whether one to four words (without spaces, characters) come `TIMES` in a row."""
    words = [c for c in text if not c.isspace()] if is_unspaced(text) else text.split()
    for size in range(1, 5):
        same = 0  # words that are equal to the one `size` before them
        for i in range(size, len(words)):
            same = same + 1 if words[i] == words[i - size] else 0
            if same >= size * (TIMES - 1):
                return True
    return False


def causes_of(translator: Translator, run: Run, sentence: str) -> list[str]:
    """What may have caused a poor translation: the training, the words, the language."""
    causes = []
    source, target = translator.settings.corpus.languages
    if language := other_language(sentence, source, target):
        causes.append(f"the sentence looks like {language}, and this model reads {source}")
    if unknown := translator.unknown(sentence):
        causes.append(f"the model does not know {', '.join(word[:40] for word in unknown[:4])}")
    history = read_history(run.history_file) if run.history_file.is_file() else []
    if history:
        updates, perplexity = history[-1].updates, min(r.validation_perplexity for r in history)
        if updates < FEW_UPDATES:
            causes.append(
                f"the run has had {updates:,} updates, and some thousand are usual: give it more "
                "epochs or fewer training.max_tokens"
            )
        elif perplexity > HIGH_PERPLEXITY:
            causes.append(
                f"its perplexity on validation is {perplexity:,.0f}, and below 20 is usual: it "
                "needs more pairs, or more epochs"
            )
    return causes or ["the sentence may be unlike the training text; try another, or --beam 1"]


def other_language(sentence: str, source: str, target: str) -> str:
    """What a sentence looks like that is not the source language, '' where nothing tells."""
    script = script_of_line(sentence)
    if not fits(script, script_of(source)):
        return target if fits(script, script_of(target)) else f"another script ({script})"
    own, other = distinct_words((source, target))
    words = set(sentence.lower().split())
    return target if len(words & other) > 1 and words.isdisjoint(own) else ""
