"""The page of every shipped model and of a run of one's own, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from nmtcourse.explorer.page import explore
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.specials import SPECIALS

pytestmark = [pytest.mark.slow, pytest.mark.extras("playwright")]
OWN = "own"
MODELS = ("toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh", OWN)
SAMPLES = "".join(
    f"source     {text}\nmodel      {text}\nreference  (the same)\n\n"
    for text in ("a b c d", "b a a e", "c d e f")
)


@pytest.fixture(scope="module")
def file_of(tmp_path_factory: pytest.TempPathFactory, small_run: Any) -> Callable[[str], Path]:
    folder, found = tmp_path_factory.mktemp("pages"), {}

    def make(model: str) -> Path:
        if model not in found:
            run: Any = model
            if model == OWN:
                run = small_run()
                run.samples_file.write_text(SAMPLES, "utf-8")
                run = run.folder
            found[model] = explore(run, folder / f"{model}.html")
        return found[model]

    return make


@pytest.mark.extras("axe_playwright_python")
@pytest.mark.parametrize(
    "model, scheme", [("cmn-en-zh", "light"), ("toy-de-en", "dark"), (OWN, "light")]
)
def test_axe_finds_no_violation(model, scheme, file_of, open_page) -> None:
    page = open_page(file_of(model), color_scheme=scheme)
    views = page.evaluate("explorer.views")
    assert len(views) == 7 - (model == OWN) and ("learn" in views) == (model != OWN)
    for view in views:
        page.click(f"#tab-{view}")
        if view == "learn":
            page.wait_for_selector("#moments .now")
        assert violations(page) == [], view
    page.click("#start-tour")
    assert violations(page) == []
    page.evaluate("document.querySelector('#tour').append(document.createElement('button'))")
    assert violations(page) == ["button-name: <button></button>"], "what is planted is seen"


def test_each_switch_bites_in_the_sentence_that_it_offers(file_of, open_page) -> None:
    for model in MODELS[:-1]:
        page = open_page(file_of(model))
        for name in ("causal", "padding", "positions", "scale"):
            page.click(f"#bite-{name}")
            before, now = page.locator("#effect dd").all_inner_texts()
            assert before != now == page.inner_text("#translation"), (model, name)
            doubted = page.locator("#hint.problem")
            assert not doubted.count(), "as trained the model does not doubt it"
            assert "The translation changes" in page.inner_text("#effect")


def test_a_slider_shows_what_the_search_uses(file_of, open_page) -> None:
    shown = "document.querySelector('label[for=alpha] output').innerText"
    for alpha, text in (("", "3.0"), ("&alpha=0.33", "0.33")):
        page = open_page(file_of("cmn-en-zh"), f"view=beam{alpha}")
        assert page.evaluate(shown) == text and f"α = {text}" in page.inner_text("#finished")
    assert page.evaluate("Number(alpha.max) > explorer.model.decoding.lengthPenalty")


def test_the_page_says_of_which_translation_it_is_not_sure(file_of, open_page) -> None:
    for model, usual, unlike in (
        ("multi30k-de-en", "Ein Mann liest ein Buch.", "Ich liebe dich."),
        ("cmn-en-zh", "I love you.", "I am a Berliner."),
    ):
        page = open_page(file_of(model), f"sentence={quote(usual)}")
        assert page.is_hidden("#hint")
        page.fill("#input", unlike)
        page.wait_for_selector("#hint.problem:text('is not sure of this translation')")


def test_at_most_twelve_stops_of_tab_stand_before_the_switches(file_of, open_page) -> None:
    for model in ("cmn-en-zh", OWN):
        page, reached = open_page(file_of(model)), []
        for _ in range(13):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert "switch-causal" in reached


def violations(page: Any) -> list[str]:
    """The rules of axe (WCAG 2 A and AA, and good practice) that a page breaks."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


HOSTILE = (
    "[a](https://evil.example)",
    "<img/src=x/onerror=alert(1)>",
    "`c`",
    "*d*",
    "</script><script>alert(2)</script>",
)


def test_hostile_words_and_names_stay_text(small_run, tmp_path, open_page) -> None:
    codec = Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, *HOSTILE]))
    name = tmp_path / "[n](x)<img src=x onerror=alert(3)>"
    small_run(codec, codec).folder.rename(name)
    (name / "samples.txt").write_text(SAMPLES.replace("a b c d", " ".join(HOSTILE)), "utf-8")
    file = explore(name, tmp_path / "page.html")
    typed = "[u](javascript:alert(4)) <svg/onload=alert(5)> " + HOSTILE[0]
    for sentence in (" ".join(HOSTILE), typed):
        page = open_page(file, f"sentence={quote(sentence)}&off={quote(HOSTILE[0])}")
        for view in ("learn", *page.evaluate("explorer.views")):  # the first is not there
            page.evaluate("(view) => explorer.set({ view })", view)
            made = page.evaluate(
                "[...document.querySelectorAll('body a, body img, body iframe, #page script')]"
                ".map((n) => n.outerHTML)"
            )
            assert made == []
        shown = page.inner_text("body")
        assert all(word in page.inner_text("#source-chips") for word in sentence.split())
        assert name.name in shown and HOSTILE[0] in shown


def test_where_no_sentence_breaks_the_button_says_so_and_leaves_ones_own(
    small_run, tmp_path, open_page
) -> None:
    file = explore(small_run().folder, tmp_path / "page.html")  # it has no sentences to try
    page = open_page(file, "sentence=a+b+c+d")
    for name in ("causal", "padding", "positions", "scale"):
        page.click(f"#bite-{name}")
        assert page.input_value("#input").lower() == "a b c d"
        assert page.inner_text("#effect .kept").endswith("none changes without this part.")
