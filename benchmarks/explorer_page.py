"""How large the explorer's pages are, and how long they take to translate, in Chromium.

    python benchmarks/explorer_page.py     # a minute; needs the extras and Chromium

For each shipped model: megabytes of its file; milliseconds until the first translation is shown;
and from the last key of a changed sentence to its translation (median and longest of all examples).
Writes results/explorer-page.json.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from shared import RESULTS, parser, write_result

from nmtcourse.explorer.page import explore
from nmtcourse.provenance import command_line, describe_machine

MODELS = ("toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh")
RESULT = RESULTS / "explorer-page.json"
OPENINGS = 5
# The page draws a translation when all of it is there, so that the first change is the whole.
TYPED = """(sentence) => new Promise((done) => {
  const [input, shown] = ["input", "translation"].map((id) => document.getElementById(id));
  const start = performance.now();
  new MutationObserver((_, watch) => {
    if (!shown.innerText.trim()) return;
    watch.disconnect();
    requestAnimationFrame(() => done(performance.now() - start));
  }).observe(shown, { childList: true, subtree: true, characterData: true });
  input.value = sentence;
  input.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def opened(page: Page, file: Path) -> float:
    """Open a page anew; milliseconds until it shows a translation."""
    page.goto("about:blank")
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    return page.evaluate("performance.now()")


def measure(browser: Any, model: str, folder: Path) -> dict[str, Any]:
    """One model's page: its size and its times."""
    file = explore(model, folder / f"{model}.html")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    first = [opened(page, file) for _ in range(OPENINGS)]
    sentences = page.locator(".try").all_inner_texts()
    typed = [page.evaluate(TYPED, sentence) for sentence in sentences[1:]]
    page.close()
    return {
        "megabytes": round(file.stat().st_size / 1e6, 2),
        "first_ms": round(statistics.median(first)),
        "typed_ms": round(statistics.median(typed)),
        "typed_longest_ms": round(max(typed)),
        "sentences": len(typed),
    }


def main() -> int:
    """Measure all pages."""
    parser(__doc__).parse_args()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        models = {model: measure(browser, model, Path(folder)) for model in MODELS}
        machine = describe_machine() | {"browser": f"Chromium {browser.version}"}
        browser.close()
    result = {"command": command_line(), "models": models, "machine": machine}
    write_result(RESULT, result)
    print(*(f"{model}: {row}" for model, row in models.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
