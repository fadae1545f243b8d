"""German: a verb in two positions.

In a main clause the finite verb comes second and the rest of the verb closes the clause; after
*dass* and *weil* the whole verb comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nmtcourse.toy.closed_class import NAMES, NUMBERS, PLACES, PRONOUNS, TIMES, person, within
from nmtcourse.toy.declension import noun_phrase
from nmtcourse.toy.lexicon import ADJECTIVES, VERBS
from nmtcourse.toy.meaning import Clause, Comparison, Event, Item, Location, Phrase, Sentence, State

AUXILIARIES = {
    "hat": {"1sg": "habe", "2sg": "hast", "3sg": "hat", "1pl": "haben", "3pl": "haben"},
    "ist": {"1sg": "bin", "2sg": "bist", "3sg": "ist", "1pl": "sind", "3pl": "sind"},
    "war": {"1sg": "war", "2sg": "warst", "3sg": "war", "1pl": "waren", "3pl": "waren"},
    "will": {"1sg": "werde", "2sg": "wirst", "3sg": "wird", "1pl": "werden", "3pl": "werden"},
    "can": {"1sg": "kann", "2sg": "kannst", "3sg": "kann", "1pl": "können", "3pl": "können"},
    "must": {"1sg": "muss", "2sg": "musst", "3sg": "muss", "1pl": "müssen", "3pl": "müssen"},
    "want": {"1sg": "will", "2sg": "willst", "3sg": "will", "1pl": "wollen", "3pl": "wollen"},
    "may": {"1sg": "darf", "2sg": "darfst", "3sg": "darf", "1pl": "dürfen", "3pl": "dürfen"},
}
NOT = ("nicht", ("negation",))


def present(verb: str, who: str) -> str:
    """The present tense, without the particle of a separable verb."""
    entry = VERBS[verb]
    if verb == "have":
        return AUXILIARIES["hat"][who]
    if who.endswith("pl"):
        return entry.stem + "en"
    if who == "3sg" or entry.third[-1] != "t":
        return entry.third + ("st" if who == "2sg" else "")
    return entry.stem + "e" if who == "1sg" else entry.third[:-1] + "st"


@dataclass(slots=True)
class _Parts:
    """A clause in its fields: [time or subject] finite [subject] pronoun time rest closing.

    `last` is the closing bracket of a clause with its verb at the end, the finite verb included.
    """

    subject: list[Item]
    finite: Item
    closing: list[Item]
    last: list[Item]
    pronoun: list[Item] = field(default_factory=list)
    time: list[Item] = field(default_factory=list)
    rest: list[Item] = field(default_factory=list)
    front: list[Item] = field(default_factory=list)


def _verb(event: Event) -> tuple[Item, list[Item], list[Item]]:
    """Finite verb, closing bracket, and both together as they end a subordinate clause."""
    verb, who = VERBS[event.verb], person(event.subject)
    extra = [(verb.particle, ("verb.extra",))] if verb.particle else []
    whole = ("verb", "verb.extra") if verb.joined or not verb.particle else ("verb",)
    loose = [] if verb.joined else extra
    if event.aspect in ("now", "plain", "like"):
        word = present(event.verb, who)
        head = (word, ("verb",) if verb.particle else ("verb", "verb.extra"))
        return head, extra, [*loose, (verb.particle + word if verb.joined else word, whole)]
    past = event.aspect == "past"
    finite = (AUXILIARIES[verb.auxiliary if past else event.aspect][who], ("aspect",))
    closing = [*loose, (verb.participle if past else verb.infinitive, whole)]
    return finite, closing, [*closing, finite]


def _is_definite(phrase: Phrase) -> bool:
    pointed_out = phrase.determiner not in ("a", "", *NUMBERS)
    return pointed_out or phrase.noun in NAMES or phrase.noun in PRONOUNS


def _event(event: Event) -> _Parts:
    parts = _Parts(noun_phrase(event.subject, "nominative", "subject"), *_verb(event))
    parts.time = list(TIMES[event.time].german) if event.time else []
    known, new = [], []
    indefinite = event.object is not None and not _is_definite(event.object)
    takes_kein = event.negated and indefinite and event.aspect != "like"
    negation = [NOT] if event.negated and not takes_kein else []
    if event.aspect == "now":  # gerade das Buch, but das Buch gerade nicht
        (negation or parts.time).insert(0, ("gerade", ("aspect",)))
    cases = (
        (event.recipient, "dative", "recipient"),
        (event.object, "dative" if event.verb == "help" else "accusative", "object"),
    )
    for phrase, case, role in cases:
        if phrase is None:
            continue
        items = noun_phrase(phrase, case, role, takes_kein and role == "object")
        if phrase.noun == "what":
            parts.front = items
        elif phrase.noun in PRONOUNS:
            parts.pronoun += items
        elif role == "recipient" or _is_definite(phrase):
            known += items
        else:
            new += items
    known += negation
    if event.aspect == "like":
        known.append(("gern", ("aspect",)))
    if event.companion:
        known += [("mit", ("with",)), *noun_phrase(event.companion, "dative", "companion")]
    if event.place:
        place = PLACES[event.place]
        items = place.german_to if event.verb == "go" else place.german
        if event.place == "where":
            parts.front = items
        else:
            known += items
    parts.rest = known + new
    return parts


def _other(clause: State | Comparison | Location) -> _Parts:
    past = isinstance(clause, State) and clause.past
    to_be = (AUXILIARIES["war" if past else "ist"][person(clause.subject)], ("copula",))
    subject = noun_phrase(clause.subject, "nominative", "subject")
    if isinstance(clause, Comparison):
        return _comparison(clause, subject, to_be)
    negation = [NOT] if clause.negated else []
    if isinstance(clause, State):
        closing = [*negation, (ADJECTIVES[clause.adjective].german, ("adjective",))]
        time = TIMES[clause.time].german if clause.time else []
        return _Parts(subject, to_be, closing, [*closing, to_be], time=time)
    place = PLACES[clause.place].german
    if clause.exists:
        subject, place = place, noun_phrase(clause.subject, "nominative", "subject", clause.negated)
        negation = []
    return _Parts(subject, to_be, [*negation, *place], [*negation, *place, to_be])


def _comparison(clause: Comparison, subject: list[Item], to_be: Item) -> _Parts:
    """*größer als*, *so groß wie*, *nicht so groß wie*; after *dass* the verb still comes last."""
    adjective = ADJECTIVES[clause.adjective]
    standard = noun_phrase(clause.standard, "nominative", "standard")
    if clause.degree == "more":
        words = [(adjective.german_more, ("adjective", "more")), ("als", ("than",)), *standard]
    else:
        words = [("so", ("as",)), (adjective.german, ("adjective",)), ("wie", ("than",)), *standard]
    if clause.degree == "less":
        words.insert(0, NOT)
    return _Parts(subject, to_be, words, [*words, to_be])


def _parts(clause: Clause) -> _Parts:
    return _event(clause) if isinstance(clause, Event) else _other(clause)


def subordinate(clause: Clause) -> list[Item]:
    """The clause as it follows *dass* or *weil*: the finite verb comes last."""
    p = _parts(clause)
    return [*p.subject, *p.pronoun, *p.time, *p.rest, *p.last]


def main_clause(clause: Clause, question: bool = False, time_first: bool = False) -> list[Item]:
    """The clause with its verb second; first in a question that asks for yes or no."""
    p = _parts(clause)
    front = p.time if time_first else p.front
    time = [] if time_first else p.time
    asks_subject = question and isinstance(clause, Event) and clause.subject.noun == "who"
    if front or (question and not asks_subject):
        return [*front, p.finite, *p.subject, *p.pronoun, *time, *p.rest, *p.closing]
    return [*p.subject, p.finite, *p.pronoun, *time, *p.rest, *p.closing]


def render(sentence: Sentence) -> list[Item]:
    """The German sentence for a meaning, as items."""
    if sentence.speaker:
        said = main_clause(Event(sentence.speaker, sentence.attitude, "plain"))
        that = [(",", ()), ("dass", ("that",))]
        items = [*within("speaker", said), *that, *subordinate(sentence.clause)]
    else:
        items = main_clause(sentence.clause, sentence.question, sentence.time_first)
    if sentence.reason:
        because = [("weil", ("because",)), *subordinate(sentence.reason)]
        items += [(",", ("comma",)), *within("reason", because)]
    return [*items, ("?" if sentence.question else ".", ("end",))]
