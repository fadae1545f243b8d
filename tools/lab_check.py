"""Run notebooks in a real JupyterLab in a browser, as a reader would: open, Run All, look.

    python tools/lab_check.py 00_tour.ipynb 04_*.ipynb --shots shots

Not part of CI: it needs `pip install playwright` and Chromium.  It works on copies in a
temporary folder, opens one page for each notebook, and reports what ran, what failed, how many
widgets the page shows, and which addresses outside this machine it asked for (should be none).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM_FLAGS = [
    "--no-sandbox",  # Chromium refuses to run as root in a container otherwise
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "check"
QUIET = '{"fetchNews": "false", "checkForUpdates": false}'  # else a pop-up covers the page
# The model and not the page: JupyterLab draws only the cells that are in view.
STATE = """() => {
  const panel = window.jupyterapp.shell.currentWidget;
  if (!panel || !panel.content || !panel.content.model) return null;
  const kernel = panel.sessionContext.session && panel.sessionContext.session.kernel;
  const cells = [...panel.content.model.cells].filter(
    c => c.type === 'code' && c.sharedModel.getSource().trim());
  const meant = cell => (cell.metadata.tags || []).includes('raises-exception');
  const failed = cell => cell.outputs.toJSON().filter(o => o.output_type === 'error');
  return {
    status: kernel ? kernel.status : 'none',
    cells: cells.length,
    done: cells.filter(c =>
      c.executionCount !== null && c.executionState !== 'running').length,
    widgets: cells.flatMap(c => c.outputs.toJSON()).filter(
      o => 'application/vnd.jupyter.widget-view+json' in (o.data || {})).length,
    errors: cells.flatMap((c, i) => meant(c) ? [] :
      failed(c).map(o => `${i + 1}: ${o.ename}: ${o.evalue}`)),
  };
}"""
COMMAND = "name => window.jupyterapp.commands.execute(name)"
TO_TOP = """() => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = 0;
  notebook.scrollToItem(0);
}"""
NOTIFICATIONS = "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
PLACES = {  # where JupyterLab keeps its own files
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}
LAB = ["-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]


@contextmanager
def jupyter_lab(folder: Path, home: Path) -> Iterator[str]:
    """A JupyterLab that shows `folder` and keeps its own files in `home`; yields its address.

    Raises RuntimeError with the end of its log where it does not start within a minute.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = home / NOTIFICATIONS
    settings.parent.mkdir(parents=True)
    settings.write_text(QUIET)
    environment = os.environ | {name: str(home / place) for name, place in PLACES.items()}
    options = ["--ServerApp.ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    options += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    command = [sys.executable, *LAB, *options]
    address, log = f"http://127.0.0.1:{port}", home / "lab.log"
    with open(log, "w") as file:
        server = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        _wait_for(address, server, log)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(address: str, server: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    """Return when the server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=2).read()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def run_all(
    browser: Any, address: str, name: str, shot: Path | None, timeout: float
) -> dict[str, Any]:
    """Open one notebook and run all its cells: how many, errors, widgets, outside addresses.

    Raises TimeoutError where the cells do not end in `timeout` seconds.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    outside: set[str] = set()
    inside = (address, address.replace("http", "ws", 1), "data:", "blob:")
    page.on("request", lambda asks: asks.url.startswith(inside) or outside.add(asks.url))
    page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook", timeout=120_000)
    page.wait_for_function(f"() => (({STATE})() || {{}}).status === 'idle'", timeout=120_000)
    # A stored notebook has counts and outputs: it would look finished before anything ran.
    page.evaluate(COMMAND, "notebook:clear-all-cell-outputs")
    if page.evaluate(STATE)["done"]:
        raise RuntimeError(f"{name}: its outputs could not be cleared")
    started = time.monotonic()
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    while not _has_ended(state := page.evaluate(STATE)):
        if time.monotonic() - started > timeout:
            raise TimeoutError(f"{name}: still at {state} after {timeout:.0f} s")
        page.wait_for_timeout(250)
    seconds = time.monotonic() - started
    page.evaluate(TO_TOP)
    page.wait_for_timeout(1000)
    if shot:
        page.screenshot(path=shot)
    page.close()
    outcome = {"outside": sorted(outside), "seconds": round(seconds, 1)}
    return {"notebook": name, **state, **outcome}


def _has_ended(state: dict[str, Any] | None) -> bool:
    if not state or state["status"] != "idle":
        return False
    return state["done"] == state["cells"] or bool(state["errors"])


def main() -> int:
    """Check the notebooks named, or all; 1 where a cell failed or a page asked outside."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="NOTEBOOK")
    add("--chromium", default=shutil.which("chromium") or "chromium", metavar="PROGRAM")
    add("--shots", type=Path, metavar="FOLDER", help="for a picture of each page's top")
    add("--timeout", type=float, default=300, metavar="S", help="seconds for each notebook")
    options = parser.parse_args()
    paths = options.paths or sorted((ROOT / "notebooks").glob("*.ipynb"))
    return 0 if check(paths, options.chromium, options.shots, options.timeout) else 1


def check(paths: list[Path], chromium: str, shots: Path | None, timeout: float) -> bool:
    """Run the notebooks and print a report for each; whether all is well."""
    from playwright.sync_api import sync_playwright

    good = True
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch, "project", "notebooks"), Path(scratch, "home")
        folder.mkdir(parents=True)
        if (ROOT / "figures").is_dir():
            shutil.copytree(ROOT / "figures", folder.parent / "figures")
        for path in paths:
            shutil.copy(path, folder)
        if shots:
            shots.mkdir(parents=True, exist_ok=True)
        with jupyter_lab(folder.parent, home) as address, sync_playwright() as playwright:
            launch = playwright.chromium.launch
            browser = launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            for path in paths:
                shot = shots / f"{path.stem}.png" if shots else None
                report = run_all(browser, address, f"notebooks/{path.name}", shot, timeout)
                good = good and not report["errors"] and not report["outside"]
                print(json.dumps(report), flush=True)
            browser.close()
    return good


if __name__ == "__main__":
    sys.exit(main())
