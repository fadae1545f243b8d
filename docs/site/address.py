"""Write the address of the repository into the pages that leave it open.

    python docs/site/address.py https://github.com/OWNER/NAME     # README in both languages

The workflow that publishes the site runs it and commits what it changed; the site itself is filled
by `gather.py` with the same function.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "README.zh.md")
OPEN = re.compile(r"(?<=git\+)URL\b|(?<=git clone )URL\b")
LIVE = re.compile(r'(?<=\]\()figures/explorer\.html(?=\))|(?<=href=")figures/explorer\.html(?=")')
DOOR = "explorer/cmn-en-zh.html"  # the page of the site that the first link opens


def pages(repository: str) -> str:
    """Where GitHub Pages shows the site of a repository on GitHub; "" for another one."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", repository)
    return f"https://{found[1].lower()}.github.io/{found[2]}/" if found else ""


def filled(text: str, repository: str, door: str = "") -> str:
    """A page with the address of the repository, and its first link to `door`.

    By default that is the page on GitHub Pages, where the repository is on GitHub.
    """
    door = door or (pages(repository) and pages(repository) + DOOR)
    text = OPEN.sub(repository.removesuffix("/"), text) if repository else text
    return LIVE.sub(door, text) if door else text


def main() -> int:
    """Fill the pages in place; exit status 1 where no address of a GitHub repository is given."""
    repository = sys.argv[1] if len(sys.argv) == 2 else ""
    if not repository.startswith("https://github.com/"):
        print(f"expected https://github.com/OWNER/NAME, not {repository!r}", file=sys.stderr)
        return 1
    for page in (ROOT / name for name in PAGES):
        page.write_text(filled(page.read_text("utf-8"), repository), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
