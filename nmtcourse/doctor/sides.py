"""Is each side the language that it should be, in all splits the same way round?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from nmtcourse.doctor.kinds import EXAMPLES, Finding
from nmtcourse.doctor.survey import Survey, examples
from nmtcourse.formats.languages import (
    CODES,
    UNSPACED,
    fits,
    forms,
    function_words,
    is_tag,
    language_of_country,
    likeliest,
    script_of,
    scripts_of,
)

CLEARLY = 1.5  # how much likelier the other way round must be
APART = 0.3  # the share of held-out lines in scripts that train has less of
RARE = 0.005  # of lines in another script; fewer are names and quotations
LANGUAGE = 0.02  # the share of frequent words that a side has of its language
SIDES = ("source", "target")


def judge_tags(tags: tuple[str, str]) -> Iterator[Finding]:
    """Language tags that are none."""
    if not any(tags):
        yield Finding(
            "language",
            "settings",
            detail="none is given",
            level_given="note",
            todo="give them with --languages, such as: --languages de en",
        )
        return
    for side, tag in zip(SIDES, tags, strict=True):
        if not is_tag(tag):
            todo = "use a tag such as de, en, zh, pt-BR: tokenizers and scores depend on it"
            detail = f"{side}_language = {tag!r}"
            if language := language_of_country(tag):
                detail += f" is a country; its language is {language}"
                todo = f"write {side}_language = {language!r}; --fix does"
            yield Finding("language", "settings", detail=detail, todo=todo)
    if tags[0] == tags[1] and all(tags):
        yield Finding(
            "language",
            "settings",
            detail=f"both languages are {tags[0]!r}",
            todo="give the source and the target language",
        )


def judge_sides(surveys: Mapping[str, Survey], tags: tuple[str, str]) -> Iterator[Finding]:
    """Splits that are the other way round than the tags, or than train."""
    exchanged = set()
    for name, survey in surveys.items():
        if len(survey.sample) < 5:
            continue
        if detail := against_tags(survey, tags):
            exchanged.add(name)
            yield Finding("exchanged", name, len(survey), len(survey), of(survey), detail)
    train = surveys["train"]
    for name, survey in surveys.items():
        if name != "train" and not exchanged and len(survey.sample) >= 5:
            if detail := against_train(train, survey):
                yield Finding("exchanged", name, len(survey), len(survey), of(survey), detail)
    for name, survey in surveys.items():
        if name not in exchanged:
            yield from judge_scripts(survey, tags)
    if not exchanged:
        yield from judge_against_train(surveys)


def of(survey: Survey) -> list[tuple[int, str]]:
    """The first pairs of a split, as examples."""
    return [(i, " | ".join(pair)) for i, pair in enumerate(survey.sample[:2], start=1)]


def against_tags(survey: Survey, tags: tuple[str, str]) -> str:
    """Why a split is the other way round than its language tags; '' if it is not, or unknown."""
    if script_of(tags[0]) != script_of(tags[1]):
        here = sum(survey.share_fitting(side, tags[side]) for side in (0, 1))
        there = sum(survey.share_fitting(side, tags[1 - side]) for side in (0, 1))
        return f"its letters are those of {tags[1]}-{tags[0]}" if there > here + 1 else ""
    words = [frequent_share(survey, side, tag) for side in (0, 1) for tag in tags]
    right, wrong = words[0] + words[3], words[1] + words[2]
    if wrong > LANGUAGE and wrong > 3 * right:
        return f"its frequent words are those of {tags[1]}-{tags[0]}"
    return ""


def frequent_share(survey: Survey, side: int, tag: str) -> float:
    """The share of a side's words that are frequent words of a language and not of the other."""
    known = survey.frequent[list(survey.tags).index(tag)] if tag in survey.tags else frozenset()
    words = survey.side(side).lower().split()
    return sum(word in known for word in words) / max(len(words), 1)


def against_train(train: Survey, survey: Survey) -> str:
    """Whether the sides of a split have the words of the other side of train."""
    words = [Counter(train.side(i).split()) for i in (0, 1)]

    def share(side: int, known: Counter[str]) -> float:
        tokens = survey.side(side).split()
        return sum(token in known for token in tokens) / max(len(tokens), 1)

    own = share(0, words[0]) + share(1, words[1])
    turned = share(0, words[1]) + share(1, words[0])
    if turned > CLEARLY * own and turned > 0.5:
        return "its words are those of the other side of train"
    return ""


def judge_scripts(survey: Survey, tags: tuple[str, str]) -> Iterator[Finding]:
    """A side that is in another script, or has no frequent word of its language."""
    for side, tag in enumerate(tags):
        share = survey.share_fitting(side, tag)
        if share < 0.5 and len(survey.sample) >= 5:
            yield _other_script(survey, side, tag, share)
        elif len(survey.sample) >= 50 and _foreign(survey, side, tags):
            yield Finding(
                "untranslated",
                survey.split.name,
                len(survey),
                len(survey),
                of(survey),
                f"the {SIDES[side]} has the frequent words of {tags[1 - side]!r}, not of {tag!r}",
                "give the right file, or the right tag",
                "wrong",
            )
        elif len(survey.sample) >= 50 and tag and _unlike(survey, side, tag):
            yield from _other_language(survey, side, tag)
        yield from _mixture(survey, side)


def _other_script(survey: Survey, side: int, tag: str, share: float) -> Finding:
    """A side that is not in the script of its tag; a note where its language has several."""
    script = next(iter(survey.scripts(side)))
    better = f"{forms(tag)[2]}-{script}"
    usual = script in scripts_of(tag)
    country = language_of_country(tag)  # kr is a tag (Kanuri), and a country
    if country and not usual and fits(script, script_of(country)):
        better = country
    return Finding(
        "script",
        survey.split.name,
        len(survey),
        len(survey),
        of(survey),
        f"{share:.0%} of the lines of the {SIDES[side]} are in the script of {tag!r} "
        f"({script_of(tag)}), most are in {script}",
        f"the tag {better} says so"
        if usual
        else f"{tag} is a country; its language is {country}"
        if better == country
        else f"give the right file; if it is {forms(tag)[2]} in {script}, the tag is {better}",
        "note" if usual and tag == forms(tag)[2] else "warning" if usual else None,
    )


def _other_language(survey: Survey, side: int, tag: str) -> Iterator[Finding]:
    """A side without frequent words of its language, where it is known what else it is.

    Words that are in no list are no evidence: phrases and headlines have few frequent words.
    """
    text = survey.side(side)
    better, share = likeliest(text, script_of(tag))
    words = any(len(word) > 1 and word.isalpha() for word in text.split())
    detail = f"the {SIDES[side]} hardly has a frequent word of {tag!r}"
    known = share > 2 * LANGUAGE
    if words and not known:
        return
    yield Finding(
        "other language",
        survey.split.name,
        len(survey),
        len(survey),
        of(survey),
        f"{detail}, but {share:.0%} are of {better!r}" if known else detail,
        f"give the right file, or the tag {better}" if known else "",
    )


def _mixture(survey: Survey, side: int) -> Iterator[Finding]:
    """Lines of one side in several scripts, whatever its language."""
    counts = survey.scripts(side)
    usual, *others = counts or [""]
    odd, total = sum(counts[script] for script in others), sum(counts.values())
    if odd > RARE * total:
        places = [CODES.index(script) for script in others]
        rows = survey.kept & np.isin(survey.numbers[f"script_{'st'[side]}"], places)
        detail = f"{SIDES[side]}: {', '.join(f'{n:,} in {s}' for s, n in counts.items())}"
        shown = examples(survey.split, np.flatnonzero(rows)[:EXAMPLES].tolist())
        yield Finding("scripts", survey.split.name, odd, total, shown, detail)


def judge_against_train(surveys: Mapping[str, Survey]) -> Iterator[Finding]:
    """Held-out splits in another script or form than train."""
    for name, survey in surveys.items():
        for side in (0, 1):
            counts = [split.scripts(side) for split in (surveys["train"], survey)]
            train, here = ({s: n / sum(c.values()) for s, n in c.items()} for c in counts)
            apart = sum(max(share - train.get(script, 0.0), 0.0) for script, share in here.items())
            if apart > APART and len(survey.sample) >= 5:
                scripts = [
                    ", ".join(f"{n:.0%} {s}" for s, n in shares.items()) for shares in (here, train)
                ]
                detail = f"the {SIDES[side]} is {scripts[0]}, that of train {scripts[1]}"
                yield Finding("test script", name, len(survey), len(survey), of(survey), detail)


def _foreign(survey: Survey, side: int, tags: tuple[str, str]) -> bool:
    """Whether a side is in the language of the other side."""
    own, turned = (frequent_share(survey, side, tag) for tag in (tags[side], tags[1 - side]))
    return turned > LANGUAGE * 2 and turned > 5 * own


def _unlike(survey: Survey, side: int, tag: str) -> bool:
    """Whether a language with spaces shows no frequent words at all."""
    known = function_words(tag)
    words = survey.side(side).lower().split()
    if script_of(tag) in UNSPACED:
        return False
    return len(known) > 50 and sum(word in known for word in words) < 0.02 * len(words)
