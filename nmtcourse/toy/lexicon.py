"""Nouns, verbs and adjectives in three languages, from the tables of `lexicon.txt`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in three languages; `gender` is "m", "f" or "n"; uncounted: no plural, no measure."""

    gender: str
    german: str
    german_plural: str
    english: str
    english_plural: str
    measure: str
    mandarin: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in three languages.

    `particle` is what leaves the German verb ("ein" of einkaufen, "Fußball"), `extra` what follows
    the English verb ("television", "up"), `mandarin_object` the noun that is part of the Mandarin
    verb.
    """

    infinitive: str
    stem: str
    third: str
    auxiliary: str
    participle: str
    particle: str
    joined: bool
    english: str
    past: str
    progressive: str
    extra: str
    mandarin: str
    mandarin_object: str


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective in three languages; empty: not compared, or not used so in Mandarin."""

    german: str
    german_more: str
    english: str
    english_more: str
    mandarin: tuple[str, ...]
    mandarin_predicate: str


def tables(file: str) -> dict[str, list[list[str]]]:
    """The tables of a file beside this one: `[name]`, then a row a line, its cells between bars.

    A backslash at its end continues a line; # at its beginning makes it a comment.
    """
    found: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_name(file).read_text("utf-8").replace("\\\n", "").splitlines():
        if line.startswith("["):
            rows = found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append([cell.strip() for cell in line.split("|")])
    return found


def _noun(german: str, english: str, mandarin: str, groups: str) -> Noun:
    article, *german_forms = german.split()
    one, many = (german_forms + [""])[:2]
    measure, _, word = mandarin.rpartition(" ")
    singular, plural = (english.split() + [""])[:2]
    gender = {"der": "m", "die": "f", "das": "n"}[article]
    return Noun(gender, one, many, singular, plural, measure, word, tuple(groups.split()))


def _verb(german: str, english: str, mandarin: str) -> Verb:
    infinitive, third, perfect = german.split(", ")
    auxiliary, *_, participle = perfect.split()
    particle, separator, base = infinitive.rpartition("-" if "-" in infinitive else " ")
    whole = particle + base if separator == "-" else base
    base_form, past, progressive, extra = (english.split(", ") + [""])[:4]
    verb, _, inner = mandarin.partition(" ")
    return Verb(
        *(whole, base.removesuffix("en"), third, auxiliary, participle, particle, separator == "-"),
        *(base_form, past, progressive, extra, verb, inner),
    )


def _adjective(german: str, english: str, mandarin: str) -> Adjective:
    plain, more = (german.split() + [""])[:2]
    english_plain, english_more = (english.split(", ") + [""])[:2]
    before, predicate = ("" if form == "-" else form for form in mandarin.split(", "))
    return Adjective(plain, more, english_plain, english_more, tuple(before.split()), predicate)


WORDS = tables("lexicon.txt")
NOUNS = {concept: _noun(*cells) for concept, *cells in WORDS["nouns"]}
VERBS = {concept: _verb(*cells) for concept, *cells in WORDS["verbs"]}
ADJECTIVES = {concept: _adjective(*cells) for concept, *cells in WORDS["adjectives"]}
