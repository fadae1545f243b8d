"""Do the checks find faults in programs by people who have not seen them?  Run them on a folder.

    python benchmarks/strangers.py FOLDER RAW [--only PROGRAM ...]

FOLDER/FAULTS.toml lists programs and faults, as that of `benchmarks/programs` does; each was shown
to be real before any check was run.  Every program is checked as its authors left it, with its
adapter and from its class alone; then with each fault planted alone, the faults of the model also
from the class alone; then with all of its faults at once.  RAW keeps the reports, and what it holds
is not run again.  The rows are printed for a reader, who judges each finding against the list;
`results/strangers-round6.json` has what he said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import torch
from check_programs import plant

from nmtcheck.checks import every  # noqa: F401 (before the processes are forked)
from nmtcheck.command import main as command

LIMIT = 300  # seconds of computing of one process
Job = tuple[str, str, str, list[dict[str, Any]]]  # its name, the program, what is checked, faults


def list_jobs(listed: dict[str, Any]) -> list[Job]:
    """What is checked, of each program the healthy one first."""
    jobs = list[Job]()
    for program, about in listed["programs"].items():
        faults = [fault for fault in listed["fault"] if fault["program"] == program]
        jobs.append((f"{program}.healthy", program, "adapter.py:make", []))
        jobs.append((f"{program}.healthy.alone", program, about["class"], []))
        for fault in faults:
            jobs.append((fault["name"], program, "adapter.py:make", [fault]))
            if fault["part"] == "model":
                jobs.append((f"{fault['name']}.alone", program, about["class"], [fault]))
        jobs.append((f"{program}.all", program, "adapter.py:make", faults))
    return jobs


def check(folder: Path, raw: Path, job: Job) -> None:
    """Check one variant in a process of its own; RAW/NAME.json and .txt keep what it says."""
    name, program, where, faults = job
    place, out = raw / name, raw / f"{name}.json"
    shutil.copytree(folder / program, place, dirs_exist_ok=True)
    for fault in faults:
        plant(fault, place)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        os.chdir(place)
        sys.path[:] = [p for p in sys.path if p != str(Path(__file__).parent)]
        status = 3
        with out.with_suffix(".txt").open("w", encoding="utf-8") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            try:
                status = command([where, "--json", str(out)])
            finally:
                sys.stdout.flush()
                os._exit(status)
    begun = time.monotonic()
    _, state, used = os.wait4(child, 0)
    about = {
        "status": os.waitstatus_to_exitcode(state),
        "wall": round(time.monotonic() - begun, 1),
        "cpu": round(used.ru_utime + used.ru_stime, 1),
    }
    (raw / f"{name}.meta").write_text(json.dumps(about), "utf-8")


def describe(raw: Path, job: Job) -> str:
    """What the checks say of a variant that they do not say of the healthy program."""
    name, program, _, faults = job
    healthy = f"{program}.healthy" + ".alone" * name.endswith(".alone")
    known = {f["check"] for f in findings(raw, healthy)} if faults else set[str]()
    about = json.loads((raw / f"{name}.meta").read_text("utf-8"))
    lines = [f"== {name}: status {about['status']}, {about['cpu']} s of computing"]
    lines += [f"   planted in {f['part']}: {f['fault']}; {f['cause']}" for f in faults]
    for finding in findings(raw, name):
        if finding["check"] not in known:
            lines.append(f"   - {finding['check']}: {finding.get('measured', '')}")
            kind = "cause" if "cause" in finding else "fits"
            lines.append(f"     {kind}: {finding.get(kind, '-')}")
            lines += [f"     follow: {', '.join(finding['follow'])}"] * bool(finding.get("follow"))
    if not faults:
        lines += (raw / f"{name}.txt").read_text("utf-8").splitlines()[:6]
    return "\n".join(lines)


def findings(raw: Path, name: str) -> list[dict[str, Any]]:
    """The findings of a report; empty where there is none."""
    file = raw / f"{name}.json"
    return json.loads(file.read_text("utf-8")).get("findings", []) if file.is_file() else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--only", nargs="+", help="programs, or names of variants")
    options = parser.parse_args()
    folder, raw = options.folder.resolve(), options.raw.resolve()
    raw.mkdir(parents=True, exist_ok=True)
    jobs = list_jobs(tomllib.loads((folder / "FAULTS.toml").read_text("utf-8")))
    if options.only:
        jobs = [job for job in jobs if {job[0], job[1]} & {*options.only}]
    torch.set_num_threads(1)
    for job in jobs:
        if not (raw / f"{job[0]}.meta").exists():
            check(folder, raw, job)
        print(describe(raw, job), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
