"""Settings that follow the corpus, for a reader's own text: how many pairs are there, how long?

With the same settings for every corpus, a thousand pairs get thirty updates, all of them inside the
warm-up, and pieces that occur once.  So everything here is counted from the text:

- `size`: as many pieces as occur some ten times; a rarer one is not learned.
- `epochs`: fewer, the more text there is.  A small corpus must be read often; a large one need not,
  and would take too long.
- `max_tokens`: so that there are about `UPDATES` updates, whatever the size.
- `warmup`: a tenth of the updates at most.
- `dropout`: more, the less text there is, since that is learned by heart.

The numbers come from `benchmarks/own_sizes.py`, which trains sub-samples of several corpora; its
record also says what BLEU to expect.  What a reader sets stays as it is.
"""

from __future__ import annotations

import json
import math
import random
import time
import tomllib
from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.batching import Batch, lengths_of, plan_batches
from nmtlib.data.codec import Codec, encode_pairs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import BPETokenizer
from nmtlib.model.transformer import Transformer
from nmtlib.settings import Settings, find_key
from nmtlib.training.hardware import choose_device
from nmtlib.training.loss import smoothed_loss

UPDATES = 2_200  # enough for a small model to fall from its first loss to its last
MUCH = 512_000  # tokens that are read `FEWEST` times; a smaller text is read more often
FEWEST, MOST = 6, 40  # epochs
SEEN = 10  # times that a piece should occur
PIECES, MORE_PIECES = 4_000, 8_000  # at most, for a small and for a large model
LARGE = 50_000  # pairs that are worth a larger model
SAMPLE = 50_000  # pairs that are counted; of a larger corpus the rest is like them
TEXTS = {  # those that were measured, in words
    "multi30k-de-en": "image captions (German-English)",
    "cmn-en-zh": "short sentences (English-Chinese)",
    "toy-de-en": "a small grammar (German-English)",
    "toy-en-zh": "a small grammar (English-Chinese)",
}
RECORD = Path(__file__).parents[1] / "teaching" / "recorded" / "benchmarks" / "own-sizes.json"


@dataclass(frozen=True)
class Choice:
    """The value of one setting, and why."""

    key: str  # section.name
    value: Any
    why: str


@dataclass(frozen=True)
class Plan:
    """The settings for a corpus of so many pairs and tokens."""

    pairs: int
    tokens: int  # of the longer side of each pair
    choices: tuple[Choice, ...]

    def sections(self) -> dict[str, dict[str, Any]]:
        """The values by section and name."""
        sections: dict[str, dict[str, Any]] = {}
        for choice in self.choices:
            section, _, name = choice.key.partition(".")
            sections.setdefault(section, {})[name] = choice.value
        return sections

    def toml(self) -> Iterator[str]:
        """The lines of a TOML file, each value with its reason."""
        section = ""
        for choice in self.choices:
            if (new := choice.key.partition(".")[0]) != section:
                section = new
                yield ""
                yield f"[{section}]"
            line = f"{choice.key.partition('.')[2]} = {json.dumps(choice.value)}"
            yield f"{line:<24}  # {choice.why}"

    def without(self, keys: Collection[str]) -> Plan:
        """The plan without what a reader has set, and what would not go with it."""
        keys = set(keys)
        if keys & {"tokenizer.kind", "tokenizer.target_kind", "tokenizer.joint"}:
            # One table for both sides needs one vocabulary, which these may not make.
            keys |= {"tokenizer.joint", "tokenizer.size", "model.tied"}
        if keys & {"model.d_model", "model.d_ff", "model.n_heads"}:
            keys |= {"model.d_model", "model.d_ff", "model.n_heads"}
        if keys & {"training.learning_rate", "training.schedule"}:
            keys |= {"training.learning_rate", "training.warmup"}
        return Plan(
            self.pairs, self.tokens, tuple(each for each in self.choices if each.key not in keys)
        )


def plan_for(
    pairs: Sequence[Pair], count: int = 0, *, epochs: int = 0, max_tokens: int = 0
) -> Plan:
    """The settings for training pairs; for `count` of them, of which `pairs` are a sample.

    `epochs` and `max_tokens` are what a reader has set.  Raises ValueError for no pairs.
    """
    count = count or len(pairs)
    if not pairs:
        raise ValueError("settings follow the training pairs, and there are none")
    counted = pairs if len(pairs) <= SAMPLE else random.Random(1).sample(list(pairs), SAMPLE)
    most = MORE_PIECES if count >= LARGE else PIECES
    size, lengths = count_pieces(counted, most, lowercase=count < LARGE)
    tokens = round(sum(lengths) * count / len(counted))
    # The longest of 200 sentences; a single one may be a mistake.
    longest = sorted(lengths)[int(0.995 * (len(lengths) - 1))]
    choices = choose(count, tokens, size, longest, epochs=epochs, max_tokens=max_tokens)
    return Plan(count, tokens, tuple(choices))


def choose(
    count: int, tokens: int, size: int, longest: int, *, epochs: int = 0, max_tokens: int = 0
) -> list[Choice]:
    """The settings for `count` pairs with so many tokens, `size` pieces and `longest` sentences."""
    large = count >= LARGE
    lowercase = not large
    # Half the text is read 1.6 times as often.  In one run each, 2,000 captions that are read 16
    # times gave BLEU 16, read 30 times 21; 29,000 read six times took eleven processor minutes.
    often = FEWEST * (MUCH / tokens) ** (2 / 3)
    epochs = epochs or round(min(max(often, FEWEST), MOST))
    budget = min(max(power_of_two(tokens * epochs / UPDATES), 256), 4_096)
    # Twice as long as these, so that new ones fit too; each must fit into a batch.
    max_length = min(max(64 * math.ceil(longest / 32), 128), 512)
    max_length = min(max_length, max_tokens - 1) if max_tokens else max_length
    max_tokens = max_tokens or max(budget, 2 * max_length)
    updates = max(1, round(1.1 * tokens * epochs / max_tokens))  # a tenth is padding
    dropout = 0.3 if count < 8_000 else 0.1 if large else 0.2
    how_often = f"each sentence is read {epochs} times"
    return [
        Choice("tokenizer.kind", "bpe", "words are cut into pieces"),
        Choice("tokenizer.size", size, f"pieces that occur some {SEEN} times in your text"),
        Choice("tokenizer.joint", True, "both languages share them"),
        Choice("tokenizer.lowercase", lowercase, capitals(lowercase)),
        Choice("model.d_model", 256 if large else 128, "width of the model"),
        Choice("model.n_heads", 4, "heads of its attention"),
        Choice("model.n_encoder_layers", 3 if large else 2, "layers that read"),
        Choice("model.n_decoder_layers", 3 if large else 2, "layers that write"),
        Choice("model.d_ff", 1_024 if large else 512, "width inside a layer"),
        Choice("model.dropout", dropout, "the less text, the more: it is learned by heart"),
        Choice("model.tied", "all", "one table of pieces for reading and writing"),
        Choice("model.embedding_init", "normal", "for a table of any size"),
        Choice("model.max_length", max_length, "tokens of the longest sentence that it reads"),
        Choice("training.epochs", epochs, how_often),
        Choice("training.max_tokens", max_tokens, f"tokens a batch: about {updates:,} updates"),
        Choice("training.max_length", max_length, "longer pairs are left out"),
        Choice("training.learning_rate", 1e-3 if large else 3e-3, "its peak"),
        Choice("training.warmup", max(1, min(updates // 10, 400)), "updates, a tenth at most"),
        Choice("training.average", 3, "epochs whose mean is tried at the end"),
    ]


def capitals(lowercase: bool) -> str:
    """Why small text is lower-cased."""
    return "few pairs: 'The' and 'the' count as one" if lowercase else "capitals are kept"


def count_pieces(pairs: Sequence[Pair], most: int, lowercase: bool) -> tuple[int, list[int]]:
    """How many pieces occur often enough, and how many of them each pair has."""
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    alphabet = len(set("".join(texts))) + 100  # each character is a piece, however rare
    most = max(most, alphabet)
    tokenizer = BPETokenizer.train(texts, most, lowercase=lowercase, min_frequency=SEEN)
    cut = [len(tokens) + 1 for tokens in tokenizer.encode_all(texts)]
    return len(tokenizer.tokens), [max(two) for two in zip(cut[::2], cut[1::2], strict=True)]


def power_of_two(value: float) -> int:
    """The power of two that is nearest, by its logarithm."""
    return 2 ** round(math.log2(max(value, 1)))


def follow_text(
    options: Namespace, settings: Settings, corpus: Corpus
) -> tuple[Settings, list[str]]:
    """The settings of a new run, with the plan for what they leave open; and lines about it.

    `options` are those of `nmtlib train`.  Only settings from a file with its own text follow the
    corpus: a preset is known to work, and a fine-tuned run is what it was.
    """
    if not str(options.preset).endswith(".toml"):
        return settings, []
    if settings.corpus.name or settings.training.init_from or not settings.corpus.train:
        return settings, []
    given = keys_of(options.preset, options.assignments)
    training = settings.training
    plan = plan_for(
        corpus.train,
        epochs=training.epochs if "training.epochs" in given else 0,
        max_tokens=training.max_tokens if "training.max_tokens" in given else 0,
    ).without(given)
    if not plan.choices:
        return settings, []
    values = [f"{choice.key}={json.dumps(choice.value)}" for choice in plan.choices]
    named = ", ".join(value.partition(".")[2] for value in values)
    line = f"settings that follow your text, since {options.preset} leaves them open: {named}"
    return settings.changed(plan.sections()), [line]


def keys_of(path: str | Path, assignments: Sequence[str]) -> set[str]:
    """What a TOML file and assignments set, as section.name."""
    sections = tomllib.loads(Path(path).read_text("utf-8"))
    given = {f"{section}.{name}" for section, values in sections.items() for name in values}
    return given | {
        ".".join(find_key(value.partition("=")[0].strip(), "--set")) for value in assignments
    }


def forecast(settings: Settings, codecs: Sequence[Codec], pairs: Sequence[Pair]) -> list[str]:
    """What a training will be: updates, warm-up, minutes; and what BLEU to expect."""
    training = settings.training
    some = pairs[:: max(1, len(pairs) // SAMPLE)]
    longest = min(training.max_length, settings.model.max_length)
    source, target = codecs
    examples, _ = encode_pairs(some, source, target, longest)
    lengths = lengths_of(examples)
    if not examples:
        return []
    batches = math.ceil(len(plan_batches(lengths, training.max_tokens)) * len(pairs) / len(some))
    updates = training.epochs * math.ceil(batches / training.accumulate)
    epochs = "1 epoch" if training.epochs == 1 else f"{training.epochs} epochs"
    count = round(len(pairs) * len(examples) / len(some))  # without those that are too long
    line = f"{count:,} pairs: {updates:,} updates in {epochs}, warm-up {training.warmup:,}"
    if training.schedule == "constant":
        line = line.partition(", warm-up")[0]
    seconds = seconds_a_batch(settings, float(lengths.max(axis=1).mean()))
    if seconds:
        minutes = training.epochs * batches * seconds / 60
        line += f", about {max(1, round(minutes))} min on this machine"
    lines = [line, what_to_expect(count, float(lengths.max(axis=1).mean()))]
    if training.schedule != "constant" and 2 * training.warmup >= updates:
        lines.append(
            f"the warm-up of {training.warmup:,} updates is half of the training or more, so the "
            "rate hardly falls and the model learns little: give more epochs or fewer max_tokens, "
            "or leave these and warmup out: they then follow your text"
        )
    return lines


def seconds_a_batch(settings: Settings, length: float) -> float:
    """How long one batch takes on this machine, 0 where that was not measured (on a GPU)."""
    training = settings.training
    if choose_device(training.device).type != "cpu":
        return 0.0
    rows, width = max(1, int(training.max_tokens / length / 1.1)), max(2, round(length))
    model = Transformer(settings.model).train()
    sizes = settings.model.source_vocab_size, settings.model.target_vocab_size
    source, target = (torch.randint(4, max(5, size), (rows, width)) for size in sizes)
    batch = Batch(source, target)
    times = []
    for _ in range(4):  # the first is slower; the median is as much disturbed as training will be
        began = time.perf_counter()
        loss, _ = smoothed_loss(model, batch, training)
        loss.backward()
        times.append(time.perf_counter() - began)
    passes = 2 if settings.recipe.get("r_drop") else 1
    return sorted(times[1:])[1] * passes * 1.1  # a tenth for the optimizer and for validation


@cache
def measured() -> list[dict[str, Any]]:
    """The rows of the record that were trained with the settings that follow the text."""
    return json.loads(RECORD.read_text("utf-8"))["rows"] if RECORD.is_file() else []


def what_to_expect(pairs: int, length: float) -> str:
    """What BLEU so many pairs of the measured texts gave, or that there was none like it.

    `length` is the mean number of tokens of the longer side.
    """
    scores = expected_bleu(pairs)
    if not scores:
        sizes = sorted(row["pairs"] for row in measured())
        between = f" ({sizes[0]:,} to {sizes[-1]:,} were)" if sizes else ""
        return f"what BLEU to expect is unknown: so many pairs were not measured{between}"
    texts = ", ".join(f"{TEXTS.get(name, name)} {bleu:.0f}" for name, bleu in scores.items())
    line = f"BLEU of other texts with so many pairs (docs/own_text.md): {texts}"
    lengths = [row["tokens"] for row in measured() if row["corpus"] in scores]
    if not min(lengths) / 1.5 < length < 1.5 * max(lengths):
        line += (
            f"; but their sentences have {min(lengths):.0f} to {max(lengths):.0f} tokens, and "
            f"yours {length:.0f}"
        )
    return line


def expected_bleu(pairs: int) -> dict[str, float]:
    """The BLEU that each measured corpus gives for so many pairs.

    Between two sizes it is interpolated by their logarithms.  A corpus is left out where it was not
    measured with both more and fewer pairs; one size counts up to a tenth more or fewer.
    """
    by_corpus: dict[str, list[tuple[int, float]]] = {}
    for row in measured():
        by_corpus.setdefault(row["corpus"], []).append((row["pairs"], row["bleu"]))
    scores = {}
    for corpus, points in by_corpus.items():
        points.sort()
        for size, bleu in points:
            if abs(pairs - size) <= 0.1 * size:
                scores[corpus] = bleu
        for (low, first), (high, second) in zip(points, points[1:], strict=False):
            if low <= pairs <= high:
                share = math.log(pairs / low) / math.log(high / low)
                scores[corpus] = first + share * (second - first)
    return scores
