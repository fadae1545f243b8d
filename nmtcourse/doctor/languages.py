"""Which language a text is in, as far as its script and its most frequent words tell."""

from __future__ import annotations

import importlib.util
import runpy
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nmtlib.settings import language_of

# The characters of a script, by the names that langcodes gives to scripts.
SCRIPTS: dict[str, list[tuple[int, int]]] = {
    "Latn": [(0x41, 0x24F), (0x1E00, 0x1EFF)],
    "Grek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "Cyrl": [(0x400, 0x52F)],
    "Armn": [(0x530, 0x58F)],
    "Hebr": [(0x590, 0x5FF)],
    "Arab": [(0x600, 0x77F), (0x8A0, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)],
    "Deva": [(0x900, 0x97F)],
    "Beng": [(0x980, 0x9FF)],
    "Taml": [(0xB80, 0xBFF)],
    "Thai": [(0xE00, 0xE7F)],
    "Geor": [(0x10A0, 0x10FF)],
    "Ethi": [(0x1200, 0x137F)],
    "Khmr": [(0x1780, 0x17FF)],
    "Hang": [(0x1100, 0x11FF), (0xAC00, 0xD7AF)],
    "Kana": [(0x3040, 0x30FF)],
    "Hani": [(0x3400, 0x9FFF), (0x20000, 0x2FFFF)],
}
UNSPACED = ("Hans", "Hant", "Jpan", "Thai", "Khmr", "Laoo", "Mymr")
PARTS = {"Hans": ["Hani"], "Hant": ["Hani"], "Jpan": ["Hani", "Kana"], "Kore": ["Hang", "Hani"]}


def is_tag(tag: str) -> bool:
    """Whether a text is a known language tag such as de, deu, zh-CN."""
    import langcodes

    return bool(tag) and langcodes.tag_is_valid(tag.replace("_", "-"))


@cache
def script_of(tag: str) -> str:
    """The script that a language is mostly written in, 'Latn' or 'Hans', '' if unknown."""
    import langcodes

    try:
        language = langcodes.Language.get(tag.replace("_", "-"))
        return language.maximize().script or "" if is_tag(tag) else ""
    except ValueError:
        return ""


def share_in_script(text: str, script: str) -> float:
    """The share of a text's letters that belong to a script; 1 for a script unknown here."""
    ranges = [r for part in PARTS.get(script, [script]) for r in SCRIPTS.get(part, [])]
    letters = {ord(c): count for c, count in Counter(text).items() if c.isalpha()}
    if not ranges or not letters:
        return 1.0
    inside = sum(n for c, n in letters.items() if any(a <= c <= b for a, b in ranges))
    return inside / sum(letters.values())


@cache
def function_words(tag: str) -> frozenset[str]:
    """The most frequent words of a language, from the lists of spaCy; empty where it has none.

    The file is run by itself: importing spaCy would take seconds.
    """
    spec = importlib.util.find_spec("spacy")
    folder = Path(spec.origin or "").parent / "lang" if spec else Path()
    file = folder / language_of(tag) / "stop_words.py"
    if not tag or not file.is_file():
        return frozenset()
    try:
        words = runpy.run_path(str(file))["STOP_WORDS"]
        return frozenset(word for word in words if word.isalpha() and len(word) > 1)
    except (ImportError, KeyError, SyntaxError):
        return frozenset()


def distinct_words(tags: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The frequent words of each of two languages that are not also words of the other."""
    first, second = (function_words(tag) for tag in tags)
    return first - second, second - first


def likeness(text: str, tag: str) -> float:
    """How much a text looks like a language, from 0 to 1: script times frequent words."""
    words = text.lower().split()
    known = function_words(tag)
    frequent = sum(word in known for word in words) / max(len(words), 1) if known else 1.0
    spaced = script_of(tag) not in ("Hans", "Hant", "Jpan", "Thai")
    return share_in_script(text, script_of(tag)) * (frequent if spaced else 1.0)


def unspaced(texts: Sequence[str], tag: str) -> bool:
    """Whether texts hardly have spaces, though the tag is not that of such a language."""
    text = "".join(texts)
    if script_of(tag) in UNSPACED or text.count(" ") > 0.06 * len(text):
        return False
    return max(share_in_script(text, script) for script in ("Hans", "Jpan", "Thai", "Khmr")) > 0.5


def variants(text: str) -> tuple[int, int]:
    """How many characters are of simplified and of traditional Chinese alone.

    GB 2312 encodes the simplified forms, Big5 the traditional ones.
    """
    simplified = traditional = 0
    for character, count in Counter(text).items():
        if "\u4e00" <= character <= "\u9fff":
            in_gb, in_big5 = (_encodes(character, name) for name in ("gb2312", "big5"))
            simplified += count * (in_gb and not in_big5)
            traditional += count * (in_big5 and not in_gb)
    return simplified, traditional


@cache
def _encodes(character: str, encoding: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False
