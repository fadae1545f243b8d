"""Build the website from the stored outputs: nothing is executed, nothing is fetched.

    python docs/site/build.py                         into build/site/html  (make site)
    python docs/site/build.py --repository https://github.com/OWNER/NAME --branch main

The pages are gathered in build/site/source, each where it lies in the project, and Sphinx makes
them HTML.  The links to Colab, Binder and the editor follow from the address of the repository.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import address
from gather import PRINTED, gather

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# the models whose explorer is a page of the site
EXPLORED = ("toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh")


def explore(html: Path) -> None:
    """Write the explorer of each bundled model, with links to the notebooks and to the others."""
    from nmtcourse.explorer.page import explore as write  # only now: it imports torch

    (html / "explorer").mkdir(exist_ok=True)
    for name in EXPLORED:
        links = {model: f"{model}.html" for model in EXPLORED if model != name}
        page = html / "explorer" / f"{name}.html"
        write(name, page, links=links, notebooks="../notebooks/{stem}.html")


def lecture(html: Path) -> None:
    """Write the slides of each notebook, and take along the PDFs that `make print` made."""
    slides = [sys.executable, "tools/pages.py", "slides", "--out", str(html / "slides")]
    subprocess.run(slides, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for pdf in PRINTED.glob("*.pdf"):
        (html / "print").mkdir(exist_ok=True)
        shutil.copy(pdf, html / "print")


def build(out: Path, repository: str, branch: str) -> int:
    """Make the site in `out`/html; the exit status of Sphinx, for which a warning is an error."""
    source, html = out / "source", out / "html"
    gather(source, repository, branch)
    options = ["-q", "-E", "-n", "-W", "--keep-going", "-j", "auto", "-d", str(out / "doctrees")]
    options += ["-D", f"html_baseurl={address.pages(repository)}"]
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(HERE), *options]
    status = subprocess.run([*sphinx, str(source), str(html)], cwd=ROOT).returncode
    if not status:
        shutil.copytree(ROOT / "figures" / "tiles", html / "figures" / "tiles", dirs_exist_ok=True)
        shutil.copy(ROOT / "figures" / "explorer.png", html / "figures")  # of notebook 00
        explore(html)
        lecture(html)
    return status


def main() -> int:
    """Build with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    add("--repository", default=address.repository(), metavar="URL")
    add("--branch", default=os.environ.get("NMTLIB_BRANCH", "main"))
    options = parser.parse_args()
    status = build(options.out.resolve(), options.repository, options.branch)
    if not status:
        print(f"open {os.path.relpath(options.out / 'html' / 'index.html')}")
    return status


if __name__ == "__main__":
    sys.exit(main())
