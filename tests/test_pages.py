"""Slides and printed pages: what a deck takes, that it fits, and that nothing is asked for."""

import re

import deck
import nbformat
import pages
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ANSWER = "<details><summary>Open</summary>\n\n**Answer: A**, since $x$.\n\n</details>"
LONG = "One word. " * 100


def on(kind, cell):
    """A cell tagged for a deck."""
    cell["metadata"]["slideshow"] = {"slide_type": kind}
    return cell


def markdown(source):
    return new_markdown_cell(source)


def code(source, **data):
    return new_code_cell(source, outputs=[new_output("display_data", data=data)])


@pytest.fixture
def book():
    return new_notebook(
        cells=[
            on("slide", markdown(f"# 04 · Title\n{LONG}\n\nAnother paragraph.")),
            markdown("Not on a slide.\n## 1 · Part\nNor this."),
            on("slide", code("draw()\n\n\nmore", **{"image/png": "aaaa", "text/plain": "F"})),
            on("fragment", markdown("Said below.")),
            on("slide", code("predict(1)", **{"text/markdown": ANSWER})),
            on("skip", markdown("Left out.")),
            on("slide", markdown("Before.\n## Summary\n- One. Two.\n- Three.\n## Exercises\nNo.")),
        ]
    )


def test_a_deck_takes_what_is_tagged_and_of_long_texts_the_start(book):
    cells = deck.deck(book)
    slides = [cell["metadata"]["slide"] for cell in cells]
    assert [slide["number"] for slide in slides] == [1, 2, 2, 3, 4]
    assert [slide["ends"] for slide in slides] == [True, False, True, True, True]
    titles = ["# 04 · Title", "## 1 · Part", "## Summary"]
    assert [slide["title"] for slide in slides][::2] == titles
    assert len(cells[0]["source"].split()) <= deck.WORDS
    assert cells[1]["source"] == "" and cells[2]["metadata"]["slide"]["kind"] == "fragment"
    assert cells[4]["source"] == "- One.\n- Three.\n"
    assert book["cells"][0]["source"].endswith("Another paragraph."), "the notebook stays"
    assert deck.deck(new_notebook()) == []


def test_a_page_holds_texts_for_pictures_and_folds_answers(book):
    book.cells[2].outputs[0].metadata = {"image/png": {"alt": 'A "line" < 1'}}
    page = pages.html(deck.deck(book), "title", "slides")
    assert page.count("<section") == page.count("</section>") == 4
    assert BeautifulSoup(page, "html.parser").img["alt"] == 'A "line" < 1'
    assert re.search(r"(?s)<details>.*Answer: A.*</details>", page)
    assert 'aria-label="Slide 4 of 4"' in page and "draw()" not in page


def test_a_deck_of_its_own_has_a_claim_a_cell_and_a_few_words_on_each_slide():
    for name, own in deck.DECKS.items():
        book = nbformat.read(pages.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        assert 8 <= len(own["slides"]) + 1 <= 12
        assert all(len(words.split()) <= 12 for _, _, words in own["slides"])
        cells = deck.chosen(book, **own)
        places = [cell["metadata"]["slide"] for cell in cells]
        assert places[-1]["number"] == len(own["slides"]) + 1 == sum(p["begins"] for p in places)
        shown = [cell for cell in cells if cell["cell_type"] == "code"]
        assert sum(bool(cell["source"]) for cell in shown) <= 3, "most slides are a picture"
        assert all(cell["source"] or cell["outputs"] for cell in shown)
