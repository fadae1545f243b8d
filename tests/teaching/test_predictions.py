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
    for notebook in [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("deeper/*.ipynb")]:
        keys, number = asked_in(notebook), notebook.stem.split("_")[0]
        assert all(key.startswith(f"{number}.") for key in keys), notebook
        asked += keys
    assert sorted(asked) == sorted(questions())


def test_the_right_option_has_no_favourite_place():
    places = Counter(question.answer for question in questions().values())
    assert max(places.values()) <= 0.4 * len(questions()), places
    assert min(places[letter] for letter in "ABC") >= 0.2 * len(questions()), places


def test_a_question_has_different_options_and_a_reason():
    for question in questions().values():
        assert 2 <= len(question.options) <= 6
        assert len(set(question.options)) == len(question.options)
        assert not question.because.startswith("because")


@pytest.fixture
def shown(monkeypatch):
    """A function that asks about the entropy and returns what `predict` displays."""
    monkeypatch.setattr(predictions, "questions", lambda language="en": {ENTROPY.key: ENTROPY})

    def ask(**options):
        displayed = []
        monkeypatch.setattr("IPython.display.display", displayed.append)
        predict(ENTROPY.key, **options)
        return displayed

    return ask


def test_choosing_a_button_opens_the_answer(monkeypatch, shown):
    monkeypatch.setattr(predictions, "kernel_with_widgets", lambda: True)
    _, reveal = shown()
    choice, page = reveal.widget.children
    assert list(choice.options) == ["A", "B"] and choice.value is None and page.outputs == ()
    assert predictions.WAITS in reveal.widget._dom_classes, "results are hidden"
    choice.value = "A"
    assert predictions.WAITS not in reveal.widget._dom_classes, "results are shown"
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
