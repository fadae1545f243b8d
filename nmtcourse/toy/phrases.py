"""Random noun phrases: the people and things of a sentence."""

from __future__ import annotations

import random
from dataclasses import replace

from nmtcourse.toy.closed_class import NAMES, OWNERS
from nmtcourse.toy.lexicon import ADJECTIVES, NOUNS
from nmtcourse.toy.meaning import Phrase
from nmtcourse.toy.world import BEFORE, PEOPLE, Frame, expand

ADULTS, MINORS, KIN, ALL_NAMES = expand("adult"), expand("young"), expand("kin"), tuple(NAMES)
OWNED = frozenset(
    expand(
        "teacher doctor neighbour pet horse cake text photo vehicle furniture clothes thing "
        "computer house coffee tea soup"
    )
)


class PhraseSampler:
    """Draws noun phrases from a `random.Random`; the same state of it gives the same phrases."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.pick = rng.choice

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.rng.random() < probability

    def known(self, concept: str, owned: bool = True) -> Phrase:
        """the dog, this dog, the dogs; where `owned`, also my dog"""
        if concept in NAMES:
            return Phrase(concept)
        noun = NOUNS[concept]
        if "kin" in noun.groups:
            return Phrase(concept, self.pick(tuple(OWNERS)))
        if owned and concept in OWNED and self.chance(0.35):
            return self.described(Phrase(concept, self.pick(tuple(OWNERS))))
        determiner = "this" if noun.measure and self.chance(0.3) else "the"
        plural = bool(noun.german_plural) and self.chance(0.2)
        return self.described(Phrase(concept, determiner, plural))

    def new(self, concept: str, counted: bool = True, chance: float = 0.45) -> Phrase:
        """a dog, two dogs, many dogs; bread"""
        noun = NOUNS[concept]
        if not noun.measure:
            return self.described(Phrase(concept), chance)
        if counted and noun.german_plural and self.chance(0.35):
            number = self.pick(("two", "three", "four", "many"))
            return self.described(Phrase(concept, number, True))
        return self.described(Phrase(concept, "a"), chance)

    def generic(self, concept: str) -> Phrase:
        """dogs (in general); bread"""
        return Phrase(concept, "", bool(NOUNS[concept].german_plural))

    def described(self, phrase: Phrase, chance: float = 0.33) -> Phrase:
        """The phrase with or without an adjective; 我 的 takes none that needs a 的 of its own."""
        fitting = BEFORE.get(phrase.noun)
        if not fitting or not self.chance(chance):
            return phrase
        adjective = self.pick(fitting)
        if phrase.determiner in OWNERS and len(ADJECTIVES[adjective].mandarin) > 1:
            return phrase
        return replace(phrase, adjective=adjective)

    def someone(
        self, group: str, pronouns: tuple[str, ...] = ("I", "he", "she", "we", "they")
    ) -> Phrase:
        """he, Anna, my mother, the young doctor"""
        kind = self.rng.random()
        if kind < 0.25 and pronouns:
            return Phrase(self.pick(pronouns))
        if kind < 0.45:
            return Phrase(self.pick(ALL_NAMES))
        if kind < 0.6:
            return self.known(self.pick(KIN))
        return self.known(self.pick(ADULTS if group == "grown" else ADULTS + MINORS))

    def subject(self, frame: Frame, pronouns: tuple[str, ...]) -> Phrase:
        """Somebody or something that may be the subject of the frame."""
        concept = self.pick(frame.subjects)
        return self.someone(concept, pronouns) if concept in PEOPLE else self.known(concept)

    def other(self, concepts: tuple[str, ...], *taken: Phrase) -> Phrase:
        """Somebody who does not take part yet: no "I see me", no "the man helps this man"."""
        nouns = {phrase.noun for phrase in taken}
        pronouns = ("he", "she") if nouns & {"I", "we"} else ("I", "he", "she", "we")
        while True:
            concept = self.pick(concepts)
            phrase = self.someone(concept, pronouns) if concept in PEOPLE else self.known(concept)
            boy_with_son = phrase.noun in ("son", "daughter") and nouns & set(MINORS)
            if phrase.noun not in nouns and not boy_with_son:
                return phrase
