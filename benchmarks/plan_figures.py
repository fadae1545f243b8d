"""The figures of the plan in PLAN.md: cited, assumed and measured, and what follows from them.

Lengths, batch sizes and tokens are per side and without padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from train import CONFIG as SMALL
from train import batches as small_batches

from nmtcourse.teaching.cost import TrainingMemory, flop_terms, training_flops, training_memory
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.presets import load_settings

VASWANI = "Vaswani et al. 2017"
LUONG = "Luong et al. 2015, 4.1"
FACTS = {  # name -> (value, unit, source)
    "pairs": (4.5e6, "sentence pairs for training", f"{VASWANI}, 5.1"),
    "source_words": (116e6, "English words in them", LUONG),
    "target_words": (110e6, "German words in them", LUONG),
    "vocabulary": (37_000, "entries of the joint vocabulary", f"{VASWANI}, 5.1"),
    "batch": (25_000, "source and as many target tokens in a batch", f"{VASWANI}, 5.1"),
    "steps": (100_000, "updates", f"{VASWANI}, 5.2"),
    "paper_gpus": (8, "P100 GPUs", f"{VASWANI}, 5.2"),
    "paper_hours": (12, "hours", f"{VASWANI}, 5.2"),
    "p100": (9.5e12, "FLOP/s that a P100 is taken to sustain", f"{VASWANI}, footnote 5"),
    "paper_flops": (3.3e18, "FLOP as the cost of the training", f"{VASWANI}, table 2"),
    "paper_parameters": (65e6, "parameters", f"{VASWANI}, table 3"),
}
# Dense bfloat16 FLOP/s, bytes of memory, bytes/s of NVLink in each direction: NVIDIA's data sheets.
GPUS = {
    "H100 SXM": (989e12, 80e9, 450e9),
    "A100 SXM": (312e12, 80e9, 300e9),
}
SHARES = (0.20, 0.35, 0.50)  # of the peak that a training achieves
TIMES = 100


@dataclass(frozen=True)
class Assumptions:
    """What is neither cited nor measured."""

    gpus: int = 8
    pieces_per_word: float = 1.15  # BPE pieces, punctuation among them
    launch: float = 0.0  # seconds in which Python starts one operation; 0: from results/gpu.json
    network: float = 12.5e9  # bytes/s between machines: 100 Gbit Ethernet
    disk: float = 1e9  # bytes/s written to disk
    memory: float = 512e9  # bytes of a machine
    price: float = 2.5  # dollars for a GPU and an hour
    tokens_per_second: float = 0.0  # target, of one GPU; 0: from results/gpu.json


class Plan:
    """Every figure of the page; lengths, batches and tokens are per side, without padding."""

    def __init__(
        self,
        assumed: Assumptions,
        measured: dict[str, Any],
        cpu: dict[str, Any],
        gpu: dict[str, Any],
    ):
        self.assumed, self.measured, self.cpu, self.gpu = assumed, measured, cpu, gpu
        self.fact = {name: value for name, (value, _, _) in FACTS.items()}
        size = self.fact["vocabulary"]
        self.config: TransformerConfig = load_settings("base").with_vocabularies(size, size).model
        pieces = assumed.pieces_per_word / self.fact["pairs"]
        self.source_length = round(self.fact["source_words"] * pieces) + 1  # with EOS
        self.target_length = round(self.fact["target_words"] * pieces) + 1
        self.sentences = round(self.fact["batch"] / self.target_length)

    @cached_property
    def parameters(self) -> int:
        with torch.device("meta"):
            return sum(Transformer(self.config).parameter_table().values())

    @cached_property
    def terms(self) -> dict[str, int]:
        """FLOP of one update by kind of product."""
        return flop_terms(self.config, self.sentences, self.source_length, self.target_length)

    @property
    def flops(self) -> int:
        """FLOP of one update."""
        return sum(self.terms.values())

    @property
    def batch_tokens(self) -> int:
        """Target tokens of one update."""
        return self.sentences * self.target_length

    @property
    def flops_per_token(self) -> float:
        """FLOP for one target token and the source tokens that come with it."""
        return self.flops / self.batch_tokens

    @cached_property
    def memory(self) -> TrainingMemory:
        """Of one GPU, which has its share of a batch."""
        share = max(self.sentences // self.assumed.gpus, 1)
        return training_memory(
            self.config,
            share,
            self.source_length,
            self.target_length,
            precision=torch.bfloat16,
            device="cuda",
        )

    @property
    def state(self) -> int:
        """Bytes on each GPU whatever the batch: weight, gradient, its copy to send, 2 moments."""
        return self.memory.weights + 2 * self.memory.gradients + self.memory.moments

    @property
    def checkpoint(self) -> int:
        """Bytes of `last.safetensors`."""
        return self.memory.weights + self.memory.moments

    @property
    def tokens(self) -> float:
        """Source and target tokens of the corpus."""
        return self.fact["pairs"] * (
            self.source_length + self.target_length + 1
        )  # BOS and EOS are stored

    @property
    def encoded(self) -> float:
        """Bytes of the encoded corpus at the peak of encoding it, in all processes of a machine."""
        return self.measured["encoding_bytes_a_token"] * self.tokens * self.assumed.gpus

    @property
    def encoding(self) -> float:
        """Seconds in which a process encodes the corpus."""
        rate = self.measured["pairs_a_second"] * self.measured["tokens"] / self.measured["pairs"]
        return self.tokens / rate

    @property
    def launches(self) -> float:
        """Seconds to start the operations of one update: as given, or of gpu.py in bfloat16."""
        if self.assumed.launch:
            return self.measured["operations_an_update"] * self.assumed.launch
        return (
            self.gpu["max_tokens"] / self.gpu["candidates"]["bfloat16"]["target_tokens_per_second"]
        )

    @property
    def launch(self) -> str:
        """Microseconds to start one operation, and where the figure is from."""
        each = 1e6 * self.launches / self.measured["operations_an_update"]
        device = f"on one {self.gpu['machine']['device']}"
        return f"{each:.3g} µs each ({'assumed' if self.assumed.launch else f'measured {device}'})"

    @property
    def paper_speed(self) -> float:
        """Target tokens/s of each of the paper's GPUs."""
        done = self.fact["steps"] * self.fact["batch"]
        return done / (self.fact["paper_gpus"] * self.fact["paper_hours"] * 3600)

    def dollars(self, tokens_per_second: float) -> float:
        """The price of all updates."""
        return self.hours(tokens_per_second) * self.assumed.gpus * self.assumed.price

    def hours(self, tokens_per_second: float) -> float:
        """Hours for all updates at so many target tokens/s of one GPU, when nothing waits."""
        return (
            self.fact["steps"] * self.fact["batch"] / (tokens_per_second * self.assumed.gpus) / 3600
        )

    @property
    def planning(self) -> float:
        """Seconds to plan the batches of one epoch."""
        return self.measured["planning_seconds_a_million_pairs"] * self.fact["pairs"] / 1e6

    def update(self, flops_per_second: float) -> float:
        """Seconds of one update without communication: arithmetic, or starting the operations."""
        return max(self.flops / self.assumed.gpus / flops_per_second, self.launches)

    def cpu_rate(self) -> float:
        """FLOP/s of the CPU that trained the small model of train.py."""
        batches = [
            (b.source.size(0), b.source.size(1), b.labels.size(1)) for b in small_batches(10)
        ]
        flops = sum(training_flops(SMALL, *sizes) for sizes in batches)
        labels = sum(sentences * length for sentences, _, length in batches)
        return self.cpu["target_tokens_per_second"]["nmtlib bfloat16"] * flops / labels

    def gpu_speeds(self) -> dict[str, float]:
        """Target tokens/s of one GPU: as given, or from gpu.py in bfloat16."""
        if self.assumed.tokens_per_second:
            return {"as given": self.assumed.tokens_per_second}
        return {
            name: found["target_tokens_per_second"]
            for name, found in self.gpu["candidates"].items()
            if name.startswith("bfloat16") and "target_tokens_per_second" in found
        }

    def all_reduce(self, bandwidth: float, gpus: int | None = None) -> float:
        """Seconds to sum the gradients around a ring: each GPU sends 2 (n - 1) / n of them."""
        n = gpus or self.assumed.gpus
        return 2 * (n - 1) / n * self.memory.gradients / bandwidth
