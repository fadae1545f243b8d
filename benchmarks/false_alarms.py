"""Do the behaviour checks blame a healthy model?  Run them on several, with many seeds.

    python benchmarks/false_alarms.py [--seeds 20] [--only NAME …]

Marian needs the package transformers and is left out without it.  Writes results/false-alarms.json,
in which the implementations of this run replace those of the same name; exit status 1 where a check
raised an alarm.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from nmtlib.checks import ours, run_checks
from nmtlib.checks.foreign import torch_transformer
from nmtlib.checks.marian import marian
from nmtlib.machine import describe_machine

RESULTS = Path(__file__).parent / "results" / "false-alarms.json"
IMPLEMENTATIONS = {
    "nmtlib, pre-norm": lambda: ours(),
    "nmtlib, post-norm, learned positions": lambda: ours(norm="post", positions="learned"),
    "torch.nn.Transformer, pre-norm": lambda: torch_transformer(pre_norm=True),
    "torch.nn.Transformer, post-norm": lambda: torch_transformer(pre_norm=False),
    "MarianMTModel": marian,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--only", nargs="+", choices=list(IMPLEMENTATIONS), default=list(IMPLEMENTATIONS)
    )
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text("utf-8"))["implementations"] if RESULTS.is_file() else {}
    alarms = 0
    for name in options.only:
        if name == "MarianMTModel" and importlib.util.find_spec("transformers") is None:
            print(f"{name}: not run, the package transformers is not installed")
            continue
        reports = [run_checks(IMPLEMENTATIONS[name](), seed=seed) for seed in range(options.seeds)]
        failed = [
            f"seed {seed}: {r.check.id}: {r.measured}"
            for seed, report in enumerate(reports)
            for r in report.failed
        ]
        alarms += len(failed)
        found[name] = {
            "seeds": options.seeds,
            "alarms": failed,
            "passed": min(len(report.passed) for report in reports),
            "skipped": max(len(report.skipped) for report in reports),
            "seconds_a_run": round(sum(report.seconds for report in reports) / options.seeds, 2),
        }
        runs = f"{options.seeds} runs of {found[name]['seconds_a_run']} s"
        print(f"{name}: {len(failed)} alarms in {runs}", flush=True)
    result = {
        "command": "python benchmarks/false_alarms.py",
        "implementations": found,
        "machine": describe_machine(),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
