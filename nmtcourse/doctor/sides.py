"""Is each side the language that it should be, in all splits the same way round?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.languages import UNSPACED, function_words, is_tag, script_of
from nmtcourse.doctor.survey import Survey

CLEARLY = 1.5  # how much likelier the other way round must be
LANGUAGE = 0.02  # the share of frequent words that a side has of its language
SIDES = ("source", "target")


def judge_tags(tags: tuple[str, str]) -> Iterator[Finding]:
    """Language tags that are none."""
    if not any(tags):
        yield Finding("language", "settings", detail="none is given", level_given="note",
                      todo="give them with --languages, such as: --languages de en")  # fmt: skip
        return
    for side, tag in zip(SIDES, tags, strict=True):
        if not is_tag(tag):
            yield Finding(
                "language", "settings", detail=f"{side}_language = {tag!r}",
                todo="use a tag such as de, en, zh, pt-BR: tokenizers and scores depend on it",
            )  # fmt: skip
    if tags[0] == tags[1] and all(tags):
        yield Finding("language", "settings", detail=f"both languages are {tags[0]!r}",
                      todo="give the source and the target language")  # fmt: skip


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


def of(survey: Survey) -> list[tuple[int, str]]:
    """The first pairs of a split, as examples."""
    return [(i, " | ".join(pair)) for i, pair in enumerate(survey.sample[:2], start=1)]


def against_tags(survey: Survey, tags: tuple[str, str]) -> str:
    """Why a split is the other way round than its language tags; '' if it is not, or unknown."""
    scripts = [script_of(tag) for tag in tags]
    if all(scripts) and scripts[0] != scripts[1]:
        here = sum(survey.scripts())
        there = sum(Survey.scripts(_turned(survey)))
        return f"its letters are those of {tags[1]}-{tags[0]}" if there > here + 1 else ""
    words = [frequent_share(survey, side, tag) for side in (0, 1) for tag in tags]
    right, wrong = words[0] + words[3], words[1] + words[2]
    if wrong > LANGUAGE and wrong > 3 * right:
        return f"its frequent words are those of {tags[1]}-{tags[0]}"
    return ""


def _turned(survey: Survey) -> Survey:
    other = Survey.__new__(Survey)
    other.sample, other.tags = [(t, s) for s, t in survey.sample], survey.tags
    return other


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
    other = share(0, words[1]) + share(1, words[0])
    if other > CLEARLY * own and other > 0.5:
        return "its words are those of the other side of train"
    return ""


def judge_scripts(survey: Survey, tags: tuple[str, str]) -> Iterator[Finding]:
    """A side that is in another script, or has no frequent word of its language."""
    for side, (tag, share) in enumerate(zip(tags, survey.scripts(), strict=True)):
        if share < 0.5 and len(survey.sample) >= 5:
            yield Finding(
                "script", survey.split.name, len(survey), len(survey), of(survey),
                f"{share:.0%} of the letters of the {SIDES[side]} are in the script of {tag!r}",
                "give the right file, or the right tag",
            )  # fmt: skip
        elif len(survey.sample) >= 50 and _foreign(survey, side, tags):
            yield Finding(
                "untranslated", survey.split.name, len(survey), len(survey), of(survey),
                f"the {SIDES[side]} has the frequent words of {tags[1 - side]!r}, not of {tag!r}",
                "give the right file, or the right tag", "wrong",
            )  # fmt: skip
        elif len(survey.sample) >= 50 and tag and _unlike(survey, side, tag):
            yield Finding(
                "other language", survey.split.name, len(survey), len(survey), of(survey),
                f"the {SIDES[side]} hardly has a frequent word of {tag!r}",
            )  # fmt: skip
    for side in (0, 1):
        simplified, traditional = survey.variants(side)
        if tags[side].startswith("zh") and min(simplified, traditional) > 0.02 * (
            simplified + traditional
        ):
            detail = f"{simplified:,} characters are simplified only, {traditional:,} traditional"
            yield Finding("variants", survey.split.name, traditional, 0, [], detail,
                          "convert all of it to one form, for example with OpenCC")  # fmt: skip


def _foreign(survey: Survey, side: int, tags: tuple[str, str]) -> bool:
    """Whether a side is in the language of the other side."""
    own, other = (frequent_share(survey, side, tag) for tag in (tags[side], tags[1 - side]))
    return other > LANGUAGE * 2 and other > 5 * own


def _unlike(survey: Survey, side: int, tag: str) -> bool:
    """Whether a language with spaces shows no frequent words at all."""
    known = function_words(tag)
    words = survey.side(side).lower().split()
    if script_of(tag) in UNSPACED:
        return False
    return len(known) > 50 and sum(word in known for word in words) < 0.02 * len(words)
