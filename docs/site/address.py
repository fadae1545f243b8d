"""The address of the repository: one constant, and what the pages show because of it.

    python docs/site/address.py https://github.com/OWNER/NAME [BRANCH]
    python docs/site/address.py        # after a change of the words, with the address as it is

The constant is `Repository` in the table `project.urls` of pyproject.toml.  It is absent until the
project is published: the workflow that publishes the site writes it with this command.  Whatever
works only on the web follows from it: the live explorer, Colab, Binder, `git clone` and
`pip install`.  README has a block for each, between `<!-- NAME:begin -->` and `<!-- NAME:end -->`;
the words are in address.toml, for a project with an address and for one without.  The website is
filled by `gather.py` with the same functions.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"
PAGES = {"README.md": "en", "README.zh.md": "zh"}
WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
BLOCK = re.compile(r"(<!-- (\w+):begin -->\n).*?(?=<!-- \2:end -->)", re.DOTALL)
URLS = re.compile(r"(?m)^\[project\.urls\]\n(?:^[^\[\n].*\n)*\n?")
COLAB = "colab"  # the branch of the copies that begin with a cell that installs the package
EXPLORER = "explorer/cmn-en-zh.html"  # the page of the site that the live explorer is


def repository() -> str:
    """The address of the repository, as the environment or pyproject.toml names it, or ""."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    address = os.environ.get("NMTLIB_REPOSITORY") or project.get("urls", {}).get("Repository", "")
    return address.rstrip("/").removesuffix(".git")


def owner_and_name(repository: str) -> str:
    """The "OWNER/NAME" of a repository on GitHub; "" for another one, which has no pages there."""
    match = GITHUB.fullmatch(repository)
    return f"{match[1]}/{match[2]}" if match else ""


def pages(repository: str) -> str:
    """Where GitHub Pages shows the site of a repository on GitHub; "" for another one."""
    owner, _, name = owner_and_name(repository).partition("/")
    return f"https://{owner.lower()}.github.io/{name}/" if owner else ""


def colab(repository: str, notebook: str) -> str:
    """The address that opens the copy of a notebook for Colab (see colab.py)."""
    place = owner_and_name(repository)
    return f"https://colab.research.google.com/github/{place}/blob/{COLAB}/{notebook}"


def binder(repository: str, branch: str, notebook: str) -> str:
    """The address that opens a notebook in Binder."""
    place = owner_and_name(repository)
    return f"https://mybinder.org/v2/gh/{place}/{branch}?urlpath=lab/tree/{notebook}"


def filled(
    text: str, language: str, repository: str, branch: str = "main", *, site: bool = False
) -> str:
    """A page with each block of address.toml as it is with this address, or without any.

    Without any, a page of the website has the block `site` where there is one: that page came in
    no archive.
    """
    words = WORDS[language]
    facts = {"repository": repository, "film": words["film"].strip()}
    if owner_and_name(repository):
        tour = words["tour"]
        facts["explorer"] = pages(repository) + EXPLORER
        facts["colab"] = colab(repository, tour)
        facts["binder"] = binder(repository, branch, tour)
        facts["codespaces"] = f"https://codespaces.new/{owner_and_name(repository)}"
        kinds = ["published"]
    elif site:
        kinds = ["site", "unpublished"]
    else:
        kinds = ["unpublished"]

    def fill_block(match: re.Match[str]) -> str:
        begin, name = match.groups()
        if name not in words["blocks"]:
            return match[0]  # it is another script's, such as the headlines
        block = words["blocks"][name]
        kind = next(kind for kind in kinds if kind in block)
        return begin + block[kind].format(**facts)

    return BLOCK.sub(fill_block, text)


def with_constant(project: str, repository: str) -> str:
    """The text of pyproject.toml with this address as the constant."""
    table = f'[project.urls]\nRepository = "{repository}"\n\n'
    text = URLS.sub("", project)
    place = "[project.scripts]\n"  # the table that follows
    if text.count(place) != 1:
        raise ValueError(f"pyproject.toml: expected one {place.strip()}, found {text.count(place)}")
    return text.replace(place, table + place)


def main() -> int:
    """Write the constant, if one is given, and the pages; 1 for an address of another site."""
    address, branch = repository(), "main"
    if len(sys.argv) > 2:
        branch = sys.argv[2]
    if len(sys.argv) > 1:
        argument = sys.argv[1]
        if not owner_and_name(argument):
            print(f"expected https://github.com/OWNER/NAME, not {argument!r}", file=sys.stderr)
            return 1
        address = f"https://github.com/{owner_and_name(argument)}"
        PROJECT.write_text(with_constant(PROJECT.read_text("utf-8"), address), "utf-8")
    for name, language in PAGES.items():
        page = ROOT / name
        page.write_text(filled(page.read_text("utf-8"), language, address, branch), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
