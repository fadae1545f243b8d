"""What a prepared corpus costs: bytes on disk, and the seconds to encode it, to read a row and to
plan an epoch.

    python benchmarks/prepared.py [--corpus multi30k-de-en] [--output FILE]

The tokenizer is that of the preset `base`; seconds are CPU time, which other programs disturb
least.  The operations of one update of the model of that preset are counted, too.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from timing import make_step  # before torch, as it imports nmtlib first

# isort: split
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmtlib.data.batching import Batch, plan_batches
from nmtlib.extras.prepared import Prepared
from nmtlib.extras.preparing import prepare_corpus
from nmtlib.machine import describe_machine
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.presets import load_settings

SHARE = (
    107,
    30,
    # pairs and tokens of one GPU's share of the batch in PLAN.md: the loss works through it in blocks
)


class Operations(TorchDispatchMode):
    """Counts the operations that do work: no views, no empty tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += not (
            function.is_view or "empty" in function.name() or "_unsafe_view" in function.name()
        )
        return function(*arguments, **(options or {}))


def count_operations(config: TransformerConfig) -> int:
    """Operations of one update on a GPU's share of a batch; they depend on the layers and labels,
    not on widths.
    """
    small = replace(
        config, source_vocab_size=50, target_vocab_size=50, d_model=16, n_heads=2, d_ff=16
    )
    step = make_step(Transformer(small), torch.bfloat16)
    ids = torch.randint(4, 50, SHARE)
    step(Batch(ids, ids))  # the first makes Adam's moments
    with Operations() as operations:
        step(Batch(ids, ids))
    return operations.count


def measure(corpus: str) -> dict[str, Any]:
    """What a prepared corpus costs: bytes, seconds to encode, to read and to plan."""
    settings = load_settings("base").with_assignments([f"corpus.name={corpus}"])
    with tempfile.TemporaryDirectory() as folder:
        lines: list[tuple[float, str]] = []
        prepare_corpus(
            settings,
            Path(folder) / "p",
            report=lambda line: lines.append((time.process_time(), line)),
        )
        encoding = lines[-1][0] - lines[0][0]  # from the vocabularies to the last shard
        opened = Prepared.open(Path(folder) / "p")
        size = sum(
            count for path, count in opened.notes["files"].items() if path.endswith(".arrow")
        )
        examples, rows = opened.examples(), list(range(opened.notes["pairs"]))
        random.Random(0).shuffle(rows)
        started = time.process_time()
        for row in rows:
            examples[row]
        reading = (time.process_time() - started) / len(rows)
    pairs, tokens = (
        opened.notes["pairs"],
        opened.notes["source_tokens"] + opened.notes["target_tokens"],
    )
    lengths = np.random.default_rng(0).integers(2, 60, (1_000_000, 2), dtype=np.int32)
    started = time.process_time()
    plan_batches(lengths, 25_000, seed=1)
    planning = time.process_time() - started
    tracemalloc.start()
    plan_batches(lengths, 25_000, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "command": f"python benchmarks/prepared.py --corpus {corpus}",
        "corpus": corpus,
        "pairs": pairs,
        "tokens": tokens,
        "arrow_bytes": size,
        "bytes_a_token": round(size / tokens, 3),
        "bytes_a_pair_beside_ids": round((size - 2 * tokens) / pairs, 2),
        "pairs_a_second": round(pairs / encoding),
        "microseconds_a_row": round(reading * 1e6, 2),
        "planning_seconds_a_million_pairs": round(planning, 3),
        "planning_bytes_a_pair": round((peak + lengths.nbytes) / len(lengths), 1),
        "operations_an_update": count_operations(
            load_settings("base").with_vocabularies(50, 50).model
        ),
        "machine": describe_machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", default="multi30k-de-en", help="name of a corpus")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results" / "prepared.json"
    )
    options = parser.parse_args()
    text = json.dumps(measure(options.corpus), indent=2)
    options.output.write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
