"""The small trained models that ship with the course, and the sentence that goes through all of it.

The models are runs of the presets toy-de-en and toy-en-zh, stored in half precision: about 2 MB
each, no download.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nmtcourse.toy import translate
from nmtcourse.toy.meaning import Event, Phrase, Sentence
from nmtlib.data.corpus import Pair
from nmtlib.data.tokenizers import SPACE_MARK, SpacyTokenizer
from nmtlib.errors import require_one_of
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.run import SHIPPED

DIRECTIONS = ("de-en", "en-zh")
CHECKPOINTS = SHIPPED

# One meaning, three languages.  German closes with the participle, English says the time last, and
# Mandarin says it first and counts books with a measure word: no two share their word order.
GERMAN = "die Frau hat gestern zwei Bücher gekauft ."
ENGLISH = "the woman bought two books yesterday ."
CHINESE = "那 个 女人 昨天 买 了 两 本 书 。"
_BOOKS = Phrase("book", "two", plural=True)
MEANING = Sentence(Event(Phrase("woman", "the"), "buy", "past", _BOOKS, time="yesterday"))


def load_toy(direction: str = "de-en", *, device: str = "cpu") -> Translator:
    """The shipped translator from German to English ("de-en") or English to Chinese ("en-zh").

    Raises ValueError for another direction, FileNotFoundError where the model is not installed.

    >>> load_toy().translate([GERMAN])
    ['the woman bought two books yesterday .']
    """
    require_one_of("direction", DIRECTIONS, direction)
    return Translator.load(CHECKPOINTS / f"toy-{direction}", device=device)


def untrained_toy(direction: str = "de-en") -> Translator:
    """The same translator before its first update: the weights that its training started from.

    The state of torch's random numbers is left as it was.  Raises as `load_toy` does.
    """
    with torch.random.fork_rng(devices=[]):
        trained = load_toy(direction)
        torch.manual_seed(trained.settings.training.seed)
        model = Transformer(trained.model.config)
    return Translator(model, trained.source, trained.target, trained.settings)


def in_toy_spelling(text: str, translator: Translator) -> str:
    """A sentence typed as usual, as the toy corpora write it: tokens apart, a stop at the end.

    A word whose form is not in the vocabulary takes the case of one that is.

    >>> in_toy_spelling("Der alte Lehrer schläft", load_toy())
    'der alte Lehrer schläft .'
    """
    rules = SpacyTokenizer("de", mark_spaces=False)
    words = rules.encode(text.replace(SPACE_MARK, " ")) or ["."]
    known = translator.source.vocab
    for position, word in enumerate(words):
        forms = [form for form in (word, word.lower(), word.capitalize()) if form in known]
        words[position] = forms[0] if forms else word
    return " ".join(words if words[-1] in (".", "?", "!") else [*words, "."])


def exact_matches(translator: Translator, pairs: Sequence[Pair]) -> int:
    """How many greedy translations equal their reference."""
    hypotheses = translator.translate([pair.source for pair in pairs], beam=1)
    return sum(text == pair.target for text, pair in zip(hypotheses, pairs, strict=True))


def running_pair(direction: str = "de-en") -> Pair:
    """The sentence of the course with its translation and the gold alignment of their words.

    Raises ValueError for an unknown direction.

    >>> pair = running_pair("de-en")
    >>> [(pair.source.split()[i], pair.target.split()[j]) for i, j in pair.alignment][2:4]
    [('hat', 'bought'), ('gestern', 'yesterday')]
    """
    require_one_of("direction", DIRECTIONS, direction)
    return translate(MEANING, *direction.split("-"))
