"""Do the checks find faults in the search and the evaluation of six translation programs?

    python benchmarks/check_programs.py RAW --label after [--half 1] [--only NAME]

`programs/FAULTS.toml` lists the programs and the faults that are planted in them, one at a time.
Each variant is copied to RAW and checked as `nmtcheck adapter.py:make --json` does, and each
healthy program once more from its class alone.  A fault is found if a check fails that passes on
the healthy program.  Half 2 was not run while the checks were written.  Causes are judged by a
reader.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import torch

from nmtcheck.checks import every  # noqa: F401 (before the processes are forked)
from nmtcheck.command import main as command

PROGRAMS = Path(__file__).parent / "programs"
# Of a planted program the checks of its model are left out, which are those of the healthy one, and
# the checks of its training where nothing of it is planted.
SUBJECTS = "search evaluation decoding beam validation metrics".split()
RESULTS = Path(__file__).parent / "results" / "programs.json"


def plant(fault: dict[str, Any], folder: Path) -> None:
    """Replace the text of a fault in a copy of its program; ValueError if it is not there once."""
    path = folder / fault["file"]
    text = path.read_text("utf-8")
    for old, new in (("old", "new"), ("old2", "new2")):
        if old in fault:
            if text.count(fault[old]) != 1:
                name, count = fault["name"], text.count(fault[old])
                raise ValueError(f"{name}: {fault[old]!r} occurs {count} times")
            text = text.replace(fault[old], fault[new])
    path.write_text(text, "utf-8")


def run_apart(arguments: list[str], folder: Path, text: Path) -> None:
    """Run the command in a copy of this process, which has loaded torch, within a folder."""
    begun, child = time.time(), os.fork()
    if not child:
        os.chdir(folder)
        sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
        status = 3
        with text.open("w", encoding="utf-8") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            try:
                status = command(arguments)
            finally:
                sys.stdout.flush()
                os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with text.open("a", encoding="utf-8") as printed:
        printed.write(f"\nstatus {status}, {time.time() - begun:.0f} s\n")


def check(name: str, program: str, where: str, fault: dict[str, Any], raw: Path) -> dict[str, Any]:
    """Check one variant in a process of its own, and return what the report says."""
    folder, out = raw / name, raw / f"{name}.json"
    if not out.with_suffix(".txt").exists():
        shutil.copytree(PROGRAMS / program, folder, dirs_exist_ok=True)
        if fault:
            plant(fault, folder)
        arguments = [where, "--json", str(out)]
        if fault:
            for subject in SUBJECTS:
                arguments += ["--only", subject]
            arguments += ["--only", "run"] * ("trains" in fault)
        run_apart(arguments, folder, out.with_suffix(".txt"))
    report = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    keys = ("check", "measured", "cause", "fits")
    findings = [{key: f[key] for key in keys if f.get(key)} for f in report.get("findings", [])]
    bad = ("failed", "error", "timeout")
    failed = sorted(r["check"] for r in report.get("results", []) if r["verdict"] in bad)
    last = out.with_suffix(".txt").read_text("utf-8").strip().splitlines()[-1]
    passed = sum(r["verdict"] == "passed" for r in report.get("results", []))
    return {"name": name, "findings": findings, "failed": failed, "passed": passed, "end": last}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path)
    parser.add_argument("--label", required=True)
    parser.add_argument("--half", type=int, choices=(1, 2))
    parser.add_argument("--only", nargs="+", default=(), help="programs, or names of faults")
    options = parser.parse_args()
    raw = options.raw.resolve()
    raw.mkdir(parents=True, exist_ok=True)
    listed = tomllib.loads((PROGRAMS / "FAULTS.toml").read_text("utf-8"))
    chosen = {n for n, p in listed["programs"].items() if options.half in (None, p["half"])}
    jobs = list[tuple[str, str, str, dict[str, Any], Path]]()
    for name in sorted(chosen):
        jobs.append((f"{name}-healthy", name, "adapter.py:make", {}, raw))
        jobs.append((f"{name}-alone", name, listed["programs"][name]["class"], {}, raw))
    for fault in listed["fault"]:
        if fault["program"] in chosen:
            jobs.append((fault["name"], fault["program"], "adapter.py:make", fault, raw))
    if options.only:
        jobs = [job for job in jobs if {job[0], job[1]} & {*options.only}]
    torch.set_num_threads(1)
    rows = [check(*job) for job in jobs]
    healthy = {row["name"]: row["failed"] for row in rows if row["name"].endswith("-healthy")}
    for row, (_, program, _, fault, _) in zip(rows, jobs, strict=True):
        if fault:
            known = healthy.get(f"{program}-healthy", [])
            row |= {key: fault[key] for key in ("program", "part", "fault")}
            row["new"] = [name for name in row["failed"] if name not in known]
        print(row["name"], row.get("new", row["failed"]), row["end"], sep="  ")
        for finding in row["findings"]:
            if finding["check"] in row.get("new", row["failed"]):
                print("    ", finding.get("cause", "fits: " + finding.get("fits", "-")))
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    old = {row["name"]: row for row in kept.get(options.label, [])}
    kept[options.label] = [*(old | {row["name"]: row for row in rows}).values()]
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
