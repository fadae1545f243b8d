"""The command `nmtlib course`: the notebooks and the homework in a folder of your own.

An installation carries the notebooks in `nmtcourse/notebooks`, where the build puts a copy of
the project's; in a clone they are taken from the project.
"""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace, _SubParsersAction
from collections.abc import Iterator
from importlib.metadata import distribution, metadata
from itertools import product
from pathlib import Path

from nmtcourse.outputs import MIXED_FOLDER, lab_command
from nmtlib.cli import add_command
from nmtlib.files import write_atomically

PLACES = [Path(__file__).with_name("notebooks"), Path(__file__).parents[1] / "notebooks"]
NOTEBOOKS = PLACES[0] if PLACES[0].is_dir() else PLACES[1]
LANGUAGES = {"en": ("*.ipynb", "deeper/*.ipynb"), "zh": ("zh/*.ipynb",)}  # each with those before
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)([^)\s]*)\)")


def add_course(commands: _SubParsersAction) -> None:
    """Add the command and its options."""
    about = "write the notebooks and the homework into a folder; never over an existing file"
    option = add_command(commands, "course", command_course, about).add_argument
    option("out", type=MIXED_FOLDER, metavar="OUT", help="the folder, which may exist")
    chinese = "zh also writes the Chinese notebooks, into OUT/zh (default: NMTLIB_LANG, or en)"
    option("--lang", choices=[*LANGUAGES], help=chinese)
    option("--lab", action="store_true", help="then open JupyterLab at the tour")


def command_course(options: Namespace) -> None:
    """Write what is missing, name what was kept, and open JupyterLab if asked to."""
    from nmtcourse.homework.chinese import language_of

    language = options.lang or language_of()
    written, kept = write_course(options.out, language)
    new = f"{len(written)} notebooks of the course and its homework are new in {options.out}"
    print(new, flush=True)  # before what JupyterLab logs
    if kept:
        print(f"kept, because they were there already: {', '.join(kept)}")
        print("for a fresh copy of one, move it away and run this command again")
    tour = options.out / ("zh" if language == "zh" else "") / "00_tour.ipynb"
    if options.lab:
        open_lab(tour, options.out, written)
    else:
        print(f"begin with: {lab_command(tour)}")


def write_course(out: Path, language: str = "en") -> tuple[list[str], list[str]]:
    """Write each notebook that is missing in `out`: the names of those written and those kept.

    Raises NotADirectoryError if a folder is a file, FileNotFoundError without notebooks to copy.
    """
    from nmtcourse.homework.catalogue import assignments
    from nmtcourse.homework.student import start

    homework = {"en": "homework", "zh": "zh/homework"}
    for folder in (out, out / "deeper", out / "zh", *(out / each for each in homework.values())):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file where the course needs a folder; move it")
    languages = list(dict.fromkeys(["en", language]))
    patterns = [each for name in languages for each in LANGUAGES[name]]
    names = [path.relative_to(NOTEBOOKS).as_posix() for p in patterns for path in _found(p)]
    written, kept = [], []
    for name in names:
        place = out / name
        if place.exists():
            kept.append(name)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, relinked((NOTEBOOKS / name).read_text("utf-8"), name, names))
        written.append(name)
    for each, (number, assignment) in product(languages, assignments().items()):
        name = f"{homework[each]}/{assignment.stem}.ipynb"
        try:
            start(number, out / homework[each], each)
            written.append(name)
        except FileExistsError:
            kept.append(name)
    return written, kept


def _found(pattern: str) -> Iterator[Path]:
    """The notebooks of a pattern in order.  Raises FileNotFoundError where there are none."""
    found = sorted(NOTEBOOKS.glob(pattern))
    if not found:
        line = f", as in: pip install git+{published()}" if published() else ""
        raise FileNotFoundError(
            f"this installation has no notebooks ({NOTEBOOKS / pattern}); install nmtlib from its "
            f"repository{line}"
        )
    yield from found


def relinked(text: str, name: str, names: list[str]) -> str:
    """The notebook `name` with links that lead somewhere: to `names`, or to the repository.

    Where the repository's address is not known, such a link becomes plain text.
    """
    book, pages = json.loads(text), repository()

    def link(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(name), match[2])).replace("\\", "/")
        if re.match(r"[a-z]+:", match[2]) or target in names:
            return match[0]
        inside = os.path.normpath(f"notebooks/{target}").replace("\\", "/")
        return f"[{match[1]}]({pages}/{inside}{match[3]})" if pages else match[1]

    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(link, "".join(cell["source"])).splitlines(keepends=True)
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def published() -> str:
    """The address of the repository that the project names, or '' before it is published."""
    for line in metadata("nmtlib").get_all("Project-URL") or []:
        name, _, address = line.partition(", ")
        if name == "Repository":
            return address
    return ""


def repository() -> str:
    """Where the files of this version are on the web, if pip installed it from there; else ''."""
    about = json.loads(distribution("nmtlib").read_text("direct_url.json") or "{}")
    commit = about.get("vcs_info", {}).get("commit_id")
    return f"{about['url'].removesuffix('.git')}/blob/{commit}" if commit else ""


def open_lab(tour: Path, out: Path, written: list[str]) -> None:
    """Trust the notebooks that we wrote, and run JupyterLab until it is stopped.

    Raises ModuleNotFoundError where JupyterLab is not installed.
    """
    try:
        from jupyterlab.labapp import LabApp
        from nbformat import read
        from nbformat.sign import NotebookNotary
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"JupyterLab is not installed ({error}), so it could not open {tour}; install it "
            "with: pip install jupyterlab ipywidgets"
        ) from None
    notary = NotebookNotary()
    for name in written:
        notary.sign(read(out / name, as_version=4))
    page = f"--LabApp.default_url=/lab/tree/{tour.relative_to(out).as_posix()}"
    LabApp.launch_instance([f"--ServerApp.root_dir={out.resolve()}", page])
