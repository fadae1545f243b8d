"""The questions of the course, and that a reader who chooses sees the answer, and no one else."""

import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from nmtcourse.teaching import predictions
from nmtcourse.teaching.predictions import Question, predict, questions

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
ENTROPY = Question("99.entropy", "And the entropy?", ["grows", "stays"], 1, "nothing changed.")


def asked_in(notebook):
    """The keys of the questions that a notebook asks."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [k for cell in cells for k in re.findall(r'^predict\("(.+?)"\)', cell.source, re.M)]


def test_each_question_is_asked_once_and_in_its_notebook():
    asked = []
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        keys = asked_in(notebook)
        assert all(key.startswith(notebook.name[:3].replace("_", ".")) for key in keys), notebook
        asked += keys
    assert sorted(asked) == sorted(questions())


def test_the_right_option_has_no_favourite_place():
    places = Counter(question.answer for question in questions().values())
    assert max(places.values()) <= 0.4 * len(questions()), places
    assert min(places[letter] for letter in "ABC") >= 0.2 * len(questions()), places


@pytest.mark.parametrize("question", questions().values(), ids=lambda question: question.key)
def test_a_question_has_different_options_and_a_reason(question):
    assert 2 <= len(question.options) <= 6
    assert len(set(question.options)) == len(question.options)
    assert not question.because.startswith("because")


@pytest.fixture
def shown(monkeypatch):
    """A function that asks about the entropy and returns what `predict` displays."""
    monkeypatch.setattr(predictions, "questions", lambda language="en": {ENTROPY.key: ENTROPY})

    def ask(**options):
        found = []
        monkeypatch.setattr("IPython.display.display", found.append)
        predict(ENTROPY.key, **options)
        return found

    return ask


def test_the_answer_is_folded_until_the_reader_commits(shown):
    question, reveal = shown()
    assert "And the entropy?" in question.text and "- A. grows\n- B. stays" in question.text
    assert "changed" not in question.text + question.plain + reveal.plain
    opening, rest = reveal.text.split("<summary>")
    summary, body = rest.split("</summary>")
    assert opening == "<details>" and "B" not in summary
    assert body.startswith("\n\n**Answer: B**, because nothing changed.")


@pytest.mark.parametrize(("mine", "told"), [("B", "which is right"), ("a", "You chose A. Compare")])
def test_who_committed_sees_the_answer_at_once(shown, mine, told):
    _, reveal = shown(mine=mine)
    assert told in reveal.text and "details" not in reveal.text and reveal.widget is None
    assert reveal.text.count("because") == 1 and "**Answer: B**" in reveal.text
    assert told in repr(reveal) and "Answer: B, because nothing changed." in repr(reveal)


def test_choosing_a_button_opens_the_answer(monkeypatch, shown):
    monkeypatch.setattr(predictions, "kernel_with_widgets", lambda: True)
    _, reveal = shown()
    choice, page = reveal.widget.children
    assert list(choice.options) == ["A", "B"] and choice.value is None and page.outputs == ()
    choice.value = "A"
    opened = page.outputs[0]["data"]["text/markdown"]
    assert opened.startswith("You chose A. Compare")
    assert "**Answer: B**, because nothing changed." in opened
    choice.value = "B"
    assert len(page.outputs) == 1 and "is right" in page.outputs[0]["data"]["text/markdown"]


def test_a_stored_notebook_keeps_the_same_text_with_and_without_widgets(monkeypatch, shown):
    plain = shown()
    monkeypatch.setattr(predictions, "kernel_with_widgets", lambda: True)
    for one, other in zip(plain, shown(), strict=True):
        bundle = other._repr_mimebundle_()
        bundle.pop("application/vnd.jupyter.widget-view+json", None)
        assert bundle == one._repr_mimebundle_()


@pytest.mark.parametrize("mine", ["C", "stays", ""])
def test_a_letter_that_no_option_has_is_refused(shown, mine):
    with pytest.raises(ValueError, match="mine must be one of the letters A, B"):
        shown(mine=mine)


def test_an_unknown_key_is_refused_with_the_closest_one():
    with pytest.raises(ValueError, match=r"did you mean 06.leak"):
        predict("06.leaks")


def test_a_notebook_in_the_folder_zh_asks_in_chinese(monkeypatch, tmp_path, shown):
    (tmp_path / "zh").mkdir()
    monkeypatch.chdir(tmp_path / "zh")
    question, reveal = shown(mine="A")
    assert question.text.startswith("**先猜一猜。**") and reveal.text.startswith("你选了 A。")
