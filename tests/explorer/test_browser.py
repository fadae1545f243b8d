"""The explorer's page in a real browser: what it computes, shows, asks and needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtcourse.explorer.page import explore
from nmtlib.data.batching import collate
from nmtlib.inference.translator import Translator

pytestmark = [pytest.mark.slow, pytest.mark.extras("playwright")]
SENTENCES = (
    "der Hund schläft im Garten .",
    "wir wollen diese schwarze Tasche nicht kaufen , weil sie teuer ist .",
    "das Kind sieht einen Elefanten .",
)
SHORT = "Anna schläft im Garten ."  # quick to translate


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer")
    links = "../notebooks/{stem}.ipynb"
    return explore("toy-de-en", folder / "explorer.html", notebooks=links)


@pytest.fixture(scope="module")
def page(browser: Any, file: Path) -> Iterator[Any]:
    """One page for all tests, which must leave no error and ask nobody for anything."""
    page = browser.new_page(viewport={"width": 1400, "height": 900}, locale="en-GB")
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("request", lambda r: r.url.startswith("file:") or troubles.append(r.url))
    opened(page, file)
    yield page
    assert not troubles


def opened(page: Any, file: Path, state: str = "") -> Any:
    """The page in the state that the address names, ready; with a short sentence by default."""
    state = state if "sentence=" in state else f"{state}&sentence={SHORT}"
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#{state}")
    page.wait_for_selector("html[data-ready]")
    return page


def test_logits_are_those_of_pytorch(page: Any, file: Path) -> None:
    translator = Translator.load("toy-de-en", device="cpu")
    for sentence in SENTENCES:
        opened(page, file, f"sentence={sentence}")
        found = page.evaluate("explorer.found.trace.logits.map((row) => [...row])")
        said = page.evaluate("explorer.found.now.text")
        batch = collate([translator.example(sentence, said)])
        with torch.no_grad():
            expected = translator.model(batch.source, batch.decoder_input)[0]
        assert (torch.tensor(found) - expected).abs().max() <= 1e-4
        assert page.inner_text("#translation") == said.replace(" .", ".").capitalize()


def test_each_switch_says_what_it_did(page: Any, file: Path) -> None:
    opened(page, file)
    before = page.evaluate("JSON.stringify(explorer.found.trace.maps.cross.map((m) => [...m[0]]))")
    page.click("#closer summary")
    heads = "head-cross.1.0", "head-encoder-self.0.0", "head-decoder-self.1.3"
    seen = {page.inner_text("#effect")}
    switches = [f"switch-{name}" for name in ("causal", "padding", "positions", "scale")]
    for switch in (*switches, *heads):
        page.click(f'[id="{switch}"]')
        assert page.get_attribute(f'[id="{switch}"]', "aria-checked") == "false"
        line = page.inner_text("#effect")
        assert line not in seen and "{" not in line
        page.click("#language")  # Chinese, and back
        assert "变" in page.inner_text("#effect") and "{" not in page.inner_text("#effect")
        page.click("#language")
        assert page.locator("#effect a[href*='notebooks/0']").count() == 1
        seen.add(line)
        page.click("#reset")
        assert page.is_hidden("#effect")
    after = page.evaluate("JSON.stringify(explorer.found.trace.maps.cross.map((m) => [...m[0]]))")
    assert after == before


def test_the_page_is_whole_in_both_languages_at_both_widths(page: Any, file: Path) -> None:
    opened(page, file)
    for width in (360, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        for language in ("en", "zh"):
            for view in ("attention", "inside", "learn", "beam", "cache", "positions", "shapes"):
                page.evaluate("(state) => explorer.set(state)", {"lang": language, "view": view})
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, (width, language, view)
                text = page.inner_text("body")
                chinese = len(re.findall("[\u4e00-\u9fff]", text))
                assert (chinese > 100) == (language == "zh"), (width, language, view)


def test_a_drawing_is_saved_with_its_colours(page: Any, file: Path) -> None:
    opened(page, file)
    with page.expect_download() as saved:
        page.click("#save")
    text = Path(saved.value.path()).read_text("utf-8")
    assert text.startswith("<svg") and ">Anna</text>" in text and "fill:rgb(" in text
    page.click("#tab-shapes")
    assert page.is_hidden("#save")


def test_what_one_types_is_read_as_it_is_meant(page: Any, file: Path) -> None:
    opened(page, file)
    typed = "Der hund  schläft,weil er Müde ist."
    page.fill("#input", typed)
    page.wait_for_selector("#source-chips :text('weil')")
    words = page.eval_on_selector_all("#source-chips b", "(nodes) => nodes.map((n) => n.innerText)")
    assert words == "der Hund schläft , weil er müde ist . <EOS>".split()
    assert page.is_hidden("#hint")
    assert page.input_value("#input") == typed  # left alone
    page.fill("#input", "der Hund " * 80)  # an error clears the old translation
    page.wait_for_selector("#hint.problem")
    assert page.inner_text("#translation") == ""
    page.fill("#input", "")
    page.wait_for_selector("#hint", state="hidden")
    page.wait_for_selector("#panel :text('Nothing')")
    assert page.inner_text("#translation") == ""


def test_a_visitor_keeps_the_sentence_that_he_typed(page: Any, file: Path) -> None:
    opened(page, file)
    breaks = "er singt heute im Park , weil er glücklich ist ."  # reads otherwise without the mask
    page.fill("#input", breaks)
    page.wait_for_selector("#source-chips :text('heute')")
    page.click("#bite-padding")
    assert page.evaluate("explorer.state.sentence") == breaks
    assert page.locator("#yours").count() == page.locator("#back-own").count() == 0
    page.click("#reset")
    own = "Der Wombat schläft."  # its word is unknown, so that its translation was wrong before
    page.fill("#input", own)
    page.wait_for_selector("#source-chips :text('Wombat')")
    for way in ("#back-own", "#yours"):
        page.click("#bite-padding")
        assert "Wombat" not in page.input_value("#input")
        assert "Wombat" in page.inner_text(way)
        page.click(way)
        assert page.evaluate("explorer.state.sentence") == "der Wombat schläft ."
        assert page.locator("#yours").count() == page.locator("#back-own").count() == 0
    page.click("#another")  # any other way to another sentence keeps it, too
    assert "Wombat" in page.inner_text("#yours")


def test_the_caption_of_a_map_follows_its_mask(page: Any, file: Path) -> None:
    opened(page, file, "view=attention&kind=decoder-self")
    caption = "#panel .about"
    assert "leaves the upper right empty" in page.inner_text(caption)
    page.click("#switch-causal")
    assert "The causal mask is off" in page.inner_text(caption)
    page.click("#reset")
    page.evaluate("explorer.set({ kind: 'encoder-self', pads: 2 })")
    assert "leaves the columns of the PADs empty" in page.inner_text(caption)
    page.click("#switch-padding")
    assert "The padding mask is off" in page.inner_text(caption)
