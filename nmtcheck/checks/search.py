"""Laws of a search, asked of every row of logits that it computes.

The model is the reader's own, with random weights: `nmtcheck.measure.passes` gives it something to
say.  A cause is proved where the law holds on the same sentences with a repair of one thing, or
with one thing counted in another way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from nmtcheck.adapter import Adapter
from nmtcheck.measure.passes import (
    REPAIRS,
    Ids,
    Pass,
    full_rows,
    record_passes,
    searched_model,
    speech_for,
)
from nmtcheck.measure.searches import (
    CUT,
    Search,
    Step,
    cut_searches,
    ending_searches,
    record_search,
    sentences,
    words_for,
)
from nmtcheck.registry import Finding, check

MARGIN = 1e-3  # nats
UNEQUAL = 0.01  # nats, between a step and the full pass
EXPONENTS = [n / 20 for n in range(41)]  # of length norms
NORMS: list[Callable[[int], float]] = [  # of the words of a hypothesis
    lambda n: float(n + 1),
    lambda n: float(max(n, 1)),
    lambda n: (6 + n) / 6,
]


def proved(found: Finding) -> Finding:
    """The finding, with its cause proved."""
    found.proved = True
    return found


def shown(adapter: Adapter, ids: Sequence[int]) -> str:
    """Tokens as words between quotation marks."""
    return "'" + " ".join(words_for(adapter).lookup_tokens(ids)) + "'"


def ended(adapter: Adapter, prefix: Ids) -> bool:
    """Whether a prefix contains EOS or PAD behind its first token, which may be either."""
    return adapter.eos in prefix[1:] or adapter.pad in prefix[1:]


@check("search.model", "make_model", "translate")
def same_model(adapter: Adapter, seed: int) -> str:
    """A step of the search has the logits of the full pass in eval mode."""
    steps, off, message = compare_steps(adapter, seed)
    if off <= UNEQUAL:
        return f"{steps} steps have the logits of the full pass (within {off:.0e} nats)"
    for repair, cause in REPAIRS.items() if not adapter.unsure else ():
        if compare_steps(adapter, seed, repair)[1] <= UNEQUAL:
            raise proved(Finding(message, f"{cause} With it repaired, every step agrees."))
    if found := find_stale_cache(adapter, seed):
        raise found
    raise Finding(message)


def compare_steps(adapter: Adapter, seed: int, repair: str = "") -> tuple[int, float, str]:
    """The number of steps, the largest difference to the full pass in nats, and the first one."""
    count, worst, message = 0, 0.0, ""
    for words in sentences(adapter, seed + 1, (9, 10, 11)):
        # Dropout that is active changes every step; the search has to switch it off.
        model = searched_model(adapter, seed, 0.5).train()
        if repair == "dropout":
            model = searched_model(adapter, seed)
        search = record_search(adapter, model, words, CUT, seed=seed, endless=True, repair=repair)
        for step in search.steps:
            full = full_step(adapter, seed, search, step)
            count += len(full)
            table = (full - step.logits).float()
            # A constant for all words changes no probability.
            table = table[:, adapter.first_word :]
            off = (table - table.mean(-1, keepdim=True)).abs()
            if float(off.max()) > UNEQUAL and not message:
                row, word = divmod(int(off.argmax()), off.size(1))
                message = describe_step(adapter, search, step, full, row, word)
            worst = max(worst, float(off.max()))
    return count, worst, message


def full_step(adapter: Adapter, seed: int, search: Search, step: Step) -> torch.Tensor:
    """The logits (N, V) of the full pass after the prefixes of a step."""
    model, speech = searched_model(adapter, seed, 0.5), speech_for(adapter, seed, True)
    return full_rows(adapter, model, search.source, step.prefixes, speech)


def describe_step(
    adapter: Adapter, search: Search, step: Step, full: torch.Tensor, row: int, word: int
) -> str:
    """Where a step and the full pass differ."""
    token = adapter.first_word + word
    mine = float(step.logp[row, token].exp())
    theirs = float(full.double().log_softmax(-1)[row, token].exp())
    prefix = step.prefixes[row]
    place = f"step {len(prefix)} of {shown(adapter, search.words)}"
    place += f", after {shown(adapter, prefix)}"
    shares = f"{mine:.3f} in the search, {theirs:.3f} in the full pass"
    return f"{place}: {shown(adapter, [token])} has {shares}"


def find_stale_cache(adapter: Adapter, seed: int) -> Finding | None:
    """A finding, if every row of the cache fits what the row has read, and not its prefix."""
    model, speech = searched_model(adapter, seed).eval(), speech_for(adapter, seed)
    stale, first = 0, ""
    for words in sentences(adapter, seed, (5, 6, 7)):
        with record_passes(model, adapter, [words], speech) as recording:
            adapter.translate(model, words_for(adapter).lookup_tokens(words), 12)
        for each in recording.passes:
            if each.kept is None or each.history is None or len(each.kept) != len(each.history):
                continue
            other = [n for n in range(len(each.kept)) if not each.kept[n].equal(each.history[n])]
            if not fits(adapter, each, each.history, model, speech):
                return None
            stale += len(other)
            if other and not first:
                read, kept = (
                    shown(adapter, x[other[0]].tolist()) for x in (each.history, each.kept)
                )
                first = (
                    f"step {each.length}: row {other[0]} continues {kept} with the cache of {read}"
                )
    if not stale:
        return None
    message = f"{stale} rows continue a prefix with the keys and values of another; {first}"
    cause = "The cache is not reordered with the beams: each row fits the tokens that it has read."
    return proved(Finding(message, cause))


def fits(
    adapter: Adapter, each: Pass, prefixes: torch.Tensor, model: torch.nn.Module, speech: object
) -> bool:
    """Whether the rows of a pass have the logits of the full pass after these prefixes."""
    rows = [tuple(row) for row in prefixes.tolist()]
    full = full_rows(adapter, model, each.source[:1], rows, speech)
    table = (full - each.logits[:, -1])[:, adapter.first_word :]
    return float((table - table.mean(-1, keepdim=True)).abs().max()) <= UNEQUAL


@check("search.beams", "make_model", "translate")
def unequal_beams(adapter: Adapter, seed: int) -> str:
    """The rows of one sentence are different hypotheses."""
    searches = ending_searches(adapter, seed)
    width = max(search.width for search in searches)
    if width < 2:
        raise NotImplementedError("the search has one row")
    count, total, message = count_equal_rows(adapter, searches)
    if count > 1:
        repaired = [
            record_search(
                adapter,
                searched_model(adapter, seed),
                s.words,
                s.longest,
                seed=seed,
                repair="copies",
            )
            for s in searches
        ]
        cause = "The search starts with copies of one row and equal scores: give all but one -inf."
        found = Finding(f"{count} of {total} rows are equal to another row; {message}")
        if not count_equal_rows(adapter, repaired)[0]:
            found.fits, found.proved = f"{cause} With unequal first rows, all stay different.", True
        raise found
    return f"{total} rows of {len(searches)} sentences, {width} at a time, and all different"


def count_equal_rows(adapter: Adapter, searches: Sequence[Search]) -> tuple[int, int, str]:
    """How many live rows are equal to another one of their step, of how many, and the first."""
    count, total, message = 0, 0, ""
    for search in searches:
        for step in search.steps[1:]:
            live = [p for p in step.prefixes if not ended(adapter, p)]
            total += len(live)
            equal = len(live) - len({*live})
            count += equal
            if equal and not message:
                row = shown(adapter, max(live, key=live.count))
                place = f"step {len(live[0])} of {shown(adapter, search.words)}"
                message = f"{place} has {row} {max(map(live.count, live))} times"
    return count, total, message


@check("search.successors", "make_model", "translate")
def best_successors(adapter: Adapter, seed: int) -> str:
    """The rows of a step are the successors with the largest summed log-probabilities."""
    searches = ending_searches(adapter, seed)
    chosen, wrong, message = count_wrong_successors(adapter, searches, "sum")
    if not chosen:
        raise NotImplementedError("no successor was seen that continues a row before it")
    if wrong:
        for way, cause in OTHER_WAYS.items():
            if not count_wrong_successors(adapter, searches, way)[1]:
                raise proved(Finding(message, f"{cause} All {chosen} successors fit that."))
        raise Finding(message)
    return f"{chosen} successors, each among the best by summed log-probability"


OTHER_WAYS = {
    "last": "The log-probability of the last word alone ranks the successors: it is not added.",
    "probability": "Probabilities are added, not log-probabilities.",
    "logit": "Logits are added, which no softmax has normalised.",
    "worst": "The least probable successors are taken.",
}
for _tenths in range(2, 16):
    OTHER_WAYS[f"running {_tenths / 10:g}"] = (
        "The running sum is divided by a length at every step, and not once at the end."
    )


def count_wrong_successors(
    adapter: Adapter, searches: Sequence[Search], way: str
) -> tuple[int, int, str]:
    """How many successors were chosen, how many have a better one left out, and the first.

    `way` is 'sum' or a key of `OTHER_WAYS`: how the score of a successor is computed.
    """
    count, wrong, message = 0, 0, ""
    for search in searches:
        scores = {search.steps[0].prefixes[0]: 0.0}
        for step, later in zip(search.steps, search.steps[1:], strict=False):
            rows = dict(zip(step.prefixes, range(len(step.prefixes)), strict=True))
            candidates = dict[Ids, float]()
            for prefix, row in rows.items():
                if prefix not in scores or ended(adapter, prefix):
                    continue
                gained = gains(step, row, way)
                before = 0.0 if way == "last" else scores[prefix]
                for word in range(adapter.first_word, len(gained)):
                    score = before + float(gained[word])
                    if way.startswith("running"):
                        score /= len(prefix) ** float(way.split()[1])
                    candidates[(*prefix, word)] = score
            taken = {p for p in later.prefixes if p in candidates}
            scores = {p: candidates[p] for p in taken}
            if not taken:
                continue
            count += len(taken)
            worst = min(taken, key=candidates.__getitem__)
            left = [p for p in candidates if p not in taken and not repeats(p)]
            best = max(left, key=candidates.__getitem__, default=worst)
            if candidates[best] > candidates[worst] + MARGIN:
                wrong += 1
                if not message:
                    place = f"step {len(worst)} of {shown(adapter, search.words)}"
                    kept, lost = (
                        f"{shown(adapter, p)} with {candidates[p]:.2f}" for p in (worst, best)
                    )
                    message = f"{place} keeps {kept} and leaves out {lost}"
    return count, wrong, f"{wrong} steps are wrong; {message}"


def gains(step: Step, row: int, way: str) -> torch.Tensor:
    """What each next token (V,) adds to the score of a row."""
    if way == "probability":
        return step.logp[row].exp()
    if way == "logit":
        return step.logits[row].double()
    return -step.logp[row] if way == "worst" else step.logp[row]


def repeats(prefix: Ids) -> bool:
    """Whether the last two words stand earlier in a prefix, which some searches forbid."""
    pairs = list(zip(prefix, prefix[1:], strict=False))
    return len(prefix) > 2 and (pairs[-1] in pairs[:-1] or prefix[-1] == prefix[-2])


def finished(adapter: Adapter, search: Search) -> dict[Ids, float]:
    """The hypotheses (words) that have certainly ended, with their summed log-probabilities.

    Their EOS is among the best successors of a step, as many as the search has rows.
    """
    sums, found = search.sums(), dict[Ids, float]()
    for step in search.steps:
        scores = list[tuple[float, Ids, int]]()
        for prefix, logp in zip(step.prefixes, step.logp, strict=True):
            if prefix in sums and not ended(adapter, prefix):
                best = logp.topk(min(search.width + 1, len(logp)))
                for gain, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                    scores.append((sums[prefix] + gain, prefix, token))
        for score, prefix, token in sorted({*scores}, reverse=True)[: search.width]:
            if token == adapter.eos:
                found[prefix[1:]] = score
    return found


def words_alone(adapter: Adapter, result: Ids) -> Ids:
    """A result without BOS in front and EOS at its end."""
    result = result[1:] if result[:1] == (adapter.bos,) else result
    return result[:-1] if result[-1:] == (adapter.eos,) else result


def is_best(words: Ids, found: dict[Ids, float], sign: float = 1.0) -> bool:
    """Whether a hypothesis is the best of the finished ones for some length norm.

    With the sign -1: whether it is the worst.
    """
    for norm in NORMS:
        for exponent in EXPONENTS:
            scores = {h: sign * s / norm(len(h)) ** exponent for h, s in found.items()}
            if scores[words] >= max(scores.values()) - MARGIN:
                return True
    return False


def fits_all(results: Sequence[tuple[Ids, dict[Ids, float]]], sign: int) -> bool:
    """Whether one norm and one exponent of that sign make every result the best of its own."""

    def score(words: Ids, logp: float, norm: Callable[[int], float], exponent: float) -> float:
        return logp / norm(len(words)) ** exponent

    for norm in NORMS:
        for exponent in EXPONENTS:
            power = sign * exponent
            if all(
                score(words, found[words], norm, power)
                >= max(score(h, s, norm, power) for h, s in found.items()) - MARGIN
                for words, found in results
            ):
                return True
    return False


def is_unfinished(adapter: Adapter, search: Search, words: Ids, found: dict[Ids, float]) -> bool:
    """Whether a result is a hypothesis that has not ended, and not for the limit of its words."""
    prefixes = {p[1:] for step in search.steps for p in step.prefixes}
    last = {p[1:] for p in search.steps[-1].prefixes}  # whose successors were never read
    known = words in prefixes or words[:-1] in last
    cut = any(h[:-1] == words for h in found)  # a finished one without its last word
    return known and not cut and not ended(adapter, words) and len(words) < search.longest - 1


@check("search.result", "make_model", "translate")
def best_is_returned(adapter: Adapter, seed: int) -> str:
    """The result is the best of the finished hypotheses, for some exponent of their length."""
    searches = ending_searches(adapter, seed)
    judged, worse, message = 0, list[bool](), ""
    ranked = list[tuple[Ids, dict[Ids, float]]]()  # of beams: the result, and what has ended
    live = 0
    for search in searches:
        found, words = finished(adapter, search), words_alone(adapter, search.result)
        if not found or (search.width > 1 and len(found) < 2 and words in found):
            continue
        best = max(found, key=lambda h: found[h] / (len(h) + 1))
        other = f"{shown(adapter, best)} ({found[best]:.2f} nats)"
        if words in found:
            judged += 1
            if search.width > 1:
                ranked.append((words, found))
            if search.width > 1 and not is_best(words, found):
                worse.append(is_best(words, found, -1.0))
                mine = f"{shown(adapter, words)} ({found[words]:.2f} nats)"
                message = message or f"{mine} is returned, and {other} has ended as well"
        elif is_unfinished(adapter, search, words, found):
            judged += 1
            live += 1
            text = f"{shown(adapter, words)} is returned, which has not ended, and {other} has"
            message = message or text
    if not judged:
        raise NotImplementedError("no result was seen among hypotheses that have ended")
    wrong = f"{live + len(worse)} of {judged} results are wrong; {message}"
    if live:
        raise Finding(wrong, "A live hypothesis is returned although others have ended.")
    if worse and all(worse):  # the same law holds for the opposite order
        cause = "The worst of the finished is returned: min in place of max, or a wrong sign."
        raise proved(Finding(wrong, cause))
    if worse:
        raise Finding(wrong)
    if len(ranked) > 1 and not fits_all(ranked, 1) and fits_all(ranked, -1):
        said = f"no exponent of the length explains {len(ranked)} results, and a negative one does"
        cause = "Sums are multiplied by the length penalty, not divided: short translations win."
        raise proved(Finding(said, cause))
    return f"{judged} results, each the best of those that have ended"


@check("search.words", "make_model", "translate")
def only_words(adapter: Adapter, seed: int) -> str:
    """A translation has every word of its hypothesis, no BOS, and nothing after EOS."""
    searches, whole = ending_searches(adapter, seed), 0
    for search in searches:
        result, name = search.result, shown(adapter, search.result)
        inner = result[:-1] if result[-1:] == (adapter.eos,) else result
        found = finished(adapter, search)
        if adapter.eos in inner:
            cut = words_alone(adapter, inner[: inner.index(adapter.eos)])
            wrong = Finding(f"{name} goes on after EOS", "It is not cut at the first EOS.")
            raise proved(wrong) if cut in found else wrong
        if adapter.bos in inner:
            wrong = Finding(f"{name} contains BOS", "The first token is not removed.")
            raise proved(wrong) if words_alone(adapter, result) in found else wrong
        if adapter.pad in result:
            raise Finding(f"{name} contains PAD", "Padding is not removed.")
        whole += check_whole(adapter, search)
    if not whole:
        raise NotImplementedError("no result was seen among the hypotheses")
    return f"{whole} translations are the words of their hypotheses"


def check_whole(adapter: Adapter, search: Search) -> int:
    """1 if a result is a hypothesis, 0 if it is not known; a Finding if a part is lost or added."""
    words, found = words_alone(adapter, search.result), finished(adapter, search)
    if words in found:
        return 1
    name = shown(adapter, search.result)
    for prefix in (p[1:] for step in search.steps for p in step.prefixes):
        if adapter.eos in prefix:
            before = prefix[: prefix.index(adapter.eos)]
            after = tuple(i for i in prefix if i >= adapter.first_word)
            if (
                len(words) > len(before)
                and words[: len(after)] == after
                and len(after) > len(before)
            ):
                message = f"{name} has words that come after EOS in {shown(adapter, prefix)}"
                wrong = Finding(message, "It is not cut at the first EOS.")
                raise proved(wrong) if before in found else wrong
    lost = [h for h in found if h[:-1] == words]
    if lost and len(lost[0]) > 1:
        message = f"{name} is returned of {shown(adapter, lost[0])}, which has ended"
        cause = "The last word is removed as if it were EOS, which is not there any more."
        raise proved(Finding(message, cause))
    return 0


@check("search.end", "make_model", "translate")
def ends_at_eos(adapter: Adapter, seed: int) -> str:
    """A beam that has ended is not continued with words in the place of one that lives."""
    searches = ending_searches(adapter, seed)
    rows, wrong, message = 0, 0, ""
    for search in searches:
        for step in search.steps:
            over = [p for p in step.prefixes if goes_on(adapter, p)]
            rows += len(step.prefixes)
            if over and search.width > 1:
                wrong += len(over)
                if not message:
                    place = f"step {len(over[0])} of {shown(adapter, search.words)}"
                    message = f"{place} continues {shown(adapter, over[0])}"
    if max(search.width for search in searches) < 2:
        raise NotImplementedError("the search has one row")
    if wrong:
        cause = "A row that has ended stays among the beams: take it out, or let it add nothing."
        raise Finding(f"{wrong} of {rows} rows go on after EOS; {message}", cause)
    return f"of {rows} rows none goes on after EOS"


def goes_on(adapter: Adapter, prefix: Ids) -> bool:
    """Whether words stand behind EOS in a prefix, which may begin with it."""
    behind = itertools.dropwhile(lambda token: token != adapter.eos, prefix[1:])
    return any(token >= adapter.first_word for token in behind)


@check("search.limit", "make_model", "translate")
def limit(adapter: Adapter, seed: int) -> str:
    """The longest translation does not depend on the source alone, and keeps its last word."""
    searches = cut_searches(adapter, seed)
    sizes = [len(search.words) for search in searches]
    counts = [len(search.steps) for search in searches]
    asked = searches[0].longest
    extra = [count - size for count, size in zip(counts, sizes, strict=True)]
    told = ", ".join(f"{c} for {s}" for c, s in zip(counts, sizes, strict=True))
    if max(extra) - min(extra) <= 0 and min(counts) < asked - 1 and max(extra) <= 4:
        cause = "The limit is the length of the source: longer translations are cut."
        message = f"words that never end are cut by the source: {told} source words ({asked} asked)"
        raise Finding(message, cause)
    for search in searches:
        words, last = words_alone(adapter, search.result), search.steps[-1]
        prefixes = [p[1:] for p in last.prefixes]
        # Of as many words as were asked for, a next one is computed by some and is no loss.
        if search.width == 1 and len(words) < asked and not ended(adapter, last.prefixes[0]):
            path = (*prefixes[0], int(last.logits[0].argmax()))
            if words != path and words in (path[:-1], path[:-2]):
                message = f"{len(words)} words are returned, and {len(path)} were chosen"
                raise Finding(message, "The last word is removed as if it were EOS.")
    return f"words that never end are cut after {told} source words ({asked} asked)"
