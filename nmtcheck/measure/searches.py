"""The searches of a program as they were recorded: what each step has read, and what came out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.connect.standins import Vocabulary
from nmtcheck.measure.helpers import random_rows
from nmtcheck.measure.passes import (
    Ids,
    Pass,
    full_rows,
    record_passes,
    searched_model,
    speech_for,
)
from nmtcheck.registry import Finding

LIMIT = 18  # words, for searches that are to end before it
CUT = 7  # words, for searches that are to be cut


@dataclass(frozen=True)
class Step:
    """One step of a search: the prefixes (of one length) that it continues, and their logits."""

    prefixes: tuple[Ids, ...]
    logits: Tensor  # (N, V)

    @property
    def logp(self) -> Tensor:
        """The log-probabilities (N, V) of the next token."""
        return self.logits.double().log_softmax(-1)


@dataclass(frozen=True)
class Search:
    """The search of one sentence."""

    words: Ids  # of the source
    source: Tensor  # (1, S), as the encoder has read it
    steps: tuple[Step, ...]
    result: Ids  # as it was returned, with special ids if it has any
    longest: int  # words that were asked for

    @property
    def width(self) -> int:
        """The number of rows of the largest step."""
        return max(len(step.prefixes) for step in self.steps)

    def sums(self) -> dict[Ids, float]:
        """The summed log-probability of each prefix that was read, as far as it can be followed."""
        found = {self.steps[0].prefixes[0]: 0.0}
        for step, later in zip(self.steps, self.steps[1:], strict=False):
            rows = dict(zip(step.prefixes, step.logp, strict=True))
            for prefix in later.prefixes:
                if prefix[:-1] in rows and prefix[:-1] in found:
                    found[prefix] = found[prefix[:-1]] + float(rows[prefix[:-1]][prefix[-1]])
        return found


def words_for(adapter: Adapter) -> Vocabulary:
    """The words in which sentences are given to `translate` and `evaluate`."""
    return Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)


def returned_ids(adapter: Adapter, returned: Any) -> Ids:
    """The ids of a translation, its special ids included."""
    words = words_for(adapter)
    listed = returned.split() if isinstance(returned, str) else list(returned)
    ids = list[int]()
    for word in listed:
        if isinstance(word, str) and word not in words.names and not word.isdigit():
            cause = "It returns words of nmtcheck.connect.standins.Vocabulary: a list or a string."
            raise Finding(f"translate returns {word!r}, which no vocabulary holds", cause)
        ids.append(words.names[word] if word in words.names else int(word))
    return tuple(ids)


def sentences(adapter: Adapter, seed: int, lengths: Sequence[int]) -> list[Ids]:
    """Random sentences of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    first, end = adapter.first_word, Sizes().source_vocab_size
    return [tuple(row) for row in random_rows(first, end, lengths, generator)]


def record_search(
    adapter: Adapter,
    model: nn.Module,
    words: Ids,
    longest: int,
    *,
    seed: int = 0,
    endless: bool = False,
    repair: str = "",
) -> Search:
    """Translate one sentence, and record the search.

    Raises NotImplementedError where its steps cannot be read.
    """
    speech = speech_for(adapter, seed, endless)
    with record_passes(model, adapter, [words], speech, repair) as recording:
        given = words_for(adapter).lookup_tokens(words)
        returned = adapter.translate(model, given, longest)
    result = returned_ids(adapter, returned)
    recording.passes = [trimmed(each, adapter.pad) for each in recording.passes]
    starts = [n for n, each in enumerate(recording.passes) if each.length == 1]
    if not starts:
        raise NotImplementedError("no pass of the decoder was seen that reads BOS alone")
    first = max((n for n in starts if not n or recording.passes[n - 1].length != 1), default=0)
    passes = recording.passes[first:]
    steps = list[Step]()
    groups: dict[int, list[Pass]] = {}
    for each in passes:
        groups.setdefault(each.length, []).append(each)
    for length, group in sorted(groups.items()):
        if length != len(steps) + 1:
            raise NotImplementedError("the steps of the search do not grow by one token")
        before = steps[-1].prefixes if steps else ()
        rows = [r for each in group for r in prefixes_of(adapter, model, each, before, speech)]
        logits = torch.cat([each.logits[:, -1] for each in group])
        steps.append(Step(tuple(rows), logits))
    return Search(words, passes[0].source[:1], tuple(steps), result, longest)


def trimmed(each: Pass, pad: int) -> Pass:
    """A pass without the PAD behind all its prefixes, which some fill up to one length."""
    length = each.read.size(1)
    while length > 1 and bool((each.read[:, length - 1] == pad).all()):
        length -= 1
    if each.offset or length == each.read.size(1) or each.logits.size(1) != each.read.size(1):
        return each
    return replace(each, read=each.read[:, :length], logits=each.logits[:, :length])


def prefixes_of(
    adapter: Adapter, model: nn.Module, each: Pass, before: tuple[Ids, ...], speech: Any
) -> list[Ids]:
    """The prefixes of the rows of a pass.

    With a cache only their last tokens are read.  The prefixes are those of a table that the search
    keeps; or else the known ones whose full passes have the logits of the rows.
    """
    if not each.offset:
        return [tuple(row) for row in each.read.tolist()]
    if each.kept is not None:
        return [tuple(row) for row in each.kept.tolist()]
    found = list[Ids]()
    for newest, logits in zip(each.read[:, -1].tolist(), each.logits[:, -1], strict=True):
        known = [(*prefix, newest) for prefix in dict.fromkeys(before)]
        table = full_rows(adapter, model, each.source[:1], known, speech)
        off = (table.log_softmax(-1) - logits.log_softmax(-1)).abs().amax(-1)
        found.append(known[int(off.argmin())])
    return found


@functools.lru_cache(maxsize=4)
def ending_searches(adapter: Adapter, seed: int) -> tuple[Search, ...]:
    """Searches of sentences whose translations end, in eval mode and without dropout.

    Raises NotImplementedError where the search draws at random.
    """
    model = searched_model(adapter, seed)
    lengths = (4, 6, 3, 7, 5, 8, 4, 6)
    found = tuple(
        record_search(adapter, model.eval(), words, LIMIT, seed=seed)
        for words in sentences(adapter, seed, lengths)
    )
    again = record_search(adapter, model.eval(), found[0].words, LIMIT, seed=seed)
    if [s.prefixes for s in again.steps] != [s.prefixes for s in found[0].steps]:
        raise NotImplementedError("the search draws at random: a second one has other steps")
    return found


@functools.lru_cache(maxsize=4)
def cut_searches(adapter: Adapter, seed: int, longest: int = 12) -> tuple[Search, ...]:
    """Searches whose translations do not end, of sources of 2, 5 and 8 words."""
    model = searched_model(adapter, seed)
    return tuple(
        record_search(adapter, model.eval(), words, longest, seed=seed, endless=True)
        for words in sentences(adapter, seed, (2, 5, 8))
    )
