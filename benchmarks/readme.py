"""Draw the curves in figures/, and write what was measured into README.md.

    python benchmarks/readme.py            # rewrite README.md
    python benchmarks/readme.py --check    # exit status 1 where it is not up to date

It goes between the marks `<!-- NAME:begin -->` and `<!-- NAME:end -->`, and comes from the files in
benchmarks/results, so no figure is typed by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from nmtlib.training.history import draw_curves, read_history

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parents[1] / "README.md"
FIGURES = README.parent / "figures"
RUNS = {  # the row's name -> the preset, whose results are PRESET-SPLIT-beamN.json
    "German-English, bundled grammar": "toy-de-en",
    "English-Chinese, bundled grammar": "toy-en-zh",
    "German-English, Multi30k": "multi30k-de-en",
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
            training, scores, clean = found["training"], found["scores"], found["scores_without_leaked"]
            notes.add(f"`{scores['signature']}`")
            bleu, nltk = f"{scores['bleu']:.2f}", f"{scores['bleu_nltk']:.4f}"
            if clean:
                bleu, nltk = f"{bleu} ({clean['bleu']:.2f})", f"{nltk} ({clean['bleu_nltk']:.4f})"
            search = "greedy" if found["beam"] == 1 else f"beam {found['beam']}"
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
            "One run and one seed each, on a shared machine with two virtual CPUs; the Multi30k run used one thread",
            "and was stopped by its time limit in epoch 23 of 32.",
            "In brackets: without the test pairs whose source also stands in the training data.",
            "NLTK BLEU (0 to 1) compares the words between spaces.  sacreBLEU (0 to 100) has the signatures "
            + ", ".join(sorted(notes))
            + ".",
        ]
    )


def speed() -> str:
    """Training speed against torch's Transformer."""
    found = read("train.json")
    return (
        f"Training tokens per second against `torch.nn.Transformer` of the same size, in one run on "
        f"{found['machine']['threads']} CPU threads: **{found['ratio_float32']}×** in float32, "
        f"**{found['ratio_bfloat16']}×** in bfloat16, **{found['ratio_as_used']}×** for our default (bfloat16 where "
        f"the processor has it) against its default (float32). Command: `{found['command']}`."
    )


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
    slowest = max(runs["seconds_a_run"] for runs in healthy.values())
    return (
        f"[{found['caught']} of {found['planted']} silent bugs](benchmarks/MUTATION.md), planted one by one in "
        "nmtlib's\nown code, are caught by a check that names their cause (`make mutation`); healthy models over "
        f"{seeds} seeds each\n({'; '.join(healthy)}) raised\n{alarms or 'no'} alarms.  "
        f"All checks on one model took at most {slowest:.0f} seconds."
    )


BLOCKS = {
    "results": results_table,
    "speed": speed,
    "make-train": train_output,
    "check": check_output,
    "mutation": mutation,
}


def fill(text: str) -> str:
    """The README with every block made anew.  Raises ValueError where a block has no place in it."""
    for name, make in BLOCKS.items():
        pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{README.name} has no <!-- {name}:begin --> … <!-- {name}:end -->")
        content = make()
        text = pattern.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, only say whether README.md is up to date")
    options = parser.parse_args()
    old = README.read_text("utf-8")
    new = fill(old)
    if not options.check:
        README.write_text(new, "utf-8")
        for preset in ("multi30k-de-en", "cmn-en-zh"):
            draw_curves(FIGURES / f"{preset}-curves.png", read_history(RESULTS / f"{preset}-history.csv"), title=preset)
    elif new != old:
        print("README.md is not up to date; run: make readme", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
