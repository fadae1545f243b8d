"""What every notebook of the course must be: each rule yields what a notebook does wrong.

    python notebooks/rules.py [04_*.ipynb]       fails where something is wrong

`pytest --nbval` runs the notebooks and compares their outputs; these rules see that there is
something to compare, and that the parts which the course promises are there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

import minutes
import nbformat
from execute import ABSOLUTE_PATH, HERE, WIDGET, output_text

MAX_LINES, MAX_BYTES = 30, 1_000_000
LONG = 90  # minutes that one reads without a rest
LINK = re.compile(r"\]\(\s*<?([^()\s>]+)>?[^()]*\)|(?:src|href)=[\"']([^\"']+)[\"']")
OPENING = {  # what the opening says, and the words it says it with
    "what you will be able to do": r"will be able to",
    "the time it takes": r"\btime\b",
    "what it needs": r"\bneeds?\b",
}
FIGURE = re.compile(r"\bfigures/[\w./-]*\w")


def code(book: dict) -> list[dict]:
    """The code cells that hold code."""
    cells = (cell for cell in book["cells"] if cell["cell_type"] == "code")
    return [cell for cell in cells if cell["source"].strip()]


def cells_with(statement: str, book: dict) -> list[dict]:
    """The code cells in which a line begins with a pattern."""
    return [cell for cell in code(book) if re.search(rf"(?m)^\s*{statement}", cell["source"])]


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def prose(cells: list[dict]) -> str:
    """The text of the Markdown cells."""
    return "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")


def headings(text: str) -> list[str]:
    """The headings of Markdown text, those inside code blocks left out."""
    plain = re.sub(r"(?ms)^```.*?^```", "", text)
    return [match.strip() for match in re.findall(r"(?m)^#+\s+(.*?)\s*#*$", plain)]


def is_a_valid_notebook(book: dict, path: Path) -> Iterator[str]:
    ids = [cell.get("id") for cell in book["cells"]]
    if len(set(ids)) < len(ids):
        yield "two cells have the same id"
        return  # nbformat would mend that in silence
    try:
        nbformat.validate(nbformat.from_dict(book))
    except nbformat.ValidationError as error:
        yield f"nbformat: {str(error).splitlines()[0]}"


def was_run_top_to_bottom(book: dict, path: Path) -> Iterator[str]:
    counts = [cell["execution_count"] for cell in code(book)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts {counts}: run it with notebooks/execute.py"


def has_no_error_outputs(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        failed = any(output["output_type"] == "error" for output in cell["outputs"])
        if failed != ("raises-exception" in tags(cell)):
            yield f"{cell['id']}: an error and the tag raises-exception go together"


def writes_nothing_to_stderr(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if any(output.get("name") == "stderr" for output in cell["outputs"]):
            yield f"{cell['id']}: a warning or other stderr output is stored"


def stores_no_state(book: dict, path: Path) -> Iterator[str]:
    if extra := set(book["metadata"]) - {"kernelspec", "language_info"}:
        yield f"notebook metadata {sorted(extra)}"
    for cell in book["cells"]:
        if extra := set(cell["metadata"]) - {"tags", "jupyter", "nbgrader"}:
            yield f"{cell['id']}: cell metadata {sorted(extra)}"
        if any(WIDGET in output.get("data", {}) for output in cell.get("outputs", ())):
            yield f"{cell['id']}: a widget is stored; no reader can see it"


def names_the_usual_kernel(book: dict, path: Path) -> Iterator[str]:
    if (name := book["metadata"].get("kernelspec", {}).get("name")) != "python3":
        yield f"kernelspec {name!r}, not 'python3'"


def names_no_machine(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        texts = [cell["source"], *(output_text(output) for output in cell.get("outputs", ()))]
        for text in texts:
            if found := ABSOLUTE_PATH.search(text):
                yield f"{cell['id']}: a path of some machine, {found[0]!r}"
            if found := re.search(r"(?i)\S*index-url\S*|\bPIP_\w+", text):
                yield f"{cell['id']}: where this machine gets its packages from, {found[0]!r}"


def ends_no_cell_with_a_semicolon(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if cell["source"].rstrip().endswith(";"):
            yield f"{cell['id']}: nbval ignores a closing ';'; assign to _ or call plt.show()"


def keeps_cells_short(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if (lines := len(cell["source"].splitlines())) > MAX_LINES:
            yield f"{cell['id']}: {lines} lines of code, at most {MAX_LINES} can be taken in"


def runs_every_cell(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if "nbval-skip" in tags(cell) or "NBVAL_SKIP" in cell["source"]:
            yield f"{cell['id']}: no test would ever run this cell"


def uses_nmtlib(book: dict, path: Path) -> Iterator[str]:
    if not cells_with(r"(from|import) nmtlib\b", book):
        yield "nothing of nmtlib is imported"


def asserts_its_claims(book: dict, path: Path) -> Iterator[str]:
    if not cells_with(r"assert\b", book):
        yield "no cell asserts anything"


def shows_pictures(book: dict, path: Path) -> Iterator[str]:
    shown = (output.get("data", {}) for cell in code(book) for output in cell["outputs"])
    pictures = [data for data in shown if "image/png" in data]
    if not pictures:
        yield "no picture"
    if any(data.get("text/plain", "").startswith("<Figure size") for data in pictures):
        yield "a figure does not say what it shows, for nbval to compare: call plots.setup()"


def asks_before_it_shows(book: dict, path: Path) -> Iterator[str]:
    asking = cells_with(r"predict\(", book)
    if not asking:
        yield "no predict cell"
    for cell in asking:
        if "predict" not in tags(cell):
            yield f"{cell['id']}: without the tag 'predict' the answer is not folded away"


def opens_with_what_it_gives_and_needs(book: dict, path: Path) -> Iterator[str]:
    opening = prose(list(takewhile(lambda cell: cell["cell_type"] != "code", book["cells"])))
    if not re.match(r"# \S", opening):
        yield "the first cell does not start with a title (# ...)"
    for wanted, pattern in OPENING.items():
        if not re.search(pattern, opening, re.IGNORECASE):
            yield f"the opening does not say {wanted} (/{pattern}/)"


def states_honest_minutes(book: dict, path: Path) -> Iterator[str]:
    counted, stated = minutes.minutes(book), minutes.stated(book)
    if stated is None or abs(stated - counted) > max(5, 0.2 * counted):
        yield f"{stated} minutes are stated, {counted:.0f} counted: run notebooks/minutes.py"
    if counted > LONG and not re.search("(?i)rest here", prose(book["cells"])):
        yield f"{counted:.0f} minutes and no line 'Rest here'; more than {LONG} are too many"


def closes_with_summary_exercises_and_reading(book: dict, path: Path) -> Iterator[str]:
    text = prose(book["cells"])
    found = [heading.lower() for heading in headings(text)]
    parts = ("summary", "exercises", "further reading")
    places = [max((i for i, h in enumerate(found) if p in h), default=-1) for p in parts]
    if -1 in places or places != sorted(places):
        yield "it does not close with Summary, Exercises, Further reading, in this order"
    exercises = re.split(r"(?im)^#+.*\bexercises\b.*$", text)[-1].lower()
    grades = ("easy", "medium", "hard")
    if missing := [grade for grade in grades if not re.search(rf"\b{grade}\b", exercises)]:
        yield f"no {' and no '.join(missing)} exercise"


def links_to_what_exists(book: dict, path: Path) -> Iterator[str]:
    # x[0](y) in code is no link
    text = re.sub(r"(?s)```.*?```|`[^`]*`", "", prose(book["cells"]))
    for match in LINK.finditer(text):
        target = unquote(match[1] or match[2])
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        where = (path.parent / file).resolve() if file else path
        if not where.exists():
            yield f"link to {target}, but there is no {file}"
        elif anchor and where.suffix in (".ipynb", ".md") and anchor not in anchors(where):
            yield f"link to {target}, but {where.name} has no such heading"


def anchors(file: Path) -> set[str]:
    """The anchors of a notebook (as in JupyterLab) or of a Markdown file (as on GitHub)."""
    if file.suffix == ".ipynb":
        cells = nbformat.read(file, as_version=4)["cells"]
        return {heading.replace(" ", "-") for heading in headings(prose(cells))}
    found = headings(file.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def names_figures_that_exist(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        for name in FIGURE.findall(cell["source"]):
            if not (path.resolve().parents[1] / name).exists():
                yield f"{cell['id']}: there is no {name}"


def is_small(book: dict, path: Path) -> Iterator[str]:
    if path.stat().st_size >= MAX_BYTES:
        yield f"{path.stat().st_size:,} bytes, at most {MAX_BYTES:,}: draw less or smaller"


RULES = [
    is_a_valid_notebook,
    was_run_top_to_bottom,
    has_no_error_outputs,
    writes_nothing_to_stderr,
    stores_no_state,
    names_the_usual_kernel,
    names_no_machine,
    ends_no_cell_with_a_semicolon,
    keeps_cells_short,
    runs_every_cell,
    uses_nmtlib,
    asserts_its_claims,
    shows_pictures,
    asks_before_it_shows,
    opens_with_what_it_gives_and_needs,
    states_honest_minutes,
    closes_with_summary_exercises_and_reading,
    links_to_what_exists,
    names_figures_that_exist,
    is_small,
]


def findings(path: Path) -> Iterator[str]:
    """What all rules find in a stored notebook."""
    book = nbformat.read(path, as_version=4)
    found = ((rule.__name__, finding) for rule in RULES for finding in rule(book, path))
    yield from (f"{path.name} {rule}: {finding}" for rule, finding in found)


def unshown_figures(root: Path) -> Iterator[str]:
    """The files of figures/ that no notebook and no page shows; an SVG goes with its PNG."""
    places = ("README.md", "docs/*.md", "benchmarks/*.md", "notebooks/*.ipynb")
    pages = (page for place in places for page in root.glob(place))
    text = "\n".join(page.read_text("utf-8") for page in pages)
    for file in sorted((root / "figures").iterdir()):
        drawn = f"diagrams.{file.stem.replace('-', '_')}("
        if f"figures/{file.stem}." not in text and drawn not in text:
            yield f"figures/{file.name} is shown nowhere: show it, or remove it"


if __name__ == "__main__":
    paths = map(Path, sys.argv[1:] or sorted(HERE.glob("*.ipynb")))
    found = [finding for path in paths for finding in findings(path)]
    found += unshown_figures(HERE.parent)
    print("\n".join(found) or "nothing is wrong")
    sys.exit(1 if found else 0)
