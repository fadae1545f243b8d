"""Do the checks find faults in models by people who have not seen them?  Run them on a folder.

    python benchmarks/strangers.py FOLDER [--parts mask attention …] [--out FILE] [--label after]

FOLDER holds MANIFEST.json, a list of {stranger, variant, file, factory, fault, part, cause, …} that
was written before any run; a variant without a fault is healthy.  Each is checked without an
adapter, as `nmtlib check FILE:FACTORY` does.  A fault counts as detected if a finding is reported
that the healthy variant of the same stranger does not have; that is also how alarms are counted.
The result goes under `label` into FILE, results/strangers.json by default.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from nmtcheck import load_adapter, run_checks

RESULTS = Path(__file__).parent / "results" / "strangers.json"
# Faults of these parts show in a model alone; the others need a loop, a search or a metric.
REACHED = "embedding position attention mask feed-forward norm output".split()


def report(task: tuple[Path, dict[str, Any], list[str] | None]) -> dict[str, Any]:
    """What the checks say of one variant: exit status and findings; in a process of its own."""
    folder, entry, only = task
    file = folder / entry["file"]
    os.chdir(file.parent)
    sys.path[:0] = [str(file.parent), str(file.parent.parent)]  # as its README would have it
    told = {k: entry[k] for k in ("stranger", "variant", "part", "fault", "cause")}
    told["planted"] = told.pop("cause")
    try:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            adapter = load_adapter(f"{file.name}:{entry['factory']}")
        data = run_checks(adapter, only=only, time_limit=60.0).to_dict()
    except Exception as error:  # it is somebody else's code
        return told | {"status": 2, "findings": [], "said": str(error)[:300]}
    keys = ("title", "check", "measured", "cause", "possible_causes")
    findings = [{k: f[k] for k in keys if k in f} for f in data["findings"]]
    passed = sum(r["verdict"] == "passed" for r in data["results"])
    status = data.get("status", int(bool(findings)))
    taken = data.get("taken_to_be", data.get("ids"))
    return told | {"status": status, "taken": taken, "passed": passed, "findings": findings}


def judged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts: detected faults, proved causes, and alarms on healthy variants."""
    healthy = {
        r["stranger"]: {f["check"] for f in r["findings"]} for r in reports if not r["fault"]
    }
    faulty = [r for r in reports if r["fault"]]
    found = {
        f"{r['stranger']}/{r['variant']}": [
            f for f in r["findings"] if f["check"] not in healthy.get(r["stranger"], set())
        ]
        for r in faulty
    }
    ran = [r for r in reports if not r["fault"] and r["status"] in (0, 1) and r["passed"] > 3]
    return {
        "strangers": len(healthy),
        "strangers_that_ran_without_an_adapter": len(ran),
        "healthy_with_alarms": sorted(name for name, checks in healthy.items() if checks),
        "faults": len(faulty),
        "detected": sum(map(bool, found.values())),
        "with_a_proved_cause_first": sum(bool(f and f[0].get("cause")) for f in found.values()),
        "missed": sorted(name for name, findings in found.items() if not findings),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", nargs="+", default=REACHED)
    parser.add_argument("--label", default="after")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", help="checks or subjects (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    folder = options.folder.resolve()
    every = json.loads((folder / "MANIFEST.json").read_text("utf-8"))
    entries = [e for e in every if not e["fault"] or e["part"] in options.parts]
    tasks = [(folder, e, options.only) for e in sorted(entries, key=lambda e: bool(e["fault"]))]
    reports: list[dict[str, Any]] = []
    torch.set_num_threads(1)
    with get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        for each in pool.imap_unordered(report, tasks):
            reports.append(each)
            ordered = sorted(reports, key=lambda r: (r["stranger"], r["variant"] != "healthy"))
            about = {"command": "python benchmarks/strangers.py FOLDER", "parts": options.parts}
            about |= {"only": options.only, "counts": judged(reports), "reports": ordered}
            kept = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else {}
            text = json.dumps(kept | {options.label: about}, indent=1, ensure_ascii=False)
            options.out.write_text(text + "\n", "utf-8")
    print(json.dumps(judged(reports), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
