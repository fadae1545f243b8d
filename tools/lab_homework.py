"""Do one task of the homework in a real JupyterLab in a browser, as a student would.

    python tools/lab_homework.py --shots shots

Starts an assignment with `nmtlib homework start`, runs all cells with nothing written, types
an answer into its cell, runs the cell and the check below it, and reads the verdicts from the
page.  Not part of CI: it needs `pip install playwright` and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab_check import CHROMIUM_FLAGS, STATE, TOKEN, jupyter_lab

TASK, FILE = "04.1", "04_attention.ipynb"
ANSWER = """\
def stable_softmax(scores):
powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
return powers / powers.sum(dim=-1, keepdim=True)"""  # JupyterLab indents what is typed
WRONG = ANSWER.replace("dim=-1, keepdim=True)).exp", ")).exp")
OUTPUTS = """() => {
  const panel = window.jupyterapp.shell.currentWidget;
  return Object.fromEntries([...panel.content.model.cells].filter(c => c.type === 'code').map(
    c => [c.id, c.outputs.toJSON().map(o => o.text || o.evalue || '').flat().join('')]));
}"""
SELECT = """id => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const at = [...notebook.model.cells].findIndex(c => c.id === id);
  notebook.activeCellIndex = at;
  return notebook.scrollToItem(at, 'center').then(() => { notebook.mode = 'edit'; });
}"""
RUN = "name => window.jupyterapp.commands.execute(name)"


def do_homework(page: Any, address: str, shots: Path | None) -> dict[str, str]:
    """What the check says of a blank page, of a wrong answer, and of a right one."""
    page.goto(f"{address}/lab/tree/{FILE}?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook", timeout=120_000)
    page.wait_for_function(f"() => (({STATE})() || {{}}).status === 'idle'", timeout=120_000)
    page.evaluate(RUN, "notebook:run-all-cells")
    said = {"blank": verdict(page)}
    said["last"] = page.evaluate(OUTPUTS)["check-04-4"]  # nothing has stopped the page
    for kind, answer in (("wrong", WRONG), ("right", ANSWER)):
        page.evaluate(SELECT, "answer-04-1")
        page.keyboard.press("Control+A")
        page.keyboard.type(answer)
        page.keyboard.press("Shift+Enter")
        page.evaluate(SELECT, "check-04-1")
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(1000)
        page.wait_for_function(f"() => (({STATE})()).status === 'idle'", timeout=120_000)
        said[kind] = verdict(page)
        if shots:
            shots.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=shots / f"homework-{kind}.png")
    return said


def verdict(page: Any) -> str:
    """What the check of the task has printed."""
    return page.evaluate(OUTPUTS)["check-04-1"]


def check(chromium: str, shots: Path | None) -> dict[str, str]:
    """Start the assignment, serve its folder, and do it in a browser."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch, "my"), Path(scratch, "home")
        start = [
            sys.executable,
            "-m",
            "nmtlib",
            "homework",
            "start",
            "04",
            "--out",
            str(folder),
        ]
        subprocess.run(start, check=True)
        with jupyter_lab(folder, home) as address, sync_playwright() as playwright:
            launch = playwright.chromium.launch
            browser = launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            said = do_homework(page, address, shots)
            browser.close()
    return said


def main() -> int:
    """Print the three verdicts; 1 where one of them is not what it should be."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("--chromium", default=shutil.which("chromium") or "chromium", metavar="PROGRAM")
    add("--shots", type=Path, metavar="FOLDER", help="for two pictures of the page")
    options = parser.parse_args()
    said = check(options.chromium, options.shots)
    for kind, text in said.items():
        print(f"[{kind}]\n{text}")
    wanted = {"blank": "nothing is written", "last": "nothing is written"}
    wanted |= {"wrong": "largest score of the whole", "right": "4 of 4 points"}
    return int(any(part not in said[kind] for kind, part in wanted.items()))


if __name__ == "__main__":
    sys.exit(main())
