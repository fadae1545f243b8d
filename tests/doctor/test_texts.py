"""What is wrong inside one sentence is named, and mended without touching what is right."""

import unicodedata

from nmtcourse.doctor.texts import defects, mended

PLAIN = "Er sagt: „Ja“, 3 < 4 & 5; schön!"
BROKEN = {  # text, its kind, and what it should be
    "NFD": (unicodedata.normalize("NFD", "schöne Äpfel"), "decomposed", "schöne Äpfel"),
    "zero width": ("ein\u200b Hund", "invisible", "ein Hund"),
    "soft hyphen": ("Donau\u00addampf", "invisible", "Donaudampf"),
    "joiner in Latin": ("ein\u200d Hund", "invisible", "ein Hund"),
    "byte order mark": ("\ufeffein Hund", "mark of order", "ein Hund"),
    "lone CR": ("ein\rHund", "return", "ein Hund"),
    "line separator": ("ein\u2028Hund", "return", "ein Hund"),
    "NEL": ("ein\x85Hund", "return", "ein Hund"),
    "entity": ("er sagt &quot;ja&quot;", "entities", 'er sagt "ja"'),
    "number entity": ("Tom&#39;s", "entities", "Tom's"),
    "escaped twice": ("A &amp;amp; B", "entities", "A & B"),
    "JSON": ("gr\\u00fcn", "entities", "grün"),
    "markup": ("ein <b>Hund</b>", "tags", "ein Hund"),
    "subtitle": ("{\\an8}ein Hund", "tags", "ein Hund"),
    "misread": ("schÃ¶n", "mojibake", "schön"),
    "misread ß": ("wei\u00c3\u009f", "mojibake", "weiß"),
    "@@": ("ein Hu@@ nd", "marks", "ein Hund"),
    "▁": ("▁ein ▁Hu nd", "marks", "ein Hund"),
    "##": ("ein Hu ##nd", "marks", "ein Hund"),
    "￭": ("ein Hund ￭.", "marks", "ein Hund."),
    "blank line": ("der ▁ Hund", "marks", "der _ Hund"),
    "lost": ("sch\ufffdn", "damaged", "sch\ufffdn"),
    "wide": ("ＡＢＣ", "wide", "ＡＢＣ"),
    "reserved": ("<BOS> ein", "reserved", "<BOS> ein"),
    "long": ("x" * 1001, "word", "x" * 1001),
}


def test_a_broken_sentence_is_named_and_mended():
    for name in BROKEN:
        text, kind, expected = BROKEN[name]
        assert kind in defects(text), defects(text)
        assert mended(text) == expected
        assert mended(expected) == expected


def test_a_sound_sentence_is_left_alone():
    for text in [
        PLAIN,
        "größer, weißen",
        "我 喜欢 猫 ， 不 喜欢 狗 。",
        "„So“ «là» – ja…",
        "AT&T & Co; R&D",
        "a < b and c > d",
        "mail@@example.org",
        "می\u200cخواهم",
        "👩\u200d💻",
        "की का",
        "@@",
    ]:
        assert defects(text) == set() and mended(text) == text
