"""English: agreement in the third person, the progressive, and *do* in questions and negations."""

from __future__ import annotations

from nmtcourse.toy.closed_class import NAMES, OFTEN, PLACES, PRONOUNS, TIMES, person, within
from nmtcourse.toy.lexicon import ADJECTIVES, NOUNS, VERBS
from nmtcourse.toy.meaning import Clause, Comparison, Event, Item, Location, Phrase, Sentence, State

BE = {"1sg": "am", "2sg": "are", "3sg": "is", "1pl": "are", "3pl": "are"}
WAS = {"1sg": "was", "2sg": "were", "3sg": "was", "1pl": "were", "3pl": "were"}
AUXILIARIES = ("will", "can", "may")
# Aspects said with a verb of their own, which takes "to" and, unlike an auxiliary, needs *do*.
TO_VERBS = {"must": "have", "want": "want", "like": "like"}


def third_person(verb: str) -> str:
    """The form for he, she and it: eats, watches, tidies, goes, has."""
    if verb == "have":
        return "has"
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "o")) else "s")


def noun_phrase(phrase: Phrase, role: str, case: int = 0, none: bool = False) -> list[Item]:
    """Determiner, adjective, noun; `case` 1 asks for me, him, her; `none` makes "no" of "a"."""
    if phrase.noun in PRONOUNS:
        return [(PRONOUNS[phrase.noun].english[case], (role,))]
    if phrase.noun in NAMES:
        return [(phrase.noun, (role,))]
    if phrase.determiner == "it":
        return [("it", (role,))]
    noun = NOUNS[phrase.noun]
    items = [(noun.english_plural if phrase.plural else noun.english, (role,))]
    if phrase.adjective:
        items.insert(0, (ADJECTIVES[phrase.adjective].english, (f"{role}.adjective",)))
    word = phrase.determiner
    if word == "this" and phrase.plural:
        word = "these"
    if word == "a" and items[0][0][0] in "aeiou":
        word = "an"
    if none:
        return [("no", (f"{role}.determiner", "negation")), *items]
    return [(word, (f"{role}.determiner",)), *items] if word else items


def _verb_words(event: Event, bare: bool) -> list[Item]:
    """The verb without its auxiliary; `bare` asks for the form after *do* (does not *eat*)."""
    verb, who = VERBS[event.verb], person(event.subject)
    keys = ("verb",) if verb.extra else ("verb", "verb.extra")
    if event.aspect == "now":
        return [(verb.progressive, keys)]
    if event.aspect == "past" and not bare:
        return [(verb.past, (*keys, "aspect"))]
    first = TO_VERBS.get(event.aspect, verb.english)
    if event.aspect not in AUXILIARIES and not bare and who == "3sg":
        first = third_person(first)
    if event.aspect in TO_VERBS:
        return [(first, ("aspect",)), ("to", ("aspect",)), (verb.english, keys)]
    return [(first, keys)]


def _auxiliary(event: Event, needed: bool) -> list[Item]:
    """The auxiliary and its *not*: one that the aspect brings along, else *do* where needed."""
    who, negation = person(event.subject), [("not", ("negation",))] if event.negated else []
    if event.aspect == "now":
        return [(BE[who], ("aspect",)), *negation]
    if event.aspect == "can" and event.negated:
        return [("cannot", ("aspect", "negation"))]
    if event.aspect in AUXILIARIES:
        return [(event.aspect, ("aspect",)), *negation]
    if not needed:
        return []
    key = "negation" if event.negated else "question"
    if event.aspect == "past":
        return [("did", ("aspect", key)), *negation]
    return [("does" if who == "3sg" else "do", (key,)), *negation]


def _event(event: Event, inverted: bool) -> list[Item]:
    asks_what = event.object is not None and event.object.noun == "what"
    inverted = inverted and event.subject.noun != "who"
    auxiliary = _auxiliary(event, needed=inverted or event.negated)
    subject = noun_phrase(event.subject, "subject")
    time = TIMES[event.time].english if event.time else []
    middle, end = (time, []) if event.time in OFTEN else ([], time)
    front = PLACES["where"].english if event.place == "where" else []
    if asks_what:
        front = noun_phrase(event.object, "object")
    start = [*front, auxiliary[0], *subject, *auxiliary[1:]] if inverted else [*subject, *auxiliary]
    verb = _verb_words(event, bare=bool(auxiliary))
    return [*start, *middle, *verb, *_complements(event, asks_what), *end]


def _complements(event: Event, asks_what: bool) -> list[Item]:
    """What follows the verb: picks *it up*, gives *him an apple*, plays *with me in the park*."""
    verb, items = VERBS[event.verb], []
    extra = [(verb.extra, ("verb.extra",))] if verb.extra else []
    if event.recipient:
        items += noun_phrase(event.recipient, "recipient", 1)
    if event.object and not asks_what:
        items += noun_phrase(event.object, "object", 1)
        split = verb.extra == "up" and event.object.noun in PRONOUNS
        items = [*items, *extra] if split else [*extra, *items]
    else:
        items += extra
    company = []
    if event.companion:
        company = [("with", ("with",)), *noun_phrase(event.companion, "companion", 1)]
    if event.place in ("", "where"):
        return [*items, *company]
    place = PLACES[event.place]
    if event.verb == "go":
        return [*items, *place.english_to, *company]
    return [*items, *company, *place.english]


def _other(clause: State | Comparison | Location, inverted: bool) -> list[Item]:
    past = isinstance(clause, State) and clause.past
    to_be = ((WAS if past else BE)[person(clause.subject)], ("copula",))
    subject = noun_phrase(clause.subject, "subject")
    negated = clause.degree == "less" if isinstance(clause, Comparison) else clause.negated
    if isinstance(clause, Comparison):
        rest = _compared(clause)
    elif isinstance(clause, State):
        time = TIMES[clause.time].english if clause.time else []
        rest = [(ADJECTIVES[clause.adjective].english, ("adjective",)), *time]
    else:
        rest = PLACES[clause.place].english
        if clause.exists:
            rest = [*noun_phrase(clause.subject, "subject", none=negated), *rest]
            subject, negated = [("there", ("copula",))], False
    negation = [("not", ("negation",))] if negated else []
    start = [to_be, *subject] if inverted else [*subject, to_be]
    return [*start, *negation, *rest]


def _compared(clause: Comparison) -> list[Item]:
    adjective = ADJECTIVES[clause.adjective]
    standard = noun_phrase(clause.standard, "standard", 1)
    if clause.degree == "more":
        *more, word = adjective.english_more.split()
        keys = ("adjective",) if more else ("adjective", "more")
        return [*((m, ("more",)) for m in more), (word, keys), ("than", ("than",)), *standard]
    return [("as", ("as",)), (adjective.english, ("adjective",)), ("as", ("than",)), *standard]


def _clause(clause: Clause, inverted: bool = False) -> list[Item]:
    return _event(clause, inverted) if isinstance(clause, Event) else _other(clause, inverted)


def render(sentence: Sentence) -> list[Item]:
    """The English sentence for a meaning, as items."""
    items = _clause(sentence.clause, sentence.question)
    if sentence.time_first:
        time = TIMES[sentence.clause.time].english
        items = [*time, *items[: -len(time)]]
    if sentence.speaker:
        said = _clause(Event(sentence.speaker, sentence.attitude, "plain"))
        items = [*within("speaker", said), ("that", ("that",)), *items]
    if sentence.reason:
        items += within("reason", [("because", ("because",)), *_clause(sentence.reason)])
    return [*items, ("?" if sentence.question else ".", ("end",))]
