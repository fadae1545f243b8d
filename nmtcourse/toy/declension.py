"""German noun phrases: endings by gender and case (without the genitive)."""

from __future__ import annotations

from nmtcourse.toy.closed_class import NAMES, NUMBERS, OWNERS, PRONOUNS
from nmtcourse.toy.lexicon import ADJECTIVES, NOUNS
from nmtcourse.toy.meaning import Item, Phrase

# Endings for masculine, feminine, neuter, plural.
DEFINITE = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
THIS = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
}
EIN = {**THIS, "nominative": ("", "e", "", "e"), "accusative": ("en", "e", "", "e")}
STRONG = THIS  # no article: the adjective carries the ending that the article would
WEAK = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
}
MIXED = {**WEAK, "nominative": ("er", "e", "es", "en"), "accusative": ("en", "e", "es", "en")}
CASES = tuple(DEFINITE)


def determiner(word: str, case: str, form: int, negated: bool = False) -> tuple[str, dict]:
    """The determiner and the adjective endings after it; `form` is 0 to 3: m, f, n, plural."""
    if negated and word in ("a", ""):
        return "kein" + EIN[case][form], MIXED
    if word == "the":
        return DEFINITE[case][form], WEAK
    if word == "this":
        return "dies" + THIS[case][form], WEAK
    if word == "a":
        return "ein" + EIN[case][form], MIXED
    if word in OWNERS:
        return OWNERS[word][0] + EIN[case][form], MIXED
    if word == "many":
        return NUMBERS[word][0] + ("n" if case == "dative" else ""), STRONG
    return (NUMBERS[word][0] if word in NUMBERS else ""), STRONG


def attributive(adjective: str, ending: str) -> str:
    """The adjective before a noun: teuer loses its second e (ein teures Auto)."""
    stem = ADJECTIVES[adjective].german
    return (stem[:-2] + "r" if stem.endswith("uer") else stem) + ending


def noun_form(concept: str, case: str, plural: bool) -> str:
    """The noun in its case: dative plurals take -n, weak masculines -n outside the nominative."""
    noun = NOUNS[concept]
    if not plural:
        return noun.german + ("n" if "weak" in noun.groups and case != "nominative" else "")
    takes_n = case == "dative" and noun.german_plural[-1] not in "ns"
    return noun.german_plural + ("n" if takes_n else "")


def noun_phrase(phrase: Phrase, case: str, role: str, negated: bool = False) -> list[Item]:
    """Determiner, adjective and noun in one case; negated, "a" and no determiner become *kein*."""
    if phrase.noun in PRONOUNS:
        return [(PRONOUNS[phrase.noun].german[CASES.index(case)], (role,))]
    if phrase.noun in NAMES:
        return [(phrase.noun, (role,))]

    form = 3 if phrase.plural else "mfn".index(NOUNS[phrase.noun].gender)
    if phrase.determiner == "it":
        return [(("er", "sie", "es")[form], (role,))]
    word, endings = determiner(phrase.determiner, case, form, negated)
    items = []
    if word:
        keys = (f"{role}.determiner",) if phrase.determiner else ()
        items.append((word, keys + (("negation",) if word.startswith("kein") else ())))
    if phrase.adjective:
        items.append((attributive(phrase.adjective, endings[case][form]), (f"{role}.adjective",)))
    items.append((noun_form(phrase.noun, case, phrase.plural), (role,)))
    return items
