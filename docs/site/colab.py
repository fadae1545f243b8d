"""Copies of the notebooks for Colab: a first cell installs the package, all links are whole.

    python docs/site/colab.py FOLDER       # with the address of the repository in pyproject.toml

Colab opens one file of a repository and nothing beside it.  So each copy begins with the cell that
installs nmtlib from the repository, and a link to another page leads to that page's copy, or to
the file in the repository.  The workflow that publishes the site pushes the folder as the branch
`colab`; what a reader of a clone opens has no such cell, since there the package is installed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import address
import gather
import nbformat

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["", "deeper", "zh", "homework", "zh/homework"]
INSTALL = {
    "en": "# On Colab, run this cell first. It takes a minute or two and keeps Colab's own torch.",
    "zh": "# 在 Colab 上先运行这个单元格。需要一两分钟，Colab 自带的 torch 会保留。",
}


def write_copies(folder: Path, repository: str, branch: str) -> list[Path]:
    """Write a copy of every notebook below `folder`, each where it lies in the repository."""
    paths = [
        path for name in FOLDERS for path in sorted((ROOT / "notebooks" / name).glob("*.ipynb"))
    ]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    copies = []
    for name in sorted(names):

        def link(target: str, name: str = name) -> str:
            return whole(target, name, names, repository, branch)

        book = nbformat.reads((ROOT / name).read_text("utf-8"), as_version=4)
        for cell in book.cells:
            if cell.cell_type == "markdown":
                cell.source = gather.relink(cell.source, link)
        book.cells.insert(0, install_cell(name, repository, branch))
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(book, copy)
        copies.append(copy)
    return copies


def install_cell(name: str, repository: str, branch: str) -> nbformat.NotebookNode:
    """The first cell of a copy: what it does, and the line that installs the package."""
    language = "zh" if "/zh/" in name else "en"
    line = f"%pip install -q git+{repository}@{branch}"
    cell = nbformat.v4.new_code_cell(f"{INSTALL[language]}\n{line}")
    cell.id = "install-on-colab"
    return cell


def whole(target: str, page: str, notebooks: set[str], repository: str, branch: str) -> str:
    """The whole address of what a page links to; a place in the same page stays as it is."""
    if target.startswith("#") or re.match(r"[a-z]+:", target):
        return target
    path, sharp, fragment = target.partition("#")
    place = os.path.normpath(Path(page).parent / unquote(path))
    if place in notebooks:
        return address.colab(repository, place) + sharp + fragment
    kind = "tree" if (ROOT / place).is_dir() else "blob"
    return f"{repository}/{kind}/{branch}/{place}{sharp}{fragment}"


def main() -> int:
    """Write the copies; 1 where the repository has no address that Colab knows."""
    repository = address.repository()
    if len(sys.argv) != 2 or not address.owner_and_name(repository):
        print(
            f"usage: colab.py FOLDER, of a repository on GitHub, not {repository!r}",
            file=sys.stderr,
        )
        return 1
    branch = os.environ.get("NMTLIB_BRANCH", "main")
    copies = write_copies(Path(sys.argv[1]), repository, branch)
    print(f"{len(copies)} notebooks for Colab in {sys.argv[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
