"""What every notebook of the course must be: each rule yields what a notebook does wrong.

    python tools/rules.py [04_*.ipynb]       fails where something is wrong

`pytest --nbval` runs the notebooks and compares their outputs; these rules see that there is
something to compare, and that the parts which the course promises are there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import minutes
import nbformat
import plain
from cells import cells_with, code, headings, prose, tags
from execute import ABSOLUTE_PATH, KEPT, NOTEBOOKS, WIDGET, output_text
from shown import (
    describes_its_pictures,
    has_a_deck,
    links_to_what_exists,
    names_figures_that_exist,
)

MAX_LINES, MAX_BYTES = 32, 1_500_000
LONG = 90  # minutes that one reads without a rest
# the forms of an output that JupyterLab 4 takes a line from, the first that is there
FOLDED_FORMS = ("text/html", "image/svg+xml", "application/pdf", "text/markdown", "text/plain")
OPENING = {  # what the opening says, and the words it says it with
    "what you will be able to do": r"will be able to",
    "the time it takes": r"\btime\b",
    "what it needs": r"\bneeds?\b",
}


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
        yield f"execution counts {counts}: run it with tools/execute.py"


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
    extra = set(book["metadata"]) - {"kernelspec", "language_info"}
    if extra:
        yield f"notebook metadata {sorted(extra)}"
    for cell in book["cells"]:
        extra = set(cell["metadata"]) - {*KEPT, "jupyter"}
        if extra:
            yield f"{cell['id']}: cell metadata {sorted(extra)}"
        if any(WIDGET in output.get("data", {}) for output in cell.get("outputs", ())):
            yield f"{cell['id']}: a widget is stored; no reader can see it"


def names_the_usual_kernel(book: dict, path: Path) -> Iterator[str]:
    name = book["metadata"].get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"kernelspec {name!r}, not 'python3'"


def names_no_machine(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        texts = [cell["source"], *(output_text(output) for output in cell.get("outputs", ()))]
        for text in texts:
            path_here = ABSOLUTE_PATH.search(text)
            if path_here:
                yield f"{cell['id']}: a path of some machine, {path_here[0]!r}"
            index = re.search(r"(?i)\S*index-url\S*|\bPIP_\w+", text)
            if index:
                yield f"{cell['id']}: where this machine gets its packages from, {index[0]!r}"


def ends_no_cell_with_a_semicolon(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if cell["source"].rstrip().endswith(";"):
            yield f"{cell['id']}: nbval ignores a closing ';'; assign to _ or call plt.show()"


def keeps_cells_short(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        lines = len(cell["source"].splitlines())
        if lines > MAX_LINES:
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
    outputs = [output.get("data", {}) for cell in code(book) for output in cell["outputs"]]
    pictures = [data for data in outputs if "image/png" in data]
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


def shown_of_a_folded(cell: dict) -> str | None:
    """The line that JupyterLab 4 prints of a cell whose outputs are folded: of the first output."""
    first = cell["outputs"][0]
    forms = first.get("data", {"text/plain": first.get("text", "")})
    texts = [forms[kind] for kind in FOLDED_FORMS if isinstance(forms.get(kind), str)]
    if not texts:
        return None
    lines = [line for line in texts[0].split("\n") if line]
    return lines[0] if lines else None


def tells_no_answer_while_folded(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if cell["metadata"].get("jupyter", {}).get("outputs_hidden"):
            line = shown_of_a_folded(cell)
            if line:
                yield f"{cell['id']}: folded, JupyterLab still shows {line[:60]!r}"


def opens_with_what_it_gives_and_needs(book: dict, path: Path) -> Iterator[str]:
    opening = prose(list(takewhile(lambda cell: cell["cell_type"] != "code", book["cells"])))
    if not re.match(r"# \S", opening):
        yield "the first cell does not start with a title (# ...)"
    for subject, pattern in OPENING.items():
        if not re.search(pattern, opening, re.IGNORECASE):
            yield f"the opening does not say {subject} (/{pattern}/)"


def states_honest_minutes(book: dict, path: Path) -> Iterator[str]:
    counted, stated = minutes.minutes(book), minutes.stated(book)
    if stated is None or abs(stated - counted) > max(5, 0.2 * counted):
        yield f"{stated} minutes are stated, {counted:.0f} counted: run tools/minutes.py"
    if counted > LONG and not re.search("(?i)rest here", prose(book["cells"])):
        yield f"{counted:.0f} minutes and no line 'Rest here'; more than {LONG} are too many"


def closes_with_summary_exercises_and_reading(book: dict, path: Path) -> Iterator[str]:
    text = prose(book["cells"])
    places = []  # of the last heading with each of these words; -1 for none
    for part in ("summary", "exercises", "further reading"):
        place = -1
        for number, heading in enumerate(headings(text)):
            if part in heading.lower():
                place = number
        places.append(place)
    if -1 in places or places != sorted(places):
        yield "it does not close with Summary, Exercises, Further reading, in this order"
    exercises = re.split(r"(?im)^#+.*\bexercises\b.*$", text)[-1].lower()
    grades = ("easy", "medium", "hard")
    missing = [grade for grade in grades if not re.search(rf"\b{grade}\b", exercises)]
    if missing:
        yield f"no {' and no '.join(missing)} exercise"


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
    tells_no_answer_while_folded,
    opens_with_what_it_gives_and_needs,
    states_honest_minutes,
    closes_with_summary_exercises_and_reading,
    links_to_what_exists,
    names_figures_that_exist,
    describes_its_pictures,
    has_a_deck,
    is_small,
    *plain.RULES,
]


def findings(path: Path) -> Iterator[str]:
    """What all rules find in a stored notebook."""
    book = nbformat.read(path, as_version=4)
    for rule in RULES:
        for finding in rule(book, path):
            yield f"{path.name} {rule.__name__}: {finding}"


if __name__ == "__main__":
    paths = map(Path, sys.argv[1:] or sorted(NOTEBOOKS.glob("*.ipynb")))
    problems = [finding for path in paths for finding in findings(path)]
    print("\n".join(problems) or "nothing is wrong")
    sys.exit(1 if problems else 0)
