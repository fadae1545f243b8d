"""Picture the explorer, film it for the front page, and draw the cards below, into figures/.

python docs/site/film.py        # needs the extras, Chromium and figures/explorer.html

A sentence is translated word by word, then the padding mask goes off and the translation breaks.
The film plays once and ends; in dark and in light, and a still for readers who want no motion.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path
from shutil import which
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
from tiles import cell_figure  # noqa: E402

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
CARD = """<body style="margin:0;background:#fff;width:528px;height:300px;overflow:hidden;
display:grid;place-items:center;border-radius:12px"><div style="{style}">{inside}</div></body>"""


def shot(page: Page) -> Image.Image:
    """What the window shows."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def film(page: Page, name: str) -> None:
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
    page.evaluate(SIGN, "Padding mask off")
    frames.append(shot(page))
    times.append(HOLD)
    how: dict[str, Any] = {"quality": 60, "method": 6}
    more = {"save_all": True, "append_images": frames[1:], "duration": times, "loop": 1}
    frames[0].save(FIGURES / f"{name}.webp", **how, **more)
    frames[-2].save(FIGURES / f"{name.replace('film', 'film-still')}.webp", **how)


def picture(browser: Any) -> None:
    """The whole page, as explorer.png: what an untrusted notebook and the documents show."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=1.5)
    page.goto(f"{PAGE.as_uri()}#lang=en&sentence={SENTENCE}")
    page.wait_for_selector("html[data-ready]")
    seen = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    seen.quantize(256).save(FIGURES / "explorer.png", optimize=True)
    page.close()


def card(browser: Any, name: str, inside: str, style: str = "") -> None:
    """A picture of 264 by 150 from some HTML, twice as large."""
    page = browser.new_page(viewport={"width": 528, "height": 300})
    page.set_content(CARD.format(inside=inside, style=style))
    shot(page).quantize(128).save(FIGURES / f"card-{name}.png", optimize=True)
    page.close()


def cards(browser: Any, seen: bytes) -> None:
    """See it, build it, break it."""
    picture = "<img src='data:image/{};base64,{}' style='max-width:520px;max-height:294px'>"
    card(browser, "see", picture.format("png", encoded(seen)))
    text = (ROOT / "benchmarks/results/homework-check-en.txt").read_text("utf-8")
    style = "font:21px/1.6 'DejaVu Sans Mono',monospace;white-space:pre"
    words = "  expected", "  likely"
    lines = [line for line in text.splitlines() if line.startswith(words)]
    said = re.search(r"your result at \[0, 0\] is (\S+)", text)[1]
    head = f"{text.partition(':')[0]}\nmeasured  <b style='color:#b3402e'>{said}</b>\n"
    card(browser, "build", head + "\n".join(line.strip() for line in lines), style)
    curves = encoded(cell_figure("06_masking", "puzzle-curves"))
    card(browser, "break", picture.format("png", curves))


def encoded(data: bytes) -> str:
    """Bytes for a data: address."""
    return base64.b64encode(data).decode("ascii")


def main() -> None:
    """Write the picture, the films, the stills and the cards."""
    with sync_playwright() as playwright:
        path, flags = which("chromium"), ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        picture(browser)
        for theme, name in (("light", "film"), ("dark", "film-dark")):
            page = browser.new_page(viewport=SIZE, device_scale_factor=SCALE, color_scheme=theme)
            page.goto(f"{PAGE.as_uri()}#embed=1&lang=en&sentence={SENTENCE}")
            page.wait_for_selector("html[data-ready]")
            if theme == "light":
                seen = page.locator("#picture").screenshot()
            film(page, name)
            page.close()
        cards(browser, seen)


if __name__ == "__main__":
    main()
