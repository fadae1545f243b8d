"""What was measured, as the Markdown blocks of README.md and NOTES.md; every number comes from
benchmarks/results.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LEARNED = {  # number of a notebook -> what one learns in it, and the modules that it shows
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
        "heads as one batched product; what each head attends to; heads switched off",
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
}
RUNS = {  # the row's name -> the preset, whose results are PRESET-SPLIT-beamN.json
    "German-English, bundled grammar": "toy-de-en",
    "English-Chinese, bundled grammar": "toy-en-zh",
    "German-English, Multi30k": "multi30k-de-en",
    "English-German, Multi30k": "multi30k-en-de",
    "English-Chinese, cmn-eng-simple": "cmn-en-zh",
}


def read(name: str) -> dict[str, Any]:
    """One file of results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def results_table() -> str:
    """One row for each evaluation of each trained preset."""
    rows = [
        "| system | parameters | training | scored on | search | sacreBLEU | NLTK BLEU | sentences/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    notes = set()
    for name, preset in RUNS.items():
        for path in sorted(RESULTS.glob(f"{preset}-*-beam*.json"), reverse=True):
            found = read(path.name)
            training, scores, clean = (
                found["training"],
                found["scores"],
                found["scores_without_leaked"],
            )
            notes.add(f"`{scores['signature']}`")
            bleu, nltk = f"{scores['bleu']:.2f}", f"{scores['bleu_nltk']:.4f}"
            if clean:
                bleu, nltk = f"{bleu} ({clean['bleu']:.2f})", f"{nltk} ({clean['bleu_nltk']:.4f})"
            search = "greedy"
            if found["beam"] > 1:
                search = f"beam {found['beam']}, length penalty {found['length_penalty']:g}"
            rows.append(
                f"| {name} | {found['parameters'] / 1e6:.1f} M "
                f"| {training['epochs']} epochs, {training['minutes']:.0f} min "
                f"| {scores['sentences']:,} {found['split']} pairs | {search} | {bleu} | {nltk} "
                f"| {found['sentences_per_second']:.0f} |"
            )
    return "\n".join(
        [
            *rows,
            "",
            "One run and one seed each, on a shared machine with two virtual CPUs, where minutes vary.",
            *several_seeds(),
            "In brackets: without the test pairs whose source also stands in the training data.",
            "NLTK BLEU (0 to 1) compares the words between spaces.  sacreBLEU (0 to 100) has the signatures "
            + ", ".join(sorted(notes))
            + ".",
        ]
    )


def several_seeds() -> list[str]:
    """A line for each preset that was trained with several seeds; one seed alone has no deviation
    to tell.
    """
    measured = [read(path.name) for path in sorted(RESULTS.glob("seeds-*.json"))]
    return [
        f"`{found['preset']}` with {len(found['runs'])} seeds: sacreBLEU {found['bleu']['mean']:.2f} ± "
        f"{found['bleu']['deviation']:.2f} on the test pairs (mean and standard deviation)."
        for found in measured
        if len(found["runs"]) > 1
    ]


def table(header: str, rows: list[list[Any]]) -> str:
    """A Markdown table: the header's cells parted by |, numbers at the right."""
    cells = [cell.strip() for cell in header.split("|")]
    right = [bool(rows) and str(rows[0][place])[:1].isdigit() for place in range(len(cells))]
    lines = [cells, ["---:" if side else "---" for side in right], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def speed() -> str:
    """Training speed and memory against torch's Transformer and Marian."""
    found = read("train.json")
    speeds, memory = found["target_tokens_per_second"], found["peak_memory_mib"]
    rows = [
        [
            name.replace(" ", ", "),
            f"{speed:,.0f}",
            f"{speeds['nmtlib bfloat16'] / speed:.2f}×",
            memory[name],
        ]
        for name, speed in speeds.items()
    ]
    return (
        f"Trained as each library's users do, on {found['machine']['threads']} CPU threads and the same batches, all "
        f"in one run (`{found['command']}`):\n\n"
        + table("model, precision | target tokens/s | our default is faster by | peak MiB", rows)
        + "\n\nOur default is bfloat16 where the processor has it, theirs float32: "
        f"**{found['ratio_as_used']}×** `torch.nn.Transformer`."
    )


def step() -> str:
    """What each trick of the training step is worth."""
    found = read("step.json")
    rows = [
        [name, f"{ratio:.2f}"]
        for name, ratio in found["times_as_long"].items()
        if name != "as it is"
    ]
    return f"`{found['command']}`\n\n" + table("the step with | takes times as long", rows)


def train_output() -> str:
    """What `make train` printed."""
    return "```text\n" + (RESULTS / "make-train.txt").read_text("utf-8").strip() + "\n```"


def check_output() -> str:
    """What `nmtlib check` prints about the student's model."""
    return "```text\n" + (RESULTS / "check-student-model.txt").read_text("utf-8").strip() + "\n```"


def mutation() -> str:
    """How many planted bugs the checks find."""
    found = read("mutation.json")
    healthy = read("false-alarms.json")["implementations"]
    alarms = sum(len(runs["alarms"]) for runs in healthy.values())
    seeds = min(runs["seeds"] for runs in healthy.values())
    passed = f"{min(runs['passed'] for runs in healthy.values())} to {max(runs['passed'] for runs in healthy.values())}"
    slowest = max(runs["seconds_a_run"] for runs in healthy.values())
    return (
        f"[{found['caught']} of {found['planted']} silent bugs](benchmarks/MUTATION.md), planted one by one in "
        "nmtlib's\nown code, are caught by a check that names their cause (`make mutation`); healthy models over "
        f"{seeds} seeds each\n({'; '.join(healthy)}) raised\n{alarms or 'no'} alarms in the checks of the parts "
        f"that they have ({passed}).\n"
        f"All checks on one model took {slowest:.1f} seconds or less, on average over the seeds."
    )


def decode() -> str:
    """Decoding speed beside Hugging Face's generate and CTranslate2, with the same weights."""
    found = read("decode.json")
    rows = [
        [
            name.replace(" float32", ", float32")
            .replace(" bfloat16", ", bfloat16")
            .replace(" int8", ", int8")
        ]
        + [cell for beam in ("beam 1", "beam 5") for cell in _decoded(found[beam].get(name))]
        for name in found["beam 5"]
    ]
    threads = found["machine"]["threads"]
    return (
        f"{found['sentences']:,} sentences of the Multi30k test set with the same weights and the same search rule, "
        f"{threads} CPU thread{'s' if threads > 1 else ''}, all in one run (`{found['command']}`):\n\n"
        + table(
            "program | greedy, sentences/s | nmtlib is faster by | beam 5, sentences/s | nmtlib is faster by "
            "| same translations, beam 5 | BLEU, beam 5",
            [[*row[:3], *row[5:]] for row in rows],
        )
    )


def _decoded(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return ["", "", "", ""]
    ratio, same = found["nmtlib_speed_over_this"], found["same_as_nmtlib"]
    return [
        f"{found['sentences_per_second']:.0f}",
        f"{ratio:.2f}×",
        f"{same:.1%}",
        f"{found['bleu']:.2f}",
    ]


def padding() -> str:
    """Padding and speed of three ways to make batches."""
    found = read("padding.json")
    rows = [
        [f"{preset}, {order}", f"{one['padding']:.1%}", one["batches_an_epoch"]]
        + [f"{one['target_tokens_per_second']:,.0f}"]
        for preset, corpus in found["presets"].items()
        for order, one in corpus["orders"].items()
    ]
    return f"`{found['command']}`\n\n" + table(
        "batches | padding | batches an epoch | target tokens/s", rows
    )


def scaling() -> str:
    """How well time and memory of a step follow the formulas."""
    found = read("scaling.json")
    rows = [
        [
            precision,
            f"{one['time_error_held_out']['median']:.1%}",
            f"{one['time_error_held_out']['largest']:.1%}",
            f"{one['memory_error']['largest']:.1%}",
        ]
        for precision, one in found.items()
        if isinstance(one, dict) and "points" in one
    ]
    return f"`{found['command']}`\n\n" + table(
        "precision | error of the time, median | largest | error of the memory, largest", rows
    )


def notebooks() -> str:
    """What each notebook teaches, about which modules, and how long it takes to read and to run."""
    seconds = json.loads((NOTEBOOKS / "timings.json").read_text("utf-8"))
    rows = []
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        opening = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
        title = re.search(r"# (.+)", opening)[1]
        minutes = re.search(r"\*\*Time\*\* (\d+) minutes", opening)[1]
        learned, modules = LEARNED[path.stem[:2]]
        rows.append(
            [
                f"[{title}](notebooks/{path.name})",
                learned,
                modules,
                f"{minutes} min",
                f"{seconds[path.stem]} s",
            ]
        )
    return table("notebook | what you learn | modules | to read | to run", rows)


def ablation() -> str:
    """What each switch changes, on validation data."""
    found = read("ablation.json")
    rows = [
        [
            row["name"],
            row["search"],
            f"{row['bleu']:.2f}",
            "" if row["gain"] is None else f"{row['gain']:+.2f}",
        ]
        + [f"{row['minutes']:.1f}"]
        for row in found["summary"]
    ]
    base = found["baseline"]
    seeds = sorted({run["seed"] for run in found["runs"]})
    return (
        f"{found['corpus']}, validation split, {base['training']['epochs']} epochs of a model with d_model "
        f"{base['model']['d_model']}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}, sacreBLEU "
        f"`{found['signature']}`:\n\n" + table("variant | search | BLEU | gain | minutes", rows)
    )


def boards() -> list[dict[str, Any]]:
    """All measurements of time_to_bleu.py."""
    return [read(path.name) for path in sorted(RESULTS.glob("time-to-bleu-*.json"))]


def what_was_trained(found: dict[str, Any]) -> str:
    """The preset of a measured training and what its command changed in it."""
    words = found["command"].split()
    return " ".join(
        [found["preset"], *(value for key, value in itertools.pairwise(words) if key == "--set")]
    )


def board() -> str:
    """Minutes of training until the validation BLEU passes each mark."""
    rows = []
    for found in boards():
        name = what_was_trained(found)
        scored = [("each epoch", found["marks"])]
        if any("bleu_average" in point for point in found["points"]):
            scored.append(("average of the last", found["marks_average"]))
        for what, marks in scored:
            reached = [
                f"{seconds / 60:.1f}" if seconds is not None else "–" for seconds in marks.values()
            ]
            rows.append(
                [
                    f"`{name}`",
                    what,
                    f"{found['parameters'] / 1e6:.1f} M",
                    found["machine"]["device"],
                    *reached,
                ]
            )
    marks = " | ".join(f"BLEU {mark}" for mark in found["marks"])
    return table(f"preset and changes | weights | parameters | device | {marks}", rows)
