"""Laws of an evaluation: the numbers that it reports, against what the model has computed."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nmtcheck.adapter import Adapter
from nmtcheck.checks.search import UNEQUAL, proved, shown
from nmtcheck.measure.evaluations import (
    Evaluation,
    batch_of,
    evaluate_one,
    evaluation,
    record_evaluation,
)
from nmtcheck.measure.passes import REPAIRS, Ids, Pass, full_rows, searched_model, speech_for
from nmtcheck.measure.scores import (
    accuracies_of,
    bleus_of,
    losses_of,
    perplexities_of,
    same,
    same_share,
)
from nmtcheck.measure.scores import bleu as bleu_of
from nmtcheck.measure.searches import words_for
from nmtcheck.registry import Finding, check

LOSSES = {
    "batches": "Means of batches are averaged: the tokens of a small batch count more.",
    "sentences": "Means of sentences are averaged: the tokens of a short sentence count more.",
    "padded": "PAD is counted as a label.",
    "padded batches": "PAD is counted as a label, and means of batches are averaged.",
    "divided by PAD": "The sum is divided by all positions, PAD included.",
    "divided by sentences": "The sum is divided by sentences, not by tokens.",
    "perplexities": "The perplexities of batches are averaged: take exp of the mean loss once.",
    "nats": "The perplexity is 2 to the power of a loss in nats.",
    "bits": "The loss is in bits, and its perplexity is taken as if it were in nats.",
    "smoothed": "The smoothed loss of the training is reported: measure without smoothing.",
}
ACCURACIES = {
    "padded": "PAD is counted as a token.",
    "batches": "The accuracies of batches are averaged: the tokens of a small batch count more.",
}
BESIDE = ("sentences", "order 1", "order 2", "order 3")
SHARES = ("accuracy", "BLEU")  # from 0 to 1, or in per cent
BLEUS = {
    "swapped": "References and hypotheses are exchanged.",
    "sentences": "The BLEU of each sentence is computed, and their mean reported.",
    "no brevity": "The brevity penalty is missing.",
    "inverted brevity": "The brevity penalty has the lengths exchanged.",
    "brevity always": "The brevity penalty rewards translations that are longer than references.",
    "not clipped": "An n-gram counts as often as the translation has it: matches are not clipped.",
    "arithmetic": "The arithmetic mean of the precisions is taken, not the geometric one.",
    "order 1": "Only single words are counted: BLEU has n-grams of up to four.",
    "order 2": "Only n-grams of up to two words are counted: BLEU has four.",
    "order 3": "Only n-grams of up to three words are counted: BLEU has four.",
    "letters": "BLEU counts letters: the scorer gets strings in place of lists of words.",
    "EOS": "EOS is left in what is scored, as a word that is always right.",
    "BOS": "BOS is left in what is scored, as a word that is always right.",
    "uncut": "Words that a finished row says behind its EOS are part of its translation.",
    "EOS and BOS": "BOS and EOS are left in the hypotheses.",
    "forced": "The best next words of a pass that reads the reference are scored: nothing is "
    "translated.",
}


@check("evaluation.mode", "make_model", "evaluate")
def mode(adapter: Adapter, seed: int) -> str:
    """An evaluation has the logits of the full pass in eval mode."""
    done = evaluation(adapter, seed, 0.5)
    rows, message = compare_passes(adapter, seed, done)
    if not message:
        if not rows:
            raise NotImplementedError("no pass of the evaluation was read")
        return f"{rows} rows of logits are those of the full pass in eval mode"
    for repair, cause in REPAIRS.items() if not adapter.unsure else ():
        model = searched_model(adapter, seed, 0.0 if repair == "dropout" else 0.5)
        again = record_evaluation(adapter, model, done.pairs, [], seed, repair)
        if not compare_passes(adapter, seed, again)[1]:
            raise proved(Finding(message, f"{cause} With it repaired, every row agrees."))
    raise Finding(message)


def compare_passes(adapter: Adapter, seed: int, done: Evaluation) -> tuple[int, str]:
    """How many rows of logits were compared with the full pass, and the first that differs."""
    rows = 0
    forced = {id(each) for each in done.forced()}
    for each in done.recording.passes:
        beams, rest = divmod(len(each.read), len(each.source))
        if each.offset or rest:
            continue
        for row, prefix in enumerate(each.read.tolist()):
            if adapter.pad in prefix[1:] or adapter.eos in prefix[1:]:
                continue
            rows += 1
            off = distance_to_full(adapter, seed, each, row, row // beams)
            if off > UNEQUAL:
                place = shown(adapter, prefix)
                source = shown(adapter, each.source[row // beams].tolist())
                what = "with the reference" if id(each) in forced else "in the search"
                message = f"after {place}, read {what} of {source}, logits differ by {off:.2f} nats"
                return rows, f"{message} from the full pass"
    return rows, ""


def distance_to_full(adapter: Adapter, seed: int, each: Pass, row: int, sentence: int) -> float:
    """How far the last logits of a row are from those of the full pass, in nats."""
    model, speech = searched_model(adapter, seed, 0.5), speech_for(adapter, seed)
    source = each.source[sentence]
    while len(source) > 1 and int(source[-1]) == adapter.pad:
        source = source[:-1]
    prefix = tuple(each.read[row].tolist())
    full = full_rows(adapter, model, source[None], [prefix], speech)[0]
    table = (full - each.logits[row, -1])[adapter.first_word :]
    return float((table - table.mean()).abs().max())


@check("evaluation.pairs", "make_model", "evaluate")
def all_pairs(adapter: Adapter, seed: int) -> str:
    """Every pair is evaluated."""
    done = evaluation(adapter, seed)
    forced, searched = done.forced(), done.searched()
    read = {n for each in forced for n in batch_of(adapter, each, done.pairs)[2]}
    translated = set[int]()
    for each in searched:
        for row in each.source.tolist():
            words = tuple(i for i in row if i >= adapter.first_word)
            translated |= {n for n, (s, _) in enumerate(done.pairs) if s == words}
    for name, numbers in (("read with their references", read), ("translated", translated)):
        lost = sorted({*range(len(done.pairs))} - numbers)
        tail = lost == list(range(len(numbers), len(done.pairs)))
        # A few sentences may be translated to be looked at.
        shown_alone = name == "translated" and not (tail and len(numbers) > len(lost))
        if numbers and lost and not shown_alone:
            message = f"{len(numbers)} of {len(done.pairs)} pairs are {name}"
            cause = "Pairs are left out."
            if tail:
                cause = "The last batch, which is smaller, is left out."
            message += f"; not {shown(adapter, done.pairs[lost[0]][0])}"
            raise Finding(message, cause)
    if not read and not translated:
        raise NotImplementedError("no pass of the evaluation was read")
    return f"{len(read)} pairs are read with their references, {len(translated)} translated"


def read_batches(adapter: Adapter, done: Evaluation) -> list[tuple[Tensor, Tensor]]:
    """The logits (B, T, V) and labels (B, T) of the passes that read references."""
    batches = [batch_of(adapter, each, done.pairs)[:2] for each in done.forced()]
    return [b for b in batches if b[0].size(1) == b[1].size(1)]


@functools.lru_cache(maxsize=8)
def find_meanings(adapter: Adapter, seed: int) -> dict[int, str]:
    """Which of the reported numbers is a loss, a perplexity, an accuracy or a BLEU.

    That of one pair tells: there is one way to average it.  Nothing is known where one pair cannot
    be evaluated.
    """
    with contextlib.suppress(Exception):  # somebody else's code may want more than one pair
        done, words = evaluate_one(adapter, seed), words_for(adapter)
        values = dict[str, float]()
        if batches := read_batches(adapter, done):
            mean = losses_of(batches, adapter.pad)["mean"]
            values |= {"loss": mean, "perplexity": math.exp(mean)}
            values["accuracy"] = accuracies_of(batches, adapter.pad)["all"]
        if done.translations:
            references = [words.lookup_tokens(t) for _, t in done.pairs]
            found = [words.lookup_tokens(h) for h in done.translations]
            values["BLEU"] = bleus_of(found, references, [], "", "")["words"][0]
        for name in [n for n in ("accuracy", "BLEU") if values.get(n) in (0.0, 1.0)]:
            del values[name]  # so little tells nothing
        count = len(evaluation(adapter, seed).reported)
        told = dict[int, str]()
        for place, number in enumerate(done.reported if len(done.reported) == count else ()):
            fits = [name for name, x in values.items() if same_share(number, x, name in SHARES)]
            told |= {place: fits[0]} if len(fits) == 1 else {}
        return told
    return {}


@check("evaluation.loss", "make_model", "evaluate")
def loss(adapter: Adapter, seed: int) -> str:
    """A loss that is reported is the mean over all tokens in nats; a perplexity is exp of that.

    An accuracy is the share of all tokens.  PAD is no token.
    """
    done = evaluation(adapter, seed)
    batches = read_batches(adapter, done)
    if not batches:
        raise NotImplementedError("no pass was seen that reads references")
    losses, shares = losses_of(batches, adapter.pad), accuracies_of(batches, adapter.pad)
    expected = {
        "loss": losses["mean"],
        "perplexity": math.exp(losses["mean"]),
        "accuracy": shares["all"],
    }
    right, wrong = list[str](), list[tuple[str, str]]()
    named = dict[float, str]()
    for name, value in losses.items():
        if name != "divided by sentences":  # a loss may be that of a sentence; no perplexity is
            named.setdefault(value, name)
        named.setdefault(math.exp(min(value, 99)), name)
    named.setdefault(losses["mean"] / math.log(2), "mean")  # in bits
    named.setdefault(math.exp(losses["mean"] / math.log(2)), "bits")
    named.setdefault(2 ** losses["mean"], "nats")
    for name, value in perplexities_of(batches, adapter.pad).items():
        named.setdefault(value, name)
    for number in done.reported:
        known = [name for value, name in named.items() if same(value, number)]
        if "mean" in known:
            right.append(f"{number:.4g}")
        elif known:
            wrong.append((known[0], f"{number:.5g}"))
    mean = f"{losses['mean']:.5g} nats a token (perplexity {math.exp(losses['mean']):.5g})"
    if wrong:
        name, shown_number = wrong[0]
        cause = LOSSES[name if name in LOSSES else "smoothed"]
        message = f"{shown_number} is reported; the recorded passes have {mean}"
        raise proved(Finding(message, f"{cause} So computed it is {shown_number}, too."))
    for place, name in find_meanings(adapter, seed).items():
        number, share = done.reported[place], name in SHARES
        if name not in expected or same_share(number, expected[name], share):
            continue
        message = f"the {name} {number:.5g} is reported; of the recorded passes it is"
        found = Finding(f"{message} {expected[name]:.5g}, and of one pair alone it is right")
        for way, cause in ACCURACIES.items() if name == "accuracy" else ():
            if same_share(number, shares[way], share):
                found.fits = f"{cause} So computed it is {number:.5g}, too."
                found = proved(found)
        raise found
    if not right:
        raise NotImplementedError(f"none of the numbers {done.repr} is known; they have {mean}")
    return f"{', '.join(right)} reported; the recorded passes have {mean}"


@check("evaluation.bleu", "make_model", "evaluate", "translate")
def bleu(adapter: Adapter, seed: int) -> str:
    """A BLEU that is reported is that of all translations together, in words."""
    done, words = evaluation(adapter, seed), words_for(adapter)
    chosen = greedy_translations(adapter, done)
    own = [until_end(adapter, tokens) for tokens in chosen]
    hypotheses = [words.lookup_tokens(h) for h in own or done.translations]
    references = [words.lookup_tokens(t) for _, t in done.pairs]
    bos, eos = words.lookup_tokens([adapter.bos, adapter.eos])
    values = bleus_of(hypotheses, references, forced_words(adapter, done), bos, eos)
    uncut = [words.lookup_tokens(i for i in h if i >= adapter.first_word) for h in chosen]
    values["uncut"] = [bleu_of(uncut, references)] if uncut else []
    rights = values.pop("words")
    right = rights[0]
    searched = len(done.searched())
    reported = [number for number in done.reported if number]  # 0 is the value of many formulas
    known = [x for x in reported if any(same_share(x, value, True) for value in rights)]
    if known:  # beside it some report others on purpose
        values = {name: found for name, found in values.items() if name not in BESIDE}
    for number in [x for x in reported if x not in known]:
        for name, found in values.items():
            if any(same_share(number, value, True) for value in found):
                message = f"BLEU {number:.4g} is reported; of the translations it is {right:.4f}"
                if name == "forced":
                    message += f", and {searched} passes of a search were seen"
                cause = f"{BLEUS[name]} So computed it is {number:.4g}, too."
                raise proved(Finding(message, cause))
    if known:
        return f"{known[0]:.4g} is the BLEU of {len(hypotheses)} translations in words"
    if own or not searched or translates_alike(adapter, done):
        meanings = find_meanings(adapter, seed)
        for place, number in enumerate(done.reported):
            message = f"BLEU {number:.4g} is reported; of the translations it is {right:.4f}"
            if meanings.get(place) == "BLEU":
                raise Finding(f"{message}, and of one pair alone it is right")
            if "bleu" in done.names[place].lower():
                raise Finding(f"{message} (and {searched} passes of a search were seen)")
    raise NotImplementedError(f"none of the numbers {done.repr} is known; BLEU is {right:.4f}")


@dataclass(frozen=True)
class Chosen:
    """A row of a greedy search at its end: what was chosen for a source (word ids)."""

    source: Ids
    tokens: Ids  # after the first one, with EOS and what comes behind it
    batch: int


def greedy_rows(adapter: Adapter, done: Evaluation) -> list[Chosen]:
    """The rows of the searches of an evaluation; none if it has beams, or was not followed."""
    found, batch, before = dict[tuple[int, int], Chosen](), 0, 0
    for each in done.searched():
        rows = each.read if each.history is None else each.history
        if len(rows) != len(each.source) or rows.size(1) != each.length:
            return []
        batch += each.length <= before
        before = each.length
        best = each.logits[:, -1].argmax(-1, keepdim=True)
        chosen = torch.cat([rows[:, 1:], best], dim=1).tolist()
        for row, source in enumerate(each.source.tolist()):
            words = tuple(i for i in source if i >= adapter.first_word)
            found[batch, row] = Chosen(words, tuple(chosen[row]), batch)
    return list(found.values())


def greedy_translations(adapter: Adapter, done: Evaluation) -> list[Ids]:
    """What the greedy search of an evaluation has chosen for each pair; empty where not known.

    Its limit, and its way to search, may be others than those of `translate`.
    """
    found = {each.source: each.tokens for each in greedy_rows(adapter, done)}
    return [found[s] for s, _ in done.pairs] if {s for s, _ in done.pairs} <= {*found} else []


def until_end(adapter: Adapter, tokens: Ids) -> Ids:
    """The tokens before the first EOS."""
    return tuple(itertools.takewhile(adapter.eos.__ne__, tokens))


def is_cut(adapter: Adapter, row: Chosen, whole: dict[Ids, Ids]) -> bool:
    """Whether a row is the beginning of a longer translation."""
    words = whole.get(row.source, ())
    return adapter.eos not in row.tokens and words[: len(row.tokens)] == row.tokens != words


@check("evaluation.ends", "make_model", "evaluate")
def ends(adapter: Adapter, seed: int) -> str:
    """The search of an evaluation goes on until each of its rows has ended, or to a limit."""
    done = evaluation(adapter, seed)
    rows = greedy_rows(adapter, done)
    batches: dict[int, list[Chosen]] = {}
    for row in rows:
        batches.setdefault(row.batch, []).append(row)
    several = [batch for batch in batches.values() if len(batch) > 1]
    if not several:
        raise NotImplementedError("no batch of several rows was searched greedily")
    cut = [b for b in several if any(adapter.eos not in row.tokens for row in b)]
    lengths = {len(row.tokens) for batch in cut for row in batch}
    # A limit cuts all batches at one length, and not when the first row ends.
    first = [b for b in cut if max(row.tokens.count(adapter.eos) for row in b) > 0]
    first = [b for b in first if all(adapter.eos not in row.tokens[:-1] for row in b)]
    # One batch alone: what `translate` says of a sentence is longer, and begins so.
    whole = {
        source: words for (source, _), words in zip(done.pairs, done.translations, strict=False)
    }
    longer = [row for batch in first for row in batch if is_cut(adapter, row, whole)]
    several_lengths = len(cut) > 1 and len(lengths) > 1
    if first and len(first) == len(cut) and (several_lengths or len(longer) > 1):
        said = f"{len(cut)} of {len(several)} batches are searched until their first row has ended"
        raise Finding(said, "any() stands in the place of all(): the other rows are cut.")
    return f"{len(several)} batches, of which {len(cut)} were cut by a limit"


def translates_alike(adapter: Adapter, done: Evaluation) -> bool:
    """Whether the search of an evaluation reads what that of `translate` reads of each sentence.

    It may have another limit, or another beam.
    """
    read: dict[Ids, set[Ids]] = {}
    for each in done.searched():
        rows = each.read if each.history is None else each.history
        sources = {tuple(i for i in row if i >= adapter.first_word) for row in each.source.tolist()}
        if len(sources) > 1 or rows.size(1) != each.length:
            return False
        read.setdefault(sources.pop(), set()).update(map(tuple, rows.tolist()))
    return read == done.prefixes


def forced_words(adapter: Adapter, done: Evaluation) -> list[list[str]]:
    """The best next words of each pair where its reference is read; empty if one is not read."""
    words, found = words_for(adapter), dict[int, list[str]]()
    for each in done.forced():
        if each.logits.size(1) != each.read.size(1):
            return []
        logits, labels, numbers = batch_of(adapter, each, done.pairs)
        for row, number in enumerate(numbers):
            size = int((labels[row] != adapter.pad).sum())
            found[number] = words.lookup_tokens(logits[row].argmax(-1)[:size].tolist())
    if len(found) < len(done.pairs):
        return []
    return [found[n] for n in range(len(done.pairs))]
