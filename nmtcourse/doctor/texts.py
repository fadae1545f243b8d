"""What can be wrong inside one sentence, and its repair."""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from collections.abc import Callable, Set
from functools import cache

from nmtcourse.formats.languages import script_of_line
from nmtlib.data.corpus import LONGEST_WORD, is_visible
from nmtlib.data.tokenizers import without_marks
from nmtlib.specials import SPECIALS, UNK

SUSPICIOUS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f&<@#{\\]")  # of ASCII; most sentences have none
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")  # as in JSON
# A tag closes or has attributes with values; `a <b and c> d` is none.  A code that closes itself,
# such as <x id="1"/>, stands for something that the translation needs, but for a few of HTML.
ATTRIBUTE = r"""\s+[\w:-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>]+)"""
RESERVED = "|".join(SPECIALS)
TAG = re.compile(
    rf"(?!{RESERVED})</?[A-Za-z][\w:-]*(?:{ATTRIBUTE})*\s*>"
    r"|<(?:br|hr|img|wbr)\b[^<>]*>|<!--.*?-->|\{\\an?\d\}",
)
PLACEHOLDER = re.compile(
    r"(?<![\w%])%(?:(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?(?:l{0,2}[diufxXcs]|@)|\(\w+\)[sd]|[1-9])"
    r"(?![\w$%])|\$?\{\{?\s*[\w.:-]*\s*\}?\}|<(?!(?:br|hr|img|wbr)\b)[A-Za-z][\w:-]*\b[^<>]*/>"
)
BREAK = re.compile("[\x01-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
# Joiners are part of words in Persian and in scripts of India, and of emoji.
JOINERS = "\u200c\u200d"
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
    f"|(?<=[\\u0000-\\u058f\\u1e00-\\u1fff\\u3000-\\u9fff])[{JOINERS}]"
    f"|^[{JOINERS}]+|[{JOINERS}]+$"
)
# Between words of these scripts U+200B is what a space is elsewhere.
SEPARATED = ("Khmr", "Thai", "Laoo", "Mymr")
SEPARATOR, KEPT = "\u200b", "\ue000"  # the second stands for the first while a text is mended
# Letters as a PDF has them: one code for each form of an Arabic letter.
FORMS = re.compile("[\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdef\ufe70-\ufefc]+")
# Zawgyi, an old encoding of Burmese fonts, writes the vowel sign E before its consonant.
ZAWGYI = re.compile("(?<![\u1000-\u102a\u1039\u103b-\u103f\u104e-\u1055\u105a-\u1084])\u1031")
# A line that is one element, such as <url>…</url>, is no sentence, but for elements of text.
ELEMENT = re.compile(r"<([A-Za-z][\w:-]*)\b[^<>]*>.*</\1\s*>|</?([A-Za-z][\w:-]*)\b[^<>]*>")
OF_TEXT = frozenset(
    "a b bdo cite code div em font g h1 h2 h3 i li p q s seg span strong td u x".split()
)
PASSES = 20  # each resolves one level of escapes
DIGIT = re.compile(r"\d")
DIGITS = re.compile(r"\d+")
NUMBER = re.compile("\\d+(?:[.,'’·\u066b\u066c\u060c\uff0c\uff0e\u00a0\u202f]\\d+| \\d{3}(?!\\d))*")
SPACE = re.compile(r"[^\S ]")
WIDE = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufb00-\ufb06]")
IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # between them, wide letters are usual
PIECES = re.compile("[^\\s@]@@(?:\\s|$)|(?:^|\\s)▁|￭|(?:^|\\s)##\\w")
# The same of other text.
ODD = re.compile(
    "[\x00-\x08\x0a-\x1f&<@#{\x7f-\x9f\xad\u0300-\u036f\u061c\u180e\u200b-\u200f"
    "\u1031\u2028-\u202e\u2060-\u206f\u2581\ufb00-\ufb06\ufb50-\ufdcf\ufdd0-\uff00\uff10-\uff19"
    "\uff21-\uff3a\uff41-\uff5a\uffe0-\U0010ffff]"
    "|[\xa0-\u024f\u2010-\u203a\u20ac\u2122\u02c6\u02dc]{2}"
)
MISREAD = re.compile("[\u0080-\u024f\u2010-\u203a\u20ac\u2122\u02c6\u02dc]{2}")


NOTHING: frozenset[str] = frozenset()
ECHOES = (("marks", "underscore"), ("mojibake", "return"))  # a kind, and what it also looks like


def defects(text: str) -> Set[str]:
    """The kinds of what is wrong inside a sentence."""
    odd = SUSPICIOUS if text.isascii() else ODD
    short = len(text) <= LONGEST_WORD
    if short and not odd.search(text) and unicodedata.is_normalized("NFC", text):
        return NOTHING
    kinds = {kind for kind, holds in TESTS.items() if holds(text)}
    return kinds - {echo for cause, echo in ECHOES if cause in kinds}


def _misread(text: str) -> bool:
    if not MISREAD.search(text):
        return False
    import ftfy

    return ftfy.fix_encoding(text) != text


def _decomposed(text: str) -> bool:
    return not unicodedata.is_normalized("NFC", text)


def _entity(text: str) -> bool:
    if ESCAPE.search(text):
        return True
    return any(html.unescape(entity) != entity for entity in ENTITY.findall(text))


def _long_word(text: str) -> bool:
    return len(text) > LONGEST_WORD and max(map(len, text.split()), default=0) > LONGEST_WORD


def _reserved(text: str) -> bool:
    return not set(SPECIALS[:UNK]).isdisjoint(text.split())


def _unseen(text: str) -> bool:
    return bool(UNSEEN.search(protected(text).replace("\ufeff", "")))


def protected(text: str) -> str:
    """A text whose separators of words are kept: `KEPT` for `SEPARATOR` in scripts that use it."""
    if SEPARATOR in text and script_of_line(text) in SEPARATED:
        return text.replace(SEPARATOR, KEPT)
    return text


def is_one_element(text: str) -> bool:
    """Whether a line is one element of markup, or one tag, that is not made for text."""
    element = ELEMENT.fullmatch(text.strip())
    if not element:
        return False
    return str(element[1] or element[2]).lower() not in OF_TEXT


TESTS: dict[str, Callable[[str], object]] = {
    "word": _long_word,
    "reserved": _reserved,
    "nul": lambda text: "\0" in text,
    "presentation": FORMS.search,
    "zawgyi": ZAWGYI.search,
    "damaged": lambda text: "\ufffd" in text,
    "mojibake": _misread,
    "entities": _entity,
    "tags": TAG.search,
    "marks": PIECES.search,
    "underscore": lambda text: "▁" in text,
    "return": BREAK.search,
    "mark of order": lambda text: "\ufeff" in text,
    "invisible": _unseen,
    "decomposed": _decomposed,
    "wide": lambda text: WIDE.search(text) and not IDEOGRAPH.search(text),
}


def is_empty(text: str) -> bool:
    """Whether nothing can be seen of a text."""
    text = text.strip()
    return not text[:1].isalnum() and not is_visible(UNSEEN.sub("", text))


def mended(text: str) -> str:
    """The sentence without those of its defects that can be mended; white space becomes single.

    >>> mended("er sagt &amp;quot;ja&amp;quot; , scho\\u0308n\\u200b")
    'er sagt "ja" , schön'
    >>> mended("das ist ein ab@@ c"), mended("▁Das ▁ist ▁gu t")
    ('das ist ein abc', 'Das ist gut')
    """
    for _ in range(PASSES):
        if (better := mended_once(text)) == text:
            break
        text = better
    return text


def mended_once(text: str) -> str:
    """One pass of `mended`: what it resolves may hold more, as &amp;lt;b&amp;gt; holds a tag."""
    if MISREAD.search(text):
        import ftfy

        text = ftfy.fix_encoding(text)
    text = ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    if ESCAPE.search(text):  # two of them may be the halves of one character
        text = ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = FORMS.sub(lambda forms: unicodedata.normalize("NFKC", forms[0]), text.replace("\0", ""))
    text = SPACE.sub(" ", BREAK.sub(" ", TAG.sub(" ", text)))
    text = UNSEEN.sub("", protected(text)).replace(KEPT, SEPARATOR)
    text = without_marks(text).replace("▁", "_")
    return " ".join(unicodedata.normalize("NFC", text).split())


def placeholders(text: str) -> list[str]:
    """The codes of a text that stand for something, sorted: %s, {0}, ${user}, <x id="1"/>."""
    return sorted(PLACEHOLDER.findall(text))


def values(text: str) -> list[str]:
    """The numbers of a text, sorted, whatever their digits and separators are.

    >>> values("1.250,50 und 7") == values("1,250.5 and ٧") == values("7 １２５０．５")
    True
    """
    return sorted(map(value, NUMBER.findall(text)))


def value(number: str) -> str:
    """The value of a number: a last group of other than three digits is its fraction."""
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else " " for c in number)
    *whole, last = digits.split()
    if whole and len(last) != 3:
        return f"{int(''.join(whole))}.{last.rstrip('0')}".rstrip(".")
    return str(int("".join([*whole, last])))


def same_numbers(source: str, target: str) -> bool:
    """Whether two sides have the same numbers, as far as digits tell.

    They are also the same group by group: a date may be 12.05.2020 and 2020-05-12.  Numerals such
    as 三 or ½ are not read, so beside them nothing is known.
    """
    if not DIGIT.search(source) and not DIGIT.search(target):
        return True
    if values(source) == values(target):
        return True
    groups = [sorted(map(value, DIGITS.findall(text))) for text in (source, target)]
    return groups[0] == groups[1] or any(
        c.isnumeric() and not c.isdecimal() for c in f"{source}{target}"
    )


def key_of(text: str) -> str:
    """What two sentences have in common that mean the same text: mended, then `bare`."""
    return bare(mended(text))


@cache
def _between() -> re.Pattern[str]:
    """Everything that is no letter, no digit and no mark on a letter."""
    characters = map(chr, (*range(0xD800), *range(0xE000, min(0x10000, sys.maxunicode))))
    marks = "".join(c for c in characters if unicodedata.category(c)[0] in "PSZC")
    return re.compile(f"[{re.escape(marks)}\\s]+")


def bare(text: str) -> str:
    """The letters and digits of a mended text, whatever their case, spaces and punctuation.

    Looser, and twice as fast, as `nmtcourse.recipes.monolingual.comparable`, which keeps the spaces
    between words.  Marks on letters, such as the vowel signs of Hindi, are kept.

    >>> bare("Zwei  Hunde, im Schnee.") == bare("zwei Hunde im Schnee")
    True
    >>> bare("की") == bare("का")
    False
    """
    return _between().sub("", text.casefold()) or text
