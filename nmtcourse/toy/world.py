"""What makes sense: which people do what to which things, and where.

The tables of `world.txt` name groups of the lexicon ("pet", "food") or single concepts ("milk").
"""

from __future__ import annotations

from dataclasses import dataclass

from nmtcourse.toy.closed_class import NAMES
from nmtcourse.toy.lexicon import NOUNS, tables

WORLD = tables("world.txt")
# How a verb may be used.
USES = {
    "activity": ("now", "past", "will", "modal", "daily", "like"),
    "habit": ("past", "will", "modal", "daily", "like"),
    "action": ("now", "past", "will", "modal"),
    "result": ("past", "will", "modal"),
    "play": ("now", "will", "modal", "daily", "like"),
    "animal": ("now", "past", "will", "daily", "like"),
    "search": ("now", "will", "modal"),
    "feeling": ("now", "past"),
    "sight": ("past",),
    "skill": ("state", "modal"),
    "state": ("state",),
}

GROUPS = {"person": ("adult", "young"), "minor": ("young", "son", "daughter"), "name": tuple(NAMES)}
# These stand for a choice of pronoun, name, kin and noun, which the sampler makes.
PEOPLE = ("someone", "grown")


def expand(words: str) -> tuple[str, ...]:
    """The concepts that a cell of group names and concepts stands for, each once.

    Raises ValueError for a word that the lexicon does not know.
    """
    found: dict[str, None] = {}
    for word in words.split():
        members = [concept for concept, noun in NOUNS.items() if word in noun.groups]
        for group in GROUPS.get(word, ()):
            members += [group] if group in NAMES else expand(group)
        if not members and word not in (*NOUNS, *PEOPLE):
            raise ValueError(f"{word!r} is neither a noun nor a group of nouns of the lexicon")
        found |= dict.fromkeys(members or [word])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Frame:
    """A verb with the subjects, objects and places that make sense with it, and its uses."""

    verb: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    uses: tuple[str, ...]


def _adjectives_by_noun() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for adjective, nouns in WORLD["before"]:
        for noun in expand(nouns):
            table.setdefault(noun, []).append(adjective)
    return table


FRAMES = [
    Frame(verb, expand(subjects), expand(objects), tuple(places.split()), USES[use])
    for verb, subjects, objects, places, use in WORLD["frames"]
]
TRAITS = {trait: frozenset(verbs.split()) for trait, verbs in WORLD["traits"]}
MOODS = ("tired", "hungry", "thirsty", "sick", "sad", "happy")
BEFORE = _adjectives_by_noun()
SAID = [
    *((adjective, expand(nouns)) for adjective, nouns in WORLD["said"]),
    *((mood, PEOPLE[:1]) for mood in MOODS),
]
COMPARED = [
    (adjective, expand(group))
    for adjective, groups in WORLD["compared"]
    for group in groups.split(";")
]
WHEREABOUTS = [(expand(things), tuple(places.split())) for things, places in WORLD["whereabouts"]]
REASONS = {
    verb: (tuple(aspects.split()), tuple(reasons.split()))
    for verbs, aspects, reasons in WORLD["reasons"]
    for verb in verbs.split()
}
