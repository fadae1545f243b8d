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


def results(cells):
    """The marks of the cells between a question and the text about its result.

    A `C` has outputs, a `c` has none; M is Markdown, which is the end after an output, and P
    another question.
    """
    marks = ""
    for cell in cells:
        if cell.source.startswith("predict("):
            return marks + "P"
        if cell.cell_type == "markdown" and "C" in marks:
            break
        marks += "M" if cell.cell_type == "markdown" else "C" if cell.outputs else "c"
    return marks.rstrip("c")


BEYOND = {"03.slip", "09.faults", "06.leak"}  # a text between the code and what it shows


def test_the_style_reaches_every_result_and_no_question():
    reached = {"".join(re.findall(r"-(.)", cells)) for cells in predictions.AFTER}
    found, beyond = 0, set()
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        for place, cell in enumerate(cells, start=1):
            if key := re.match(r'predict\("(.+?)"\)', cell.source):
                found += 1
                if results(cells[place:]).upper() not in reached:
                    beyond.add(key[1])
    assert found > 90 and beyond == BEYOND


@pytest.mark.slow
@pytest.mark.extras("playwright")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_hides_the_result_until_the_answer_is_opened(language, browser):
    """In a page that nbconvert makes, whose cells have the classes of JupyterLab's."""
    from nbconvert import HTMLExporter

    def code(*shown):
        bundles = [each if isinstance(each, dict) else each._repr_mimebundle_() for each in shown]
        outputs = [nbformat.v4.new_output("display_data", data) for data in bundles]
        return nbformat.v4.new_code_cell("1", outputs=outputs)

    texts = ["a result", "one more", "after the text", "not for this"]
    first, more, after, other = (code({"text/plain": text}) for text in texts)
    question = code(*predictions.displayed("06.leak", language=language))
    worked = code({"text/markdown": "**Problem.**\n\n<details><summary>x</summary>y</details>"})
    text = nbformat.v4.new_markdown_cell("text")
    style = code(predictions.hiding(language))
    cells = [style, question, code(), first, more, text, after, worked, other]
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    view = browser.new_page()
    view.route(re.compile("^https?:"), lambda route: route.abort())
    view.set_content(page, wait_until="domcontentloaded")

    def seen():
        return [view.get_by_text(text, exact=True).is_visible() for text in texts]

    assert seen() == [False, False, True, True]
    view.locator("summary").first.click()
    assert seen() == [True] * 4
    view.close()
