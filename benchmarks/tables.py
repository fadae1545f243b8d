"""What was measured, as Markdown blocks; every number comes from benchmarks/results."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def read(name: str) -> dict[str, Any]:
    """One file of results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def table(header: str, rows: list[list[Any]]) -> str:
    """A Markdown table: the header's cells separated by |, numbers right-aligned."""
    cells = [cell.strip() for cell in header.split("|")]
    right = [bool(rows) and str(rows[0][place])[:1].isdigit() for place in range(len(cells))]
    lines = [cells, ["---:" if side else "---" for side in right], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


SHIELD = "https://img.shields.io/badge"
HEADLINES = [
    "**Homework that grades itself.** It names the likely mistake, never the answer. Of answers "
    "that were written without sight of the graders, it accepted {accepted} of {right} right ones "
    "and caught {refused} of {wrong} wrong ones. [How it was tested](benchmarks/HOMEWORK.md)",
    "**Silent bugs are found.** {caught} of {planted} bugs, planted in this code one at a "
    "time, are caught by a check that names their cause. The same checks test *your* "
    "Transformer. [Checks](docs/checks.md)",
    "**Checked against others.** With the same weights, beam search gives the same "
    "translations as `generate` of Hugging Face in {same_hf} of {sentences} sentences, and as "
    "CTranslate2 in {same_ct2}. Training is {slow:.1f}× (float32) to {fast:.1f}× (bfloat16) as "
    "fast as `torch.nn.Transformer`, on one machine ({machine}). [Speed](docs/speed.md)",
]


def badges() -> str:
    """The state of CI, the versions of Python and the licence, as pyproject.toml names them."""
    project = tomllib.loads((RESULTS.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: 3." in each]
    python = "%20%7C%20".join(versions)
    licence = project["license"].partition(" ")[0]
    ci = "../../actions/workflows/ci.yml"  # as seen from the page of the repository, in any fork
    return "\n".join(
        [
            f"[![State of the newest run of CI]({ci}/badge.svg)]({ci})",
            f"[![Python {', '.join(versions)}]({SHIELD}/python-{python}-08519c)](pyproject.toml)",
            f"[![Licence of the code: {licence}]({SHIELD}/licence-{licence}-08519c)](LICENSE)",
        ]
    )


def headlines(lines: list[str] = HEADLINES) -> str:
    """The main result of three other pages, a line each; `lines` are the words around it."""
    training, decoding, bugs = read("train.json"), read("decode.json"), read("mutation.json")
    rounds = read("homework-rounds.json")["rounds"]
    unseen = rounds[max(name for name in rounds if name.isdigit())]["summary"]
    same = {
        short: round(decoding["beam 5"][name]["same_as_nmtlib"] * decoding["sentences"])
        for short, name in (("hf", "transformers float32"), ("ct2", "CTranslate2 float32"))
    }
    ratios = [training["ratios"][f"nn.Transformer {kind}"] for kind in ("float32", "bfloat16")]
    facts = {
        "same_hf": same["hf"],
        "same_ct2": same["ct2"],
        "sentences": decoding["sentences"],
        "slow": ratios[0],
        "fast": ratios[1],
        "machine": training["machine"]["processor"],
        "caught": bugs["caught"],
        "planted": bugs["planted"],
        "accepted": unseen["right"] - unseen["right_refused"],
        "right": unseen["right"],
        "refused": unseen["wrong"] - unseen["wrong_accepted"],
        "wrong": unseen["wrong"],
    }
    return "\n".join(f"- {line.format(**facts)}" for line in lines)


def printed(name: str) -> str:
    """What a command printed."""
    return "```text\n" + (RESULTS / name).read_text("utf-8").strip() + "\n```"


def train_output() -> str:
    """What `make train` printed."""
    return printed("make-train.txt")


def check_output() -> str:
    """What `nmtlib check` prints about the student's model."""
    return printed("check-student-model.txt")


def graded(language: str) -> str:
    """What `nmtlib homework check` says of an attention that does not scale its scores."""
    return printed(f"homework-check-{language}.txt")


def mutation() -> str:
    """How many planted bugs the checks find, and how often they fail a healthy model."""
    found = read("mutation.json")
    healthy = read("false-alarms.json")["implementations"]
    seeds = min(one["seeds"] for one in healthy.values())
    slowest = max(one["seconds_a_run"] for one in healthy.values())
    rows = [
        [name, str(one["passed"]), str(one["undecided"]), str(len(one["alarms"]))]
        for name, one in healthy.items()
    ]
    return "\n".join(
        [
            f"- [{found['caught']} of {found['planted']} silent bugs](../benchmarks/MUTATION.md), "
            "planted in nmtlib's own code one at a time, are caught by a check that names their "
            "cause (`make mutation`).",
            f"- An adapter with only `make_model` finds {found['caught_by_short_adapter']} of the "
            f"{found['in_model']} bugs in the model.",
            f"- The table shows how healthy models fare with {seeds} seeds each: checks that pass "
            "with every seed, checks that stay undecided with at least one, and false alarms.",
            f"- All checks of one model take at most {slowest:.1f} seconds, averaged over seeds.",
            "",
            table("healthy model | passed | undecided | false alarms", rows),
        ]
    )


def strangers() -> str:
    """How the checks fare on models by strangers, by round; the text says who wrote them."""
    rows = []
    for label, about in read("strangers.json").items():
        if not label.startswith("round"):
            continue
        found = about["counts"]
        part = "_in_the_model" * label.endswith("alone")
        faults = found["in_the_model" if part else "faults"]
        rows.append(
            [
                label,
                f"{len(found['alarms'])} of {found['healthy']}",
                f"{found[f'detected{part}']} of {faults}",
                f"{found['first_is_the_part']} of {found['detected']}",
                f"{found['causes_right']} of {found['causes_claimed']}",
            ]
        )
    header = "round, what was given | healthy models with a false alarm | faults detected"
    return table(f"{header} | first finding names the part | proved causes that are right", rows)


def ablation(file: str = "ablation.json") -> str:
    """What each switch changes, on validation data."""
    found = read(file)
    rows = []
    for row in found["summary"]:
        bleu = f"{row['bleu']:.2f}"
        if row["deviation"] is not None:
            bleu += f" ± {row['deviation']:.2f}"
        gain = "" if row["gain"] is None else f"{row['gain']:+.2f}"
        rows.append([row["name"], row["search"], bleu, gain, f"{row['minutes']:.1f}"])
    base = found["baseline"]
    seeds = sorted({run["seed"] for run in found["runs"]})
    return (
        f"{found['corpus']}, validation split, {base['training']['epochs']} epochs of a model with "
        f"d_model {base['model']['d_model']}, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}, sacreBLEU `{found['signature']}`:\n\n"
        + table("variant | search | BLEU | gain | minutes", rows)
    )


def kills() -> str:
    """What became of runs that were killed at each of their file operations."""
    result = read("kills.json")
    operations, points = sum(result["operations"].values()), result["points"]
    stuck, stale = (len(result[kind]) or "none" for kind in ("stuck", "stale"))
    return (
        f"`python benchmarks/kills.py` kills a small run before each of its {operations} file "
        "operations and in the middle of writes to a file's final name, and kills some resumed "
        f"runs again: {points} kills. **{result['recovered']} of {points}** runs resumed to the "
        f"same result; {stuck} could not be resumed, {stale} ended with a different result."
    )
