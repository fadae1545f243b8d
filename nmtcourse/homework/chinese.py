"""The homework in Chinese: pages, hints, and what a check says.

`zh/NN.toml` has the texts of an assignment, `zh/common.toml` what all of them share: phrases by
their English text, in which {name} is any part, and long texts by the digest of the English one. A
text without a translation stays English.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("zh")
LANGUAGE = "NMTLIB_LANG"  # "zh" or "en" decides; otherwise --lang or the page does
ERROR = re.compile(r"\w*(Error|Exception|Exit|Interrupt)\b")  # what Python says stays as it is
GIVEN = re.compile(r"for ((?:[^{}]|{[^{}]*})+?): (.+)", re.DOTALL)  # arguments, what they give
SPACES = re.compile(  # missing ones, between Chinese and Latin letters, digits or code
    r"(?<=[\u3400-\u9fff])(?=[-`(\[A-Za-z0-9])|(?<=[%`)\]A-Za-z0-9])(?=[\u3400-\u9fff])"
)
Say = Callable[[str], str]


def digest(text: str) -> str:
    """What tells whether an English text is still the one that was translated."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def known() -> tuple[dict[str, str], dict[str, str], list[tuple[re.Pattern, str]]]:
    """Chinese phrases by their English, long texts by digest, and phrases with parts."""
    phrases: dict[str, str] = {}
    texts: dict[str, str] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        kept = tomllib.loads(file.read_text("utf-8"))
        phrases |= kept.get("phrases", {})
        texts |= {each["english"]: each["text"].strip("\n") for each in kept["texts"].values()}
    partial = {english: text for english, text in phrases.items() if "{" in english}
    by_length = sorted(partial, key=lambda text: -len(re.sub(r"{\w+}", "", text)))
    return phrases, texts, [(pattern(english), partial[english]) for english in by_length]


def pattern(phrase: str) -> re.Pattern:
    """What finds a phrase and its parts.

    >>> pattern("{count} batches").fullmatch("12 batches")["count"]
    '12'
    """
    parts = re.split(r"{(\w+)}", phrase)
    found = [f"(?P<{part}>.+?)" if i % 2 else re.escape(part) for i, part in enumerate(parts)]
    return re.compile("".join(found), re.DOTALL)


def chinese(text: str) -> str:
    """A text in Chinese, or as it is where it has no translation."""
    phrases, texts, partial = known()
    if text in phrases:
        return phrases[text]
    if (long := texts.get(digest(text))) is not None:
        return long
    if found := GIVEN.fullmatch(text):
        return f"{chinese(found[1])} 时：{chinese(found[2])}"
    sentence = text.endswith((".", "?"))  # no phrase takes one for its part
    for english, translated in partial if not ERROR.match(text) else ():
        if sentence == translated.endswith("。") and (found := english.fullmatch(text)):
            parts = {name: chinese(part) for name, part in found.groupdict().items()}
            return SPACES.sub(" ", translated.format_map(parts))
    return text


def speaks(language: str) -> Say:
    """What turns an English text into one of a language."""
    return chinese if language == "zh" else str


def language_of(page: str | bytes = b"") -> str:
    """The language of a page of homework, from its metadata."""
    if chosen := os.environ.get(LANGUAGE, ""):
        return "zh" if chosen.lower().startswith("zh") else "en"
    try:
        return str(json.loads(page)["metadata"]["nmtlib"]["language"])
    except (ValueError, KeyError, TypeError):
        return "en"


def language_here(number: str, folder: Path | None = None) -> str:
    """The language of the page of an assignment in a folder, or in the present one."""
    pages = sorted((folder or Path.cwd()).glob(f"{number}_*.ipynb"))
    try:
        return language_of(pages[0].read_bytes() if pages else b"")
    except OSError:
        return "en"
