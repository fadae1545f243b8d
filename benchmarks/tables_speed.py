"""Speed, memory and time to a BLEU as they were measured, as Markdown blocks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from statistics import mean
from typing import Any

import tables
from tables import read, table


def speed() -> str:
    """Training speed and memory against torch's Transformer and Marian."""
    found = read("train.json")
    speeds, memory = found["target_tokens_per_second"], found["peak_memory_mib"]
    ours = speeds["nmtlib bfloat16"]
    rows = [
        [name.replace(" ", ", "), f"{speed:,.0f}", f"{ours / speed:.2f}×", memory[name]]
        for name, speed in speeds.items()
    ]
    header = "model, precision | target tokens/s | speed of our default over this | peak MiB"
    return (
        f"All libraries train on the same batches in one run, on {on_machine(found)} "
        f"(`{found['command']}`):\n\n{table(header, rows)}\n\n"
        "Our default is bfloat16 where the processor is faster with it; the others default to "
        f"float32. With its default, nmtlib trains **{found['ratio_as_used']}×** as fast as "
        "`torch.nn.Transformer`. The ratio depends on the processor."
    )


def on_machine(found: dict[str, Any]) -> str:
    """The processor and the threads of a measurement."""
    threads = found["machine"]["threads"]
    plural = "s" if threads > 1 else ""
    return f"one machine ({found['machine']['processor']}, {threads} thread{plural})"


def step() -> str:
    """What each trick of the training step is worth."""
    found = read("step.json")
    ratios = found["times_as_long"].items()
    rows = [[name, f"{ratio:.2f}"] for name, ratio in ratios if name != "as it is"]
    return f"`{found['command']}`\n\n" + table("the step with | time, ours = 1", rows)


def decode() -> str:
    """Decoding speed next to Hugging Face's generate and CTranslate2, with the same weights."""
    found = read("decode.json")
    rows = []
    for name, wide in found["beam 5"].items():
        greedy = found["beam 1"].get(name)
        alone = decoded(greedy)[:2] if greedy else ["", ""]
        name = re.sub(" (float32|bfloat16|int8)", r", \1", name)
        rows.append([name, *alone, *decoded(wide)])
    header = (
        "program | greedy, sentences/s | speed of nmtlib over this | beam 5, sentences/s "
        "| speed of nmtlib over this | same translations, beam 5 | BLEU, beam 5"
    )
    return (
        f"All programs translate {found['sentences']:,} sentences of the Multi30k test set with "
        f"the same weights and search rule in one run, on {on_machine(found)} "
        f"(`{found['command']}`):\n\n{table(header, rows)}"
    )


def decoded(found: dict[str, Any]) -> list[str]:
    """Speed, ratio, agreement and BLEU of one program, as cells of a table."""
    return [
        f"{found['sentences_per_second']:.0f}",
        f"{found['nmtlib_speed_over_this']:.2f}×",
        f"{found['same_as_nmtlib']:.1%}",
        f"{found['bleu']:.2f}",
    ]


def doctor() -> str:
    """Time and memory of `nmtlib data check`."""
    found = read("doctor.json")
    rows = [
        [f"{row['pairs']:,}", row["megabytes"], row["processor_seconds"], row["peak_megabytes"]]
        for row in found["rows"]
    ]
    header = "pairs | text, MB | processor seconds | peak memory, MB"
    return f"`{found['command']}`, on {on_machine(found)}:\n\n{table(header, rows)}"


def explorer() -> str:
    """Size and speed of the explorer's pages."""
    found = read("explorer-page.json")
    rows = [
        [f"`{model}`", row["megabytes"], row["first_ms"], row["typed_ms"], row["typed_longest_ms"]]
        for model, row in found["models"].items()
    ]
    header = "model | MB | first translation, ms | after a key, ms | longest of the examples, ms"
    where = f"{on_machine(found)}, {found['machine']['browser']}"
    return f"`{found['command']}`, on {where}:\n\n{table(header, rows)}"


def gpu() -> str:
    """The base model on a GPU: speed, and memory beside the formula."""
    found = read("gpu.json")
    rows = [
        [name, f"{run['target_tokens_per_second']:,.0f}", f"{run['peak_mib']:,.0f}"]
        + [f"{run['predicted_mib']:,.0f}" if "predicted_mib" in run else ""]
        for name, run in found["candidates"].items()
    ]
    machine, header = found["machine"], "step | target tokens/s | peak MiB | by formula"
    return (
        f"The base model of the paper with {found['max_tokens']:,} tokens a batch, timed once on "
        f"one {machine['device']} with torch {machine['torch']} (`{found['command']}`):\n\n"
        + table(header, rows)
    )


def rungs() -> str:
    """A small model on a GPU, one change after another, beside the cost model."""
    rows = []
    for name, run in read("gpu.json")["rungs"].items():
        if "failed" in run:
            rows.append([name, run["failed"].lower(), "", "", ""])
            continue
        speed, said = run["target_tokens_per_second"], run["predicted_tokens_per_second"]
        rows.append([name, f"{speed:,.0f}", f"{said:,.0f}", f"{said / speed:.1f}"])
        rows[-1].append(run["operations_started"])
    header = "change | target tokens/s | predicted | times too fast | operations launched"
    return table(header, rows)


def padding() -> str:
    """Padding and speed of three ways to make batches."""
    found = read("padding.json")
    rows = [
        [f"{preset}, {order}", f"{one['padding']:.1%}", one["batches_an_epoch"]]
        + [f"{one['target_tokens_per_second']:,.0f}"]
        for preset, corpus in found["presets"].items()
        for order, one in corpus["orders"].items()
    ]
    header = "batches | padding | batches an epoch | target tokens/s"
    return f"`{found['command']}`\n\n" + table(header, rows)


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
    header = "precision | time: median error | largest error | memory: largest error"
    return f"`{found['command']}`\n\n" + table(header, rows)


def boards() -> dict[str, list[dict[str, Any]]]:
    """All measurements of time_to_bleu.py, one of each seed, by what was trained."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(tables.RESULTS.glob("time-to-bleu-*.json")):
        result = read(path.name)
        found.setdefault(what_was_trained(result), []).append(result)
    return found


def what_was_trained(found: dict[str, Any]) -> str:
    """The preset of a measured training and what its command changed in it, the seed aside."""
    words = found["command"].split()
    changes = [value for key, value in itertools.pairwise(words) if key == "--set"]
    return " ".join([found["preset"], *changes])


def board() -> str:
    """Minutes of training until the validation BLEU passes each mark, mean over the seeds."""
    rows = []
    for name, seeds in boards().items():
        first = seeds[0]
        scored = {"each epoch": "bleu"}
        if any("bleu_average" in point for point in first["points"]):
            scored["average of the last"] = "bleu_average"
        if any("bleu_beam" in point for point in first["points"]):
            scored[f"each epoch, beam {first['settings']['decoding']['beam']}"] = "bleu_beam"
        size, device = f"{first['parameters'] / 1e6:.1f} M", first["machine"]["device"]
        if (processes := first.get("processes", 1)) > 1:
            device += f", {processes} processes"
        if library := first.get("preloaded"):
            device += f", {library.partition('.')[0]}"
        for what, key in scored.items():
            minutes = [minutes_to(mark, seeds, key) for mark in first["marks"]]
            rows.append([f"`{name}`", what, size, device, len(seeds), *minutes])
    marks = " | ".join(f"BLEU {mark}" for mark in first["marks"])
    return table(f"preset and changes | scored | parameters | device | seeds | {marks}", rows)


def minutes_to(mark: str, seeds: Sequence[dict[str, Any]], score: str) -> str:
    """Mean minutes to a mark: "–" if a seed never reached it, "≤" if the first scored epoch had
    already reached it and was not the first epoch of the run.
    """
    points = [[p for p in found["points"] if p.get(score) is not None] for found in seeds]
    reached = [next((p for p in scored if p[score] >= float(mark)), None) for scored in points]
    if None in reached:
        return "–"
    late = any(p is scored[0] and p["epoch"] > 1 for p, scored in zip(reached, points, strict=True))
    return f"{'≤ ' if late else ''}{mean(p['seconds'] for p in reached) / 60:.1f}"
