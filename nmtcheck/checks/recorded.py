"""Laws of a training run that was recorded from its data to its last evaluation."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtcheck.adapter import Adapter
from nmtcheck.connect.loops import train
from nmtcheck.measure.attended import SEEN, find_hidden_reads
from nmtcheck.measure.helpers import (
    TOLERANCE,
    applies_dropout,
    build,
    distance,
    logits,
    prepare,
)
from nmtcheck.measure.helpers import pairs as pairs_of
from nmtcheck.measure.labels import EXACT, Learned, Rows, is_counter, read_pairs
from nmtcheck.measure.reading import PARTS
from nmtcheck.measure.tape import Run, recording
from nmtcheck.registry import Finding, check

Sentence = tuple[int, ...]
EARLY = 30  # updates, of which the loss is read
LOOPS = "run|epoch"  # of which the first one that an adapter has is recorded
FEW = 20  # sentences or passes, below which a share says little
MISTAKES = {
    "input": "The labels are not shifted: the model learns to copy the word that it reads.",
    "next": "The target is shifted twice: the model learns to skip a word.",
}
DIVISORS = {  # how the words of an update are weighed, and the cause
    "means": "The means of accumulated batches are added and never divided by their number.",
    "padded": "The sum is divided by the number of positions, PAD included.",
    "last batch": "The sum of several batches is divided by the words of the last one.",
    "source": "The sum is divided by the words of the sources, not of the targets.",
    "uneven": "Means of sentences are averaged: words of short sentences weigh more.",
}
EXCHANGED = "The shares of the label and of the smoothing are exchanged."
ON_PURPOSE = "some toolkits do so on purpose"
GRADIENTS = {  # what is seen, and its cause
    "older": ("a gradient of earlier updates is left", "Gradients are not cleared between steps."),
    "last": ("only the last backward pass counts", "Gradients are cleared between the batches."),
    "first": ("only the first backward pass counts", "Only the first batch of an update counts."),
    "none": ("there is no gradient", "Gradients are cleared between backward and step."),
    "other": ("the gradient is not that of the backward passes before it", ""),
}


@functools.lru_cache(maxsize=2)
def recorded(adapter: Adapter) -> Run:
    """The recording of the adapter's `run`.  Raises NotImplementedError where it trains nothing.

    An exception after some updates ends the recording and does not lose it: often a script fails
    when it saves or draws something.
    """
    with recording() as run:
        try:
            if adapter.run is not None:
                run.returned = adapter.run()
            elif adapter.make_model is not None:
                practise(adapter)
        except SystemExit:  # scripts end so
            pass
        except Exception as error:
            if len(run.updates) < 3:
                raise
            run.ended = f"by {type(error).__name__}: {error}"
    if len(run.updates) < 3:
        raise NotImplementedError(f"only {len(run.updates)} steps of an optimizer were seen")
    return run


def practise(adapter: Adapter) -> None:
    """Three epochs of a loop of the adapter, on pairs of the checks."""
    model = build(adapter, dropout=0.5, noise=0.0)
    examples = pairs_of(adapter, 0, [(5, 6), (4, 2), (3, 4)] * 8)
    train(adapter, model, examples, examples[:4], 3)


@functools.lru_cache(maxsize=2)
def lessons(adapter: Adapter) -> list[list[Learned]]:
    """What each update learns.  Raises NotImplementedError where most passes cannot be read."""
    run = recorded(adapter)
    told = [[read_pairs(x.rows, x.reads) for x in update.passes] for update in run.updates]
    # What is learned already has gradients that are lost in rounding: the first passes tell.
    first = [each.rows for update in run.updates[:EARLY] for each in update.passes]
    if sum(rows is not None and rows.off <= EXACT for rows in first) < len(first) / 2:
        raise NotImplementedError("the loss could not be read: it is no cross-entropy of logits")
    return [[each for each in passes if each is not None] for passes in told]


def endings(pairs: Sequence[Learned]) -> list[tuple[list[int], list[int]]]:
    """Of each sentence the labels, and what was read there."""
    told = []
    for each in pairs:
        rows: dict[int, list[tuple[int, int]]] = {}
        for (b, t), label in sorted(each.labels.items()):
            rows.setdefault(b, []).append((t, label))
        for b, row in rows.items():
            read = [int(each.read[b, t]) if t < each.read.size(1) else -1 for t, _ in row]
            told.append(([label for _, label in row], read))
    return told


@check("run.labels", LOOPS)
def labels(adapter: Adapter, seed: int) -> str:
    """Each position learns the next word of its own target, the last one EOS, and no PAD counts."""
    pairs = [each for update in lessons(adapter)[:EARLY] for each in update]
    seen = [each.rows for u in recorded(adapter).updates[:EARLY] for each in u.passes if each.rows]
    without = [int((rows.share < rows.share.max() / 2).sum()) for rows in seen]
    if sum(map(bool, without)) > len(seen) / 2:
        said = f"in a batch {max(without)} positions count for which no word is meant"
        raise Finding(said, "What is smoothed at PAD counts in the loss.")
    shares = torch.cat([rows.share for rows in seen if rows.off <= EXACT])
    if len(shares) and float(shares.median()) < 0.5:
        said = f"the label gets {float(shares.median()):.2g} of what a position learns"
        raise Finding(f"{said}, and other words the rest", EXCHANGED)
    kinds = Counter(each.kind for each in pairs)
    kind, count = kinds.most_common(1)[0]
    if kind in MISTAKES and count > len(pairs) / 2:
        where = "what the decoder reads there" if kind == "input" else "one position too far"
        raise Finding(f"in {count} of {len(pairs)} passes the labels are {where}", MISTAKES[kind])
    rows = [row for row in endings(pairs) if len(row[0]) > 1]
    if len(rows) < FEW:
        raise NotImplementedError(f"only {len(rows)} targets were read")
    padded = Counter(
        row[-1] for row, read in rows if row[-1] == row[-2] and row[-1] in (read[-1], row[-2])
    )
    if padded and padded.most_common(1)[0][1] > len(rows) / 5:
        word, many = padded.most_common(1)[0]
        # PAD fills up short targets only; what ends every target, as often, is EOS.
        times = {repetitions(row) for row, _ in rows}
        if many == len(rows) and len(times) == 1:
            said = f"each of {many} targets ends in id {word}, {times.pop()} times"
            raise Finding(said, "EOS is added twice: by the data and by the loop.")
        cause = "PAD counts as a word: the loss ignores no id, or the wrong one."
        message = f"{many} of {len(rows)} targets end in repetitions of id {word}, which count"
        raise Finding(message, cause)
    last, many = Counter(row[-1] for row, _ in rows).most_common(1)[0]
    if many < 0.6 * len(rows):
        cause = "No target ends in EOS: the model never learns to stop."
        message = f"the last labels of {len(rows)} targets are words, id {last} in {many} of them"
        raise Finding(message, cause)
    return f"{len(rows)} targets, each word at its place, end in id {last}"


def repetitions(labels: list[int]) -> int:
    """How often the last label of a target stands at its end."""
    return next((n for n, label in enumerate(reversed(labels)) if label != labels[-1]), len(labels))


@check("run.masks", LOOPS)
def masks(adapter: Adapter, seed: int) -> str:
    """In training no attention reads PAD, and none of the decoder reads the future."""
    told = [each for update in lessons(adapter) for each in update if each.source is not None]
    pads = [padding([row for each in told for row in each.source.tolist()])]
    pads.append(padding([row for each in told for row in each.read[:, 1:].tolist()]))
    pad = next((each for each in pads if each is not None), None)
    if pad is None:
        raise NotImplementedError("no sentences are padded, or PAD could not be told")
    count, worst = 0, dict[tuple[str, str], float]()
    for update in recorded(adapter).updates:
        for each in update.passes:
            pairs = read_pairs(each.rows, each.reads) if each.weights else None
            if pairs is None or pairs.source is None:
                continue
            length = math.prod(each.rows.shape) // len(pairs.read) if each.rows else 0
            target = pairs.read[:, :length]
            for part, what, weight in find_hidden_reads(each.weights, pairs.source, target, pad):
                count += 1
                worst[part, what] = max(weight, worst.get((part, what), 0.0))
    if not count:
        raise NotImplementedError("no weights of an attention were read in training")
    for (part, what), weight in worst.items():
        if weight > SEEN:
            name = PARTS.get(part, "an attention")
            said = f"in training {name} gives {what} a weight of {weight:.2g} in one query"
            raise Finding(said, "The masks of the training are missing, or made of something else.")
    return f"{count} attentions of the first updates read neither PAD nor the future"


@check("run.left_padding", "run", "make_model")
def left_padding(adapter: Adapter, seed: int) -> str:
    """Where training pads its sources on the left, padding there does not move the logits."""
    told = [each for update in lessons(adapter) for each in update if each.source is not None]
    rows = [row for each in told for row in each.source.tolist()]
    pad = adapter.pad
    padded = [row for row in rows if row[0] == pad and row[-1] != pad]
    if len(padded) < FEW:
        raise NotImplementedError("training pads no sources on the left")
    model, source, target = prepare(adapter, seed)
    real = target != pad
    left = torch.stack([row.roll(int((row == pad).sum())) for row in source])
    wider = F.pad(left, (3, 0), value=pad)
    near, far = (logits(adapter, model, ids, target)[real] for ids in (left, wider))
    off = distance(far, near)
    if off > TOLERANCE:
        said = f"three more PAD on the left of the source move logits by {off:.2g}"
        raise Finding(said, "Positions count PAD, or the padding mask hides the right side only.")
    return f"PAD on the left of the source moves logits by at most {off:.0e}"


def source_words(pair: Learned, frame: int) -> int:
    """How many ids the sources of a batch have, less PAD and so many special ids each."""
    if pair.source is None:
        return 0
    pad = padding(pair.source.tolist())
    return sum(len(row) - frame for row in stripped(pair.source.tolist(), pad))


def divided(passes: list[Rows], pairs: list[Learned]) -> tuple[str, str]:
    """How the words of an update are weighed, in short and in a line."""
    for rows in passes:
        least, most = float(rows.weight.min()), float(rows.weight.max())
        if most > 1.05 * least:
            return "uneven", f"within one batch a word weighs {least:.3g} to {most:.3g}"
    weights = torch.cat([rows.weight for rows in passes])
    words, total = len(weights), float(weights.sum())
    known = {
        "mean": 1,
        "means": len(passes),
        "padded": words / sum(math.prod(rows.shape) for rows in passes),
        "by nothing": words,
        "by the number of sentences": words / max(1, sum(len(each.read) for each in pairs)),
    }
    known["last batch"] = words / len(passes[-1].weight)
    for frame in range(3):  # special ids of a source
        sources = sum(source_words(each, frame) for each in pairs)
        known.setdefault("source", words / sources if sources else 0.0)
        if sources and abs(total * sources / words - 1) < 0.02:
            known["source"] = words / sources
    known = {kind: x for kind, x in known.items() if x > 0}
    kind = next((kind for kind, x in known.items() if abs(total / x - 1) < 0.02), f"{total:.3g}")
    if total > 64 and abs(math.log2(total) - round(math.log2(total))) < 0.02:
        kind = "by a power of two, as for half precision"
    if kind == "mean" and len({round(float(rows.weight.mean()), 5) for rows in passes}) > 1:
        return kind, f"means of {len(passes)} batches of unequal size are averaged"
    return kind, f"the gradients of {words} words are summed and divided by {words / total:.3g}"


@check("run.weights", LOOPS)
def weights(adapter: Adapter, seed: int) -> str:
    """Before clipping, the gradient of an update is that of the mean loss over its words."""
    told = list[tuple[str, str]]()
    for update, pairs in zip(recorded(adapter).updates[:EARLY], lessons(adapter), strict=False):
        passes = [each.rows for each in update.passes if each.rows and each.rows.off <= EXACT]
        told += [divided(passes, pairs)] if 0 < len(passes) == len(update.passes) else []
    lines, kinds = dict(reversed(told)), Counter(kind for kind, _ in told)
    right = kinds.pop("mean", 0)  # an update without padding, or of one batch, often is
    kind, count = kinds.most_common(1)[0] if kinds else ("", 0)
    if count > len(told) / 3:
        said = f"in {count} of {len(told)} updates {lines[kind]}"
        if kind.startswith("by"):
            raise NotImplementedError(f"{said}, {kind}: {ON_PURPOSE}, and adapt rate and clipping")
        raise Finding(said, DIVISORS.get(kind, ""))
    if right <= len(told) / 2:
        raise NotImplementedError("updates are divided by different numbers, or were read in part")
    return lines["mean"]


@check("run.gradients", LOOPS)
def gradients(adapter: Adapter, seed: int) -> str:
    """Each step uses the gradients of the passes since the last one, all of them and no others."""
    run = recorded(adapter)
    early = [u for u in run.updates if u.clipped and not any(u.clipped)]
    if len(early) > len(run.updates) / 2:
        raise Finding(
            f"in {len(early)} of {len(run.updates)} updates gradients are clipped when there is"
            " none yet",
            "Gradients are clipped before backward: the step uses them unclipped.",
        )
    kinds = Counter(u.gradient for u in run.updates)
    for kind, (what, cause) in GRADIENTS.items():
        if kinds[kind] > len(run.updates) / 4:
            raise Finding(f"in {kinds[kind]} of {len(run.updates)} steps {what}", cause)
    return f"{len(run.updates)} steps use the gradients of their own passes"


@check("run.parameters", LOOPS)
def parameters(adapter: Adapter, seed: int) -> str:
    """Every parameter that gets a gradient is one of the optimizer's."""
    run = recorded(adapter)
    missing = list(dict.fromkeys(name for update in run.updates for name in update.missing))
    if missing:
        raise Finding(
            f"{len(missing)} kinds of parameters get gradients and are in no optimizer: "
            + ", ".join(missing[:6]),
            "They are not handed to the optimizer, or stand in a plain list.",
        )
    dtypes = {dtype for update in run.updates for dtype in update.dtypes}
    if torch.float16 in dtypes:
        raise Finding("the optimizer changes weights of the type float16, expected float32")
    if torch.bfloat16 in dtypes:
        raise NotImplementedError("weights in bfloat16 lose small updates; some designs accept it")
    return "every parameter with a gradient belongs to an optimizer"


@check("run.rates", "run")
def rates(adapter: Adapter, seed: int) -> str:
    """The rate that the loop computes is used, and rises until the warm-up ends."""
    run = recorded(adapter)
    used = [update.rates[0] for update in run.updates if update.rates]
    if not used:
        raise NotImplementedError("the optimizer has no rate")
    count, text = len(used), f"{used[0]:.3g} at first, {max(used):.3g} at most, {used[-1]:.3g} last"
    for steps, scheduler in run.stepped.values():
        total, name = getattr(scheduler, "total_steps", None) or 0, type(scheduler).__name__
        if total >= count and steps < count / 2 and count >= FEW:
            cause = "The schedule is stepped once an epoch, and made for a step an update."
            raise Finding(f"{name} of {total} steps: {steps} in {count} updates", cause)
        if steps > 1.5 * count:
            cause = "The schedule is stepped for every batch of an update."
            raise Finding(f"{name} is stepped {steps} times in {count} updates", cause)
    steady = max(used) - min(used) < 1e-9 * max(used)
    defaults = [update.default for update in run.updates]
    names = {name for update in run.updates for name in update.said if "warm" not in name.lower()}
    if steady:
        for name in sorted(names):
            values = [update.said.get(name, math.nan) for update in run.updates]
            if len({v for v in values if v == v}) > 3 and values[-1] != used[-1]:
                raise Finding(f"{name!r} changes, and the rate that is used stays {used[0]:.3g}")
        if len(set(defaults)) > 3:
            cause = "The rate is written to optimizer.defaults, which no step reads."
            raise Finding(f"the default rate changes, and the one used stays {used[0]:.3g}", cause)
    for odd in (odd_first(used), rising_end(used), second_warm_up(used), root_alone(used)):
        if odd is not None:
            raise Finding(f"{odd[0]}: {text}", odd[1])
    warm = {n: v for u in run.updates for n, v in u.said.items() if "warm" in n.lower()}
    warm |= run.scheduled
    peak = max(range(count), key=used.__getitem__)
    for name, value in warm.items():
        if value >= 5 and value == int(value) and not steady and peak + 1 < min(value, count) - 2:
            message = f"{name!r} is {value:g}, and the rate is highest at update {peak + 1}: {text}"
            raise Finding(message)
    low = next((n for n in range(count) if max(used[n:]) < max(used) / 1000), count)
    if low < count / 2 and count >= FEW:
        cause = "The schedule is stepped for every batch, and made for a step an epoch."
        raise Finding(f"the rate has fallen to nothing by update {low + 1}: {text}", cause)
    moves = [n for n in range(count) if not n or used[n] != used[n - 1]]
    three = zip(moves, moves[1:], moves[2:], strict=False)
    again = [b + 1 for a, b, c in three if used[a] > used[b] < used[c]]
    where = f"first at update {again[0]}" if again else ""
    return text + f"; it falls and rises again {len(again)} times, {where}" * bool(again)


def odd_first(used: list[float]) -> tuple[str, str] | None:
    """What is wrong with the first of some rates that rise after it, and why."""
    after = used[1:5]
    if len(used) < FEW or after != sorted(after) or after[0] == after[-1]:
        return None
    if used[0] <= 3 * after[-1]:
        return None
    said = f"the first update has the rate {used[0]:.3g}, and later ones rise from {after[0]:.3g}"
    return said, "The first step is made before the schedule sets the rate."


def rising_end(used: list[float]) -> tuple[str, str] | None:
    """What is wrong with rates that fall at first and then rise, step by step, to the end."""
    low = min(range(len(used)), key=used.__getitem__)
    falls = all(a >= b for a, b in itertools.pairwise(used[: low + 1]))
    steps = [b - a for a, b in itertools.pairwise(used[low:])]
    # A restart jumps, in one step.
    slowly = all(0 <= step <= (used[-1] - used[low]) / 4 for step in steps)
    rises = len(steps) >= max(5, len(used) / 4) and slowly
    if len(used) < FEW or low < 3 or not falls or not rises:
        return None
    if min(used[0], used[-1]) < 1.5 * used[low]:
        return None
    said = f"the rate falls until update {low + 1} and then rises to the end"
    return said, "The schedule goes on past its end, or takes the larger of two rates for the less."


def second_warm_up(used: list[float]) -> tuple[str, str] | None:
    """What is wrong with rates that rise, and then jump down and rise once more, and why.

    Restarts of a cosine jump up, and triangles do not jump.
    """
    first = used[:5]
    if len(used) < FEW or not all(a < b for a, b in itertools.pairwise(first)):
        return None
    for n in range(5, len(used) - 5):
        if used[n : n + 5] == first and used[n - 1] > max(2 * used[n], first[1]):
            said = f"the rate jumps down at update {n + 1} and rises as it did from the first one"
            return said, "The schedule, or the number of its step, begins anew in each epoch."
    return None


def root_alone(used: list[float]) -> tuple[str, str] | None:
    """What is wrong with rates that fall with the root of the step from the first one on, and why.

    Those of the paper do so after a warm-up.
    """
    roots = [n**-0.5 for n in range(1, len(used) + 1)]
    factor = used[0] / roots[0]
    if len(used) < FEW or any(
        abs(x / (factor * y) - 1) > 0.01 for x, y in zip(used, roots, strict=True)
    ):
        return None
    said = "the rate falls with the root of the step from the first update on"
    return said, "The warm-up has no effect: its exponent is wrong, or max stands for min."


@check("run.modes", LOOPS)
def modes(adapter: Adapter, seed: int) -> str:
    """Dropout drops in every update or in none, and never where no gradient is wanted."""
    run = recorded(adapter)
    dropped = [any(each.dropped for each in update.passes) for update in run.updates]
    if not any(dropped) and adapter.run is None and applies_dropout(adapter, seed):
        raise Finding(f"dropout 0.5 was asked for, and drops in none of {len(dropped)} updates")
    if any(dropped) and not all(dropped):
        first = dropped.index(False) + 1
        where = f"{dropped.count(False)} of {len(dropped)} updates, first in update {first}"
        cause = "The model is not put back to train mode after an evaluation."
        raise Finding(f"dropout does not drop in {where}", cause)
    if run.tested_dropped:
        raise Finding(
            f"dropout drops {run.tested_dropped} times in passes without gradient",
            "Evaluation is done in train mode, or dropout does not follow the mode.",
        )
    return f"dropout drops in {dropped.count(True)} of {len(dropped)} updates, never elsewhere"


@check("run.kept", LOOPS)
def kept(adapter: Adapter, seed: int) -> str:
    """A state dict that is kept while training goes on is a copy."""
    run = recorded(adapter)
    if run.kept:
        cause = "state_dict() returns the live tensors: copy them to keep them."
        raise Finding(run.kept[0], cause)
    if run.ended:
        raise NotImplementedError(f"not read to its end: the run was ended {run.ended}")
    return f"of {run.loaded} state dicts that were loaded none is the model's own tensors"


def padding(rows: Sequence[Sequence[int]]) -> int | None:
    """The id that stands at the ends of rows, or at their beginnings, and nowhere else."""
    runs, elsewhere = Counter[tuple[int, int]](), set[tuple[int, int]]()
    for row in rows:
        for side, ids in enumerate((row, row[::-1])):
            length = next((n for n, word in enumerate(ids[::-1]) if word != ids[-1]), len(ids))
            elsewhere |= {(word, side) for word in ids[: len(ids) - length]}
            runs[ids[-1], side] += 1 if length == 1 else len(rows) + 1  # one for each: EOS
    found = [(n, key[0]) for key, n in runs.items() if n != len(rows) and key not in elsewhere]
    return max(found)[1] if found else None


def stripped(rows: Sequence[Sequence[int]], pad: int | None) -> list[Sentence]:
    """Sentences without padding."""
    return [tuple(i for i in row if i != pad) for row in rows]


def epochs(batches: list[list[Sentence]]) -> list[list[list[Sentence]]]:
    """Batches of sources by epochs: an epoch ends where most of a batch was read before.

    No epoch where sentences are drawn, so that repetitions come little by little.
    """
    told, seen = list[list[list[Sentence]]]([[]]), set[Sentence]()
    for batch in batches:
        again = sum(s in seen for s in batch) / len(batch)
        if again > 0.5 and told[-1]:
            told.append([])
            seen = set()
        elif again > 0.3:
            return []
        told[-1].append(batch)
        seen |= {*batch}
    return told


@check("run.pairs", "run")
def pairs(adapter: Adapter, seed: int) -> str:
    """In every epoch a source has the same target, all sentences are read, and none of a test."""
    told = [each for update in lessons(adapter) for each in update if each.source is not None]
    if not told:
        raise NotImplementedError("no table of source ids was seen")
    sizes = [len(each.source) for each in told]
    rows = [row for each in told for row in each.source.tolist()]
    pad = padding(rows)
    flat = stripped(rows, pad)
    starts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    batches = [flat[a:b] for a, b in zip(starts, starts[1:], strict=False)]
    # Without the first id: some begin a target with PAD.
    pads = padding([row for each in told for row in each.read[:, 1:].tolist()])
    targets: dict[Sentence, set[Sentence]] = {}
    times = Counter(flat)
    for sources, each in zip(batches, told, strict=True):
        for source, target in zip(sources, stripped(each.read[:, 1:].tolist(), pads), strict=True):
            targets.setdefault(source, set()).add(target)
    again = [source for source, n in times.items() if n > 1]
    other = [source for source in again if len(targets[source]) > 1]
    if len(again) >= FEW and len(other) > len(again) / 2:
        cause = "Sources and targets are ordered apart: most pairs do not belong together."
        raise Finding(f"{len(other)} of {len(again)} sources meet another target later", cause)
    tested = [ids for _, ids in recorded(adapter).tested if ids.dim() == 2]
    whole = epochs(batches)
    for number, epoch in enumerate(whole[:-1] if len(whole) > 2 else []):
        read = {s for batch in epoch for s in batch}
        lost = len(times) - len(read)
        if lost > 1.5 * max(sizes) and lost > 0.02 * len(times):
            raise Finding(f"epoch {number + 1} reads {len(read)} of {len(times)} sentences")
    text = f"{len(times)} sentences in {max(1, len(whole))} epochs, {len(again)} read again"
    return f"{text}; {leaked(times, told, tested, pad)}"


def leaked(
    times: Counter[Sentence], told: list[Learned], tested: list[Tensor], pad: int | None
) -> str:
    """How many evaluated sources were learned; a Finding where most of a test was."""
    known, fresh, old, mixed = {*times}, set[Sentence](), set[Sentence](), False
    batched = set[Sentence]()  # what is read in tables of several rows, as no search of one does
    start = Counter(int(each.read[0, 0]) for each in told).most_common(1)[0][0]
    tested = [ids for ids in tested if not is_counter(ids) and not is_counter(ids.t())]
    ways = [[stripped(x.tolist(), pad) for x in side] for side in (tested, [x.t() for x in tested])]
    for table in max(ways, key=lambda way: sum(row in known for rows in way for row in rows)):
        hits = sum(row in known for row in table)
        # Rows that all begin alike are the beginnings of translations.
        if hits or any(row[:1] != (start,) for row in table):
            old |= known & {*table}
            fresh |= {*table} - known
            batched |= {*table} if len(table) > 1 else set()
            mixed |= 2 * hits >= len(table) > hits  # no evaluation of the training set alone
    said = f"{len(old)} of {len(old | fresh)} sentences that are evaluated were learned"
    if len(old) >= FEW and (not fresh or (mixed and len(old) > 3 * len(fresh))):
        raise Finding(said, "Test sentences are part of the training data.")
    if len(batched) >= FEW and batched <= known and fresh:
        said = f"{len(batched)} sentences are evaluated in batches, and all of them were learned"
        cause = "The training data are evaluated in the place of the validation data."
        raise Finding(f"{said}; {len(fresh)} others are only translated", cause)
    return said if old or fresh else "no evaluation was read"
