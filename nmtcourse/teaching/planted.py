"""Translations with one fault each, of known weight, made from what a sentence means.

A reference is rendered anew after its meaning was changed (another noun, another tense), or its
words are moved, dropped or replaced.  How grave a fault is, its `weight` says: 0 for a right
translation that is not the reference, 1 for a minor error, 5 for a major one, which are the weights
of MQM (Freitag et al. 2021).  So a metric can be asked whether it knows what is worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from nmtcourse.toy import RENDERERS, english
from nmtcourse.toy.closed_class import NAMES, OFTEN
from nmtcourse.toy.lexicon import NOUNS, VERBS
from nmtcourse.toy.meaning import Comparison, Event, Location, Phrase, Sentence, State
from nmtcourse.toy.sampler import Sampler
from nmtlib.data.corpus import Pair

ROLES = ("subject", "object", "recipient", "companion", "standard")
ANIMATE = ("adult", "young", "kin", "pet", "animal")
TENSES = {"past": "will", "will": "past", "now": "past"}
# The grammar has one sentence for each meaning, so what else would be right is declared here.
SYNONYMS = {
    "big": "large",
    "bigger": "larger",
    "small": "little",
    "clever": "smart",
    "sick": "ill",
    "film": "movie",
    "films": "movies",
    "photo": "picture",
    "photos": "pictures",
    "bicycle": "bike",
    "bicycles": "bikes",
    "child": "kid",
    "children": "kids",
    "father": "dad",
    "mother": "mum",
    "doctor": "physician",
    "doctors": "physicians",
    "neighbour": "neighbor",
    "neighbours": "neighbors",
    "repair": "fix",
    "repairing": "fixing",
    "repaired": "fixed",
    "close": "shut",
    "closed": "shut",
    "buy": "purchase",
    "bought": "purchased",
    "often": "frequently",
    "because": "since",
    "cannot": "can not",
}
_AGREEMENT = {english.third_person(verb.english): verb.english for verb in VERBS.values()}
_AGREEMENT |= {"is": "are", "are": "is", "was": "were", "were": "was", "does": "do", "do": "does"}


def text(sentence: Sentence) -> str:
    """The English sentence, its words between spaces."""
    return " ".join(word for word, _ in english.render(sentence))


def meanings_of(pairs: Iterable[Pair], *, seed: int = 0, target: str = "en") -> list[Sentence]:
    """What the targets of toy pairs mean, found by drawing the corpus of `seed` once more.

    Raises ValueError for a pair that is not of that corpus.
    """
    targets = [pair.target for pair in pairs]
    sampler, missing, meanings = Sampler(Random(seed)), set(targets), dict[str, Sentence]()
    for _ in range(50 * len(targets) + 50_000):
        if not missing:
            return [meanings[sentence] for sentence in targets]
        sentence = sampler.sentence()
        words = " ".join(word for word, _ in RENDERERS[target](sentence))
        if words in missing:
            meanings[words] = sentence
            missing.remove(words)
    raise ValueError(f"not written by the grammar with seed {seed}: {sorted(missing)[0]!r}")


@dataclass(frozen=True)
class Fault:
    """One way to be wrong.  `plant` gives None where the sentence has no place for it."""

    name: str
    weight: int
    plant: Callable[[Sentence, Random], str | None]


def plant_all(sentence: Sentence, rng: Random) -> dict[str, str]:
    """The sentence once with each fault that it has a place for, by the fault's name."""
    right = text(sentence)
    faulty = {fault.name: fault.plant(sentence, rng) for fault in FAULTS}
    return {name: wrong for name, wrong in faulty.items() if wrong and wrong != right}


def _clause_with(sentence: Sentence, **changes: object) -> str:
    return text(replace(sentence, clause=replace(sentence.clause, **changes)))


def _synonym(sentence: Sentence, rng: Random) -> str | None:
    """Another word for the same: large for big."""
    return _replaced(sentence, rng, SYNONYMS)


def _time_moved(sentence: Sentence, rng: Random) -> str | None:
    """The time first instead of last, or the other way round."""
    clause = sentence.clause
    apart = sentence.question or sentence.speaker or sentence.reason
    if apart or not isinstance(clause, Event) or not clause.time or clause.time in OFTEN:
        return None
    return text(replace(sentence, time_first=not sentence.time_first))


def _article_dropped(sentence: Sentence, rng: Random) -> str | None:
    words = text(sentence).split()
    return _dropped(words, [i for i, word in enumerate(words) if word in ("the", "a", "an")], rng)


def _ending(sentence: Sentence, rng: Random) -> str | None:
    """A verb that does not agree: he sleep."""
    return _replaced(sentence, rng, _AGREEMENT)


def _neighbours_swapped(sentence: Sentence, rng: Random) -> str | None:
    words = text(sentence).split()
    position = rng.choice([i for i in range(len(words) - 2) if words[i] != words[i + 1]])
    words[position : position + 2] = words[position + 1], words[position]
    return " ".join(words)


def _word_dropped(sentence: Sentence, rng: Random) -> str | None:
    """A noun, verb or adjective is missing."""
    items = english.render(sentence)
    content = (*ROLES, "verb", "adjective", "noun")
    last = [[key.rpartition(".")[2] for key in keys] for _, keys in items]
    places = [i for i, keys in enumerate(last) if set(keys) & set(content)]
    return _dropped([word for word, _ in items], places, rng)


def _wrong_noun(sentence: Sentence, rng: Random) -> str | None:
    """Another noun of the same kind; no other word changes."""
    clause = sentence.clause
    phrases = [(role, getattr(clause, role, None)) for role in ROLES]
    nouns = [(role, phrase) for role, phrase in phrases if phrase and phrase.noun in NOUNS]
    nouns = [(role, phrase) for role, phrase in nouns if phrase.determiner != "it"]
    if not nouns:
        return None
    role, phrase = rng.choice(nouns)
    others = [noun for noun in NOUNS if noun != phrase.noun and _alike(noun, phrase)]
    if not others:
        return None
    return _clause_with(sentence, **{role: replace(phrase, noun=rng.choice(others))})


def _alike(concept: str, phrase: Phrase) -> bool:
    """Whether a noun can stand for that of a phrase, with the same words around it."""
    one, noun = NOUNS[concept], NOUNS[phrase.noun]
    same = (bool(one.measure), bool(one.english_plural)) == (
        bool(noun.measure),
        bool(noun.english_plural),
    )
    vowel = (one.english[0] in "aeiou") == (noun.english[0] in "aeiou")
    living = bool(set(one.groups) & set(ANIMATE)) == bool(set(noun.groups) & set(ANIMATE))
    return same and vowel and living and ("kin" in one.groups) == ("kin" in noun.groups)


def _wrong_tense(sentence: Sentence, rng: Random) -> str | None:
    clause = sentence.clause
    if not isinstance(clause, Event) or clause.aspect not in TENSES:
        return None
    return _clause_with(sentence, aspect=TENSES[clause.aspect])


def _negation(sentence: Sentence, rng: Random) -> str | None:
    """Yes for no, or no for yes."""
    clause = sentence.clause
    if sentence.question or (isinstance(clause, Event) and clause.time in OFTEN):
        return None
    if isinstance(clause, Comparison):
        degree = {"as": "less", "less": "as"}.get(clause.degree)
        return _clause_with(sentence, degree=degree) if degree else None
    assert isinstance(clause, Event | State | Location)
    return _clause_with(sentence, negated=not clause.negated)


def _roles_exchanged(sentence: Sentence, rng: Random) -> str | None:
    """Who does it to whom, or which of two is bigger, the wrong way round."""
    clause = sentence.clause
    role = "standard" if isinstance(clause, Comparison) else "object"
    if getattr(clause, "recipient", None):
        role = "recipient"
    one, two = clause.subject, getattr(clause, role, None)
    if two is None or (role != "standard" and not (_living(one) and _living(two))):
        return None
    return _clause_with(sentence, **{"subject": two, role: one})


def _living(phrase: Phrase) -> bool:
    noun = NOUNS.get(phrase.noun)
    if noun is None:
        return phrase.noun in NAMES
    return bool(set(noun.groups) & set(ANIMATE))


def _replaced(sentence: Sentence, rng: Random, table: dict[str, str]) -> str | None:
    words = text(sentence).split()
    places = [i for i, word in enumerate(words) if word in table]
    if not places:
        return None
    position = rng.choice(places)
    return " ".join([*words[:position], table[words[position]], *words[position + 1 :]])


def _dropped(words: list[str], places: list[int], rng: Random) -> str | None:
    if not places:
        return None
    position = rng.choice(places)
    return " ".join(words[:position] + words[position + 1 :])


FAULTS = (
    Fault("synonym", 0, _synonym),
    Fault("time moved", 0, _time_moved),
    Fault("article dropped", 1, _article_dropped),
    Fault("wrong ending", 1, _ending),
    Fault("neighbours swapped", 1, _neighbours_swapped),
    Fault("word dropped", 5, _word_dropped),
    Fault("wrong noun", 5, _wrong_noun),
    Fault("wrong tense", 5, _wrong_tense),
    Fault("yes for no", 5, _negation),
    Fault("roles exchanged", 5, _roles_exchanged),
)
WEIGHTS = {fault.name: fault.weight for fault in FAULTS}
