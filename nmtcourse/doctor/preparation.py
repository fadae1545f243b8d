"""Was test prepared as train was?  The splits are compared as distributions, not line by line.

Where a held-out split has characters that train never shows, or another share of something, we look
for one change of its text that makes it like train, and name it: a reader can undo what he knows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.survey import Survey
from nmtcourse.doctor.texts import FORMS, ZAWGYI

SIDES = ("source", "target")
MOSTLY = 0.6  # the share of new characters that a change must explain
CEDILLAS = str.maketrans("şţŞŢșțȘȚ", "șțȘȚşţŞŢ")
Change = Callable[[str], str]
# What may have been done to one split alone: what it is called, and the change of a character.
CHANGES: dict[str, tuple[Change, str]] = {
    "it has capitals, and train is lower-cased": (
        str.lower,
        "lower-case all splits, or set tokenizer.lowercase = true",
    ),
    "it has small letters, and train is in capitals": (
        str.upper,
        "lower-case all splits, or set tokenizer.lowercase = true",
    ),
    "one has ş ţ with a cedilla, the other ș ț with a comma": (
        lambda text: text.translate(CEDILLAS),
        "write the comma in all splits: sed 's/ş/ș/g; s/ţ/ț/g; s/Ş/Ș/g; s/Ţ/Ț/g'",
    ),
    "it has compatibility forms (full width, ligatures, Arabic presentation forms)": (
        lambda text: unicodedata.normalize("NFKC", text),
        "normalise all splits to NFKC",
    ),
    "it has accents, and train has none": (
        lambda text: re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFD", text)),
        "take train from its original, with accents",
    ),
}
# What a share of lines has, and what follows if one split has it and the other has not.
SPACED = re.compile(r"\w [.,!?;:](?: |$)")
CLOSE = re.compile(r"\w[.,!?;:](?: |$)")
STOPPED = re.compile(r"[.!?…。！？।။៕។؟][\"'”»)\s]*$")
BRACKETS = re.compile(r"[{\[(][^}\])]*[}\])]")  # as {n} and [Geb.] of a dictionary
FAR, LONGER = 3.0, 1.4  # times as long


def judge_preparation(surveys: Mapping[str, Survey]) -> Iterator[Finding]:
    """Held-out splits that were prepared otherwise than train, or are other text."""
    train = surveys["train"]
    for name, survey in surveys.items():
        if name != "train":
            yield from new_characters(train, survey)
            yield from other_spaces(train, survey)
            yield from other_encoding(train, survey)
            yield from other_lengths(train, survey)


def new_characters(train: Survey, survey: Survey) -> Iterator[Finding]:
    """Characters that train never shows; where a change of the text explains them, that."""
    name = survey.split.name
    for side, word in enumerate(SIDES):
        known = train.letters[side]
        new = survey.letters[side] - known - {" "}
        if not new:
            continue
        rows = sum(not new.isdisjoint(pair[side]) for pair in survey.sample)
        for why, (change, todo) in CHANGES.items():
            explained = {c for c in new if change(c) != c and known.issuperset(change(c))}
            # One capital may be chance: a change explains many characters, or many lines.
            lines = sum(not explained.isdisjoint(pair[side]) for pair in survey.sample)
            if len(explained) >= MOSTLY * len(new) and lines > 0.1 * len(survey.sample):
                detail = f"{word}: {why} ({listed(explained)})"
                yield Finding("prepared", name, lines, len(survey.sample), [], detail, todo)
                break
        detail = f"{len(new)} in the {word}: {listed(new)}"
        yield Finding("new characters", name, rows, len(survey.sample), [], detail)


def listed(characters: set[str]) -> str:
    """Some characters in a line."""
    return " ".join(sorted(characters)[:12]) + (" …" if len(characters) > 12 else "")


def other_spaces(train: Survey, survey: Survey) -> Iterator[Finding]:
    """Punctuation that is apart from the words in one split, and close to them in the other."""
    for side, word in enumerate(SIDES):
        texts = [[pair[side] for pair in split.sample] for split in (train, survey)]
        spaced, close = ([share(form, some) for some in texts] for form in (SPACED, CLOSE))
        for here, there, what in (
            (0, 1, "train has spaces before"),
            (1, 0, "it has spaces before"),
        ):
            if (
                spaced[here] > 0.5
                and spaced[there] < 0.3
                and close[there] > 0.5 > close[here] + 0.4
            ):
                detail = f"{word}: {what} punctuation, as tokenizers write it; the other has not"
                todo = "take both splits untokenized, or tokenize both in the same way"
                count = len(survey)
                yield Finding("prepared", survey.split.name, count, count, [], detail, todo)


def share(form: re.Pattern[str], texts: Sequence[str]) -> float:
    """The share of texts that hold a pattern."""
    return sum(bool(form.search(text)) for text in texts) / max(len(texts), 1)


def other_encoding(train: Survey, survey: Survey) -> Iterator[Finding]:
    """Letters in forms or an encoding that one split has alone."""
    for side, word in enumerate(SIDES):
        texts = [[pair[side] for pair in split.sample] for split in (train, survey)]
        for form, what in ((ZAWGYI, "Zawgyi"), (FORMS, "presentation forms")):
            first, second = (share(form, some) for some in texts)
            if max(first, second) > 0.1 and abs(first - second) > 0.1:
                detail = f"{word}: {what} in {first:.0%} of the lines of train, {second:.0%} here"
                count = len(survey)
                yield Finding("prepared", survey.split.name, count, count, [], detail)


def other_lengths(train: Survey, survey: Survey) -> Iterator[Finding]:
    """Sentences where train has entries, or of several times its length."""
    words, ends = [], []
    for split in (train, survey):
        sources = [BRACKETS.sub("", pair[0]) for pair in split.sample]
        words.append(float(np.median([len(text.split()) for text in sources])))
        ends.append(share(STOPPED, sources))
    detail = ""
    if max(words) > FAR * min(words):
        detail = f"a source has {words[1]:g} words, in train {words[0]:g} (medians)"
    elif abs(ends[0] - ends[1]) > 0.6 and max(words) > LONGER * min(words):
        detail = f"{ends[1]:.0%} of the sources end as sentences do, in train {ends[0]:.0%}"
    if detail:
        if ends[0] < 0.5 < ends[1]:
            detail += ": train is mostly entries, as of a dictionary, and this is sentences"
        count = len(survey)
        yield Finding("apart", survey.split.name, count, count, [], detail)
