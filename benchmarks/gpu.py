"""How well training feeds a GPU: one change after another, beside torch.nn.Transformer.

    python benchmarks/gpu.py [--minutes 8] [--rows NAME ...] [--output FILE]
    python benchmarks/gpu.py --device cpu --quick     # the same path with tiny models, as a test

Each row is a process of its own and is written when it ends; rows that the minutes do not reach are
said to be so.  Updates are those of `Trainer.update`, loading included, over batches of sentences
of 16 to 64 tokens.  MFU is the share of the bfloat16 ceiling that the first row measures.  The last
rows train Multi30k (NMTLIB_DATA), score the validation split each epoch as `time_to_bleu.py`, and
the test split at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import time_to_bleu  # before torch, as it imports nmtlib first
from shared import SHIPPED, parser, write_result

# isort: split
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from train import TorchTransformer

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.recipes.recipe import CourseRecipe, RecipeLoss
from nmtcourse.recipes.recorded import FewShapes, RecordedUpdate
from nmtcourse.teaching.cost import training_flops
from nmtlib.data.batching import Example, make_example
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.specials import PAD, UNK
from nmtlib.training.hardware import Processes, choose_device
from nmtlib.training.loss import Totals
from nmtlib.training.trainer import Recipe, Trainer

BASE = TransformerConfig.base(37000, 37000, tied="all")
LAYERS = {"n_encoder_layers": 3, "n_decoder_layers": 3}
SMALL = TransformerConfig(
    6000, 6000, **LAYERS, d_model=256, n_heads=4, d_ff=1024, max_length=256, norm="pre", tied="all"
)
TINY = TransformerConfig(
    100, 100, n_encoder_layers=1, n_decoder_layers=1, d_model=32, n_heads=2, d_ff=64, max_length=256
)
WIDTHS = (16, 24, 32, 40, 48, 56, 64)
CEILING = "ceiling"


@dataclass(frozen=True)
class Update:
    """One way to make an update; `recorded` and `compile` are options of the course's recipe."""

    config: TransformerConfig = BASE
    tokens: int = 8192
    precision: str = "bf16"
    tf32: bool = False
    fused: bool = True  # attention as one kernel, which never holds its weights
    recorded: bool = False
    compile: str = "no"
    torchs: bool = False  # nn.Transformer in place of ours


BEST = Update(recorded=True, compile="layers")
UPDATES = {
    "nn.Transformer": Update(torchs=True),
    "compiled, recorded": BEST,
    "recorded": replace(BEST, compile="no"),
    "small: plain": Update(SMALL),
    "small: recorded": Update(SMALL, recorded=True),
    "ladder: float32": Update(tokens=1024, precision="fp32", fused=False),
    "ladder: TF32": Update(tokens=1024, precision="fp32", tf32=True, fused=False),
    "ladder: bfloat16": Update(tokens=1024, fused=False),
    "ladder: fused attention": Update(tokens=1024),
    "ladder: eight times the tokens": Update(),
    "ladder: layers compiled": Update(compile="layers"),
    "25,000: nn.Transformer": Update(tokens=25_000, torchs=True),
    "25,000: compiled, recorded": replace(BEST, tokens=25_000),
    "nn.Transformer, compiled": Update(torchs=True, compile="layers"),
    "25,000: nn.Transformer, compiled": Update(tokens=25_000, torchs=True, compile="layers"),
}
QUICKLY = ("training.epochs=8", "training.warmup=300", "model.dropout=0.15", "recipe.r_drop=0")
TRAININGS = {
    "Multi30k, 8 epochs": ("multi30k-de-en-gpu", QUICKLY),
    "Multi30k, 12 epochs": ("multi30k-de-en-gpu", (*QUICKLY, "training.epochs=12")),
    "Multi30k, as the preset": ("multi30k-de-en-gpu", ()),
}
SIZES = ("d_model=32", "d_ff=64", "n_heads=2", "n_encoder_layers=1", "n_decoder_layers=1")
QUICK_TRAINING = ("toy-de-en", (*(f"model.{size}" for size in SIZES), "training.epochs=1"))


def seconds(work: Any, device: torch.device) -> float:
    """Seconds that `work` takes, all that it has queued on a GPU included."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    started = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - started


def ceiling(device: torch.device, quick: bool) -> dict[str, Any]:
    """What the device can do at best: a large product, a large copy, many small kernels."""
    x = torch.randn(256 if quick else 8192, 256 if quick else 8192, device=device).bfloat16()
    source = torch.empty(2**20 if quick else 2**31, dtype=torch.uint8, device=device)
    target, small = torch.empty_like(source), torch.ones(8, device=device)

    def launch() -> None:
        for _ in range(2000):
            small.add_(1)

    def best(work: Any) -> float:
        return min(seconds(work, device) for _ in range(6))

    return {
        "matmul_tflops": round(2 * len(x) ** 3 / best(lambda: x @ x) / 1e12, 3),
        "copy_tb_per_second": round(2 * len(source) / best(lambda: target.copy_(source)) / 1e12, 3),
        "launch_us": round(best(launch) / 2000 * 1e6, 2),
    }


def sentences(config: TransformerConfig, tokens: int) -> list[Example]:
    """Pairs of random words for about two batches of each width; a third is three shorter."""
    generator = torch.Generator().manual_seed(0)
    examples = []
    for width in WIDTHS:
        for row in range(2 * (tokens // width)):
            length = width - 1 - 3 * (row % 3 == 0)  # EOS is one more
            ids = torch.randint(UNK + 1, config.source_vocab_size, (2, length), generator=generator)
            examples.append(make_example(*ids.tolist()))
    return examples


def torchs_loss(model: Any, batch: Any, settings: TrainingSettings) -> tuple[Any, Totals]:
    """The loss as users of nn.Transformer write it."""
    logits, labels = model(batch.source, batch.decoder_input), batch.labels
    loss = F.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=PAD,
        label_smoothing=settings.label_smoothing,
        reduction="sum",
    )
    count = (labels != PAD).sum().double()
    return loss, Totals(loss.detach().double(), loss.detach().double(), count * 0, count)


def make_trainer(how: Update, device: torch.device) -> Trainer:
    """The trainer of a row."""
    torch.set_float32_matmul_precision("high" if how.tf32 else "highest")
    torch.manual_seed(0)
    examples = sentences(how.config, how.tokens)
    settings = TrainingSettings(max_tokens=how.tokens, precision=how.precision)  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    model: Any = Transformer(how.config)
    if how.torchs:
        model = TorchTransformer(how.config)
        model.config = how.config
        if how.compile != "no":
            model.compile(dynamic=True)
        options["loss"] = torchs_loss
    else:
        course = CourseRecipe(recorded=how.recorded, compile=how.compile)  # type: ignore[arg-type]
        options["loss"] = RecipeLoss(course)
    if how.recorded:
        options |= {"loader": FewShapes, "update": RecordedUpdate()}
    recipe, quiet = Recipe(**options), {"processes": Processes(device), "report": lambda line: None}
    return Trainer(model, examples, examples[:8], settings, None, recipe, **quiet)


def measure(how: Update, device: torch.device) -> dict[str, Any]:
    """Speed, share of time that the GPU is busy, and peak memory of the updates of a row."""
    attention = nullcontext() if how.fused else sdpa_kernel(SDPBackend.MATH)
    with attention:
        trainer = make_trainer(how, device)
        trainer.model.train()
        loader = trainer.loader
        plan = loader.plan(seed=1)

        def updates() -> None:
            for numbers in plan:
                trainer.update(loader.load([numbers]), loader.labels([numbers]))

        prepared = seconds(updates, device)  # compiles and records
        took = min(seconds(updates, device) for _ in range(3))
        activities = [ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU]
        with profile(activities=activities) as profiler:
            profiled = seconds(updates, device)
    attribute = f"self_{'device' if device.type == 'cuda' else 'cpu'}_time_total"
    busy = sum(getattr(event, attribute) for event in profiler.key_averages()) / 1e6 / profiled
    batches = [loader.load([numbers])[0] for numbers in plan]
    flops = sum(
        training_flops(how.config, len(b.source), b.source.size(1), b.labels.size(1))
        for b in batches
    )
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    return {
        "target_tokens_per_second": round(loader.labels(plan) / took, 1),
        "ms_per_update": round(1000 * took / len(plan), 3),
        "tflops_per_second": round(flops / took / 1e12, 4),
        "busy": round(min(busy, 1.0), 3),
        "peak_mib": round(peak / 2**20, 1) or None,
        "preparing_seconds": round(prepared, 1),
    }


def train(preset: str, changes: tuple[str, ...], device: str) -> dict[str, Any]:
    """Seconds of training until each mark of validation BLEU, and those of everything."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "bleu.json"
        where = ["--out", f"{folder}/run", "--output", str(output)]
        sets = [f"--set={change}" for change in (*changes, f"training.device={device}")]
        time_to_bleu.main(["--preset", preset, *where, *sets])
        found = json.loads(output.read_text("utf-8"))
        test = evaluate(Translator.load(f"{folder}/run"))[0].scores
    points = found["points"]
    return {
        "test_bleu": round(test.bleu, 2),
        "signature": test.signature,
        "seconds_to_bleu": time_to_bleu.first_reached(points, time_to_bleu.MARKS),
        "epochs": [[p["epoch"], p["seconds"], p["bleu"]] for p in points],
        "seconds_of_all": round(time.monotonic() - started, 1),
    }


def run_row(name: str, device: torch.device, quick: bool) -> dict[str, Any]:
    """What one row measures."""
    if name == CEILING:
        return ceiling(device, quick)
    if name in TRAININGS:
        return train(*(QUICK_TRAINING if quick else TRAININGS[name]), device.type)
    how = UPDATES[name]
    if quick:
        how = replace(how, config=TINY, tokens=min(how.tokens, 512) // 2, compile="no")
    return measure(how, device)


def rows(options: Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row from a process of its own, within the minutes."""
    ends = time.monotonic() + 60 * options.minutes
    for name in options.rows:
        command = [sys.executable, __file__, "--device", options.device, "--row", name]
        left = ends - time.monotonic()
        try:
            done = subprocess.run(
                [*command, *["--quick"] * options.quick],
                capture_output=True,
                text=True,
                timeout=max(left, 0.1),
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield name, {"not_reached": f"within {options.minutes:g} minutes"}
            continue
        lines = done.stdout.splitlines() or [""]
        if done.returncode or not lines[-1].startswith("{"):
            error = (done.stderr.strip().splitlines() or ["no output"])[-1]
            yield name, {"failed": f"exit status {done.returncode}: {error}"}
        else:
            yield name, json.loads(lines[-1])


def read_options() -> Namespace:
    """The command line."""
    made, names = parser(__doc__), [CEILING, *UPDATES, *TRAININGS]
    made.add_argument("--device", default="cuda")
    made.add_argument("--minutes", type=float, default=8.0)
    made.add_argument("--quick", action="store_true", help="tiny models; no file unless --output")
    made.add_argument("--rows", nargs="+", choices=names, default=names, metavar="NAME")
    made.add_argument("--row", choices=names, help="measure one row here and print it as JSON")
    made.add_argument("--output", type=Path, help="default: the record that notebook 12 shows")
    return made.parse_args()


def main() -> int:
    options = read_options()
    try:
        device = choose_device(options.device)
    except ValueError as error:
        hint = "to see that it works: benchmarks/gpu.py --device cpu --quick"
        print(f"{error}\nThis benchmark needs a GPU; {hint}", file=sys.stderr)
        return 1
    if options.row:
        print(json.dumps(run_row(options.row, device, options.quick)))
        return 0
    output = options.output or (None if options.quick else SHIPPED / "gpu_updates.json")
    result: dict[str, Any] = {
        "command": f"python benchmarks/{command_line()}",
        "machine": describe_machine(device),
        "rows": {},
    }
    for name, row in rows(options):
        ceiling_tflops = result["rows"].get(CEILING, {}).get("matmul_tflops")
        if ceiling_tflops and "tflops_per_second" in row:
            row["mfu"] = round(row["tflops_per_second"] / ceiling_tflops, 3)
        print(name, row, flush=True)
        result["rows"][name] = row
        if output:  # at once: a process that is ended later takes nothing with it
            write_result(output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
