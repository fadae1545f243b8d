"""What the helpers of the course say, in the language of the notebook.

What a cell prints and draws is written in its code, in its own language.  A helper has texts too: a
label, an alternative text, a hint.  It passes them to `say`, which finds them in `words/zh.toml`
once the notebook said `plots.setup("zh")`: English text to Chinese, `{}` for a number, `{…}` for
any text, `{0}` and `{1}` in another order.  A text that is the same in Chinese has itself there.
Nothing else is ever translated: what the reader prints stays as it is.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path

from nmtlib.errors import require_one_of

HERE = Path(__file__).parent
STRICT = "NMTLIB_STRICT_WORDS"  # set by tests and tools/execute.py: `say` refuses to stay English
# has words, none of them Chinese, and is no call such as my_rate(3)
ENGLISH = re.compile(r"^(?=.*[A-Za-z]{2})(?!.*\w\()[^\u3400-\u9fff]*$", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?|(?<!\w)nan(?!\w)")
COLUMNS = re.compile(r"(\n|\s{2,})")  # what parts the columns and lines of a table
MARKS = {  # of punctuation, with the space behind them; "/" stands between the words of a list
    "en": {":": ": ", ";": "; ", ",": ", ", "/": ", ", ".": ".", "(": " (", ")": ")"},
    "zh": {":": "：", ";": "；", ",": "，", "/": "、", ".": "。", "(": "（", ")": "）"},
}
_chosen = "en"


def choose_language(language: str) -> None:
    """Let the helpers speak a language in this process.  Raises ValueError for an unknown one."""
    global _chosen
    require_one_of("language", MARKS, language)
    _chosen = language


def chosen_language() -> str:
    """The language of the notebook that runs."""
    return _chosen


def say(text: str) -> str:
    """A text of the course in the language of the notebook; what no table has stays English.

    What stands between the columns of a table is looked up by itself, and its columns stay.

    Raises LookupError for an English text that no table has, where the variable STRICT is set.
    """
    if _chosen == "en":
        return text
    if (found := look_up(text, _chosen)) is not None:
        return found
    parts = COLUMNS.split(text)
    if len(parts) == 1:
        return match_form(text, _chosen) or left_as_it_is(text)
    for i in range(0, len(parts), 2):
        said = say(parts[i])
        if i + 1 < len(parts) and "\n" not in parts[i + 1]:
            space = len(parts[i + 1]) + width(parts[i]) - width(said)
            parts[i + 1] = " " * max(2, space)
        parts[i] = said
    return "".join(parts)


def left_as_it_is(text: str) -> str:
    """A text that no table has.  Raises LookupError where the author should see that."""
    if os.environ.get(STRICT) and ENGLISH.match(text):
        raise LookupError(
            f"{text!r} has no Chinese; add it to nmtcourse/teaching/words/{_chosen}.toml, "
            "with itself if it is the same in Chinese"
        )
    return text


def mark(sign: str) -> str:
    """A mark of punctuation in the language of the notebook, with the space behind it."""
    return MARKS[_chosen][sign]


def pad(text: str, columns: int) -> str:
    """A text with spaces behind it, so that it fills some columns, as f"{text:<8}" does in English.

    A Chinese character takes two columns.

    >>> pad("loss", 6) + "|", pad("损失", 6) + "|"
    ('loss  |', '损失  |')
    """
    return text + " " * (columns - width(text))


def width(text: str) -> int:
    """The columns that a text takes where all letters are equally wide."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


@cache
def words(language: str) -> dict[str, str]:
    """The texts of the helpers; the form with the most text of its own goes first.

    A shorter form would take only a part of such a text.
    """
    table = tomllib.loads((HERE / "words" / f"{language}.toml").read_text("utf-8"))
    ordered = sorted(table, key=lambda form: -len(form.replace("{…}", "").replace("{}", "")))
    return {form: table[form] for form in ordered}


def look_up(text: str, language: str) -> str | None:
    """What the table has for a whole text, whatever its numbers; None where it has nothing."""
    line = " ".join(text.split())
    if (found := words(language).get(line)) is not None:
        return found
    found = words(language).get(NUMBER.sub("{}", line))
    return None if found is None else found.format(*NUMBER.findall(line))


def match_form(text: str, language: str) -> str | None:
    """What the table has for a text that has other texts in it; None where it has nothing."""
    for form, translated in words(language).items():
        if "{…}" in form and (match := re.fullmatch(pattern(form), text)):
            return translated.replace("{…}", "{}").format(*match.groups())
    return None


@cache
def pattern(form: str) -> str:
    """The regular expression of the texts that have a form."""
    escaped = re.escape(form).replace(r"\{\}", f"({NUMBER.pattern})")
    return escaped.replace(r"\{…\}", "(.+?)")
