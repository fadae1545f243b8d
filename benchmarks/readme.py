"""Draw the curves in figures/, and write what was measured into README.md, docs and NOTES.md.

    python benchmarks/readme.py            # rewrite them all (make readme)
    python benchmarks/readme.py --check    # exit status 1 where a page is not up to date

Each block goes between the marks `<!-- NAME:begin -->` and `<!-- NAME:end -->` of its page, and
comes from the files in benchmarks/results, so that no figure is typed by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tables
import tables_course
import tables_homework
import tables_scores
import tables_speed
from tables import RESULTS

from nmtlib import cli
from nmtlib.training.history import draw_curves, read_history

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "figures"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito 2008
# The words of README.zh.md around the same numbers
CHINESE = tomllib.loads((ROOT / "docs" / "zh" / "readme.toml").read_text("utf-8"))
PAGES = {  # the blocks of each page, and what makes them
    "README.md": {
        "badges": tables.badges,
        "headlines": tables.headlines,
        "notebooks": tables_course.notebooks,
        "graded": lambda: tables.graded("en"),
        "tree": tables_course.tree,
        "results": tables_scores.results,
    },
    "README.zh.md": {
        "badges": tables.badges,
        "headlines": lambda: tables.headlines(CHINESE["headlines"]),
        "notebooks": lambda: tables_course.notebooks("notebooks/zh", CHINESE["notebooks"]),
        "graded": lambda: tables.graded("zh"),
        "tree": tables_course.tree,
        "results": lambda: tables_scores.results(CHINESE["systems"]),
    },
    "docs/results.md": {
        "all-results": tables_scores.all_results,
        "seeds": tables_scores.several_seeds,
    },
    "docs/commands.md": {"make-train": tables.train_output},
    "docs/own_text.md": {"doctor": tables_speed.doctor},
    "docs/explorer.md": {"pages": tables_speed.explorer},
    "docs/speed.md": {
        "speed": tables_speed.speed,
        "decode": tables_speed.decode,
        "board": tables_speed.board,
        "gpu": tables_speed.gpu,
    },
    "docs/ablation.md": {
        "ablation": tables.ablation,
        "muon": lambda: tables.ablation("ablation-muon.json"),
    },
    "docs/map.md": {
        "reading": tables_course.reading,
        "names": tables_course.public_names,
        "modules": tables_course.modules,
    },
    "docs/checks.md": {
        "check": tables.check_output,
        "mutation": tables.mutation,
        "strangers": tables.strangers,
    },
    "docs/instructors.md": {
        "syllabus": tables_homework.syllabus,
        "tasks": tables_homework.tasks,
        "nbgrader": tables_homework.nbgrader,
        "marks": tables_homework.marks,
        "mistakes": tables_homework.mistakes,
    },
    "docs/reliability.md": {"kills": tables.kills},
    "benchmarks/NOTES.md": {
        "step": tables_speed.step,
        "rungs": tables_speed.rungs,
        "padding": tables_speed.padding,
        "scaling": tables_speed.scaling,
    },
}

# An answer to task 04.2 with a usual mistake
UNSCALED = """\
def masked_attention(query, key, value, mask=None):
    scores = query @ key.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1).nan_to_num() @ value
"""
RECORDS = ROOT / "nmtlib" / "presets" / "records.json"
# The results that notebook 12 shows: an installed package has no folder of benchmarks.
SHOWN = ("operations", "scaling", "padding", "step", "gpu")
COPIES = ROOT / "nmtcourse" / "teaching" / "recorded" / "benchmarks"


def draw_time_to_bleu(path: Path, found: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Draw BLEU against minutes of training, a colour for each name, a line for each of its seeds.

    `found` has the results of time_to_bleu.py.
    """
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for color, (name, seeds) in zip(itertools.cycle(COLORS), found.items(), strict=False):
        for result, (key, style) in itertools.product(
            seeds, (("bleu", "-"), ("bleu_average", "--"))
        ):
            if points := [point for point in result["points"] if key in point]:
                line = [p["seconds"] / 60 for p in points], [p[key] for p in points]
                named = key == "bleu" and result is seeds[0]
                label = name if named else "_"  # which the legend leaves out
                axes.plot(*line, style, color=color, marker=".", label=label)
    axes.plot([], [], "--", color="grey", label="the same, average of the last epochs")
    axes.set(xlabel="minutes of training", ylabel="BLEU on the validation split, greedy")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)


def said_by(*arguments: str) -> str:
    """What a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        cli.main(list(arguments))
    return printed.getvalue()


def grade_the_student(language: str) -> str:
    """What `nmtlib homework check` says of `UNSCALED` as the answer to task 04.2."""
    with tempfile.TemporaryDirectory() as folder:
        said_by("homework", "start", "04", "--out", folder, "--lang", language)
        (page,) = Path(folder).rglob("*.ipynb")
        book = json.loads(page.read_text("utf-8"))
        (cell,) = (cell for cell in book["cells"] if cell["id"] == "answer-04-2")
        cell["source"] = UNSCALED
        page.write_text(json.dumps(book), "utf-8")
        said = said_by("homework", "check", str(page))
    return next(each for each in said.split("\n\n") if each.startswith("04.2")) + "\n"


def check_the_student() -> None:
    """Keep what `nmtlib check` prints of the student's model, where more than the time is new."""
    path = RESULTS / "check-student-model.txt"
    found = said_by("check", f"{ROOT / 'tests' / 'checks' / 'student_model.py'}:make")
    found = found.replace(f"{ROOT.resolve()}/", "")  # no path of this machine
    old, new = (re.sub(r" in [\d.]+ s\b", "", t) for t in (path.read_text("utf-8"), found))
    if new != old:
        path.write_text(found, "utf-8")


def fill(page: str, text: str) -> str:
    """The text of a page with every block made anew.

    Raises ValueError where a block has no place in it.
    """
    for name, make in PAGES[page].items():
        pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{page} has no <!-- {name}:begin --> … <!-- {name}:end -->")
        content = make()
        text = pattern.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def draw() -> None:
    """The curves of the committed trainings, and BLEU against time."""
    for preset in ("multi30k-de-en", "cmn-en-zh"):
        draw_curves(
            FIGURES / f"{preset}-curves.png",
            read_history(RESULTS / f"{preset}-history.csv"),
            title=preset,
        )
    draw_time_to_bleu(FIGURES / "time-to-bleu.png", tables_speed.boards())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="only report whether the pages are up to date"
    )
    options = parser.parse_args()
    if not options.check:
        check_the_student()
        for language in ("en", "zh"):
            said = grade_the_student(language)
            (RESULTS / f"homework-check-{language}.txt").write_text(said, "utf-8")
    texts = {ROOT / page: (ROOT / page).read_text("utf-8") for page in PAGES}
    made = {ROOT / page: fill(page, texts[ROOT / page]) for page in PAGES}
    made[RECORDS] = tables_scores.records()
    for name in SHOWN:
        if (result := RESULTS / f"{name}.json").is_file():
            made[COPIES / result.name] = result.read_text("utf-8")
    texts |= {path: path.read_text("utf-8") for path in made if path.is_file()}
    stale = [str(page.relative_to(ROOT)) for page in made if made[page] != texts.get(page)]
    if options.check and stale:
        print(f"not up to date: {', '.join(stale)}; run: make readme", file=sys.stderr)
        return 1
    if not options.check:
        COPIES.mkdir(exist_ok=True)
        for page, text in made.items():
            page.write_text(text, "utf-8")
        draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
