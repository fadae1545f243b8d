"""The diagrams in Chinese: each NAME.svg with other words, drawn by Chromium into zh/NAME.png.

    python tools/diagrams.py              draw all  (needs Chromium; see requirements-extras.txt)
    python tools/diagrams.py masks        draw one

The words of a diagram are outlines, each below a comment that says what it is; those that
`zh.toml` translates give way to a text of the same place, size and colour: of the same middle, or
after a "|" of the same left edge.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tomllib
from pathlib import Path

from pages import CHROMIUM, FONT
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "nmtcourse" / "teaching" / "diagrams"
ZOOM = 820 / 768  # of the stored English pictures: pixels for a CSS pixel
PAGE = """<style>@font-face {{font-family: CJK; src: url("data:font/otf;base64,{font}")}}
body {{margin: 0}} svg {{display: block; zoom: {zoom}}}</style>{svg}"""
REPLACE = """async words => {
  await document.fonts.load("16px CJK", "中");
  const nodes = document.createNodeIterator(document, NodeFilter.SHOW_COMMENT), comments = [];
  for (let node; (node = nodes.nextNode()); ) comments.push(node);
  for (const comment of comments) {
    const drawn = comment.nextElementSibling;
    const text = words[comment.data.trim().replace("&amp;", "&")];
    if (text === undefined || drawn?.tagName !== "g") continue;
    const box = drawn.getBBox(), written = document.createElementNS(drawn.namespaceURI, "text");
    const left = text.startsWith("|");
    written.textContent = left ? text.slice(1) : text;
    const bold = drawn.innerHTML.includes("-Bold-");
    written.setAttribute("transform", drawn.getAttribute("transform") + " scale(1 -1)");
    written.setAttribute("style", drawn.getAttribute("style") ?? "");
    Object.assign(written.style, {font: `${bold ? "bold " : ""}100px "DejaVu Sans", CJK`});
    written.setAttribute("text-anchor", left ? "start" : "middle");
    written.setAttribute("x", left ? box.x : box.x + box.width / 2);
    drawn.style.visibility = "hidden";  // not removed: later words use the outlines in it
    drawn.after(written);
    const over = written.getComputedTextLength() / Math.max(box.width, 400);
    if (over > 1) written.style.fontSize = `${100 / over}px`;
  }
}"""


def main(names: list[str]) -> None:
    words = tomllib.loads((FOLDER / "zh.toml").read_text("utf-8"))["words"]
    (FOLDER / "zh").mkdir(exist_ok=True)
    font = base64.b64encode(FONT.read_bytes()).decode()
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1200})
        for path in sorted(FOLDER.glob("*.svg")):
            if not names or path.stem in names:
                svg = path.read_text("utf-8").partition("<svg")[2]
                page.set_content(PAGE.format(font=font, zoom=ZOOM, svg="<svg" + svg))
                page.evaluate(REPLACE, words)
                page.locator("svg").screenshot(path=FOLDER / "zh" / f"{path.stem}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
