"""The meaning of a sentence, independent of a language.

A meaning names *concepts* ("dog", "eat", "yesterday"), never words.  Each renderer turns a meaning
into a list of items: a word and the keys of the parts of the meaning that it stands for.  Words of
two languages that share a key translate each other, and that is the gold alignment.
"""

from __future__ import annotations

from dataclasses import dataclass

Item = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase: "the two small dogs", or a pronoun ("he"), a name ("Anna"), "who" or "what".

    `determiner` is "a", "the", "this", an owner ("my"), a number ("two", "many"), "" for none
    ("bread"), or "it" where a pronoun stands for the noun.
    """

    noun: str
    determiner: str = ""
    plural: bool = False
    adjective: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Somebody does something.

    `aspect` is one of "now", "past", "will", "plain" (each day, or always so), "can", "must",
    "want", "may", "like" (likes to do it); `place` is "where" in a question for the place.
    """

    subject: Phrase
    verb: str
    aspect: str
    object: Phrase | None = None
    recipient: Phrase | None = None
    companion: Phrase | None = None
    place: str = ""
    time: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """Somebody or something is so: "the coffee is hot", "Anna was tired yesterday"."""

    subject: Phrase
    adjective: str
    time: str = ""
    past: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The subject is "more" so than the standard, or "as" much so, or "less" (not as much so)."""

    subject: Phrase
    adjective: str
    standard: Phrase
    degree: str


@dataclass(frozen=True, slots=True)
class Location:
    """The subject is at a place; with `exists` the subject is new: "there is a ..." """

    subject: Phrase
    place: str
    exists: bool = False
    negated: bool = False


Clause = Event | State | Comparison | Location


@dataclass(frozen=True, slots=True)
class Sentence:
    """A clause, and how it is said.

    It is a statement, a question, or what a speaker thinks ("Anna hopes that ..."); a statement may
    start with its time and may end with a reason ("because ...").
    """

    clause: Clause
    question: bool = False
    time_first: bool = False
    speaker: Phrase | None = None
    attitude: str = ""
    reason: Clause | None = None
