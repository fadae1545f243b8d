"""Slides and printed pages: what a deck takes, that it fits, and that nothing is asked for."""

import re
from itertools import chain
from pathlib import Path

import deck
import nbformat
import pages
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
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
    assert [slide["title"] for slide in slides][::2] == [
        "# 04 · Title",
        "## 1 · Part",
        "## Summary",
    ]
    assert len(cells[0]["source"].split()) <= deck.WORDS
    assert cells[1]["source"] == "" and cells[2]["metadata"]["slide"]["kind"] == "fragment"
    assert cells[4]["source"] == "- One.\n- Three.\n"
    assert book["cells"][0]["source"].endswith("Another paragraph."), "the notebook stays"
    assert deck.deck(new_notebook()) == []


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("Short, with (Vaswani et al. 2017, §3). Then more.", "Short, with (Vaswani et al. 2017"),
        ("It is\n\n$$a + b$$\n\nand so on.", "$$a + b$$"),
        ("> Quoted. And on.\n\nSaid.", "> Quoted. And on."),
        ("```\n# no heading\n```", "# no heading"),
        ("", ""),
    ],
)
def test_the_lead_of_a_text(text, taken):
    (section,) = deck.sections(text) or [deck.Section("", "")]
    assert section.heading == "" and taken in deck.lead(section.text)


def test_a_fuller_slide_is_higher(book):
    line = {"cell_type": "code", "source": "x = 1", "outputs": [], "metadata": {}}
    lines = {**line, "source": "x = 1\n" * 30}
    assert deck.height([line]) < deck.ROOM < deck.height([lines])


def test_a_page_holds_texts_for_pictures_and_folds_answers(book):
    book.cells[2].outputs[0].metadata = {"image/png": {"alt": 'A "line" < 1'}}
    page = pages.html(deck.deck(book), "title", "slides")
    assert page.count("<section") == page.count("</section>") == 4
    assert BeautifulSoup(page, "html.parser").img["alt"] == 'A "line" < 1'
    assert re.search(r"(?s)<details>.*Answer: A.*</details>", page)
    assert 'aria-label="Slide 4 of 4"' in page and "draw()" not in page


@pytest.fixture
def chromium():
    if not any(map(pages.shutil.which, pages.CHROMIUM)):
        pytest.skip("Chromium is not installed")


in_a_browser = pytest.mark.extras("sphinx-mathjax-offline")


def test_what_is_missing_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    assert pages.main(["slides", "--out", str(tmp_path)]) == 1
    assert "requirements-site.txt" in capsys.readouterr().err
    monkeypatch.setattr(pages, "CHROMIUM", ("no-such-program",))
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        pages.chromium(page=tmp_path)


def opened(cells, folder):
    """The page of some slides as it stands in a browser, and what each has too much."""
    pages.copy_files(folder)
    (folder / "deck.html").write_text(pages.html(cells, "deck", "slides"), encoding="utf-8")
    page = pages.chromium("--window-size=1280,720", "--dump-dom", page=folder / "deck.html")
    return page, [int(found) for found in re.findall(r'data-over="(\d+)"', page)]


@pytest.mark.slow
@in_a_browser
def test_no_slide_is_cut_and_nothing_is_asked_for_elsewhere(chromium, tmp_path):
    """All decks in one page: one start of the browser."""
    decks = [deck.deck(nbformat.read(path, as_version=4)) for path in NOTEBOOKS]
    cells = [{**cell, "id": f"c{i}"} for i, cell in enumerate(chain.from_iterable(decks))]
    page, over = opened(cells, tmp_path)
    assert len(over) == sum(cells[-1]["metadata"]["slide"]["number"] for cells in decks)
    assert [place for place, found in enumerate(over) if found] == []
    assert "<mjx-container" in page, "formulas are set"
    assert not re.findall(r'src="https?:|<link[^>]* href="https?:', page)


@pytest.mark.slow
@in_a_browser
def test_a_slide_that_is_too_full_is_noticed(chromium, tmp_path):
    book = new_notebook(cells=[on("slide", new_code_cell("x = 1\n" * 60))])
    assert opened(deck.deck(book), tmp_path)[1][0] > 100


@pytest.mark.slow
@in_a_browser
def test_a_short_notebook_is_printed(chromium, tmp_path):
    path = ROOT / "notebooks" / "00_tour.ipynb"
    assert pages.main(["print", str(path), "--out", str(tmp_path)]) == 0
    pdf = (tmp_path / "00_tour.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and len(pdf) > 100_000
    counts = [int(count) for count in re.findall(rb"/Type /Pages\s+/Count (\d+)", pdf)]
    assert max(counts) >= 8, "pages of a notebook"
    assert not (tmp_path / "00_tour.html").exists()
