"""Pictures and outputs of a notebook in its own language.

A notebook in a folder named `zh` has the code of the English one.  Once `speak` was called there,
what its code writes into a figure or prints is looked up in the tables `words/zh`, its own and the
common one: English text to Chinese, `{}` for a number, `{…}` for any text, `{0}` and `{1}` in
another order.  All else stays English.
"""

from __future__ import annotations

import builtins
import json
import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.text import Text

HERE = Path(__file__).parent
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?|(?<!\w)nan(?!\w)")
PARTS = re.compile(r"(\n|\s{2,}|\s*\|\s*|</?\w[^>]*>|\*\*|`[^`\n]*`)")  # between texts of a table
# A row and the note of `by_seed` behind it, which is translated by itself.
NOTED = re.compile(r"(.*?\S)(\s{2,})((?:seeds? [\d, ]+ )?recorded)", re.DOTALL)
WORDS: dict[str, str] = {}  # of the language that is spoken; empty for English
untranslated: dict[str, None] = {}  # what was looked up in vain, in order


def language_here() -> str:
    """The language of the notebook that runs: "zh" in a folder of that name, else "en"."""
    return "zh" if Path.cwd().name == "zh" else "en"


def number_of(cell: str) -> str:
    """The number of the notebook in this folder that has a cell with this code; "" for none."""
    for path in Path().glob("[01]*.ipynb") if language_here() == "zh" else ():
        cells = json.loads(path.read_text("utf-8"))["cells"]
        if cell in ["".join(each["source"]) for each in cells]:
            return path.name[:2]
    return ""


def speak(language: str, number: str = "") -> None:
    """Translate what is drawn and printed in this process from now on; "en" changes nothing.

    A notebook has the words of its number, 03b those of 03 too: what `none` is in one is a word
    that a model puts out in another.  Without a number all tables count.
    """
    words: dict[str, str] = {}
    for name in (f"{number}*", "common"):
        for path in sorted((HERE / "words" / language).glob(f"{name}.toml")):
            words |= tomllib.loads(path.read_text("utf-8"))
    # The form with the most text of its own goes first: a shorter one takes only a part of it.
    ordered = sorted(words, key=lambda form: -len(form.replace("{…}", "").replace("{}", "")))
    WORDS.clear()
    WORDS.update((form, words[form]) for form in ordered)
    translate.cache_clear()
    if WORDS and builtins.print is PRINT:
        builtins.print = print_translated
        Text.set_text = set_translated_text  # type: ignore[method-assign, assignment]


def say(text: str) -> str:
    """A text in the language that is spoken, broken into about as many lines as it had.

    What stands between spaces, bars or tags of a table is looked up by itself.
    """
    if not WORDS or not text.strip():
        return text
    if noted := NOTED.fullmatch(text):
        return f"{say(noted[1])}{noted[2]}{say(noted[3])}"
    inner = text.strip()
    if (whole := translate(inner)) is not None:
        size = -(-len(whole) // (inner.count("\n") + 1))
        lines = (whole[i : i + size] for i in range(0, len(whole), size))
        return text.replace(inner, "\n".join(lines))
    parts = PARTS.split(text)
    if len(parts) == 1:
        if re.search(r"[A-Za-z]{3}", text) and not re.search(r"[\u3400-\u9fff]", text):
            untranslated[inner] = None
        return text
    return "".join(aligned(parts))


def aligned(parts: list[str]) -> list[str]:
    """Texts and what is between them, by turns: translated, with columns as wide as before."""
    for i in range(0, len(parts), 2):
        spoken = say(parts[i])
        missing = width(parts[i]) - width(spoken)
        if i + 1 < len(parts) and parts[i + 1].isspace() and "\n" not in parts[i + 1]:
            parts[i + 1] = " " * max(2, len(parts[i + 1]) + missing)
        parts[i] = spoken
    return parts


def width(text: str) -> int:
    """The columns that a text takes in a fixed pitch: two for a Chinese character."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


@cache
def translate(text: str) -> str | None:
    """What the tables have for a text; None where they have nothing."""
    line = " ".join(text.split())
    if (form := line) in WORDS or (form := NUMBER.sub("{}", line)) in WORDS:
        return WORDS[form].format(*NUMBER.findall(line))
    for form in WORDS:
        if "{…}" in form and (match := re.fullmatch(pattern(form), text)):
            return WORDS[form].replace("{…}", "{}").format(*map(say, match.groups()))
    return None


@cache
def pattern(form: str) -> str:
    """The regular expression of the texts that have a form."""
    escaped = re.escape(form).replace(r"\ ", r"\s+").replace(r"\{\}", f"({NUMBER.pattern})")
    return escaped.replace(r"\{…\}", "(.+?)")


PRINT, SET_TEXT = builtins.print, Text.set_text


def print_translated(
    *values: object, sep: str | None = " ", end: str | None = None, **options: Any
) -> None:
    """The `print` of a notebook that is not in English."""
    end = {", ": "，", "; ": "；"}.get(end or "", end)
    PRINT(say((" " if sep is None else sep).join(map(str, values))), end=end, **options)


def set_translated_text(self: Text, text: object) -> None:
    """`Text.set_text` of a notebook that is not in English."""
    SET_TEXT(self, "" if text is None else say(str(text)))
