"""Picture the explorer, film it for the front page, and draw the cards below, into figures/.

python docs/site/film.py        # needs the extras, Chromium and figures/explorer.html

A sentence is translated word by word, then the padding mask goes off and the translation breaks.
The film plays once and ends; in English and Chinese, in dark and in light, and a still for readers
who want no motion.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from itertools import product
from pathlib import Path
from shutil import which
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
from tiles import DARK, LIGHT, cell_figure, darkened  # noqa: E402

FIGURES, PAGE = ROOT / "figures", ROOT / "figures" / "explorer.html"
SENTENCE = "I don't know if I have the time."
SIZE, SCALE = {"width": 900, "height": 500}, 1.3
WORD, HOLD = 380, 1600  # milliseconds of a word, and of the end
SIGN = """(text) => {
  const sign = document.createElement("div");
  sign.textContent = text;
  sign.style = "position:fixed;right:26px;top:18px;padding:7px 16px;border-radius:99px;" +
    "background:#b87a00;color:#fff;font-weight:600;font-size:17px";
  document.body.append(sign);
}"""
CARD = """<body style="margin:0;background:{page};width:528px;height:300px;overflow:hidden">
<div style="box-sizing:border-box;width:528px;height:300px;background:{surface};color:{ink};
border:2px solid {line};border-radius:12px;padding:12px 18px;
font:600 26px/1.2 'DejaVu Sans','Noto Sans CJK SC',sans-serif">{title}
<div style="height:232px;margin-top:6px;display:grid;place-items:center;overflow:hidden">
<div style="{style}">{inside}</div></div></div></body>"""
PICTURE = "<img src='data:image/png;base64,{}' style='max-width:480px;max-height:228px'>"
MONO = "font:500 21px/1.7 'DejaVu Sans Mono','Noto Sans Mono CJK SC',monospace;white-space:pre"
LOOKS = {  # the colours of a card on a light and on a dark page
    "light": {"page": "#fff", "surface": "#fff", "ink": "#1f2328", "line": "#d1d9e0"},
    "dark": {
        "page": "#0d1117",
        "surface": "rgb({}, {}, {})".format(*DARK),
        "ink": "rgb({}, {}, {})".format(*LIGHT),
        "line": "#3d444d",
    },
}
WRONG = {"light": "#b3402e", "dark": "#ff9580"}  # the number that is not the expected one
TITLES = {
    "en": {"see": "See it", "build": "Build it", "break": "Break it"},
    "zh": {"see": "看", "build": "造", "break": "拆"},
}
SIGNS = {"en": "Padding mask off", "zh": "填充掩码已关"}
MEASURED = {"en": "measured  ", "zh": "测得："}


def shot(page: Page) -> Image.Image:
    """What the window shows."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def film(page: Page, name: str, language: str) -> None:
    """Write NAME.webp, and its last whole translation as the still that stands for it."""
    for part in ("#tries", ".side .line button", "#facts", ".picture-head"):
        page.add_style_tag(content=f"{part} {{ display: none !important; }}")
    page.add_style_tag(content=".sentence { border: 0 } main { padding: 0 !important }")
    page.evaluate("window.scrollTo(0, 0)")
    frames, times = [], []
    words = page.locator("#target-chips .chip").count()
    for _ in range(words):
        page.evaluate("document.getElementById('step').click()")
        frames.append(shot(page))
        times.append(WORD)
    times[-1] = HOLD
    page.evaluate("document.getElementById('switch-padding').click()")
    page.evaluate(SIGN, SIGNS[language])
    frames.append(shot(page))
    times.append(HOLD)
    webp: dict[str, Any] = {"quality": 60, "method": 6}
    animation = {"save_all": True, "append_images": frames[1:], "duration": times, "loop": 1}
    frames[0].save(FIGURES / f"{name}.webp", **webp, **animation)
    # The last frame shows the broken translation.
    frames[-2].save(FIGURES / f"{name.replace('film', 'film-still')}.webp", **webp)


def picture(browser: Any) -> None:
    """The whole page, as explorer.png: what an untrusted notebook and the documents show."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=1.5)
    page.goto(f"{PAGE.as_uri()}#lang=en&sentence={SENTENCE}")
    page.wait_for_selector("html[data-ready]")
    image = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    image.quantize(256).save(FIGURES / "explorer.png", optimize=True)
    page.close()


def card(browser: Any, name: str, inside: str, language: str, theme: str, style: str = "") -> None:
    """A picture of 264 by 150 from some HTML, twice as large."""
    page = browser.new_page(viewport={"width": 528, "height": 300})
    title = TITLES[language][name]
    page.set_content(CARD.format(title=title, inside=inside, style=style, **LOOKS[theme]))
    end = ending(language, theme)
    shot(page).quantize(128).save(FIGURES / f"card-{name}{end}.png", optimize=True)
    page.close()


def ending(language: str, theme: str) -> str:
    """How the name of a picture for a language and a theme ends."""
    chinese = "-zh" if language == "zh" else ""
    dark = "-dark" if theme == "dark" else ""
    return chinese + dark


def cards(browser: Any, screenshot: bytes, language: str, theme: str) -> None:
    """See it, build it, break it."""
    card(browser, "see", PICTURE.format(encoded(screenshot)), language, theme)
    answer = graded_answer(language, theme)
    card(browser, "build", answer, language, theme, MONO)
    curves = cell_figure("06_masking", "puzzle-curves", language)
    if theme == "dark":
        drawn = io.BytesIO()
        darkened(Image.open(io.BytesIO(curves))).save(drawn, "png")
        curves = drawn.getvalue()
    card(browser, "break", PICTURE.format(encoded(curves)), language, theme)


def graded_answer(language: str, theme: str) -> str:
    """What the grader prints about an attention without the scale, in four lines."""
    text = (ROOT / f"benchmarks/results/homework-check-{language}.txt").read_text("utf-8")
    title = re.split("[:：]", text)[0]
    number = re.search(r"\[0, 0\]\D*?(-?\d+\.\d+)", text)[1]
    first = f"{MEASURED[language]}<b style='color:{WRONG[theme]}'>{number}</b>"
    # One line a label: property, measured, expected, likely, read; what goes on stands further in.
    labelled = re.findall(r"^  (\S.*)$", text, re.MULTILINE)
    expected, likely = labelled[2], labelled[3]
    return "\n".join([title, "", first, expected, likely])


def encoded(data: bytes) -> str:
    """Bytes for a data: address."""
    return base64.b64encode(data).decode("ascii")


def main() -> None:
    """Write the picture, the films, the stills and the cards."""
    with sync_playwright() as playwright:
        path, flags = which("chromium"), ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        picture(browser)
        for language, theme in product(TITLES, LOOKS):
            page = browser.new_page(viewport=SIZE, device_scale_factor=SCALE, color_scheme=theme)
            page.goto(f"{PAGE.as_uri()}#embed=1&lang={language}&sentence={SENTENCE}")
            page.wait_for_selector("html[data-ready]")
            screenshot = page.locator("#picture").screenshot()  # before the film changes the page
            film(page, f"film{ending(language, theme)}", language)
            page.close()
            cards(browser, screenshot, language, theme)


if __name__ == "__main__":
    main()
