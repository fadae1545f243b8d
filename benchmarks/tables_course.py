"""The course, the modules and the public names, as Markdown blocks."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from tables import table

import nmtlib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nmtlib"
TIMINGS = ROOT / "tools" / "timings.json"
LEARNED = {  # number of a notebook -> what you learn in it, and the modules that it shows
    "00": (
        "translate at once; the map of the course; is everything installed?",
        "`inference.translator`",
    ),
    "01": ("tokens, vocabulary, BPE with one merge by hand, padding and buckets", "`data`"),
    "02": (
        "one-hot and look-up, √d_model, neighbours before and after training, weight tying",
        "`model.embeddings`",
    ),
    "03": ("the formula, wavelengths, rotation, learned against sinusoidal", "`model.embeddings`"),
    "04": ("query, key, value; why 1/√d_k; maps with words on the axes", "`model.attention`"),
    "05": (
        "heads as one batched matmul; what each head attends to; heads switched off",
        "`model.attention`",
    ),
    "06": ("padding, causal and cross masks; a leak that looks like success; NaN", "`model.masks`"),
    "07": (
        "feed-forward, residual, LayerNorm, pre- and post-norm; parameters counted; equal to torch",
        "`model`",
    ),
    "08": (
        "the smoothed loss, over-confidence, Noam with and without warm-up",
        "`training.loss`, `training.schedule`",
    ),
    "09": (
        "the loop, clipping, overfitting, which weights to keep, resuming, how much a seed matters",
        "`training.trainer`, `training.loss`",
    ),
    "10": (
        "greedy, sampling, beam search by hand; the cache; why a half-trained model repeats itself",
        "`inference.search`, `inference.beams`",
    ),
    "11": (
        "BLEU and chrF by hand, errors of known severity, significance, attention as alignment",
        "`inference.metrics`, `inference.evaluate`",
    ),
    "12": (
        "where memory goes, six cures, reading a profile, bfloat16, roofline, two processes",
        "`training.hardware`",
    ),
    "13": (
        "a published notebook taken apart, single changes, back-translation, error analysis",
        "`recipes.backtranslation`, `recipes.monolingual`, `recipes.iwslt`",
    ),
    "14": (
        "why Chinese is hard, the `@@` trap, 186 million parameters, what a score is worth, idioms",
        "`data.subwords`, `inference.metrics`, `inference.translator`",
    ),
    "15": (
        "six things to try first, eight patients, checks on your model, a patient of your own",
        "`nmtcheck`, `homework`",
    ),
}
WORDS = {  # of the table of notebooks
    "learned": {number: learned for number, (learned, _) in LEARNED.items()},
    "minutes": r"\*\*Time\*\* (\d+) minutes",
    "units": ["min", "s"],
    "columns": "notebook | what you learn | modules | to read | to run",
}
ROOMS = {  # in the order in which data flows
    "nmtlib/model": "the Transformer, without data",
    "nmtlib/data": "corpora, tokens and batches, without the model",
    "nmtlib/training": "from batches to weights",
    "nmtlib/inference": "from weights to translations and their scores",
    "nmtlib": "settings, runs and the command line",
    "nmtcourse/toy": "the grammar that generates the bundled corpora",
    "nmtcheck": "checks of any Transformer implementation",
    "nmtcourse/homework": "tasks, graders that name the mistake, and tools for a class",
    "nmtcourse/teaching": "plots and experiments of the notebooks",
    "nmtcourse/explorer": "a run as one HTML file that translates in a browser",
    "nmtcourse/recipes": "techniques that only a record, a notebook or an export needs",
}

PATH = {  # what happens to a sentence pair in the core -> the modules to read, in order
    "sentence pairs become batches of ids": [
        "data/corpus",
        "data/tokenizers",
        "data/codec",
        "data/batching",
    ],
    "the model computes logits from them": [
        "model/config",
        "model/embeddings",
        "model/masks",
        "model/attention",
        "model/layers",
        "model/transformer",
    ],
    "the loss updates the weights": [
        "training/loss",
        "training/schedule",
        "training/trainer",
        "training/checkpoint",
    ],
    "search turns logits into a translation, and metrics score it": [
        "inference/beams",
        "inference/search",
        "inference/translator",
        "inference/metrics",
    ],
    "settings and a run folder tie it together": [
        "sections",
        "settings",
        "run",
        "experiment",
        "recipe",
    ],
}


def notebooks(folder: str = "notebooks", words: dict[str, Any] = WORDS) -> str:
    """What each notebook teaches, about which modules, and how long it takes to read and to run."""
    seconds = json.loads(TIMINGS.read_text("utf-8"))
    rows = []
    for path in sorted((ROOT / folder).glob("[0-9]*.ipynb")):
        opening = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
        title = re.search(r"# (.+)", opening)[1]
        minutes = re.search(words["minutes"], opening)[1]
        learned = words["learned"][path.stem[:2]]
        rows.append(
            [
                f"[{title}]({folder}/{path.name})",
                learned,
                LEARNED[path.stem[:2]][1],
                f"{minutes} {words['units'][0]}",
                f"{seconds[path.stem]} {words['units'][1]}",
            ]
        )
    return table(words["columns"], rows)


def first_sentence(docstring: str | None) -> str:
    """Up to the first full stop, on one line."""
    return re.split(r"\.\s", " ".join((docstring or "").split()) + " ")[0].strip().rstrip(".")


def modules() -> str:
    """Every module of each room, with the first sentence of its docstring."""
    blocks = []
    for room, holds in ROOMS.items():
        rows = []
        for path in sorted((ROOT / room).glob("*.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
            if not path.name.startswith("__") and docstring:
                link = f"[`{path.stem}`](../{path.relative_to(ROOT).as_posix()})"
                rows.append([link, first_sentence(docstring).replace("|", "\\|")])
        blocks.append(f"### `{room}`: {holds}\n\n" + table("module | contents", rows))
    return "\n\n".join(blocks)


def tree() -> str:
    """The core as a tree: each folder with its lines, what it holds, and the names of its files."""
    rows = []
    core = [room for room in ROOMS if room.partition("/")[0] == "nmtlib"]
    for room in sorted(core, key=lambda name: "/" in name):
        folder, indent = ROOT / room, "  " * room.count("/")
        files = sorted(folder.glob("*.py"))
        counted = files if indent else folder.rglob("*.py")
        count = sum(len(path.read_text("utf-8").splitlines()) for path in counted)
        texts = {path.stem: path.read_text("utf-8") for path in files}
        names = [n for n, text in texts.items() if n[0] != "_" and "The former name" not in text]
        rows.append(f"{f'{indent}{folder.name}/':<14}{count:>6,}  {ROOMS[room]}")
        rows.append(f"{indent}  {' '.join(names)}")
    return "```text\n" + "\n".join(rows) + "\n```"


def lines_of(module: str) -> int:
    """The lines of a module, comments and docstrings included."""
    return len((PACKAGE / f"{module}.py").read_text("utf-8").splitlines())


def reading() -> str:
    """The modules to read, in the order in which a sentence pair passes them."""
    rows = []
    for step, modules_there in PATH.items():
        links = [f"[`{name}`](../nmtlib/{name}.py)" for name in modules_there]
        rows.append([step, " · ".join(links), f"{sum(map(lines_of, modules_there)):,}"])
    total = sum(lines_of(name) for there in PATH.values() for name in there)
    return (
        table("what happens | modules, in this order | lines", rows)
        + f"\n\nThese are {total:,} lines, docstrings and comments included: an afternoon."
    )


def public_names() -> str:
    """The names that `nmtlib` exports, with the first sentence of each docstring."""
    rows = [
        [f"`{name}`", f"`{nmtlib.PUBLIC[name].partition(':')[0]}`", first_sentence(doc)]
        for name in nmtlib.__all__
        if (doc := getattr(nmtlib, name).__doc__)
    ]
    return table("name | module | what it is", rows)
