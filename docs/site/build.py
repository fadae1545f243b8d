"""Build the website from the stored outputs: nothing is executed, nothing is fetched.

    python docs/site/build.py                         into build/site/html  (make site)
    python docs/site/build.py --repository https://github.com/OWNER/NAME --branch main

The pages are gathered in build/site/source, each where it lies in the project, and Sphinx makes
them HTML.  The links to Colab, Binder and the editor follow from the address of the repository.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from gather import gather

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPLORED = ("toy-de-en", "toy-en-zh")  # the models whose explorer is a page of the site


def repository() -> str:
    """The address of the repository, as the environment or pyproject.toml names it, or nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = os.environ.get("NMTLIB_REPOSITORY") or project.get("urls", {}).get("Repository", "")
    return named.rstrip("/").removesuffix(".git")


def explore(html: Path) -> None:
    """Write the explorer of each bundled model; raises RuntimeError where that does not work."""
    for name in EXPLORED:
        page = html / "explorer" / f"{name}.html"
        page.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "nmtlib", "explore", name, "--out", str(page)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode or not page.is_file():
            raise RuntimeError(f"`nmtlib explore {name}` wrote no page:\n{done.stderr[-2000:]}")


def build(out: Path, address: str, branch: str, explorer: bool = True) -> int:
    """Make the site in `out`/html; the exit status of Sphinx, for which a warning is an error."""
    source, html = out / "source", out / "html"
    gather(source, address, branch)
    options = ["-q", "-E", "-n", "-W", "--keep-going", "-j", "auto", "-d", str(out / "doctrees")]
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(HERE), *options]
    status = subprocess.run([*sphinx, str(source), str(html)], cwd=ROOT).returncode
    if explorer and not status:
        explore(html)
    return status


def main() -> int:
    """Build with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    add("--repository", default=repository(), metavar="URL")
    add("--branch", default=os.environ.get("NMTLIB_BRANCH", "main"))
    add("--without-explorer", action="store_true", help="leave the pages of the explorer out")
    options = parser.parse_args()
    try:
        explorer = not options.without_explorer
        status = build(options.out.resolve(), options.repository, options.branch, explorer)
    except RuntimeError as error:
        sys.exit(f"docs/site/build.py: {error}")
    if not status:
        print(f"open {os.path.relpath(options.out / 'html' / 'index.html')}")
    return status


if __name__ == "__main__":
    sys.exit(main())
