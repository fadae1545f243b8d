"""What the plan in PLAN.md needs: seconds and bytes to encode a corpus and to plan its epochs.

    python benchmarks/operations.py [--corpus multi30k-de-en] [--output FILE]

The tokenizer is that of the preset `base`; seconds are CPU time, which other programs disturb
least.  The operations of one update of the model of that preset are counted as well.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from shared import RESULTS, parser, write_result  # before torch, as it imports nmtlib first
from timing import make_step

# isort: split
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmtlib.data.batching import Batch, plan_batches
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpora import load
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.presets import load_settings
from nmtlib.recipe import encode_pairs
from nmtlib.training.hardware import describe_machine

# Pairs and tokens of one GPU's share of the batch in PLAN.md.
SHARE = (107, 30)


class Operations(TorchDispatchMode):
    """Counts the operations that do work: no views, no empty tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function.name()
        self.count += not (function.is_view or "empty" in name or "_unsafe_view" in name)
        return function(*arguments, **(options or {}))


def count_operations(config: TransformerConfig) -> int:
    """Operations of one update on a GPU's share of a batch, whatever the widths of the layers."""
    small = replace(
        config, source_vocab_size=50, target_vocab_size=50, d_model=16, n_heads=2, d_ff=16
    )
    step = make_step(Transformer(small), torch.bfloat16)
    ids = torch.randint(4, 50, SHARE)
    step(Batch(ids, ids))  # the first makes Adam's moments
    with Operations() as operations:
        step(Batch(ids, ids))
    return operations.count


def encode_a_corpus(corpus: str) -> dict[str, Any]:
    """Speed and peak memory of encoding the training pairs of a corpus."""
    pairs, settings = load(corpus), load_settings("base")
    codecs = build_codecs(pairs, **asdict(settings.tokenizer))
    started = time.process_time()
    examples, _ = encode_pairs(pairs.train, *codecs)
    encoding = time.process_time() - started
    tokens = sum(len(example.source) + len(example.target) for example in examples)
    tracemalloc.start()
    encode_pairs(pairs.train, *codecs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "pairs": len(examples),
        "tokens": tokens,
        "pairs_a_second": round(len(examples) / encoding),
        "encoding_bytes_a_token": round(peak / tokens, 1),
    }


def plan_an_epoch() -> dict[str, float]:
    """Seconds and bytes to plan the batches of a million pairs."""
    lengths = np.random.default_rng(0).integers(2, 60, (1_000_000, 2), dtype=np.int32)
    started = time.process_time()
    plan_batches(lengths, 25_000, seed=1)
    planning = time.process_time() - started
    tracemalloc.start()
    plan_batches(lengths, 25_000, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "planning_seconds_a_million_pairs": round(planning, 3),
        "planning_bytes_a_pair": round((peak + lengths.nbytes) / len(lengths), 1),
    }


def measure(corpus: str) -> dict[str, Any]:
    """Seconds and bytes to encode a corpus and to plan an epoch, and operations of an update."""
    base = load_settings("base").with_vocabularies(50, 50)
    return {
        "command": f"python benchmarks/operations.py --corpus {corpus}",
        "corpus": corpus,
        **encode_a_corpus(corpus),
        **plan_an_epoch(),
        "operations_an_update": count_operations(base.model),
        "machine": describe_machine(),
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--corpus", default="multi30k-de-en", help="name of a corpus")
    made.add_argument("--output", type=Path, default=RESULTS / "operations.json")
    options = made.parse_args()
    result = measure(options.corpus)
    write_result(options.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
