"""Speed and memory as they were measured, as Markdown blocks."""

from __future__ import annotations

import re
from typing import Any

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
    header = "model, precision | target tokens/s | our default is faster by | peak MiB"
    return (
        f"Each library is used as its users do, on {found['machine']['threads']} CPU threads and "
        f"with the same batches, all in one run (`{found['command']}`):\n\n"
        + table(header, rows)
        + "\n\nOur default is bfloat16 where the processor has it, theirs float32: "
        f"**{found['ratio_as_used']}×** `torch.nn.Transformer`."
    )


def step() -> str:
    """What each trick of the training step is worth."""
    found = read("step.json")
    ratios = found["times_as_long"].items()
    rows = [[name, f"{ratio:.2f}"] for name, ratio in ratios if name != "as it is"]
    return f"`{found['command']}`\n\n" + table("the step with | takes times as long", rows)


def decode() -> str:
    """Decoding speed beside Hugging Face's generate and CTranslate2, with the same weights."""
    found = read("decode.json")
    rows = []
    for name, wide in found["beam 5"].items():
        greedy = found["beam 1"].get(name)
        alone = decoded(greedy)[:2] if greedy else ["", ""]
        name = re.sub(" (float32|bfloat16|int8)", r", \1", name)
        rows.append([name, *alone, *decoded(wide)])
    threads = found["machine"]["threads"]
    header = (
        "program | greedy, sentences/s | nmtlib is faster by | beam 5, sentences/s "
        "| nmtlib is faster by | same translations, beam 5 | BLEU, beam 5"
    )
    return (
        f"{found['sentences']:,} sentences of the Multi30k test set with the same weights and the "
        f"same search rule, {threads} CPU thread{'s' if threads > 1 else ''}, all in one run "
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
    header = "precision | error of the time, median | largest | error of the memory, largest"
    return f"`{found['command']}`\n\n" + table(header, rows)
