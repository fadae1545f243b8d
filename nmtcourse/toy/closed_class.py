"""Closed-class words: names, pronouns, possessives, numbers, places, times; and keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from nmtcourse.toy.lexicon import WORDS
from nmtcourse.toy.meaning import Item, Phrase

RELATION, GROUND, THE = "place.relation", "place.noun", "place.the"
OFTEN = frozenset({"often", "sometimes", "never"})


@dataclass(frozen=True, slots=True)
class Pronoun:
    """German nominative, accusative, dative; English subject, object; Mandarin; the person."""

    german: tuple[str, ...]
    english: tuple[str, ...]
    mandarin: str
    person: str


@dataclass(frozen=True, slots=True)
class Adverbial:
    """A place or a time as items; `german_to` and `english_to` say where to, and may be empty."""

    german: list[Item]
    english: list[Item]
    mandarin: list[Item]
    german_to: list[Item] = field(default_factory=list)
    english_to: list[Item] = field(default_factory=list)


def _european(phrase: str) -> list[Item]:
    """Items of "im Park" or "in the park": *im* holds preposition and article; the noun is last."""
    *first, noun = phrase.split()
    keys = dict.fromkeys(("the", "dem", "den", "der", "die"), (THE,))
    keys |= dict.fromkeys(("im", "am", "zum", "ins"), (RELATION, THE))
    return [*((word, keys.get(word, (RELATION,))) for word in first), (noun, (GROUND,))]


def _place(german: str, english: str, mandarin: str) -> Adverbial:
    german_where, *german_to = map(_european, german.split(", "))
    english_where, *english_to = map(_european, english.split(", "))
    noun, *particle = mandarin.split()
    chinese = [(noun, (GROUND,)), *((word, (RELATION,)) for word in particle)]
    return Adverbial(german_where, english_where, chinese, *german_to, *english_to)


def _marked(phrase: str) -> list[Item]:
    """Items of "jeden/1 Tag/2": words of two languages that share a digit mean the same."""
    split = (word.partition("/") for word in phrase.split())
    return [(word, tuple(f"time{digit}" for digit in digits or "0")) for word, _, digits in split]


PRONOUNS = {
    concept: Pronoun(tuple(german.split()), tuple(english.split()), mandarin, person)
    for concept, german, english, mandarin, person in WORDS["pronouns"]
}
NAMES = {name: (mandarin, pronoun) for name, mandarin, pronoun in WORDS["names"]}
OWNERS = {concept: (german, mandarin) for concept, german, mandarin in WORDS["owners"]}
NUMBERS = {concept: (german, mandarin) for concept, german, mandarin in WORDS["numbers"]}
PLACES = {concept: _place(*cells) for concept, *cells in WORDS["places"]}
PLACES["where"] = Adverbial(
    *([(word, (RELATION, GROUND))] for word in ("wo", "where", "哪里", "wohin", "where"))
)
TIMES = {concept: Adverbial(*map(_marked, cells)) for concept, *cells in WORDS["times"]}


def person(subject: Phrase) -> str:
    """The person and number that the verb agrees with, such as "3sg"."""
    if subject.noun in PRONOUNS:
        return PRONOUNS[subject.noun].person
    return "3pl" if subject.plural else "3sg"


def within(part: str, items: list[Item]) -> list[Item]:
    """A clause inside another sentence: the name of that part goes before the keys of its items."""
    return [(word, tuple(f"{part}.{key}" for key in keys)) for word, keys in items]
