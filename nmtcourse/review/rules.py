"""What a log shows by itself: a table of rules, each with its numbers or with what it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from nmtcourse.review.reading import Log


class Line(NamedTuple):
    """One line of a review: a rule's verdict, or with `needs` why there is none."""

    about: str
    says: str
    notebook: str
    needs: str = ""


SUM = 1.5  # times ln V: no mean over tokens is larger
EARLY = 500  # updates, after which a loss is no first one


def nats(log: Log) -> float:
    """By what a loss is multiplied for nats: ln 2 where the perplexities show bits, otherwise 1."""
    for record in log.records:
        if (ppl := record.values.get("perplexity", 0.0)) > 1.2:
            for key in ("nll", "loss"):
                if key in record.values and abs(record.values[key] - math.log2(ppl)) < 0.02:
                    return math.log(2)
    return 1.0


def first_loss(log: Log) -> Line:
    """The first loss against that of an untrained model."""
    train = [r.values for r in log.records if r.split == "train" and {"nll", "loss"} & {*r.values}]
    if not train:
        return Line("first loss", "", "09.1", "the loss of the first updates")
    value = train[0].get("nll", train[0].get("loss", 0.0)) * nats(log)
    updates = train[0].get("update", 0)
    later = [record.get("epoch") for record in train[1:]]  # one record an epoch is its mean
    whole = "epoch" in train[0] and train[0]["epoch"] not in later and (later or not updates)
    if whole or not 0 < updates <= EARLY:
        when = "the first epoch" if whole else f"update {updates:,g}" if updates else "the first"
        says = f"{value:,.6g} for {when}, when much was learned already"
        return Line("first loss", says, "09.1", "the loss of the first updates")
    if value > SUM * math.log(1e6):
        says = f"{value:,.6g} at update {updates:,g} is more than ln V of any vocabulary: a sum"
        return Line("first loss", says, "08.6")
    if "vocabulary" not in log.facts:
        says = f"{value:,.6g} at update {updates:,g}, which is ln {math.exp(min(value, 50)):,.0f}"
        return Line("first loss", says, "09.1", "--vocab N: it should be near ln N")
    expected = math.log(log.facts["vocabulary"])
    says = f"{value:,.3f} at update {updates:,g}, ln V = {expected:.3f}: "
    if value > 1.5 * expected:
        says += "far above; a sum, or initial weights that are too large"
    elif value < 0.6 * expected:
        says += "far below; the weights were trained before, or the labels are visible"
    else:
        says += "as that of an untrained model must be"
    return Line("first loss", says, "09.1")


def warm_up(log: Log) -> Line:
    """The updates against the warm-up, or where the learning rate was highest."""
    updates, length = log.updates(), log.facts.get("warmup")
    rates = log.series("train", "rate")
    count = f"{updates:,.0f} updates" if updates else ""
    if updates and length:
        if updates <= length:
            says = (
                f"{count}, warm-up {length:,.0f}: the rate never reached its peak; warm up shorter"
            )
        else:
            says = f"{count}, warm-up {length:,.0f}: {length / updates:.0%} of the run"
        return Line("warm-up", says, "08.5" if updates > length else "13.2")
    if len(rates) > 1 and len({value for _, value in rates}) > 1:
        when, peak = max(rates, key=lambda pair: pair[1])
        ended = when == rates[-1][0]
        says = f"the rate is highest at {when} ({peak:.3g})" + ", the last: it never fell" * ended
        return Line("warm-up", f"{count}; {says}".removeprefix("; "), "13.2" if ended else "08.5")
    return Line("warm-up", count, "08.5", "--warmup N" if count else "--updates N and --warmup N")


def smoothing_floor(log: Log) -> Line:
    """The last training loss against the lowest that a smoothed target allows."""
    share, size = log.facts.get("smoothing"), log.facts.get("vocabulary")
    losses = log.series("train", "loss")
    known = {"--smoothing E": share is not None, "--vocab N": size, "a training loss": losses}
    if share == 0:
        return Line("floor", "no smoothing: the loss may fall to 0", "08.2")
    if share is None or size is None or not losses:
        needs = " and ".join(name for name, there in known.items() if not there)
        return Line("floor", f"smoothing {share:g}" if share else "", "08.2", needs)
    rest = share / (size - 1)
    label = 1 - share + rest
    floor = -label * math.log(label) - (size - 2) * rest * math.log(rest)
    when, last = losses[-1][0], losses[-1][1] * nats(log)
    says = f"smoothing {share:g}, V {size:,g}: no loss below {floor:.3f}; {last:.3f} at {when} is "
    if last < floor - 0.01:
        says += "below it, so this loss is not smoothed like that"
    else:
        says += f"{last - floor:.3f} above"
    return Line("floor", says, "08.2")


def sum_or_mean(log: Log) -> Line:
    """Whether the loss can be a mean over tokens."""
    losses = log.series("train", "loss") + log.series("validation", "loss")
    limit = math.log(log.facts.get("vocabulary", 1e6))
    if losses:
        when, top = max(losses, key=lambda pair: pair[1])
        top *= nats(log)
        if top > SUM * limit:
            says = f"{top:,.1f} at {when} is more than ln V: a sum; divide by the target tokens"
            return Line("sum or mean", says, "08.6")
        says = f"at most {top:.2f} nats, as a mean over tokens is"
        return Line("sum or mean", says + "; bits were printed" * (nats(log) < 1), "08.6")
    if "batches" in log.facts:
        says = "small with small batches, large with large: a sum, fewer updates, or warm-up"
        return Line("sum or mean", says, "08.6", "the mean over tokens, against updates")
    if kind := log.facts.get("reduction"):
        says = f"the code takes the {kind}"
        says += " and divides it by the tokens" * ("divided" in log.facts)
        return Line("sum or mean", says, "08.6")
    return Line("sum or mean", "", "08.6", "printed losses")


def exponential(log: Log) -> Line:
    """Whether the perplexity is the exponential of the loss."""
    kinds: dict[str, list[str]] = {}
    for record in log.records:
        ppl, key = record.values.get("perplexity"), "nll" if "nll" in record.values else "loss"
        if ppl and key in record.values:
            loss = record.values[key]
            here = f"exp({loss:.3f}) = {math.exp(min(loss, 700)):,.6g}, perplexity {ppl:,.6g}"
            if abs(loss - math.log(ppl)) < 0.01 + 0.002 * loss:
                kind = f"perplexity is exp({key})"
            elif abs(loss - math.log2(ppl)) < 0.02:
                kind, here = f"perplexity is 2^{key}, in bits", f"2^{loss:.3f} = {2**loss:,.6g}"
            elif loss > 3 * math.log(ppl) > 0:
                kind, here = (
                    "the loss is a sum",
                    f"{loss:,.6g} = {loss / math.log(ppl):.1f} ln {ppl:g}",
                )
            elif loss > math.log(ppl):
                kind = "exp(loss) is larger: the loss is smoothed, or has other terms"
            else:
                kind = "exp(loss) is smaller: a mean of exponentials, or another vocabulary's loss"
            kinds.setdefault(kind, []).append(here)
    if not kinds:
        return Line("perplexity", "", "08.2", "loss and perplexity of one moment")
    kind = max(kinds, key=lambda k: len(kinds[k]))
    return Line("perplexity", f"{kind}: {kinds[kind][-1]} ({len(kinds[kind])} records)", "08.2")


def validation_below(log: Log) -> Line:
    """Whether the validation loss is below that of training, and why that may be."""
    for key in ("perplexity", "nll", "loss"):
        train, held = (dict(log.series(split, key)) for split in ("train", "validation"))
        places = [when for when in held if when in train]
        if key == "loss" and places and max(*train.values(), *held.values()) > SUM * math.log(1e6):
            return Line("validation", "the losses are sums", "13.8", "means over tokens")
        if places:
            below = [when for when in places if held[when] < train[when]]
            when = below[-1] if below else places[0]
            numbers = f"{key} {held[when]:,.6g} against {train[when]:,.6g} at {when}"
            if not below:
                return Line("validation", f"never below training: {numbers}", "13.8")
            says = f"below training in {len(below)} of {len(places)} ({numbers}): training is "
            says += "measured with dropout, while the model changes"
            smoothed = key == "loss" and log.facts.get("smoothing")
            return Line("validation", says + ", and smoothed" * bool(smoothed), "13.8")
    return Line("validation", "", "13.8", "the same measure of training and of validation")


def turning_point(log: Log) -> Line:
    """Where the validation loss was lowest, and what happened after."""
    series = next(
        filter(None, (log.series("validation", k) for k in ("nll", "loss", "perplexity"))), []
    )
    if len(series) < 3:
        if turn := log.facts.get("turn"):
            text = f"the text says that validation rises after epoch {turn:.0f}"
            text += f" of {log.facts['epochs']:.0f}" if "epochs" in log.facts else ""
            return Line("turn", f"{text}: keep the weights of that epoch", "09.6")
        known = [f"{log.facts['epochs']:.0f} epochs"] if "epochs" in log.facts else []
        known += ["the curves are pictures"] if "pictures" in log.facts else []
        needs = "the validation loss of three epochs, in numbers"
        return Line("turn", ", ".join(known), "09.6", needs)
    when, least = min(series, key=lambda pair: pair[1])
    end, last = series[-1]
    if when == end:
        return Line("turn", f"not yet: {least:,.6g} at {end}, the last, is the lowest", "09.6")
    says = f"lowest at {when} ({least:,.6g}), {last:,.6g} at {end}: keep the weights of {when}"
    return Line("turn", says, "09.6")


def distinct_outputs(log: Log) -> Line:
    """How many translations are different."""
    if len(log.outputs) >= 3:
        different = len(set(log.outputs))
        says = f"{different} of {len(log.outputs)} translations are different"
        poor = different < 0.5 * len(log.outputs)
        return Line("outputs", says + ": undertrained, or the rate is too high" * poor, "10.5")
    if log.facts.get("alike"):
        updates = log.updates()
        says = "the text says that all are the same sentence" + (
            f"; count the updates: {updates:,.0f}" if updates else ""
        )
        return Line("outputs", says, "13.2")
    return Line("outputs", "", "10.5", "translations, one a line after a word such as Translation:")


def length_ratio(log: Log) -> Line:
    """How long the translations are beside the references."""
    ratio, where = log.facts.get("ratio"), "as the score says"
    if not ratio and log.outputs and len(log.outputs) == len(log.references):
        sizes = [sum(len(text.split()) for text in side) for side in (log.outputs, log.references)]
        ratio, where = sizes[0] / max(sizes[1], 1), f"{sizes[0]} words for {sizes[1]}"
    if not ratio:
        return Line(
            "length ratio", "", "10.6", "translations and references, or a score with ratio"
        )
    kind = "too short" if ratio < 0.9 else "too long" if ratio > 1.1 else "about right"
    few = f", in {len(log.outputs)} sentences only" * (where[0].isdigit() and len(log.outputs) < 20)
    return Line("length ratio", f"{ratio:.2f} ({where}): {kind}{few}", "10.6")


def which_bleu(log: Log) -> Line:
    """Which BLEU it is: the scale, and the program that counted."""
    scores = [
        value for split in ("validation", "train", "test") for _, value in log.series(split, "bleu")
    ]
    value = scores[-1] if scores else log.facts.get("bleu")
    program = log.facts.get("program")
    if value is None:
        return Line("BLEU", "", "11.2", "a BLEU score and the program that counted it")
    small = 0 < value <= 1 and program != "sacreBLEU"
    says = f"{value:g}" + f" on a scale to 1, so {100 * value:.2f}" * small
    if not program:
        return Line(
            "BLEU", says, "11.2", "the program and its tokens, as sacreBLEU's signature says"
        )
    own = ": it depends on how the text was tokenised; compare by sacreBLEU"
    return Line("BLEU", f"{says}, by {program}" + own * (program != "sacreBLEU"), "11.2")


RULES: list[Callable[[Log], Line]] = [
    *(first_loss, warm_up, smoothing_floor, sum_or_mean, exponential, validation_below),
    *(turning_point, distinct_outputs, length_ratio, which_bleu),
]
