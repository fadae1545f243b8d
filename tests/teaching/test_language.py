"""What a notebook draws and prints is in its language, and nothing else is."""

import json
import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from fontTools.ttLib import TTFont

from nmtcourse.teaching import language
from nmtcourse.teaching.alternative import alt_text
from nmtcourse.teaching.style import CJK_FONT

TABLES = sorted(language.HERE.glob("words/zh/*.toml"))
BOOKS = sorted(Path(__file__).parents[2].glob("notebooks/zh/*.ipynb"))


@pytest.fixture
def words(monkeypatch):
    """A function that sets the table for a test."""
    language.translate.cache_clear()
    yield lambda table: monkeypatch.setattr(language, "WORDS", table)
    language.translate.cache_clear()


@pytest.fixture
def spoken(words, monkeypatch):
    """A function that gives the words of a notebook of some number."""
    words({})
    monkeypatch.setattr(language.builtins, "print", print)  # which speak() replaces
    monkeypatch.setattr(language.Text, "set_text", language.SET_TEXT)
    return lambda number: language.speak("zh", number) or dict(language.WORDS)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_own_words_and_the_common_ones(path, spoken, monkeypatch):
    monkeypatch.chdir(path.parent)
    cells = ["".join(c["source"]) for c in json.loads(path.read_text("utf-8"))["cells"]]
    (number,) = {language.number_of(cell) for cell in cells if "plots.setup()" in cell}
    tables = [p for p in TABLES if p.stem[:2] == path.name[:2] or p.stem == "common"]
    forms = [form for p in tables for form in tomllib.loads(p.read_text("utf-8"))]
    assert sorted(spoken(number)) == sorted(forms) != []


def test_no_single_word_is_common():
    common = tomllib.loads((language.HERE / "words/zh/common.toml").read_text("utf-8"))
    single = [form for form in common if re.fullmatch("[a-z-]+", form)]
    assert single == ["recorded"]  # which no vocabulary of the course has


def test_the_note_of_a_record_is_translated_by_itself(words):
    words({"output row: {} {}": "输出行：{}  {}", "seeds {}, {} recorded": "种子 {}、{} 已记录"})
    assert language.say("output row: 0.17  0.16  seeds 1, 2 recorded") == (
        "输出行：0.17  0.16  种子 1、2 已记录"
    )
    assert language.say("output row: 0.17  0.16  ") == "输出行：0.17  0.16  "


def test_a_table_fills_what_it_takes_with_letters_that_are_drawn():
    letters = TTFont(CJK_FONT).getBestCmap()
    for form, text in (
        pair for p in TABLES for pair in tomllib.loads(p.read_text("utf-8")).items()
    ):
        taken, filled = (sorted(re.findall(r"\{[…\d]?\}", each)) for each in (form, text))
        assert filled in (taken, [f"{{{i}}}" for i in range(len(taken))]), form  # {1}: the second
        assert {c for c in text if ord(c) > 0x2E7F and ord(c) not in letters} == set(), form


STAY = {
    " 1,000, 4 PAD: 0.10": " 1,000，4 个：0.10",
    "first  dog": "第一   dog",
    "| first | 7 |": "| 第一 | 7 |",
    "of first": "第一的",
    "of [1,   2]": "[1,   2]的",
    "what no table has": "what no table has",
}


def test_numbers_columns_and_what_no_table_has_stay(words):
    words({"{}, {} PAD: {}": "{}，{} 个：{}", "first": "第一", "of {…}": "{…}的"})
    assert {english: language.say(english) for english in STAY} == STAY


def test_the_form_with_the_most_text_goes_first(spoken):
    texts = [len(form.replace("{…}", "").replace("{}", "")) for form in spoken("")]
    assert texts and texts == sorted(texts, reverse=True)


def test_a_label_with_a_comma_is_one_text(words):
    words({"ours, new": "我们的", "A plan: one, two": "计划", "Line plot “{…}”": "图“{…}”"})
    figure, (left, right) = plt.subplots(1, 2)
    figure.set_label("A plan: one, two.")
    left.set_title("a, b")
    left.plot([1, 2], label="ours, new")
    left.set_xlabel("x")
    right.bar(["ours, new"], [3])
    assert alt_text(figure).count("我们的") == 2
    assert alt_text(figure).startswith("计划. 图“a, b”")
