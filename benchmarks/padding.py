"""What batches of similar lengths save: padding and speed of three orders, at one token budget.

    python benchmarks/padding.py [--presets toy-de-en multi30k-de-en] [--batches 24] [--threads 2]

Padding is that of one whole epoch.  Speed is that of a sample of its batches, drawn with one seed
for each order; steps of the three are interleaved, so that a change of the machine's speed meets
all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from shared import timing_parser, write_result  # before torch, as it imports nmtlib first
from timing import Step, make_step, seconds

# isort: split
import torch

from nmtlib.data.batching import Example, collate, padding_waste, token_batches
from nmtlib.data.codec import build_codecs
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.recipe import encode_pairs, load_corpus
from nmtlib.specials import PAD
from nmtlib.training.hardware import choose_precision, describe_machine

SEED = 1


def fill(order: Iterable[int], examples: Sequence[Example], max_tokens: int) -> list[list[int]]:
    """Batches of sentences in the given order, as full as `token_batches` would make them."""
    batches: list[list[int]] = []
    longest = 0
    for i in order:
        length = max(len(examples[i].source), len(examples[i].target))
        longest = max(longest, length)
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
            longest = length
        batches[-1].append(i)
    return batches


def plans(examples: Sequence[Example], max_tokens: int) -> dict[str, list[list[int]]]:
    """One epoch in each of the three orders."""
    numbers = list(range(len(examples)))
    shuffled = random.Random(SEED).sample(numbers, len(numbers))
    by_source = sorted(numbers, key=lambda i: len(examples[i].source))
    return {
        "random": fill(shuffled, examples, max_tokens),
        "sorted by source": fill(by_source, examples, max_tokens),
        "bucketed": token_batches(examples, max_tokens, seed=SEED),
    }


def compare(preset: str, count: int) -> dict[str, Any]:
    """Padding and speed of each order on the training split of a preset."""
    settings = load_settings(preset)
    corpus = load_corpus(settings.corpus)
    source, target = build_codecs(corpus, **asdict(settings.tokenizer))
    examples, _ = encode_pairs(corpus.train, source, target, settings.training.max_length)
    torch.manual_seed(SEED)
    model = Transformer(settings.with_vocabularies(len(source.vocab), len(target.vocab)).model)
    precision = choose_precision(torch.device("cpu"), settings.training.precision)
    epochs = plans(examples, settings.training.max_tokens)
    samples = {
        name: random.Random(SEED).sample(plan, min(count, len(plan)))
        for name, plan in epochs.items()
    }
    speeds = time_orders(make_step(model, precision), examples, samples)
    return {
        "sentences": len(examples),
        "max_tokens": settings.training.max_tokens,
        "precision": str(precision).removeprefix("torch."),
        "orders": {
            name: {
                "padding": round(padding_waste(collate([examples[i] for i in b]) for b in plan), 4),
                "batches_an_epoch": len(plan),
                "timed_batches": len(samples[name]),
                "target_tokens_per_second": speeds[name],
            }
            for name, plan in epochs.items()
        },
    }


def time_orders(
    step: Step, examples: Sequence[Example], samples: dict[str, list[list[int]]]
) -> dict[str, float]:
    """Target tokens a second over the sampled batches of each order, the orders interleaved."""
    labels, spent = dict.fromkeys(samples, 0), dict.fromkeys(samples, 0.0)
    for sample in samples.values():
        step(collate([examples[i] for i in sample[0]]))  # the first steps allocate
    for number in range(max(map(len, samples.values()))):
        for name, sample in samples.items():
            if number < len(sample):
                batch = collate([examples[i] for i in sample[number]])
                spent[name] += seconds(lambda batch=batch: step(batch))
                labels[name] += int((batch.labels != PAD).sum())
    return {name: round(labels[name] / spent[name], 1) for name in samples}


def main() -> None:
    parser = timing_parser(__doc__, "padding")
    parser.add_argument("--presets", nargs="+", default=["toy-de-en", "multi30k-de-en"])
    parser.add_argument("--batches", type=int, default=24, help="timed batches of each order")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    presets = " ".join(options.presets)
    result = {
        "command": f"python benchmarks/padding.py --presets {presets} "
        f"--batches {options.batches} --threads {options.threads}",
        "seed": SEED,
        "presets": {preset: compare(preset, options.batches) for preset in options.presets},
        "machine": describe_machine(),
    }
    write_result(options.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
