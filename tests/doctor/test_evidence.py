"""No verdict without evidence: scripts, word lists, numbers, placeholders; what --fix leaves."""

import sys
import unicodedata

import pytest
from broken_corpora import Own, check, nothing, row, toy

from nmtcourse.corpora import load_corpus
from nmtcourse.doctor.texts import defects, mended, same_numbers
from nmtcourse.formats.languages import function_words
from nmtlib.presets import load_settings

LATIN = "abvgdežzijklmnoprstufhcčš"
CYRILLIC = "абвгдежзијклмнопрстуфхцчш"
TO_CYRILLIC = str.maketrans(LATIN + LATIN.upper(), CYRILLIC + CYRILLIC.upper())


def cyrillic(text):
    return text.translate(TO_CYRILLIC)


@pytest.fixture
def own(tmp_path):
    return Own(tmp_path, toy(train=400), ("de", "sr"))


def test_a_language_without_a_list_is_not_its_relative(own):
    for own.tags in (("nb", "nn"), ("ast", "es")):
        known = sorted(function_words(own.tags[0]) or function_words(own.tags[1]))
        assert not all(map(function_words, own.tags)), "one has no list"
        numbers = iter(range(10_000))
        for split, pairs in own.splits.items():
            own.splits[split] = []
            for n in (next(numbers) for _ in pairs):
                text = " ".join(known[(7 * n + k * k) % len(known)] for k in range(5 + n % 6))
                own.splits[split].append((f"{text} {n}", f"{text} x {n}"))
        text = check(own.write())[1]
        assert "language of its tag" not in text and "of the other" not in text


def test_a_language_of_two_scripts_is_right_in_both(own):
    assert nothing(check(own.write())[1]) and "the tag sr-Latn says so" in check(own.write())[1]
    own.tags = ("de", "sr-Latn")
    assert "another script" not in check(own.write())[1]
    for split in own.splits:
        own.change(split, 1, cyrillic)
    assert "the tag sr-Cyrl says so" in row(check(own.write())[1], "another script")


def test_the_advice_names_the_tag_of_romanised_text(own):
    for tag in ("hi", "ja"):
        own.tags = ("de", tag)
        assert f"the tag is {tag}-Latn" in row(check(own.write())[1], "another script")
        own.tags = ("de", f"{tag}-Latn")
        assert nothing(check(own.write())[1])


def test_lines_in_two_scripts_are_counted_in_any_language(own):
    own.change("train", 1, cyrillic, *range(1, 101))
    found = row(check(own.write())[1], "lines in several scripts")
    assert (
        found.startswith("warning") and "300 in Latn, 100 in Cyrl" in found and "line 1:" in found
    )


def test_a_test_set_in_another_script_than_train_is_named(own):
    own.change("test", 1, cyrillic)
    found = row(check(own.write())[1], "in another script than train")
    assert "the target is 100% Cyrl, that of train 100% Latn" in found


def test_scripts_tell_pairs_the_other_way_round_without_a_list(own):
    own.tags = ("sr-Cyrl", "de")
    for split in own.splits:
        own.splits[split] = [(cyrillic(b), a) for a, b in own.splits[split]]
    own.splits["train"][:40] = [(b, a) for a, b in own.splits["train"][:40]]
    assert "40 (10.0%)" in row(check(own.write())[1], "pairs the other way round")


def test_a_number_is_equal_in_every_system_of_digits():
    zeros = [c for c in map(chr, range(sys.maxunicode)) if unicodedata.decimal(c, -1) == 0]
    for zero in zeros:
        written = "1250 und 37".translate({ord("0") + i: chr(ord(zero) + i) for i in range(10)})
        assert same_numbers("1250 and 37", written), zero
        assert not same_numbers("1251 and 37", written), zero


def test_a_number_is_equal_with_every_separator_in_dates_and_in_numerals():
    for text in ("1.250,5", "1,250.5", "1 250,50", "1'250.5", "1\u202f250.5", "١٬٢٥٠٫٥"):
        assert same_numbers("about 1250.5 and 7", f"etwa {text} und 7"), text
        assert not same_numbers("about 1250.4", f"etwa {text}")
    assert same_numbers("am 12.05.2020", "on 2020-05-12") and same_numbers("3 books", "三本书")


LOST = ["%s", "%1$d", "%(name)s", "{0}", "{name}", "${user}", "{{count}}", '<x id="1"/>']


def test_a_lost_placeholder_is_counted_and_a_kept_one_stays(own):
    own.tags = ("de", "en")
    for number in range(1, 401):
        code = LOST[number % len(LOST)]
        own.change_both("train", lambda text, code=code: f"{text} {code}", number)
        assert mended(f"a {code} b") == f"a {code} b"
    assert nothing(check(own.write())[1])
    for number in range(1, 51):
        own.change("train", 1, lambda text: text.rpartition(" .")[0] + " .", number)
    found = row(check(own.write())[1], "placeholders that one side lacks")
    assert found.startswith("warning") and " 50 (12.5%)" in found


def test_percentages_and_sums_of_money_are_no_placeholders(own):
    own.change("train", 0, lambda text: f"{text} 5 % oder 10% von 3 <5 > 2")
    own.change("train", 1, lambda text: f"{text} 5% or 10 per cent of 3 <5 > 2")
    assert "placeholders" not in check(own.write())[1]


ESCAPED = ["&amp;amp;lt;b&amp;gt;", "{0}&lt;cf bold=1&gt;", '<g id="3">', "&lt;/seg&gt;"]


def test_a_repair_goes_on_until_nothing_changes(own, tmp_path):
    for number in range(1, 401):
        code = ESCAPED[number % len(ESCAPED)]
        own.change_both("train", lambda text, code=code: f"{code}{text}", number)
    check(own.write(), "--fix", tmp_path / "clean")
    pairs = load_corpus(load_settings(tmp_path / "clean" / "own.toml").corpus).train
    assert len(pairs) == 400
    assert all("<" not in p.source and "&" not in p.source for p in pairs)
    assert all(not defects(p.source) and not defects(p.target) for p in pairs)
    check(tmp_path / "clean" / "own.toml", "--fix", tmp_path / "again")
    assert (tmp_path / "again" / "log.jsonl").read_text() == ""
    assert (tmp_path / "clean" / "log.jsonl").read_text("utf-8").count('"train"') == 400
