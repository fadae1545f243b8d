"""The combinations that only the challenge split shows.

A sentence belongs to the challenge if it holds one of these combinations of two concepts, each of
which training shows in other company: red hats and new cars, but no red car.
"""

from __future__ import annotations

from collections.abc import Iterator

from nmtcourse.toy.meaning import Event, Sentence
from nmtcourse.toy.world import WORLD

ROLES = ("subject", "object", "recipient", "companion", "standard")

HELD_OUT = {
    kind: frozenset(tuple(pair.split()) for pair in pairs.split(", "))
    for kind, pairs in WORLD["held out"]
}


def combinations(sentence: Sentence) -> Iterator[tuple[str, tuple[str, str]]]:
    """The combinations in a sentence, each after the key of `HELD_OUT` it belongs to."""
    framing = ["question"] * sentence.question + ["that"] * bool(sentence.attitude)
    phrases = [sentence.speaker]
    for clause in filter(None, (sentence.clause, sentence.reason)):
        phrases += [getattr(clause, role, None) for role in ROLES]
        if isinstance(clause, Event):
            for construction in (*framing, clause.aspect, *["not"] * clause.negated):
                yield "construction with verb", (construction, clause.verb)
            if clause.object:
                yield "verb with object", (clause.verb, clause.object.noun)
    for phrase in phrases:
        if phrase and phrase.adjective:
            yield "adjective before noun", (phrase.adjective, phrase.noun)


def is_held_out(sentence: Sentence) -> bool:
    """Whether the sentence holds a combination of `HELD_OUT`."""
    return any(pair in HELD_OUT[kind] for kind, pair in combinations(sentence))
