"""What a helper says is in the language of the notebook, and what a reader writes is his own."""

import builtins
import re
import tomllib
from inspect import isfunction

import matplotlib.pyplot as plt
import pytest
from fontTools.ttLib import TTFont
from matplotlib.text import Text

from nmtcourse.teaching import language, plots
from nmtcourse.teaching.alternative import alt_text
from nmtcourse.teaching.style import CJK_FONT

TABLE = tomllib.loads((language.HERE / "words" / "zh.toml").read_text("utf-8"))


@pytest.fixture
def chinese():
    """The course speaks Chinese during a test."""
    language.choose_language("zh")
    yield
    language.choose_language("en")


@pytest.fixture
def words(chinese, monkeypatch):
    """A function that sets the table for a test."""
    return lambda table: monkeypatch.setattr(language, "words", lambda language: table)


def test_a_table_fills_what_it_takes_with_letters_that_are_drawn():
    letters = TTFont(CJK_FONT).getBestCmap()
    for form, text in TABLE.items():
        taken, filled = (sorted(re.findall(r"\{[…\d]?\}", each)) for each in (form, text))
        assert filled in (taken, [f"{{{i}}}" for i in range(len(taken))]), form  # {1}: the second
        assert {c for c in text if ord(c) > 0x2E7F and ord(c) not in letters} == set(), form
        assert not re.search(r"[，。：；] ", text), form


SAID = {
    "1,000, 4 PAD: 0.10": "1,000，4 个：0.10",
    "first  dog  2\nsecond dog  3": "第一   dog  2\nsecond dog  3",
    "of first": "first的",
    "first, more": "first, more",
    "what no table has": "what no table has",
}


def test_numbers_columns_and_what_no_table_has_stay(words, monkeypatch):
    monkeypatch.delenv(language.STRICT)  # as at a reader's
    words({"{}, {} PAD: {}": "{}，{} 个：{}", "first": "第一", "of {…}": "{…}的"})
    assert {english: language.say(english) for english in SAID} == SAID


def test_an_author_learns_which_text_has_no_chinese(words):
    words({"loss": "损失", "BLEU": "BLEU", "seeds {}, {}": "种子 {}、{}"})
    for text in ("loss  BLEU  0.5", "seeds 1, 2", "损失 of 3", "3.5 | 4 × x", ""):
        language.say(text)
    for text in ("seeds 1, 2, 3", "loss  accuracy  0.5", "you"):
        with pytest.raises(LookupError, match="has no Chinese; add it to"):
            language.say(text)


def test_an_english_page_says_what_is_written():
    assert language.say("first loss 3") == "first loss 3"
    assert [language.say(form) for form in TABLE] == list(TABLE)


def test_the_form_with_the_most_text_goes_first():
    texts = [len(form.replace("{…}", "").replace("{}", "")) for form in language.words("zh")]
    assert texts == sorted(texts, reverse=True)


def test_a_text_is_padded_by_the_columns_that_it_takes():
    for text in ("loss", "损失", "loss 损失", ""):
        assert language.width(language.pad(text, 12)) == 12
    assert language.pad("loss", 6) == f"{'loss':<6}" and language.pad("损失函数", 3) == "损失函数"


def test_a_reader_prints_and_draws_what_he_writes(capsys, tmp_path, chinese):
    plots.setup("zh")
    assert isfunction(Text.set_text) and Text.set_text.__module__ == "matplotlib.text"
    assert builtins.print.__module__ == "builtins"
    print("guess", "weight", sep=", ")
    with open(tmp_path / "log.txt", "w", encoding="utf-8") as file:
        print("step 5", file=file)
    assert capsys.readouterr().out == "guess, weight\n"
    assert (tmp_path / "log.txt").read_text("utf-8") == "step 5\n"
    figure, ax = plt.subplots()
    ax.plot([1, 2], label="guess")
    ax.set(title="step 5", xlabel="count", ylabel="loss")
    assert ax.get_title() == "step 5" and ax.get_xlabel() == "count"
    assert (
        alt_text(figure)
        == "折线图“step 5”：纵轴 loss：从 1 到 2，横轴 count：从 0 到 1；guess：从 1 到 2。"
    )


def test_the_language_is_that_of_the_set_up_and_not_of_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "zh"
    folder.mkdir()
    monkeypatch.chdir(folder)
    plots.setup()
    assert language.chosen_language() == "en"
    monkeypatch.chdir(tmp_path)
    plots.setup("zh")
    assert language.chosen_language() == "zh" and language.say("loss") == TABLE["loss"]
    plots.setup()
    with pytest.raises(ValueError, match="language must be one of en, zh"):
        plots.setup("de")


def test_the_alternative_text_of_a_figure_is_in_the_language_of_the_page(words):
    words(
        {
            "A plan: one, two": "计划",
            "Line plot “{…}”": "图“{…}”",
            "Bar chart": "条形图",
            "{} to {}": "从 {} 到 {}",
            "{…} from {} to {}": "{…}：从 {} 到 {}",
            "{} bars up to {}": "{} 个条形，最大 {}",
        }
    )
    figure, (left, right) = plt.subplots(1, 2)
    figure.set_label(language.say("A plan: one, two."[:-1]))
    left.set_title("a, b")
    left.plot([1, 2], label="我们的")
    left.set_xlabel("x")
    right.bar(["我们的"], [3])
    assert alt_text(figure).count("我们的") == 2
    assert alt_text(figure).startswith("计划。图“a, b”：")
