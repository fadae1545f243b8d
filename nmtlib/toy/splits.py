"""The combinations that only the challenge split shows.

A sentence belongs to the challenge if it holds one of these combinations of two concepts, each of
which training shows in other company: red hats and new cars, but no red car.
"""

from __future__ import annotations

from collections.abc import Iterator

from nmtlib.toy.meaning import Event, Sentence

ROLES = ("subject", "object", "recipient", "companion", "standard")

HELD_OUT = {
    "adjective before noun": frozenset(
        {
            ("red", "car"),
            ("black", "cat"),
            ("white", "bird"),
            ("new", "bicycle"),
            ("small", "bag"),
            ("big", "horse"),
            ("young", "doctor"),
            ("clever", "dog"),
            ("beautiful", "dress"),
            ("hot", "coffee"),
            ("interesting", "newspaper"),
            ("cheap", "watch"),
        }
    ),
    "verb with object": frozenset(
        {
            ("eat", "banana"),
            ("buy", "watch"),
            ("read", "letter"),
            ("repair", "computer"),
            ("wash", "coat"),
            ("find", "key"),
            ("open", "window"),
            ("sell", "house"),
            ("give", "flower"),
            ("see", "bird"),
            ("drink", "milk"),
            ("cook", "fish"),
        }
    ),
    # "question" and "that" are kinds of sentence, "not" is negation, the rest are aspects of an
    # event.
    "construction with verb": frozenset(
        {
            ("question", "swim"),
            ("that", "work"),
            ("not", "sleep"),
            ("can", "read"),
            ("want", "bake"),
            ("must", "learn"),
            ("will", "sing"),
            ("like", "swim"),
        }
    ),
}


def combinations(sentence: Sentence) -> Iterator[tuple[str, tuple[str, str]]]:
    """The combinations that a sentence holds, each with the key of `HELD_OUT` that it belongs to."""
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
