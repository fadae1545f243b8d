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
def read_translations() -> tuple[dict[str, str], dict[str, str], list[tuple[re.Pattern, str]]]:
    """Chinese phrases by their English, long texts by digest, and phrases with parts."""
    phrases: dict[str, str] = {}
    texts: dict[str, str] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        tables = tomllib.loads(file.read_text("utf-8"))
        phrases |= tables.get("phrases", {})
        for entry in tables["texts"].values():
            texts[entry["english"]] = entry["text"].strip("\n")
    partial = {english: text for english, text in phrases.items() if "{" in english}
    by_length = sorted(partial, key=lambda text: -len(re.sub(r"{\w+}", "", text)))
    return phrases, texts, [(pattern(english), partial[english]) for english in by_length]


def pattern(phrase: str) -> re.Pattern:
    """What finds a phrase and its parts.

    >>> pattern("{count} batches").fullmatch("12 batches")["count"]
    '12'
    """
    parts = re.split(r"{(\w+)}", phrase)
    for place, part in enumerate(parts):
        if place % 2:  # a name in braces
            parts[place] = f"(?P<{part}>.+?)"
        else:
            parts[place] = re.escape(part)
    return re.compile("".join(parts), re.DOTALL)


def chinese(text: str) -> str:
    """A text in Chinese, or as it is where it has no translation."""
    phrases, texts, partial = read_translations()
    if text in phrases:
        return phrases[text]
    long_text = texts.get(digest(text))
    if long_text is not None:
        return long_text
    call = GIVEN.fullmatch(text)
    if call:
        return f"{chinese(call[1])} 时：{chinese(call[2])}"
    if ERROR.match(text):
        return text
    is_sentence = text.endswith((".", "?"))  # no phrase takes one for its part
    for english, translated in partial:
        match = english.fullmatch(text)
        if match and is_sentence == translated.endswith("。"):
            parts = {name: chinese(part) for name, part in match.groupdict().items()}
            return SPACES.sub(" ", translated.format_map(parts))
    return text


def speaks(language: str) -> Say:
    """What turns an English text into one of a language."""
    return chinese if language == "zh" else str


def language_of(page: str | bytes = b"") -> str:
    """The language of a page of homework, from its metadata."""
    chosen = os.environ.get(LANGUAGE, "")
    if chosen:
        return "zh" if chosen.lower().startswith("zh") else "en"
    try:
        return str(json.loads(page)["metadata"]["nmtlib"]["language"])
    except (ValueError, KeyError, TypeError):
        return "en"


def language_here(number: str, folder: Path | None = None) -> str:
    """The language of the page of an assignment in a folder, or in the present one."""
    pages = sorted((folder or Path.cwd()).glob(f"{number}_*.ipynb"))
    if not pages:
        return language_of()
    try:
        return language_of(pages[0].read_bytes())
    except OSError:
        return "en"
