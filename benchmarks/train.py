"""Training speed and memory of nmtlib, torch.nn.Transformer and Hugging Face's MarianMTModel.

    python benchmarks/train.py [--steps 8] [--threads 2] [--output FILE]
    python benchmarks/train.py --profile [--steps 8] [--threads 1]

The three have one size and get the same batches, in float32 and in bfloat16.  Steps of the
candidates are interleaved, so that a change of the machine's speed meets all of them; what counts
are the ratios of the medians. torch's model is used as its documentation shows it, with
F.cross_entropy and Adam, and so is Marian's. Memory is the peak of a process of its own for each
candidate, less what it held before it made the model.  With --profile torch's profiler says where
the milliseconds of an update in float32 go, into results/train-profile.json.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from shared import RESULTS, timing_parser, write_result  # before torch, as it imports nmtlib first

# isort: split
import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from nmtcourse.provenance import describe_machine
from nmtlib.data.batching import Batch
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import PAD
from nmtlib.training.loss import autocast, compute_loss

CONFIG = TransformerConfig(
    6000,
    6000,
    d_model=256,
    n_heads=4,
    n_encoder_layers=3,
    n_decoder_layers=3,
    d_ff=1024,
    dropout=0.1,
    attention_dropout=0.1,
    norm="post",
)
Step = Callable[[Batch], None]


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and projection as in its tutorials."""

    def __init__(self, c: TransformerConfig):
        super().__init__()
        self.source = TokenEmbedding(c.source_vocab_size, c.d_model)
        self.target = TokenEmbedding(c.target_vocab_size, c.d_model)
        self.positions = Positions(c.d_model, c.max_length)
        self.body = nn.Transformer(
            c.d_model,
            c.n_heads,
            c.n_encoder_layers,
            c.n_decoder_layers,
            c.d_ff,
            c.dropout,
            batch_first=True,
            norm_first=c.norm == "pre",
        )
        for module in self.body.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = c.attention_dropout  # otherwise that of everything else
        self.output = nn.Linear(c.d_model, c.target_vocab_size)
        if c.tied != "none":
            self.output.weight = self.target.weight
        if c.tied == "all":
            self.source.weight = self.target.weight

    def forward(self, source, target):
        out = self.body(
            self.positions(self.source(source)),
            self.positions(self.target(target)),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(
                target.size(1), device=target.device
            ),
            tgt_is_causal=True,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.output(out)


class MarianTransformer(nn.Module):
    """Hugging Face's Marian of the same size, with random weights: nothing is downloaded."""

    def __init__(self, c: TransformerConfig):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        half = {"layers": c.n_encoder_layers, "attention_heads": c.n_heads, "ffn_dim": c.d_ff}
        sides = {
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in half.items()
        }
        self.body = MarianMTModel(
            MarianConfig(
                vocab_size=c.source_vocab_size,
                decoder_vocab_size=c.target_vocab_size,
                d_model=c.d_model,
                **sides,
                share_encoder_decoder_embeddings=False,
                tie_word_embeddings=False,
                dropout=c.dropout,
                attention_dropout=c.attention_dropout,
                activation_dropout=c.dropout,
                activation_function="relu",
                scale_embedding=True,
                max_position_embeddings=c.max_length,
                pad_token_id=PAD,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
                forced_eos_token_id=None,
            )
        )

    def forward(self, source, target):
        mask = source.ne(PAD)
        return self.body(
            input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits


def ours(precision: torch.dtype) -> Step:
    """One step of nmtlib's training."""
    torch.manual_seed(0)
    model = Transformer(CONFIG).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> None:
        with autocast(torch.device("cpu"), precision):
            loss, _ = compute_loss(model, batch, 0.1)
        (loss / batch.labels.ne(PAD).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def theirs(make: Callable[[TransformerConfig], nn.Module], precision: torch.dtype) -> Step:
    """One step of another library's model, as its users write it."""
    torch.manual_seed(0)
    model = make(CONFIG).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            logits = model(batch.source, batch.decoder_input)
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


LIBRARIES = {
    "nmtlib": ours,
    "nn.Transformer": partial(theirs, TorchTransformer),
    "MarianMTModel": partial(theirs, MarianTransformer),
}
CANDIDATES = [
    f"{library} {precision}" for library in LIBRARIES for precision in ("float32", "bfloat16")
]
FLOAT32 = [name for name in CANDIDATES if name.endswith("float32")]


def make_step(candidate: str) -> Step:
    """The step of a candidate such as 'nmtlib bfloat16'."""
    library, precision = candidate.split()
    return LIBRARIES[library](getattr(torch, precision))


def batches(count: int, max_tokens: int = 2048) -> list[Batch]:
    """Batches of captions' lengths, bucketed as in training: each of one length."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for length in torch.randint(10, 22, (count,), generator=generator).tolist():
        size = (max_tokens // length, length + 1)
        made.append(Batch(*(torch.randint(4, 6000, size, generator=generator) for _ in range(2))))
    return made


def peak_rss() -> float:
    """The largest resident memory of this process so far, in MiB.

    From Linux's own file, as its rusage counts the parent's memory, too.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024


def peak_of_one(candidate: str) -> None:
    """Print by how many MiB the largest of some steps raised the memory of this process."""
    if candidate.startswith("Marian"):
        # Its code is not the model's memory.
        import transformers.models.marian.modeling_marian  # noqa: F401
    before, step = peak_rss(), make_step(candidate)
    for batch in batches(4):
        step(batch)
    print(round(peak_rss() - before))


def speeds(candidates: list[str], steps: int) -> dict[str, float]:
    """Median target tokens/s of each candidate, their steps interleaved."""
    made = {name: make_step(name) for name in candidates}
    found: dict[str, list[float]] = {name: [] for name in made}
    for number, batch in enumerate(batches(steps + 2)):
        for name, step in made.items():
            started = time.perf_counter()
            step(batch)
            if number >= 2:  # the first steps allocate
                found[name].append(batch.labels.numel() / (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in found.items()}


# What an operation is for, by a part of its name; the first that fits.
PURPOSES = {
    "matrix products": ("mm", "convolution"),
    "dropout": ("bernoulli", "random_", "dropout"),
    "softmax": ("softmax",),
    "normalisation": ("layer_norm",),
    "optimizer": ("adam", "addcdiv", "addcmul", "lerp", "sqrt"),
    "copies": ("copy_", "aten::cat", "clone"),
    "filling": ("fill_", "zero_"),
    "accuracy": ("argmax",),
}


def purpose(operation: str) -> str:
    """What an operation such as 'aten::addmm' is for."""
    for name, parts in PURPOSES.items():
        if any(part in operation for part in parts):
            return name
    return "the rest"


def profile_updates(candidates: list[str], steps: int) -> dict[str, dict[str, float]]:
    """Milliseconds of an update by purpose, medians over updates of all candidates in turn."""
    made = {name: make_step(name) for name in candidates}
    found: dict[str, list[Counter[str]]] = {name: [] for name in made}
    for number, batch in enumerate(batches(steps + 2)):
        for name, step in made.items():
            if number < 2:  # the first steps allocate
                step(batch)
                continue
            with profile(activities=[ProfilerActivity.CPU]) as record:
                step(batch)
            spent: Counter[str] = Counter()
            for event in record.key_averages():
                spent[purpose(event.key)] += event.self_cpu_time_total / 1e3
            spent["update"] = sum(spent.values())
            found[name].append(spent)
    purposes = [*PURPOSES, "the rest", "update"]
    return {
        name: {each: round(statistics.median(s[each] for s in updates), 1) for each in purposes}
        for name, updates in found.items()
    }


def main() -> None:
    parser = timing_parser(__doc__, "train")
    parser.add_argument("--profile", action="store_true", help="where the milliseconds go")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each candidate")
    parser.add_argument("--memory-of", choices=CANDIDATES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        return peak_of_one(options.memory_of)
    if options.profile:
        given = f"--profile --steps {options.steps} --threads {options.threads}"
        result = {
            "command": f"python benchmarks/train.py {given}",
            "milliseconds_per_update": profile_updates(FLOAT32, options.steps),
            "machine": describe_machine() | {"transformers": version("transformers")},
        }
        write_result(RESULTS / "train-profile.json", result)
        print(json.dumps(result, indent=2))
        return
    medians = speeds(CANDIDATES, options.steps)
    alone = [sys.executable, __file__, "--threads", str(options.threads), "--memory-of"]
    peaks = {
        name: int(subprocess.run([*alone, name], check=True, text=True, capture_output=True).stdout)
        for name in CANDIDATES
    }
    given = f"--steps {options.steps} --threads {options.threads}"
    result = {
        "command": f"python benchmarks/train.py {given}",
        "target_tokens_per_second": {name: round(median, 1) for name, median in medians.items()},
        "peak_memory_mib": peaks,
        "ratio_as_used": round(medians["nmtlib bfloat16"] / medians["nn.Transformer float32"], 2),
        "ratios": {
            f"{library} {precision}": round(
                medians[f"nmtlib {precision}"] / medians[f"{library} {precision}"], 2
            )
            for library in LIBRARIES
            if library != "nmtlib"
            for precision in ("float32", "bfloat16")
        },
        "machine": describe_machine() | {"transformers": version("transformers")},
    }
    write_result(options.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
