"""English to Chinese, for notebook 14: its test set, and what was counted and trained once.

The 2,636 test sentences of `cmn-eng-simple` come with the package (CC BY 2.0 FR, tatoeba.org); what
was counted in its training data, and what was trained on it, is recorded.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtlib.data.batching import pad
from nmtlib.data.corpus import Pair
from nmtlib.data.subwords import JOIN_MARK
from nmtlib.inference.search import greedy_search
from nmtlib.inference.translator import Translator
from nmtlib.model.layers import DecoderState
from nmtlib.model.transformer import Transformer
from nmtlib.specials import EOS
from nmtlib.training.history import EpochRecord

HERE = Path(__file__).parent / "recorded"
TEST, FACTS, RECORDED = (
    HERE / "cmn-test.txt.gz",
    HERE / "cmn_facts.json",
    HERE / "english_chinese.json",
)


@dataclass(frozen=True)
class Run:
    """One training of a system: what it scored on the test set, and its epochs."""

    seed: int
    minutes: float
    bleu_nltk: float
    bleu_nltk_unleaked: float
    bleu_zh: float
    bleu_characters: float
    perplexity: float
    history: list[EpochRecord]

    @property
    def best(self) -> EpochRecord:
        """The epoch with the lowest validation loss."""
        return min(self.history, key=lambda epoch: epoch.validation_nll)


@dataclass(frozen=True)
class System:
    """What was trained with several seeds, and the settings that set it apart."""

    key: str
    title: str
    settings: list[str]
    parameters: int
    runs: list[Run]


def test_pairs() -> list[Pair]:
    """The test set as it was published: English with subword marks, Chinese cut by spaces.

    >>> test_pairs()[0].target
    '不要 小看 我 的 力量 。'
    """
    lines = gzip.decompress(TEST.read_bytes()).decode("utf-8").splitlines()
    return [Pair(*(side.strip() for side in line.split("\t"))) for line in lines]


def facts() -> dict[str, Any]:
    """What `benchmarks/cmn_facts.py` counted in the whole corpus."""
    return json.loads(FACTS.read_text("utf-8"))


def systems(path: Path = RECORDED) -> dict[str, System]:
    """The trainings that `benchmarks/chinese.py` recorded, by key: "record", "original".

    Raises FileNotFoundError where nothing is recorded.
    """
    found = {}
    for stored in json.loads(path.read_text("utf-8"))["systems"]:
        runs = [
            Run(**run | {"history": [EpochRecord(**epoch) for epoch in run["history"]]})
            for run in stored["runs"]
        ]
        found[stored["key"]] = System(**stored | {"runs": runs})
    return found


def outputs(path: Path = RECORDED) -> list[str]:
    """What the first training of the first recorded system says to all test sentences."""
    return json.loads(path.read_text("utf-8"))["outputs"]


def without_marks(text: str) -> str:
    """The mistake that notebook 14 measures: subwords whose marks were removed like punctuation.

    >>> without_marks("bran@@ dy")
    'bran dy'
    """
    return text.replace(JOIN_MARK, "")


def ways_to_cut(text: str, words: set[str]) -> int:
    """In how many ways a text without spaces can be cut into words of a set.

    >>> ways_to_cut("研究生命", {"研究", "研究生", "生命", "命"})
    2
    """
    longest = max(map(len, words))
    ways = [1]  # ways[end]: of text[:end]
    for end in range(1, len(text) + 1):
        starts = range(max(0, end - longest), end)
        ways.append(sum(ways[start] for start in starts if text[start:end] in words))
    return ways[-1]


def miscuts(texts: Sequence[str], factor: int = 20) -> list[tuple[str, str]]:
    """Neighbouring words that would be commoner cut elsewhere: as ("汤姆拒 绝", "汤姆 拒绝").

    The product of the two words' counts in all the texts is then more than `factor` times as large;
    the clearest come first.
    """
    counts = Counter(word for text in texts for word in text.split())
    found = []
    for one, other in (pair for text in texts for pair in pairwise(text.split())):
        whole = one + other
        ways = [(whole[:i], whole[i:]) for i in range(1, len(whole))]
        best = max(ways, key=lambda way: counts[way[0]] * counts[way[1]])
        gain = counts[best[0]] * counts[best[1]] / (counts[one] * counts[other])
        if gain > factor:
            found.append((gain, f"{one} {other}", " ".join(best)))
    return [(given, better) for _, given, better in sorted(found, reverse=True)]


def parameter_rows(model: Transformer) -> list[tuple[str, int, int, float, float]]:
    """Of each part: its depth in layers, parameters, share that is trained, and MB in float32."""
    rows = []
    for name, part in model.named_children():
        own = list(part.parameters())
        if count := sum(p.numel() for p in own):
            trained = sum(p.numel() for p in own if p.requires_grad) / count
            depth = len(part) if name in ("encoder", "decoder") else 1
            rows.append((name, depth, count, trained, 4 * count / 1e6))
    return rows


def to_reference_length(
    translator: Translator, pairs: Sequence[Pair], *, exactly: bool
) -> list[str]:
    """Greedy translations of which each knows how many tokens its reference has.

    It says at most so many, or `exactly` so many.  No real translator can: a reference is what it
    does not have.
    """
    model = without_end(translator.quick_model) if exactly else translator.quick_model
    rows: dict[int, list[int]] = {}
    for i, pair in enumerate(pairs):
        rows.setdefault(len(translator.target.encode(pair.target)), []).append(i)
    said = [""] * len(pairs)
    for length, some in rows.items():
        source = pad([[*translator.read(pairs[i].source), EOS] for i in some])  # (B, S)
        for i, ids in zip(some, greedy_search(model, source, max_length=length), strict=True):
            said[i] = translator.target.decode(ids)
    return said


def without_end(model: Transformer) -> Transformer:
    """A view of a model that generates EOS only where a search allows nothing else."""
    view: Any = copy.copy(model)

    def step(tokens: Tensor, state: DecoderState) -> Tensor:
        logits = model.step(tokens, state)
        return logits.index_fill(1, torch.tensor([EOS], device=logits.device), -1e4)  # (N, V)

    view.step = step
    return view
