"""Which language and script a text is in, as far as its letters and most frequent words tell."""

from __future__ import annotations

import importlib.util
import re
import runpy
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# Scripts by the first word of their characters' Unicode names, with the codes of ISO 15924.
SCRIPTS = dict(
    pair.split(":")
    for pair in "LATIN:Latn GREEK:Grek CYRILLIC:Cyrl ARMENIAN:Armn HEBREW:Hebr ARABIC:Arab "
    "SYRIAC:Syrc THAANA:Thaa NKO:Nkoo DEVANAGARI:Deva BENGALI:Beng GURMUKHI:Guru GUJARATI:Gujr "
    "ORIYA:Orya TAMIL:Taml TELUGU:Telu KANNADA:Knda MALAYALAM:Mlym SINHALA:Sinh THAI:Thai LAO:Laoo "
    "TIBETAN:Tibt MYANMAR:Mymr GEORGIAN:Geor HANGUL:Hang ETHIOPIC:Ethi CHEROKEE:Cher KHMER:Khmr "
    "MONGOLIAN:Mong TIFINAGH:Tfng HIRAGANA:Kana KATAKANA:Kana CJK:Hani ADLAM:Adlm".split()
)
# The languages that tables of text are mostly in, by their names.
NAMES = {
    name: tag
    for tag, names in (
        entry.split(":")
        for entry in "ar:arabic,العربية bg:bulgarian,български ca:catalan,català cs:czech,čeština "
        "da:danish,dansk de:german,deutsch el:greek,ελληνικά en:english es:spanish,español "
        "en:英文,英语 et:estonian,eesti eu:basque,euskara fa:persian,farsi,فارسی fi:finnish,suomi "
        "fr:french,français he:hebrew,עברית hi:hindi,हिन्दी hr:croatian,hrvatski "
        "hu:hungarian,magyar id:indonesian it:italian,italiano ja:japanese,日本語 ko:korean,한국어 "
        "lt:lithuanian,lietuvių lv:latvian,latviešu nl:dutch,nederlands no:norwegian,norsk "
        "pl:polish,polski pt:portuguese,português ro:romanian,română ru:russian,русский "
        "sk:slovak,slovenčina sl:slovenian,slovenščina sr:serbian,српски sv:swedish,svenska "
        "th:thai,ไทย tr:turkish,türkçe uk:ukrainian,українська ur:urdu,اردو vi:vietnamese "
        "zh:chinese,mandarin,中文,汉语,漢語".split()
    )
    for name in names.split(",")
}
UNSPACED = ("Hans", "Hant", "Hani", "Jpan", "Kana", "Thai", "Khmr", "Laoo", "Mymr", "Tibt")
# What a line in the script of a tag may look like: a line of Japanese may have no kana.
CHINESE = frozenset({"Hans", "Hant", "Hani"})
FITTING = {
    "Hans": {"Hans", "Hani"},
    "Hant": {"Hant", "Hani"},
    "Jpan": CHINESE | {"Kana"},
    "Kore": CHINESE | {"Hang"},
}
CODES = ["", *sorted({*SCRIPTS.values(), *CHINESE})]  # a row keeps the place of its script here


def is_tag(tag: str) -> bool:
    """Whether a text is a known language tag such as de, deu, zh-CN."""
    import langcodes

    return bool(tag) and langcodes.tag_is_valid(tag.replace("_", "-"))


@cache
def language_named(name: str) -> str:
    """The tag of a language whose name a text holds, in English or in the language; '' for none.

    >>> language_named("Chinese (translation)"), language_named("Deutsch"), language_named("No.")
    ('zh', 'de', '')
    """
    for word in re.findall(r"[^\W\d_]+", name.lower()):
        if word in NAMES:
            return NAMES[word]
    return ""


@cache
def language_of_country(code: str) -> str:
    """The usual language of a country that is taken for a language: zh of cn; '' for none.

    >>> language_of_country("jp"), language_of_country("ua"), language_of_country("xx")
    ('ja', 'uk', '')
    """
    import langcodes

    if len(code) != 2 or not code.isascii() or not code.isalpha():
        return ""
    language = langcodes.Language.get(f"und-{code.upper()}").maximize().language or ""
    return "" if language in ("und", "en", "") or code.lower() == language else language


@cache
def forms(tag: str) -> tuple[str, str, str]:
    """A tag in one spelling, its language with its script, and its language; '' for no tag.

    >>> forms("ZH_tw"), forms("cmn-Hans"), forms("deu")
    (('zh-TW', 'zh-Hant', 'zh'), ('zh-Hans', 'zh-Hans', 'zh'), ('de', 'de-Latn', 'de'))
    """
    import langcodes

    if not is_tag(tag):
        return "", "", ""
    exact = langcodes.standardize_tag(tag.replace("_", "-"), macro=True)
    language = exact.partition("-")[0]
    return exact, f"{language}-{script_of(exact)}", language


@cache
def script_of(tag: str) -> str:
    """The script that a tag names, or that its language is mostly written in; '' if unknown."""
    import langcodes

    return (
        langcodes.Language.get(tag.replace("_", "-")).maximize().script or "" if is_tag(tag) else ""
    )


@cache
def scripts_of(tag: str) -> frozenset[str]:
    """All scripts that a language is written in somewhere: Serbian in Cyrl and Latn."""
    from langcodes.data_dicts import LIKELY_SUBTAGS

    full = (value.split("-") for value in LIKELY_SUBTAGS.values())
    return frozenset(parts[1] for parts in full if parts[0] == forms(tag)[2])


@cache
def script_of_character(character: str) -> str:
    """The script of a letter, '' for any other character."""
    name = unicodedata.name(character, "") if character.isalpha() else ""
    name = name.removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    return SCRIPTS.get(name.partition(" ")[0], "")


def script_shares(text: str) -> Counter[str]:
    """How many letters of a text belong to each script."""
    shares: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of_character(character):
            shares[script] += count
    return shares


def script_of_line(text: str) -> str:
    """The script of most letters of a line, '' without letters.

    Chinese is Hans or Hant where the line has more characters of the one than of the other.

    >>> [script_of_line(t) for t in ("Das ist 7 .", "это", "汉字", "漢字", "中文", "これは本です")]
    ['Latn', 'Cyrl', 'Hans', 'Hant', 'Hani', 'Kana']
    """
    if text.isascii():
        return "Latn" if any(map(str.isalpha, text)) else ""
    shares = script_shares(text)
    if shares["Kana"] and shares["Kana"] + shares["Hani"] > sum(shares.values()) / 2:
        return "Kana"
    script = max(shares, key=shares.__getitem__, default="")
    if script != "Hani":
        return script
    forms_of = Counter(map(variant, text))
    if forms_of["Hans"] == forms_of["Hant"]:
        return "Hani"
    return "Hans" if forms_of["Hans"] > forms_of["Hant"] else "Hant"


def fits(script: str, expected: str) -> bool:
    """Whether a line in one script may be text in another; unknown scripts fit."""
    known = expected in FITTING or expected in CODES[1:]
    return not script or not known or script in FITTING.get(expected, {expected})


@cache
def function_words(tag: str) -> frozenset[str]:
    """The most frequent words of a language, from the lists of spaCy; empty where it has none.

    A list in another script than the tag's is none.  The file is run by itself: importing spaCy
    would take seconds.
    """
    import langcodes

    spacy = importlib.util.find_spec("spacy")
    language = langcodes.standardize_tag(tag).partition("-")[0] if spacy and is_tag(tag) else ""
    languages = Path(spacy.origin or "").parent / "lang" if spacy else Path()
    file = languages / {"no": "nb", "cmn": "zh"}.get(language, language) / "stop_words.py"
    if not language or not file.is_file():
        return frozenset()
    try:
        words = runpy.run_path(str(file))["STOP_WORDS"]
    except (ImportError, KeyError, SyntaxError):
        return frozenset()
    fitting = (word for word in words if word.isalpha() and len(word) > 1)
    return frozenset(word for word in fitting if fits(script_of_line(word), script_of(tag)))


def likeliest(text: str, script: str) -> tuple[str, float]:
    """The language with a list in a script that has the largest share of a text's words."""
    spec = importlib.util.find_spec("spacy")
    lists = (Path(spec.origin or "").parent / "lang").glob("*/stop_words.py") if spec else ()
    counts = Counter(text.lower().split())
    shares = {"": 0.0}
    for tag in (path.parent.name for path in lists):
        if script_of(tag) == script:
            known = [counts[word] for word in function_words(tag) if word in counts]
            if len(known) >= 5:  # fewer may be words of another language by chance
                shares[tag] = sum(known) / counts.total()
    best = max(sorted(shares), key=shares.__getitem__)
    return best, shares[best]


def distinct_words(tags: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The frequent words of each of two languages that are not also words of the other.

    Both are empty unless both languages have a list: without one, nothing can be judged.
    """
    first, second = (function_words(tag) for tag in tags)
    return (first - second, second - first) if first and second else (frozenset(), frozenset())


def likeness(text: str, tag: str) -> float:
    """How much a text looks like a language, from 0 to 1: script times frequent words."""
    shares, script = script_shares(text), script_of(tag)
    inside = sum(n for code, n in shares.items() if fits(code, script)) / max(shares.total(), 1)
    words, known = text.lower().split(), function_words(tag)
    if not known or script in UNSPACED:
        return inside
    return inside * sum(word in known for word in words) / max(len(words), 1)


def is_unspaced(text: str) -> bool:
    """Whether most letters of a text are of scripts that put no spaces between words."""
    shares = script_shares(text)
    return sum(shares[script] for script in UNSPACED) > 0.5 * max(sum(shares.values()), 1)


def unspaced(texts: Sequence[str], tag: str) -> bool:
    """Whether texts hardly have spaces, though the tag is not that of such a language."""
    text = "".join(texts)
    known = script_of(tag) in UNSPACED or text.count(" ") > 0.06 * len(text)
    return not known and is_unspaced(text)


@cache
def variant(character: str) -> str:
    """Whether a character is of simplified or of traditional Chinese alone, otherwise ''.

    GB 2312 encodes the simplified forms, Big5 the traditional ones.
    """
    if not "\u4e00" <= character <= "\u9fff":
        return ""
    in_gb, in_big5 = (_encodes(character, name) for name in ("gb2312", "big5"))
    return "" if in_gb == in_big5 else "Hans" if in_gb else "Hant"


def _encodes(character: str, encoding: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False
