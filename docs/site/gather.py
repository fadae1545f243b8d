"""Gather the pages of the website in one folder, each where it lies in the project.

Links between pages stay as they are.  A link to a module leads to its place in the API, and one
to any other file or folder of the project to a page that shows it.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

import address
import api
import glossary

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PRINTED = ROOT / "build" / "print"  # where `make print` puts PDFs
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/zh/*.md",
    "benchmarks/*.md",
    "notebooks/*.ipynb",
    "notebooks/deeper/*.ipynb",
    "notebooks/zh/*.ipynb",
    "notebooks/homework/*.ipynb",
    "notebooks/zh/homework/*.ipynb",
]
PICTURES = (".png", ".svg", ".jpg", ".webp")
INSTEAD = {
    "README.md": "/index.md",  # which includes its parts
    "notebooks": "/course.md",
    "notebooks/homework": "/homework.md",
}
CODE_OR_LINK = re.compile(r"(?s)(^```.*?^```|`[^`\n]*`)|\]\(([^)\s]+)\)", re.MULTILINE)
EXPLORER = re.compile(r"`explorer\.html(#[^`]*)`")  # a view of a page that the site has
FENCE = "`" * 6  # longer than any in the files that are shown


def gather(source: Path, repository: str, branch: str) -> None:
    """Write all pages of the site below `source`, anew."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(HERE / "pages", source)
    shutil.copytree(ROOT / "figures", source / "figures")
    paths = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    pages = {path.relative_to(ROOT).as_posix() for path in paths}
    waiting: set[str] = set()  # files and folders that are linked, and need a page
    for name in sorted(pages):
        text = (ROOT / name).read_text("utf-8")

        def link(target: str, name: str = name) -> str:
            return _target(target, name, pages, waiting)

        if name.endswith(".ipynb"):
            up = "../" * name.count("/")
            text = notebook(text, link, launch(name, repository, branch), up)
        else:
            text = relink(text, link)
        write(source / name, text)
    list_others(source / "index.md", pages)
    front = source / "homework.md"
    write(front, front.read_text("utf-8").replace("\nHOMEWORK\n", f"\n{homework_table()}\n"))
    for name in ("index.md", "README.md"):
        text = (source / name).read_text("utf-8")
        text = re.sub(r'(href="notebooks/[^"]+)\.ipynb"', r'\1.html"', text)  # of the tiles
        write(source / name, address.filled(text, "en", repository, branch, site=True))
    write(source / "glossary.md", glossary.page())
    for name, text in api.pages().items():
        write(source / "api" / name, text)
    while waiting:  # the page of a folder links to the files in it
        name = waiting.pop()
        write(source / "files" / f"{name}.md", file_page(name, waiting))


def write(path: Path, text: str) -> None:
    """Write a page, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def list_others(front: Path, pages: set[str]) -> None:
    """Name the documents that the front page does not list yet where it says MORE."""
    text = front.read_text("utf-8")
    documents = [name[:-3] for name in sorted(pages) if name.startswith(("docs/", "benchmarks/"))]
    others = "\n".join(name for name in documents if name not in text)
    front.write_text(text.replace("MORE", others), "utf-8")


def homework_table() -> str:
    """Each assignment with its tasks, its minutes and its points, and a link to it in Chinese."""
    from nmtcourse.homework.catalogue import assignments  # only now: it imports torch

    lines = ["| homework | minutes | points | you write |", "| --- | ---: | ---: | --- |"]
    for assignment in assignments().values():
        tasks = assignment.tasks.values()
        (page,) = ROOT.glob(f"notebooks/homework/{assignment.number}_*.ipynb")
        titles = "; ".join(task.title for task in tasks)
        english = f"[{assignment.number} {assignment.title}](notebooks/homework/{page.name})"
        cells = [
            f"{english}<br>[中文](notebooks/zh/homework/{page.name})",
            str(sum(task.minutes for task in tasks)),
            f"{sum(task.points for task in tasks):g}",
            titles,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def slug(heading: str) -> str:
    """The name of a heading in an address; one that JupyterLab or GitHub made comes to the same."""
    bare = re.sub(r"\$[^$]*\$|['\"]", "", heading.lower())
    return re.sub(r"[\W_]+", "-", bare).strip("-")


def heading(name: str, fragment: str) -> str:
    """The heading that a link to a place in a file names, itself or by the id of its cell."""
    id = fragment.removeprefix("cell-id=")
    if id == fragment:
        return fragment
    cells = json.loads((ROOT / name).read_text("utf-8"))["cells"]
    (text,) = ("".join(cell["source"]) for cell in cells if cell["id"] == id)
    return re.search(r"(?m)^#+ (.*)$", text)[1]


def relink(text: str, link: Callable[[str], str]) -> str:
    """Some Markdown with each target of a link outside code replaced by `link(target)`."""

    def replace(match: re.Match[str]) -> str:
        code, target = match.groups()
        return code or f"]({link(target)})"

    return CODE_OR_LINK.sub(replace, text)


def _target(target: str, page: str, pages: set[str], waiting: set[str]) -> str:
    """Where a link of `page` leads on the site; what needs a page of its own goes to `waiting`.

    _target("../README.md#install", "docs/core.md", …)     "/index.md"
    _target("checks.md#a-check", "docs/core.md", …)        "checks.md#a-check"
    _target("../nmtlib/run.py", "docs/core.md", …)         "/api/nmtlib.md#nmtlib-run"
    _target("../tools/deck.py", "docs/core.md", …)         "/files/tools/deck.py.md"
    """
    if re.match(r"[a-z]+:", target):
        return target
    path, sharp, fragment = target.partition("#")
    place = page
    if path:
        place = os.path.normpath(Path(page).parent / unquote(path))
    if path and place in INSTEAD:
        return INSTEAD[place]
    end = sharp + slug(heading(place, unquote(fragment)))
    if not path or place in pages or place.endswith(PICTURES):
        return path + end
    section = api.place(place)
    if section is not None:
        return f"/api/{section}"
    if not (ROOT / place).exists():
        return target  # Sphinx will say so
    waiting.add(place)
    return f"/files/{quote(place)}.md"


def launch(name: str, repository: str, branch: str) -> str:
    """The line below the title of a notebook: where it can be run, taken along and changed."""
    up = "../" * name.count("/")
    words = ("Download", "Open in Colab", "Edit", "Homework")
    if "/zh/" in name:
        words = ("下载", "在 Colab 打开", "编辑", "作业")
    download, open_it, change, homework = words
    links = {download: f"{up}_sources/{name}"}
    stem = Path(name).stem
    folder = Path(name).parent
    if folder.name in ("notebooks", "zh"):
        for task in ROOT.glob(f"{folder}/homework/{stem.split('_')[0]}_*.ipynb"):
            links[homework] = f"homework/{task.stem}.html"
    if folder == Path("notebooks"):
        links["中文"] = f"zh/{stem}.html"
        links["Slides"] = f"{up}slides/{stem}.html"
    if folder == Path("notebooks/deeper"):
        links["中文"] = f"../zh/{stem}.html"
    if folder == Path("notebooks/homework"):
        links["中文"] = f"../zh/homework/{stem}.html"
    if folder == Path("notebooks/zh/homework"):
        links["English"] = f"../../homework/{stem}.html"
    elif folder == Path("notebooks/zh"):
        links["English"] = f"../{stem}.html"
        if (ROOT / "notebooks" / "deeper" / f"{stem}.ipynb").is_file():
            links["English"] = f"../deeper/{stem}.html"
    elif (PRINTED / f"{stem}.pdf").is_file():
        links["PDF"] = f"{up}print/{stem}.pdf"
    if address.owner_and_name(repository):
        colab = address.colab(repository, name)
        binder = address.binder(repository, branch, name)
        edit = f"{repository}/edit/{branch}/{name}"
        links = {open_it: colab, "Binder": binder, **links, change: edit}
    joined = "".join(f'<a href="{href}">{text}</a>' for text, href in links.items())
    return f'<p class="launch">{joined}</p>'


def view(match: re.Match[str], up: str) -> str:
    """A link to a view of the explorer, from the page of a notebook."""
    fragment = html.escape(match[1])
    page = html.escape(f"{up}explorer/toy-de-en.html")
    return f'<a href="{page}{fragment}"><code>explorer.html{fragment}</code></a>'


def notebook(text: str, link: Callable[[str], str], line: str, up: str = "../") -> str:
    """A notebook as the site shows it: the line below its title, links that lead somewhere."""
    book = json.loads(text)
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            text = relink("".join(cell["source"]), link)
            cell["source"] = EXPLORER.sub(lambda match: view(match, up), text)
        elif "predict" in cell["metadata"].get("tags", ()):
            cell["metadata"]["tags"].append("remove-input")  # as JupyterLab folds it away
        if "outputs" in cell:  # without the empty ones of a folded cell
            cell["outputs"] = [output for output in cell["outputs"] if output.get("data") != {}]
        alts = []
        for output in cell.get("outputs", ()):
            pictures = output.get("metadata", {})
            if "image/png" in pictures:
                alts.append(pictures["image/png"]["alt"])
        alt = " ".join(alts)
        if alt:
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
    title, _, rest = book["cells"][0]["source"].partition("\n")
    book["cells"][0]["source"] = f"{title}\n\n{line}\n{rest}"
    framed = f"/{address.EXPLORER}"  # the same page, where the site has it
    return json.dumps(book).replace("/figures/explorer.html", framed)


def file_page(name: str, waiting: set[str]) -> str:
    """A page that shows a file or folder of the project; what a folder holds goes to `waiting`."""
    path = ROOT / name
    head = f"---\norphan: true\nnosearch: true\n---\n# `{name}`\n\n"
    if path.is_file():
        kind = "python" if path.suffix == ".py" else "text"
        try:
            text = path.read_text("utf-8").rstrip()
        except UnicodeDecodeError:  # weights, or a compressed corpus
            text = f"{path.stat().st_size:,} bytes that are not text"
        return f"{head}{FENCE}{kind}\n{text}\n{FENCE}\n"
    files = sorted(file for file in path.iterdir() if file.is_file())
    pictures = [file for file in files if file.suffix == ".png"]
    if pictures:
        lines = [f"![{file.name[:-4]}](/{name}/{file.name})\n" for file in pictures]
        return head + "\n".join(lines)
    waiting.update(f"{name}/{file.name}" for file in files)
    lines = [f"- [`{file.name}`](/files/{name}/{file.name}.md)" for file in files]
    return head + "\n".join(lines)
