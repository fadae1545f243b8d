"""Run all notebooks as on four processors, on this one, and compare their outputs.

    python tools/processors.py                      all notebooks on all four  (make processors)
    python tools/processors.py --only AVX2 02.ipynb   some notebooks on one of them

Each processor adds in another order, so its results differ in the last digits, and what training
makes of them in the second.  A line tells how each run ended; the status is 1 where one is red.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from execute import ENVIRONMENT, NOTEBOOKS

ROOT = NOTEBOOKS.parent
# What torch's own kernels, oneDNN and MKL may use of this processor, by the name of the emulated.
PROCESSORS: dict[str, dict[str, str]] = {
    "as it is": {},
    "SSE4.1": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "AVX2",
    },
    "bfloat16 off": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},  # AVX-512 without BF16 and AMX
}
LIMITS = {name for variables in PROCESSORS.values() for name in variables}


def has_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16, which could be switched off."""
    import torch  # only here: it takes two seconds

    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def run_notebooks(processor: str, paths: Sequence[Path], jobs: str) -> tuple[bool, str]:
    """Whether all cells are green on a processor, and what pytest printed."""
    environment = {name: text for name, text in os.environ.items() if name not in LIMITS}
    environment |= ENVIRONMENT | PROCESSORS[processor]
    options = ["--nbval", "-q", "--color=no", "-c", str(ROOT / "pyproject.toml"), "-n", jobs]
    options += ["-m", ""]  # also the deeper notebooks
    command = [sys.executable, "-m", "pytest", *options, *map(str, paths)]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", errors="replace"
    )
    return result.returncode == 0, (result.stdout + result.stderr).strip()


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks named on each processor; 1 where a cell of one is red."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all of notebooks/")
    add("--only", choices=PROCESSORS, action="append", help="this processor (may be repeated)")
    add("--jobs", default="auto", help="processes that share the notebooks; default: one a core")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or [NOTEBOOKS]
    all_green = True
    for processor in options.only or PROCESSORS:
        if processor == "bfloat16 off" and not has_bfloat16():
            print(f"{processor}: nothing to switch off, this processor has no bfloat16", flush=True)
            continue
        green, report = run_notebooks(processor, paths, options.jobs)
        if not green:
            print(report)
        verdict = "green" if green else "RED"
        print(f"{processor}: {verdict}, {report.splitlines()[-1].strip('= ')}", flush=True)
        all_green = all_green and green
    return 0 if all_green else 1


if __name__ == "__main__":
    sys.exit(main())
