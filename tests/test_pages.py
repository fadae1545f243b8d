"""Slides and printed pages: what a deck takes, that it fits, and that nothing is asked for."""

import re

import deck
import legible
import nbformat
import pages
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

ANSWER = "<details><summary>Open</summary>\n\n**Answer: A**, since $x$.\n\n</details>"
LONG = "One word. " * 100
PICTURE = legible.stored(Image.new("RGB", (600, 300), "white"), 100)


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
            on("slide", code("draw()\n\n\nmore", **{"image/png": PICTURE, "text/plain": "F"})),
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


@pytest.mark.slow
def test_a_deck_of_its_own_has_a_claim_a_cell_and_a_few_words_on_each_slide():
    for name, own in deck.DECKS.items():
        book = nbformat.read(pages.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        assert 8 <= len(own["slides"]) + 1 <= 12
        assert all(len(words.split()) <= 12 for _, _, words, *_ in own["slides"])
        cells = deck.chosen(book, **own)
        places = [cell["metadata"]["slide"] for cell in cells]
        bands = sum(" of " in place["title"] and place["title"].endswith(")") for place in places)
        cut = len({p["title"].rpartition(" (")[0] for p in places if p["title"].endswith(")")})
        assert places[-1]["number"] == len(own["slides"]) + 1 + bands - cut
        assert places[-1]["number"] == sum(place["begins"] for place in places)
        shown = [cell for cell in cells if cell["cell_type"] == "code"]
        assert sum(bool(cell["source"]) for cell in shown) <= 3, "most slides are a picture"
        assert all(cell["source"] or cell["outputs"] for cell in shown)


@pytest.mark.slow
def test_code_and_output_of_an_own_deck_fit_at_a_size_that_can_be_read():
    """slides.css leaves them 22 of the 36 rem of a slide; 1 rem is 20 pixels."""
    small = {}
    for name, own in deck.DECKS.items():
        book = nbformat.read(pages.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        for cell in deck.chosen(book, **own):
            if cell["cell_type"] != "code" or any("data" in o for o in cell["outputs"]):
                continue  # a picture is as large as the room that is left
            pixels = 22 * 20 / pages.rows(cell) / 1.4
            if pixels < legible.READABLE:
                small[name, cell["id"]] = pixels
    assert small == {}


def test_a_slide_shows_the_part_of_a_cell_that_its_deck_names():
    cell = new_code_cell("n = 1\n\n\ndef half(n):\n    return n / 2\n\n\nprint(half(n))")
    cell.outputs = [new_output("stream", name="stdout", text="0.5\n")]
    cell.id = "halves"
    book = new_notebook(cells=[markdown("# Title"), cell])
    for part, source, printed in (("output", "", 1), ("half", "def half(n):\n    return n / 2", 0)):
        shown = deck.chosen(book, "Opening", [["halves", "A claim", "Words", part]])[1]
        assert shown["source"] == source and len(shown["outputs"]) == printed
    with pytest.raises(ValueError, match="halves has no function third"):
        deck.chosen(book, "Opening", [["halves", "A claim", "Words", "third"]])


def test_the_lines_of_a_slide_are_counted_as_they_are_shown():
    assert pages.columns("two\n昨天 ok") == 7, "a Chinese character is as wide as two letters"
    cell = new_code_cell("a\nb", outputs=[new_output("stream", text=f"{'x' * 200}\n\nshort\n")])
    assert pages.rows(cell) == 2 + 2 + 1 + 1
    css = (pages.PAGES / "slides.css").read_text("utf-8")
    assert css.count("var(--rows, 1)") == 2 and pages.LETTERS == int(55 / 0.9 / 0.61)


def test_a_text_that_ends_a_slide_announces_nothing():
    cells = [on("slide", markdown("# T\nIt gives no warning:")), on("fragment", code("draw()"))]
    after = on("slide", markdown("## U\nRead the **references:**"))
    sources = [cell["source"] for cell in deck.deck(new_notebook(cells=[*cells, after]))]
    assert sources[0] == "It gives no warning:" and sources[2] == "Read the **references.**"


def test_each_band_of_a_picture_has_the_words_of_its_slide():
    own = deck.DECKS["04_scaled_dot_product_attention"]
    book = nbformat.read(pages.NOTEBOOKS / "04_scaled_dot_product_attention.ipynb", as_version=4)
    cells = deck.chosen(book, **own)
    begun = [cell["metadata"]["slide"]["number"] for cell in cells if "outputs" in cell]
    said = [
        c["metadata"]["slide"]["number"] for c in cells if c["metadata"]["slide"]["kind"] == "words"
    ]
    assert begun == said


@pytest.mark.parametrize("path", sorted(pages.NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem[:3])
def test_a_deck_needs_no_file_but_mathjax(path):
    book = nbformat.read(path, as_version=4)
    own = deck.DECKS.get(path.stem)
    cells = deck.chosen(book, **own) if own else deck.deck(book)
    page = "\n".join(
        "".join(output.get("data", {}).get("text/html", ""))
        for cell in cells
        for output in cell.get("outputs") or ()
    )
    sources = re.findall(r'\bsrc="([^"]*)"', page)
    assert [source for source in sources if not source.startswith("data:")] == []


@pytest.mark.parametrize("path", sorted(pages.NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem[:3])
def test_no_text_of_a_slide_is_too_small_to_read(path):
    book = nbformat.read(path, as_version=4)
    own = deck.DECKS.get(path.stem)
    cells = deck.chosen(book, **own) if own else deck.deck(book)
    small = {}
    for cell in cells:
        for output in cell.get("outputs") or ():
            if png := output.get("data", {}).get("image/png"):
                image = legible.opened(png)
                pixels = legible.text_pixels(*image.size, legible.dots_an_inch(image))
                if pixels < legible.READABLE:
                    small[cell["metadata"]["slide"]["title"]] = pixels
        if cell["cell_type"] == "code" and cell["source"]:  # what is printed alone is wrapped
            # 55 rem of 20 pixels for the longest line, as slides.css has it
            assert 55 * 20 / max(1, pages.columns(cell["source"])) / 0.61 >= legible.READABLE
    assert small == {}


def test_a_picture_is_cut_where_little_is_drawn_and_nothing_is_lost():
    image = Image.new("RGB", (700, 1200), "white")
    for top in range(0, 1200, 100):
        image.paste("black", (0, top + 10, 700, top + 90))  # rows of boxes with gaps
    image.info["dpi"] = (100, 100)
    number = legible.bands_needed(image)
    parts = [*legible.cut(image, number)]
    assert number == len(parts) > 1 and sum(part.height for part in parts) == 1200
    for part in parts:
        assert legible.text_pixels(*part.size, 100) >= legible.READABLE
        assert part.getpixel((5, 0)) == part.getpixel((5, part.height - 1)) == (255, 255, 255)
    image.info["dpi"] = (40, 40)
    with pytest.raises(ValueError, match="choose another cell"):
        legible.bands_needed(image)


def test_the_bands_of_an_upward_diagram_begin_at_its_bottom():
    slides = deck.DECKS["04_scaled_dot_product_attention"]
    book = nbformat.read(pages.NOTEBOOKS / "04_scaled_dot_product_attention.ipynb", as_version=4)
    (diagram,) = (c for c in book.cells if 'diagrams.show("attention-head")' in c.source)
    whole = legible.opened(diagram.outputs[0].data["image/png"])
    first, second = (
        cell for cell in deck.chosen(book, **slides) if cell.get("id", "").startswith(diagram.id)
    )
    titles = [cell["metadata"]["slide"]["title"] for cell in (first, second)]
    assert titles[0].endswith("(1 of 2, from the bottom up)") and " (2 of 2" in titles[1]
    lower = legible.opened(first["outputs"][0]["data"]["image/png"])
    top = whole.height - lower.height
    assert lower.tobytes() == whole.crop((0, top, whole.width, whole.height)).tobytes()
