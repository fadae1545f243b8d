"""Plan the base model of Vaswani et al. 2017 on WMT'14: work, memory, disk, hours, limits.

    python benchmarks/plan.py              # write benchmarks/PLAN.md
    python benchmarks/plan.py --check      # exit status 1 where it is not up to date
    python benchmarks/plan.py --price 1.8 --tokens-per-second 90000    # only print another plan

Figures are cited or assumed (plan_figures.py), measured (results/operations.json, train.json and
gpu.json), or computed.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plan_figures import FACTS, GPUS, SHARES, TIMES, Assumptions, Plan

PAGE = Path(__file__).parent / "PLAN.md"
RESULTS = Path(__file__).parent / "results"


def prose(text: str) -> str:
    """A paragraph in lines of one width."""
    return textwrap.fill(
        " ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; all columns but the first are aligned right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def human(count: float, unit: str = "B") -> str:
    """Three digits with a prefix: 2.5 GB."""
    prefixes = ["", "k", "M", "G", "T", "P", "E"]
    while count >= 999.5 and len(prefixes) > 1:
        count, prefixes = count / 1000, prefixes[1:]
    return f"{count:.3g} {prefixes[0]}{unit}"


def lasting(seconds: float) -> str:
    """A time in the unit that suits it."""
    units = {"days": 86_400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3}
    unit = next((unit for unit, length in units.items() if seconds >= length), "ms")
    count = f"{seconds / units[unit]:.3g}"
    return "1 day" if (count, unit) == ("1", "days") else f"{count} {unit}"


def task(plan: Plan) -> list[str]:
    fact, cited = (
        plan.fact,
        [(unit, f"{value:,.10g}", source) for value, unit, source in FACTS.values()],
    )
    return [
        "## The task",
        table(("cited", "value", "source"), cited),
        prose(f"""
        With {plan.assumed.pieces_per_word} subwords a word (assumed), a sentence has
        {plan.source_length} source and {plan.target_length} target tokens, the corpus has
        {human(plan.tokens, "").strip()} tokens, a batch has {plan.sentences} pairs, and the updates
        make {fact["steps"] * plan.sentences / fact["pairs"]:.1f} epochs. Padding is not counted.
        The preset `base` with this vocabulary has {plan.parameters:,} parameters
        ({plan.parameters / fact["paper_parameters"]:.0%} of the cited number)."""),
    ]


def arithmetic(plan: Plan) -> list[str]:
    fact, total = plan.fact, plan.flops * plan.fact["steps"]
    rows = [
        (name, human(count, "FLOP"), f"{count / plan.flops:.0%}")
        for name, count in plan.terms.items()
    ]
    return [
        "## Arithmetic",
        table(("one update, forward and backward", "operations", "share"), rows),
        prose(f"""
        That is {human(plan.flops_per_token, "FLOP")} for a target token with its source,
        {plan.flops_per_token / plan.parameters:.1f} for each parameter, and {total:.2g} FLOP
        for all updates. The paper multiplies its hours by its GPUs and by
        {human(fact["p100"], "FLOP/s")}, which gives the upper bound {fact["paper_flops"]:.2g}; the
        matmuls counted here are {total / fact["paper_flops"]:.0%} of it. An update also launches
        {plan.measured["operations_an_update"]:,} operations (counted on a CPU). At
        {plan.launch} that takes {lasting(plan.launches)},
        however small the batch is."""),
    ]


def memory(plan: Plan) -> list[str]:
    rows = [(name.replace("_", " "), human(count)) for name, count in asdict(plan.memory).items()]
    rows += [("gradients once more, as one message", human(plan.memory.gradients))]
    return [
        "## Memory of one GPU",
        prose(f"""
        Each GPU gets {plan.sentences // plan.assumed.gpus} pairs of a batch, in bfloat16
        (`nmtcourse.teaching.cost.training_memory`):"""),
        table(("what", "bytes"), rows),
        prose(f"""
        The peak is {human(max(plan.memory.peak, plan.state))}.
        {plan.state / plan.parameters:.0f} bytes a parameter do not depend on the batch. A
        checkpoint to resume from has {plan.checkpoint / plan.parameters:.0f} bytes a parameter, or
        {human(plan.checkpoint)}; writing it at {human(plan.assumed.disk, "B/s")} (assumed) takes
        {lasting(plan.checkpoint / plan.assumed.disk)}."""),
    ]


def corpus(plan: Plan) -> list[str]:
    found = plan.measured
    return [
        "## The corpus in memory",
        prose(f"""
        Measured on {found["corpus"]} ({found["pairs"]:,} pairs, `{found["command"]}`): one process
        encodes {found["pairs_a_second"]:,} pairs/s (CPU time) with a peak memory of
        {found["encoding_bytes_a_token"]:.1f} bytes a token. Each of {plan.assumed.gpus} processes
        encodes the whole corpus before the first update, in {lasting(plan.encoding)}; together
        they take {human(plan.encoded)}."""),
    ]


def hours(plan: Plan) -> list[str]:
    rows = []
    for name, (peak, _, link) in GPUS.items():
        for share in SHARES:
            bare = share * peak / plan.flops_per_token
            seconds = plan.update(share * peak) + plan.all_reduce(link)
            real = plan.batch_tokens / plan.assumed.gpus / seconds
            cells = [f"{bare:,.0f}", f"{plan.hours(bare):.2f}"]
            cells += [f"{real:,.0f}", f"{plan.hours(real):.2f}", f"{plan.dollars(real):.2f}"]
            rows.append((name, f"{share:.0%}", *cells))
    peaks = ", ".join(f"{name} {human(peak, 'FLOP/s')}" for name, (peak, _, _) in GPUS.items())
    head = (
        "GPU",
        "share of peak",
        "tokens/s",
        "hours",
        "tokens/s, with launches and all-reduce",
        "hours",
        "dollars",
    )
    return [
        "## Hours",
        prose(f"""
        **Calculated, not measured**: {plan.assumed.gpus} GPUs compute at a share of the dense
        bfloat16 peak of their data sheets ({peaks}). Tokens/s are target tokens of one GPU. The
        second pair of columns adds overhead: an update takes at least as long as launching its
        operations, and an all-reduce over NVLink follows. A GPU costs
        {plan.assumed.price:g} dollars an hour (assumed)."""),
        table(head, rows),
        prose(f"""
        For comparison, the paper's {plan.fact["paper_hours"]} hours on
        {plan.fact["paper_gpus"]} P100 are {plan.paper_speed:,.0f} tokens/s on each."""),
        *measured(plan),
    ]


def measured(plan: Plan) -> list[str]:
    rate = plan.cpu_rate()
    speed, base = (
        plan.cpu["target_tokens_per_second"]["nmtlib bfloat16"],
        rate / plan.flops_per_token,
    )
    cpu = f"""
        **Measured**: `{plan.cpu["command"]}` trains a small model at {speed:,.0f} tokens/s on
        {plan.cpu["machine"]["threads"]} CPU threads, {human(rate, "FLOP/s")}. At that rate the
        base model would train at {base:,.0f} tokens/s and need
        {lasting(plan.hours(base) * plan.assumed.gpus * 3600)}."""
    found = plan.gpu_speeds()
    source = "with the given tokens/s"
    if not plan.assumed.tokens_per_second:
        source = f"measured on one {plan.gpu['machine']['device']} by `{plan.gpu['command']}`"
    rows = [
        (
            name,
            f"{tokens:,.0f}",
            f"{tokens * plan.flops_per_token / 1e12:.0f}",
            f"{plan.hours(tokens):.2f}",
            f"{plan.dollars(tokens):.2f}",
        )
        for name, tokens in found.items()
    ]
    head = ("step", "tokens/s of one GPU", "TFLOP/s", f"hours on {plan.assumed.gpus}", "dollars")
    return [
        prose(cpu),
        prose(f"""
        On {plan.assumed.gpus} GPUs, {source}, if they are {plan.assumed.gpus} times as fast as one
        and each gets as many tokens a batch as there, {plan.gpu["max_tokens"]:,}:"""),
        table(head, rows),
    ]


def communication(plan: Plan) -> list[str]:
    gradients, n, (name, (peak, _, _)) = (
        plan.memory.gradients,
        plan.assumed.gpus,
        next(iter(GPUS.items())),
    )
    update = plan.update(SHARES[1] * peak)
    links = {f"NVLink, {gpu}": link for gpu, (_, _, link) in GPUS.items()} | {
        "network (assumed)": plan.assumed.network
    }
    rows = [
        (
            link,
            human(speed, "B/s"),
            lasting(plan.all_reduce(speed)),
            f"{plan.all_reduce(speed) / update:.0%}",
        )
        for link, speed in links.items()
    ]
    return [
        "## Communication",
        prose(f"""
        Every update sums {human(gradients)} of gradients. Around a ring each GPU sends 2 ({n} -
        1) / {n} of them, {human(2 * (n - 1) / n * gradients)}. `Processes.sum_gradients` does
        it as one message after the backward pass, so nothing hides it. Without it an update takes
        {lasting(update)} ({name}, {SHARES[1]:.0%} of peak, launches included):"""),
        table(("connection", "in each direction", "all-reduce", "of an update"), rows),
    ]


def growing(plan: Plan) -> list[tuple[str, str, float, float, Callable[[float], str]]]:
    """What grows, with what, how large it is in this plan, its limit, and how it is written."""
    capacity = next(iter(GPUS.values()))[1]
    assumed, ids = plan.assumed, "corpus ids in the memory of a machine"
    writing = plan.checkpoint / assumed.disk
    return [
        (ids, "pairs", plan.encoded, assumed.memory, human),
        (
            "planning an epoch's batches while the GPUs are idle",
            "pairs",
            plan.planning,
            60,
            lasting,
        ),
        ("encoding the corpus before the first update", "pairs", plan.encoding, 3_600, lasting),
        (
            "weights, gradients and moments, complete on each GPU",
            "parameters",
            plan.state,
            capacity,
            human,
        ),
        ("writing a checkpoint while the other GPUs are idle", "parameters", writing, 60, lasting),
    ]


def limits(plan: Plan) -> list[str]:
    """What reaches its limit first as the task grows."""
    name, (peak, _, link) = next(iter(GPUS.items()))
    update, assumed = plan.update(SHARES[1] * peak), plan.assumed
    rows = [
        (f"{what} ({with_})", show(now), show(now * TIMES), show(limit), limit / now)
        for what, with_, now, limit, show in growing(plan)
    ]
    network = plan.all_reduce(assumed.network, TIMES * assumed.gpus)
    second = plan.all_reduce(assumed.network, 2 * assumed.gpus) > update / 5
    what = "all-reduce after backward, over the network from the second machine on (GPUs)"
    seconds = (plan.all_reduce(link), network, update / 5)
    rows.append((what, *map(lasting, seconds), 2 if second else TIMES))
    rows = [(*row, f"{times:,.3g}") for *row, times in sorted(rows, key=lambda row: row[-1])]
    dollars = plan.dollars(SHARES[1] * peak / plan.flops_per_token)
    head = ("what (grows with)", "in this plan", f"{TIMES} times", "limit", "reached at, times")
    return [
        f"## {TIMES} times as large",
        prose(f"""
        What breaks first with {TIMES} times as many pairs, parameters or GPUs? The limits are the
        memory of a machine (assumed) and of a GPU ({name}), a minute of idle GPUs, an hour of
        encoding, and a fifth of an update ({name}, {SHARES[1]:.0%} of peak, launches included)
        for the all-reduce."""),
        table(head, rows),
        prose("""
        The remedies, in order: send gradients in parts during the backward pass, or make fewer
        and larger updates; encode the corpus once and read it from disk, as Hugging Face's
        `datasets` does (for both the time and the memory); plan batches block by block during
        training; shard moments, gradients and weights over the GPUs (Rajbhandari et al. 2020);
        write checkpoints in shards during training."""),
        prose(f"""
        The arithmetic alone costs {dollars:,.2f} dollars here ({name}, {SHARES[1]:.0%} of peak),
        {dollars * TIMES:,.0f} for {TIMES} times the tokens, and {dollars * TIMES**2:,.0f} if the
        model also has {TIMES} times the parameters."""),
    ]


def page(plan: Plan) -> str:
    """The whole page."""
    parts = [
        f"# A plan: WMT'14 English-German, base model, {plan.assumed.gpus} GPUs",
        prose("""
        What would it take to train this on real GPUs? Written by `python benchmarks/plan.py`.
        Every number is marked as cited, assumed or measured, or computed from these. k is 10³, M
        10⁶, G 10⁹, T 10¹²."""),
    ]
    for section in (task, arithmetic, memory, corpus, hours, communication, limits):
        parts += section(plan)
    return "\n\n".join(parts) + "\n"


def read(name: str) -> dict[str, Any]:
    """A file of results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    check = "change nothing, only say whether the page is up to date"
    parser.add_argument("--check", action="store_true", help=check)
    for name, value in asdict(Assumptions()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args(arguments)
    assumed = Assumptions(**{name: getattr(options, name) for name in asdict(Assumptions())})
    text = page(Plan(assumed, read("operations.json"), read("train.json"), read("gpu.json")))
    if assumed != Assumptions():
        print(text)
    elif not options.check:
        PAGE.write_text(text, "utf-8")
    elif not PAGE.is_file() or PAGE.read_text("utf-8") != text:
        print(f"{PAGE.name} is not up to date; run: python benchmarks/plan.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
