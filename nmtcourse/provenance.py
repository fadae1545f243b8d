"""What a score or a timing depends on: the command, the machine, and how the run was trained."""

from __future__ import annotations

import math
import platform
import re
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from nmtlib.run import Run, command_line
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import read_history

PACKAGES = ("nmtlib", "torch", "tokenizers", "sacrebleu", "nltk")


def circumstances(run: Run, device: torch.device) -> dict[str, Any]:
    """What is written beside the scores of a run that are computed now on a device."""
    summary = training_summary(run.folder)
    return {"command": command_line(), "machine": describe_machine(device), "training": summary}


def describe_machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Device, processor, threads and library versions: what a timing depends on."""
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": processor_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def processor_name() -> str:
    """The name of the processor where Linux tells it, otherwise its kind."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.*)", info.read_text("utf-8") if info.is_file() else "")
    return name[1] if name else platform.machine()


def training_summary(folder: str | Path) -> dict[str, Any]:
    """How a run was trained: command, seed, epochs, minutes, speed, and which weights it kept."""
    run = Run(folder)
    history = read_history(run.history_file)
    saved = read_checkpoint(run.weights_file())
    about, nll = saved.described(), saved.header.validation_nll
    return {
        "command": about.command,
        "seed": about.settings.training.seed,
        "epochs": len(history),
        "updates": history[-1].updates,
        "minutes": round(history[-1].seconds / 60, 2),
        "tokens_per_second": round(statistics.median(r.tokens_per_second for r in history)),
        "weights": saved.header.weights,
        "validation_perplexity": None if nll is None else round(math.exp(nll), 3),
    }
