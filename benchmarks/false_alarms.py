"""Do the behaviour checks blame a healthy model?  Run them on several, with many seeds.

    python benchmarks/false_alarms.py [--seeds 20] [--only NAME …]

Those of packages that are not installed are left out by name.  Writes results/false-alarms.json, in
which the implementations of this run replace those of the same name; exit status 1 where a check
raised an alarm.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peer_marian import marian
from peer_time_major import time_major
from peer_torch import torch_transformer

from nmtcheck import Adapter, ours, run_checks
from nmtcheck.report.report import NO_PART
from nmtcourse.provenance import describe_machine

RESULTS = Path(__file__).parent / "results" / "false-alarms.json"
IMPLEMENTATIONS: dict[str, Callable[[], Adapter]] = {
    "nmtlib, pre-norm": lambda: ours(),
    "nmtlib, post-norm, learned positions": lambda: ours(norm="post", positions="learned"),
    "torch.nn.Transformer, pre-norm": lambda: torch_transformer(pre_norm=True),
    "torch.nn.Transformer, post-norm": lambda: torch_transformer(pre_norm=False),
    "MarianMTModel": marian,
    "time-major, fused projections, lengths for masks": time_major,
}
TIME_LIMIT = 200.0  # seconds for one check: a busy machine is no alarm
PACKAGES = {"MarianMTModel": "transformers"}


def judge(name: str, seeds: int) -> dict[str, Any]:
    """What the checks say of one implementation, with that many seeds."""
    started = sum(os.times()[:4])  # its own time and that of its children
    make = IMPLEMENTATIONS[name]
    reports = [run_checks(make(), seed=seed, time_limit=TIME_LIMIT) for seed in range(seeds)]
    seconds = (sum(os.times()[:4]) - started) / seeds
    return {
        "seeds": seeds,
        "alarms": [
            f"seed {seed}: {result.check.id}: {result.measured}"
            for seed, report in enumerate(reports)
            for result in report.failed
        ],
        "passed": min(len(report.passed) for report in reports),
        "undecided": max(
            sum(not result.measured.startswith(NO_PART) for result in report.skipped)
            for report in reports
        ),
        "seconds_a_run": round(seconds, 2),  # of processor time, on one thread
    }


def keep(name: str, judged: dict[str, Any]) -> None:
    """Put one implementation's results among the others in the file."""
    found = json.loads(RESULTS.read_text("utf-8"))["implementations"] if RESULTS.is_file() else {}
    found[name] = judged
    result = {
        "command": "python benchmarks/false_alarms.py",
        "implementations": found,
        "machine": describe_machine(),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--only", nargs="+", choices=list(IMPLEMENTATIONS), default=list(IMPLEMENTATIONS)
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    alarms = 0
    for name in options.only:
        package = PACKAGES.get(name)
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: not run, the package {package} is not installed")
            continue
        judged = judge(name, options.seeds)
        alarms += len(judged["alarms"])
        runs = f"{options.seeds} runs of {judged['seconds_a_run']} s"
        print(
            "\n    ".join([f"{name}: {len(judged['alarms'])} alarms in {runs}", *judged["alarms"]])
        )
        keep(name, judged)
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
