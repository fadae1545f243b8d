"""An evaluation as it was recorded: the passes that read references, and the numbers reported."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.passes import (
    Ids,
    Pass,
    Recording,
    record_passes,
    searched_model,
    speech_for,
)
from nmtcheck.measure.scores import names_of, numbers
from nmtcheck.measure.searches import LIMIT, record_search, sentences, words_for

Pairs = list[tuple[Ids, Ids]]
# Of the sources: in batches of three or four the last one is smaller.
MOST_NGRAM = 4  # words of the longest n-gram of a BLEU
SIZES = (4, 9, 3, 6, 8, 5, 7, 4, 6, 10, 3)


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation has read and reported."""

    pairs: Pairs
    translations: list[Ids]  # as `translate` gives them, without special ids; empty if it cannot
    recording: Recording
    reported: list[float]
    names: list[str]  # of the reported numbers in a dict; '' for none
    repr: str
    # What `translate` reads of each source: all prefixes of its search.
    prefixes: dict[Ids, set[Ids]] = field(default_factory=dict)

    def forced(self) -> list[Pass]:
        """The passes whose decoder input holds the words of references, each with its source."""
        return [each for each in self.recording.passes if self.is_forced(each)]

    def is_forced(self, each: Pass) -> bool:
        """Whether every row of a pass reads the reference of its own source.

        A prefix of a search may be another sentence's short reference by chance.
        """
        sources, rows = each.source.tolist(), each.read.tolist()
        if each.read.size(1) < 2 or len(sources) != len(rows):
            return False
        return all(
            any(reads(row, reference) and holds(source, words) for words, reference in self.pairs)
            for source, row in zip(sources, rows, strict=True)
        )

    def searched(self) -> list[Pass]:
        """The other passes: those of a search."""
        forced = {id(each) for each in self.forced()}
        return [each for each in self.recording.passes if id(each) not in forced]


def reads(row: list[int], words: Ids) -> bool:
    """Whether a decoder input holds a reference after its first id."""
    return tuple(row[1 : 1 + len(words)]) == words


def references_for(translations: list[Ids], seed: int, first: int) -> list[Ids]:
    """References that share long n-grams with translations: BLEU is far from 0 and from 1.

    Each has a word more in front, and every second one a different last word and two more behind.
    """
    generator = torch.Generator().manual_seed(seed)
    found = list[Ids]()
    for number, words in enumerate(translations):
        more = torch.randint(first, Sizes().target_vocab_size, (4,), generator=generator).tolist()
        reference = (more[0], *words)
        if number % 2:
            reference = (*reference[:-1], *more[1:])
        found.append(reference)
    return found


@functools.lru_cache(maxsize=8)
def evaluation(adapter: Adapter, seed: int, dropout: float = 0.0) -> Evaluation:
    """Record the adapter's evaluation of eleven pairs, with a model in train mode."""
    model = searched_model(adapter, seed, dropout)
    sources, translations = sentences(adapter, seed + 2, SIZES), list[Ids]()
    prefixes = dict[Ids, set[Ids]]()
    if adapter.translate is not None:
        still = searched_model(adapter, seed).eval()
        for words in sources:
            search = record_search(adapter, still, words, LIMIT, seed=seed)
            prefixes[words] = {prefix for step in search.steps for prefix in step.prefixes}
            specials = (adapter.bos, adapter.eos, adapter.pad)
            translations.append(tuple(i for i in search.result if i not in specials))
    else:
        translations = sentences(adapter, seed + 3, SIZES[::-1])
    references = references_for(translations, seed, adapter.first_word)
    pairs = list(zip(sources, references, strict=True))
    known = translations if adapter.translate is not None else []
    done = record_evaluation(adapter, model, pairs, known, seed)
    return replace(done, prefixes=prefixes)


@functools.lru_cache(maxsize=8)
def evaluate_one(adapter: Adapter, seed: int) -> Evaluation:
    """Record the adapter's evaluation of one pair, where all ways to average are the same.

    Its reference is its translation without the last word, so that a BLEU needs no penalty for
    brevity, and, where words do not stand in it twice, no clipping.
    """
    done = evaluation(adapter, seed)
    number = max(range(len(done.pairs)), key=lambda n: len({*done.pairs[n][1]}))
    source, reference = done.pairs[number]
    translations = done.translations[number : number + 1]
    if translations and len(translations[0]) > MOST_NGRAM:
        reference = translations[0][:-1]
    model = searched_model(adapter, seed)
    return record_evaluation(adapter, model, [(source, reference)], translations, seed)


def record_evaluation(
    adapter: Adapter,
    model: nn.Module,
    pairs: Pairs,
    translations: list[Ids],
    seed: int,
    repair: str = "",
) -> Evaluation:
    """Run the evaluation on pairs and record it."""
    words, speech = words_for(adapter), speech_for(adapter, seed)
    given = [tuple(words.lookup_tokens(side) for side in pair) for pair in pairs]
    model.train()
    with record_passes(model, adapter, [s for s, _ in pairs], speech, repair) as recording:
        report: Any = adapter.evaluate(model, given)
    named = numbers(report), names_of(report)
    return Evaluation(pairs, translations, recording, *named, repr(report))


def batch_of(adapter: Adapter, each: Pass, pairs: Pairs) -> tuple[Tensor, Tensor, list[int]]:
    """The logits (B, T, V), the labels (B, T) of a pass, and the numbers of its pairs.

    Raises NotImplementedError where a row belongs to no pair.
    """
    labels, numbers_of = list[list[int]](), list[int]()
    width = each.logits.size(1)
    for source, row in zip(each.source.tolist(), each.read.tolist(), strict=True):
        mine = [n for n, (s, t) in enumerate(pairs) if reads(row, t) and holds(source, s)]
        if not mine:
            raise NotImplementedError("a decoder input belongs to no pair")
        target = [*pairs[mine[0]][1], adapter.eos]
        if len(target) > width:
            raise NotImplementedError("a decoder input is shorter than its reference")
        labels.append(target + [adapter.pad] * (width - len(target)))
        numbers_of.append(mine[0])
    return each.logits, torch.tensor(labels), numbers_of


def holds(row: list[int], words: Ids) -> bool:
    """Whether a source row contains a sentence."""
    return any(tuple(row[n : n + len(words)]) == words for n in range(len(row)))
