"""Speed and memory on a GPU: what each means of saving time or memory brings.

    python benchmarks/gpu.py [--max-tokens 8192] [--steps 20] [--output FILE] [--bleu]
    python benchmarks/gpu.py --device cpu --quick     # the same path with tiny models, as a test

First the steps of the base model of Vaswani et al. 2017 with one vocabulary of 37,000, beside those
of nn.Transformer; candidates run one after the other, each alone in memory.  The predicted memory
is `nmtcourse.teaching.cost.training_memory`, where it applies.  Then, of the small model of
Multi30k, the rungs of `gpu_rungs`, with tokens/s as the cost model predicts them.  With --bleu the
preset multi30k-de-en-gpu is trained at last, and scored every epoch as `time_to_bleu.py` does.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import time_to_bleu  # before torch, as it imports nmtlib first
from gpu_rungs import SMALL, Row, constants, decode_rungs, train_rungs
from shared import SHIPPED, parser, write_result
from timing import Step, make_step, seconds

# isort: split
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from train import TorchTransformer

from nmtcourse.teaching.cost import peak_memory, training_flops, training_memory
from nmtlib.data.batching import Batch, to_device
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import PAD, UNK
from nmtlib.training.hardware import choose_device, describe_machine

CONFIG = TransformerConfig.base(37000, 37000, tied="all")
BLEU = ["--preset", "multi30k-de-en-gpu"]
TINY = (
    "d_model=32",
    "d_ff=64",
    "n_heads=2",
    "n_encoder_layers=1",
    "n_decoder_layers=1",
    "epochs=1",
)
BLEU_QUICK = ["--preset", "toy-de-en", *(f"--set={change}" for change in TINY)]
COMPILE = torch.compile
QUICK = replace(
    CONFIG,
    source_vocab_size=100,
    target_vocab_size=100,
    d_model=32,
    n_heads=2,
    n_encoder_layers=1,
    n_decoder_layers=1,
    d_ff=64,
)


@dataclass(frozen=True)
class Candidate:
    """One way to make a training step."""

    precision: torch.dtype = torch.bfloat16
    fused: bool = True  # attention as one kernel that never holds its weights
    compile: str = "no"
    checkpointed: bool = False
    torchs: bool = False  # nn.Transformer instead of ours


CANDIDATES = {
    "float32": Candidate(torch.float32),
    "bfloat16, attention in steps": Candidate(fused=False),
    "bfloat16": Candidate(),
    "bfloat16, checkpointed": Candidate(checkpointed=True),
    "bfloat16, compiled": Candidate(compile="default"),
    "bfloat16, CUDA graphs": Candidate(compile="reduce-overhead"),
    "nn.Transformer float32": Candidate(torch.float32, torchs=True),
    "nn.Transformer bfloat16": Candidate(torchs=True),
    "nn.Transformer bfloat16, compiled": Candidate(torchs=True, compile="default"),
}


def make_batches(config: TransformerConfig, count: int, max_tokens: int) -> list[Batch]:
    """Batches of a few lengths of sentences; the first, of 32, is to measure the memory."""
    generator = torch.Generator().manual_seed(0)
    eighths = torch.randint(2, 9, (count - 1,), generator=generator).tolist()
    lengths = [32, *(8 * eighth for eighth in eighths)]
    ids = (UNK + 1, config.source_vocab_size)
    return [
        Batch(
            torch.randint(*ids, (max_tokens // n, n), generator=generator),
            torch.randint(*ids, (max_tokens // n, n + 1), generator=generator),
        )
        for n in lengths
    ]


def compiled(model: nn.Module, mode: str) -> Any:
    """The model itself for 'no', otherwise as torch.compile makes it, for all shapes at once."""
    return model if mode == "no" else torch.compile(model, mode=mode, dynamic=True)


def torchs_step(
    config: TransformerConfig, candidate: Candidate, device: torch.device
) -> tuple[nn.Module, Step]:
    """Model and step of nn.Transformer, as its users write them, but with fused Adam as ours."""
    model = TorchTransformer(config).to(device).train()
    called = compiled(model, candidate.compile)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> None:
        with torch.autocast(
            device.type, torch.bfloat16, enabled=candidate.precision == torch.bfloat16
        ):
            logits = called(batch.source, batch.decoder_input)
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def our_step(
    config: TransformerConfig, candidate: Candidate, device: torch.device
) -> tuple[nn.Module, Step]:
    """Model and step of nmtlib."""
    model = Transformer(config).to(device)
    model.checkpoint_activations = candidate.checkpointed
    return model, make_step(model, candidate.precision, compiled(model, candidate.compile))


def measure_one(
    config: TransformerConfig, candidate: Candidate, batches: list[Batch], device: torch.device
) -> dict[str, Any]:
    """Tokens/s over all batches, and the memory of a step on the first, of one candidate."""
    torch.manual_seed(0)
    model, step = (torchs_step if candidate.torchs else our_step)(config, candidate, device)
    speeds, rates = [], []
    with nullcontext() if candidate.fused else sdpa_kernel(SDPBackend.MATH):
        for batch in batches:  # the first steps allocate and compile
            step(to_device(batch, device))
        first = to_device(batches[0], device)
        # Weights and Adam's moments are there all the time; the rest comes and goes within a step.
        lasting = 3 * sum(p.nbytes for p in model.parameters())
        peak = lasting + peak_memory(lambda: step(first), device)
        for batch in batches:
            took = seconds(lambda batch=batch: step(to_device(batch, device)), device)
            speeds.append(batch.labels.numel() / took)
            rates.append(training_flops(config, *sizes(batch)) / took)
    return {
        "target_tokens_per_second": round(statistics.median(speeds), 1),
        "slowest_and_fastest": [round(min(speeds), 1), round(max(speeds), 1)],
        "tflops_per_second": round(statistics.median(rates) / 1e12, 4),
        "peak_mib": round(peak / 2**20, 2),
        **predicted_memory(config, candidate, first, device, peak),
    }


def sizes(batch: Batch) -> tuple[int, int, int]:
    """Sentences, and tokens of source and target."""
    return len(batch.source), batch.source.size(1), batch.labels.size(1)


def predicted_memory(
    config: TransformerConfig, candidate: Candidate, batch: Batch, device: torch.device, peak: int
) -> dict[str, float]:
    """What the formula says, where it applies: to our model, not compiled, without weights kept."""
    stepwise = not candidate.fused and device.type != "cpu"
    if candidate.torchs or candidate.compile != "no" or stepwise:
        return {}
    predicted = training_memory(
        config,
        *sizes(batch),
        precision=candidate.precision,
        checkpointing=candidate.checkpointed,
        device=device.type,
    ).peak
    return {
        "predicted_mib": round(predicted / 2**20, 2),
        "predicted_to_measured": round(predicted / peak, 3),
    }


def measure_all(
    names: list[str], config: TransformerConfig, batches: list[Batch], device: torch.device
) -> Iterator[Row]:
    """Every candidate alone in memory; one that does not fit is said to have failed."""
    for name in names:
        try:
            yield name, measure_one(config, CANDIDATES[name], batches, device)
        except RuntimeError as error:  # too little memory: the others may still fit
            yield name, {"failed": str(error).splitlines()[0]}
        gc.collect()  # the next candidate shall have the memory to itself
        if device.type == "cuda":
            torch.cuda.empty_cache()


def torch_compile(model: Any, **options: Any) -> Any:
    """torch.compile without a mode, which only its own compiler knows."""
    return COMPILE(model, backend=options["backend"], dynamic=options.get("dynamic"))


def read_options() -> Namespace:
    """The command line."""
    made, names = parser(__doc__), list(CANDIDATES)
    add, which = made.add_argument, f"of: {'; '.join(names)}"
    add("--device", default="cuda")
    add("--max-tokens", type=int, default=8192, help="positions of a batch, on either side")
    add("--steps", type=int, default=20, help="timed steps of each candidate")
    add("--quick", action="store_true", help="a tiny model and few small batches")
    add("--candidates", nargs="+", choices=names, default=names, metavar="NAME", help=which)
    add("--bleu", action="store_true", help="at last train the preset, and score every epoch")
    add("--output", type=Path, help="default: the record of notebook 12; with --quick no file")
    return made.parse_args()


def main() -> int:
    options = read_options()
    try:
        device = choose_device(options.device)
    except ValueError as error:
        hint = "to see that it works: benchmarks/gpu.py --device cpu --quick"
        print(f"{error}\nThis benchmark needs a GPU; {hint}", file=sys.stderr)
        return 1
    config, small, steps, max_tokens = CONFIG, SMALL, options.steps, options.max_tokens
    output = options.output or (None if options.quick else SHIPPED / "gpu.json")
    first, sentences, width = 1024, 512, 4096
    if options.quick:
        config, small, steps, max_tokens = QUICK, QUICK, 4, 512
        first, sentences, width = 64, 8, 128
        # A CPU takes minutes to compile what a test only wants to see running.
        torch.compile = partial(torch_compile, backend="eager")
    given = f"--device {options.device} --max-tokens {max_tokens} --steps {steps}"
    batches = make_batches(config, steps, max_tokens)
    known = constants(device, width)
    result = {
        "command": f"python benchmarks/gpu.py {given}{' --quick' if options.quick else ''}",
        "max_tokens": max_tokens,
        "constants": known._asdict(),
        "machine": describe_machine(device),
    }
    parts = {
        "decoding": decode_rungs(small, device, sentences),
        "candidates": measure_all(options.candidates, config, batches, device),
        "rungs": train_rungs(small, device, known, first),
    }
    for part, rows in parts.items():
        result[part] = {}
        for name, row in rows:
            print(name, row, flush=True)
            result[part][name] = row
            if output:  # at once: a compiler that crashes takes the process with it
                write_result(output, result)
    if options.bleu and not options.quick:
        time_to_bleu.main(BLEU)
    elif options.bleu:
        with tempfile.TemporaryDirectory() as place:
            there = ["--out", f"{place}/run", "--output", f"{place}/bleu.json"]
            time_to_bleu.main([*BLEU_QUICK, *there, "--device", options.device])
    return 0


if __name__ == "__main__":
    sys.exit(main())
