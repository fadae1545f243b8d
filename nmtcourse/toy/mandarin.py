"""Mandarin: measure words, 的, and time and place before the verb.

Words are separated by spaces, as a word segmenter would leave them.
"""

from __future__ import annotations

from nmtcourse.toy.closed_class import (
    NAMES,
    NUMBERS,
    OWNERS,
    PLACES,
    PRONOUNS,
    RELATION,
    TIMES,
    within,
)
from nmtcourse.toy.lexicon import ADJECTIVES, NOUNS, VERBS
from nmtcourse.toy.meaning import Clause, Comparison, Event, Item, Location, Phrase, Sentence, State

# aspect -> the word before the verb, and what negates the two together
ASPECTS = {
    "now": ("正在", "没 在"),
    "past": ("", "没"),
    "will": ("会", "不 会"),
    "plain": ("", "不"),
    "can": ("能", "不 能"),
    "must": ("必须", "不用"),
    "want": ("想", "不 想"),
    "may": ("可以", "不 可以"),
    "like": ("喜欢", "不 喜欢"),
}
# What one has learned to do one 会; what one is able to do here and now one 能.
SKILLS = frozenset({"swim", "football", "dance", "sing", "speak"})
WITH_GEI = frozenset({"call", "show"})


def noun_phrase(phrase: Phrase, role: str, bare: bool = False) -> list[Item]:
    """Determiner, measure word, adjective, noun; `bare` leaves out "a" (没有 狗, has no dog)."""
    if phrase.noun in PRONOUNS:
        return [(PRONOUNS[phrase.noun].mandarin, (role,))]
    if phrase.noun in NAMES:
        return [(NAMES[phrase.noun][0], (role,))]
    if phrase.determiner == "it":
        return [("它", (role,))]
    noun, word = NOUNS[phrase.noun], phrase.determiner
    if word in OWNERS:
        words = [OWNERS[word][1], "的"]
    elif word in ("the", "this"):
        stem = "那" if word == "the" else "这"
        words = [stem + "些"] if phrase.plural else [stem, noun.measure]
        if not noun.measure:
            words = []
    elif word in NUMBERS:
        words = [NUMBERS[word][1]] + ([] if word == "many" else [noun.measure])
    else:
        words = ["一", noun.measure] if word == "a" and not bare else []
    items = [(w, (f"{role}.determiner",)) for w in words]
    if phrase.adjective:
        items += [(w, (f"{role}.adjective",)) for w in ADJECTIVES[phrase.adjective].mandarin]
    items.append((noun.mandarin, (role,)))
    return items


def _before_verb(event: Event, skill: bool) -> list[Item]:
    """The aspect and its negation: 正在, 没 在, 不 会, 想."""
    aspect, negated = ASPECTS[event.aspect]
    here_and_now = event.time or event.place or event.companion
    if skill and event.aspect == "can" and event.verb in SKILLS and not here_and_now:
        aspect, negated = "会", "不 会"
    if not event.negated:
        return [(aspect, ("aspect",))] if aspect else []
    first, *second = negated.split()
    if second:
        return [(first, ("negation",)), (second[0], ("aspect",))]
    return [(first, ("negation",) if event.aspect == "plain" else ("negation", "aspect"))]


def _circumstances(event: Event) -> list[Item]:
    """Place, company and the person that 给 names: all stand before the verb."""
    items = []
    if event.place and event.verb != "go":
        # 正在 and 没 在 already hold the 在 of the place.
        if event.aspect != "now":
            items.append(("在", (RELATION,)))
        items += PLACES[event.place].mandarin
    if event.companion:
        companion = noun_phrase(event.companion, "companion")
        items += [("和", ("with",)), *companion, ("一起", ("with",))]
    if event.verb in WITH_GEI:
        role = "recipient" if event.recipient else "object"
        items += [("给", ("verb",)), *noun_phrase(event.recipient or event.object, role)]
    return items


def _event(event: Event, question: bool, skill: bool) -> list[Item]:
    verb = VERBS[event.verb]
    items = noun_phrase(event.subject, "subject")
    items += TIMES[event.time].mandarin if event.time else []
    asks_yes = question and not _asks(event)
    done = [("了", ("aspect",))] if event.aspect == "past" and not event.negated else []
    # 你 看见 我 的 狗 了 吗: in a yes-no question about something known, 了 closes the clause.
    le_last = asks_yes and (event.object is None or event.object.determiner not in ("a", *NUMBERS))
    keys = ("verb",) if verb.mandarin_object else ("verb", "verb.extra")
    if event.verb == "have" and event.negated:
        items.append(("没有", (*keys, "negation")))
    else:
        items += [*_before_verb(event, skill), *_circumstances(event), (verb.mandarin, keys)]
    if not le_last:
        items += done
    items += [(verb.mandarin_object, ("verb.extra",))] if verb.mandarin_object else []
    if event.recipient and event.verb not in WITH_GEI:
        items += noun_phrase(event.recipient, "recipient")
    if event.object and event.verb != "call":
        bare = event.negated or (asks_yes and event.verb == "have")
        items += noun_phrase(event.object, "object", bare)
    if event.verb == "go" and event.place:
        items += [item for item in PLACES[event.place].mandarin if item[1] != (RELATION,)]
    return [*items, *done] if le_last else items


def _asks(event: Event) -> bool:
    asks_what = event.object is not None and event.object.noun == "what"
    return event.subject.noun == "who" or event.place == "where" or asks_what


def _state(state: State, question: bool) -> list[Item]:
    """很 stands for "is" in a plain statement; 生病 is a verb and takes 了 and 没 instead."""
    items = noun_phrase(state.subject, "subject")
    items += TIMES[state.time].mandarin if state.time else []
    word = (ADJECTIVES[state.adjective].mandarin_predicate, ("adjective",))
    sick = state.adjective == "sick"
    if state.negated:
        return [*items, ("没" if sick else "不", ("negation",)), word]
    if sick:
        return [*items, word, ("了", ("copula",))]
    return [*items, word] if question else [*items, ("很", ("copula",)), word]


def _comparison(clause: Comparison) -> list[Item]:
    subject = noun_phrase(clause.subject, "subject")
    standard = noun_phrase(clause.standard, "standard")
    word = (ADJECTIVES[clause.adjective].mandarin_predicate, ("adjective",))
    if clause.degree == "more":
        return [*subject, ("比", ("than", "more")), *standard, word]
    if clause.degree == "as":
        return [*subject, ("和", ("than",)), *standard, ("一样", ("as",)), word]
    return [*subject, ("没有", ("negation", "than")), *standard, ("那么", ("as",)), word]


def _location(clause: Location, question: bool) -> list[Item]:
    place = PLACES[clause.place].mandarin
    if clause.exists:
        have = ("没有", ("copula", "negation")) if clause.negated else ("有", ("copula",))
        bare = clause.negated or question
        return [*place, have, *noun_phrase(clause.subject, "subject", bare)]
    negation = [("不", ("negation",))] if clause.negated else []
    subject = noun_phrase(clause.subject, "subject")
    return [*subject, *negation, ("在", ("copula", RELATION)), *place]


def _clause(clause: Clause, question: bool = False, skill: bool = True) -> list[Item]:
    if isinstance(clause, Event):
        return _event(clause, question, skill)
    if isinstance(clause, State):
        return _state(clause, question)
    return _comparison(clause) if isinstance(clause, Comparison) else _location(clause, question)


def render(sentence: Sentence) -> list[Item]:
    """The Mandarin sentence for a meaning, as items."""
    # 不 会 跳舞 has not learned to dance; who is ill, or hopes for it, 不 能 or 能.
    skill = sentence.reason is None and sentence.attitude != "hope"
    items = _clause(sentence.clause, sentence.question, skill)
    if sentence.time_first:
        keys = {key for _, keys in TIMES[sentence.clause.time].mandarin for key in keys}
        time = [item for item in items if keys & set(item[1])]
        items = time + [item for item in items if item not in time]
    if sentence.speaker:
        said = _clause(Event(sentence.speaker, sentence.attitude, "plain"))
        items = within("speaker", said) + items
    if sentence.reason:
        because = [("因为", ("because",)), *_clause(sentence.reason)]
        items += [("，", ("comma",)), *within("reason", because)]
    if sentence.question and not (isinstance(sentence.clause, Event) and _asks(sentence.clause)):
        items.append(("吗", ("question",)))
    return [*items, ("？" if sentence.question else "。", ("end",))]
