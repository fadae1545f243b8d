"""Do the checks find faults in models by people who have not seen them?  Run them on a folder.

    python benchmarks/strangers.py FOLDER RAW --label "round 2, before" [--adapters FOLDER]

FOLDER/MANIFEST.json lists strangers, each with a healthy variant and faulty ones whose fault, cause
and repair were written down and proved before any run.  Each variant is checked as
`nmtcheck FILE:FACTORY --json` does; with --adapters, through STRANGER.py of that folder, copied
next to the file, which finds the name of the variant's module in STRANGER_MODULE.  A variant whose
factory needs only definitions that equal the healthy ones is not run without an adapter: the checks
would read the same model.  RAW keeps the reports, and what it holds is not run again.  Whether a
first finding names the planted part, and whether a proved cause is the planted one, is judged by a
reader in results/strangers-judged.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nmtcheck.checks import every  # noqa: F401 (before the processes are forked)
from nmtcheck.command import main as command
from nmtcheck.connect.lifting import Definitions, bound, statements

RESULTS = Path(__file__).parent / "results" / "strangers.json"
JUDGED = RESULTS.with_name("strangers-judged.json")
# Faults of these parts show in a model alone; the others need a loop, a search or a metric.
REACHED = "embedding position attention mask feed-forward norm output".split()
PLANTED = "part fault cause repair".split()
LIMIT = 120  # seconds of computing of one process
# With an adapter: subjects that need more than the model, for faults outside of it.
BROAD = "training validation data loss schedule decoding beam metrics".split()


class Variant(NamedTuple):
    """A model of the folder; a healthy one has no fault."""

    stranger: str
    name: str
    file: Path
    factory: str
    fault: dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.stranger}/{self.name}"


def variants(folder: Path) -> list[Variant]:
    """All models of a folder, healthy ones first."""
    told = json.loads((folder / "MANIFEST.json").read_text("utf-8"))
    healthy = [(name, "healthy", one["healthy"], {}) for name, one in told["strangers"].items()]
    faulty = [(one["stranger"], one["variant"], one, one) for one in told["faults"]]
    return [
        Variant(stranger, name, folder / at["file"], at["factory"], fault)
        for stranger, name, at, fault in [*healthy, *faulty]
    ]


def model_code(variant: Variant) -> list[str]:
    """The definitions that a factory needs."""
    body = statements(variant.file)
    needed = Definitions(variant.file, body).needed([variant.factory], [*map(bound, body)], set())
    return [ast.dump(body[number]) for number in sorted(needed)]


def check(variant: Variant, out: Path, adapters: Path | None) -> None:
    """Check a variant in a process of its own; `out` gets the report, or the exit status."""
    file, factory, options = variant.file, variant.factory, list[str]()
    if adapters:
        place = out.with_suffix("")
        shutil.copytree(file.parent, place, dirs_exist_ok=True)
        file = Path(shutil.copy(adapters / f"{variant.stranger}.py", place / "adapter.py"))
        far = variant.fault and variant.fault["part"] not in REACHED
        factory, options = "make", [x for name in BROAD for x in ("--only", name)] if far else []
    begun, child = time.time(), os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        os.chdir(file.parent)
        os.environ["STRANGER_MODULE"] = variant.file.stem
        with out.with_suffix(".txt").open("w") as said:
            os.dup2(said.fileno(), 1), os.dup2(said.fileno(), 2)
            status = 3
            try:
                status = command([f"{file.name}:{factory}", "--json", str(out), *options])
            finally:
                sys.stdout.flush()
                os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    meta = {"rc": status, "wall": round(time.time() - begun, 1)}
    out.with_suffix(".meta").write_text(json.dumps(meta), "utf-8")


def row(variant: Variant, ran: Variant, raw: Path) -> dict[str, Any]:
    """What the checks say of a variant, or of the one that `ran` in its place."""
    out = raw / f"{ran.stranger}-{ran.name}.json"
    planted = {f"planted_{k}": variant.fault[k] for k in PLANTED if variant.fault}
    told = {"variant": variant.key, **planted} | ({"not_run": True} if ran != variant else {})
    told["status"] = json.loads(out.with_suffix(".meta").read_text("utf-8"))["rc"]
    report = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    keys = ("check", "verdict", "measured", "cause", "fits", "follow")
    told["findings"] = [{k: f[k] for k in keys if f.get(k)} for f in report.get("findings", [])]
    told["passed"] = sum(r["verdict"] == "passed" for r in report.get("results", []))
    return told | {"taken_to_be": report.get("taken_to_be", [])}


def counted(rows: list[dict[str, Any]], judged: dict[str, str]) -> dict[str, Any]:
    """Counts.  A fault is detected if a check fails that passes the healthy variant.

    `judged` has for a variant words of a reader: 'first' if the first finding is in the planted
    part, and 'right' or 'wrong' if it proves a cause; for a healthy one 'true' if its author
    agrees with all findings.
    """
    healthy = {r["variant"].split("/")[0]: r for r in rows if "planted_part" not in r}
    faulty = [r for r in rows if "planted_part" in r]

    def new(each: dict[str, Any]) -> bool:
        known = {f["check"] for f in healthy[each["variant"].split("/")[0]]["findings"]}
        return any(f["check"] not in known for f in each["findings"])

    found = [r["variant"] for r in faulty if new(r)]
    near = [r["variant"] for r in faulty if r["planted_part"] in REACHED]
    words = [judged.get(name, "").split() for name in found]
    true = {name.partition("/")[0] for name, said in judged.items() if said == "true"}
    alarms = [name for name, r in healthy.items() if r["findings"] and name not in true]
    ran = [n for n, r in healthy.items() if r["status"] == 0 and r["passed"] > 3]
    return {
        "healthy": len(healthy),
        "alarms": alarms,
        "healthy_passed": len(ran),
        "status": dict(Counter(r["status"] for r in rows)),
        "faults": len(faulty),
        "detected": len(found),
        "in_the_model": len(near),
        "detected_in_the_model": len([name for name in near if name in found]),
        "first_is_the_part": sum("first" in each for each in words),
        "causes_claimed": sum(bool({"right", "wrong"} & {*each}) for each in words),
        "causes_right": sum("right" in each for each in words),
        "missed": sorted({r["variant"] for r in faulty} - {*found}),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--adapters", type=Path)
    parser.add_argument("--only", nargs="+", help="variants such as 01_single_file/v01, or parts")
    parser.add_argument("--label", default="after")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    options = parser.parse_args()
    every_one, raw = variants(options.folder.resolve()), options.raw.resolve()
    raw.mkdir(parents=True, exist_ok=True)
    if options.only:
        faulty = [v for v in every_one if v.fault and {v.key, v.fault["part"]} & {*options.only}]
        named = {v.stranger for v in faulty if v.key in options.only}  # of these alone, if any
        sound = [v for v in every_one if not v.fault and (v.stranger in named or not named)]
        every_one = [*sound, *faulty]
    healthy = {v.stranger: v for v in every_one if not v.fault}
    torch.set_num_threads(1)
    rows = list[dict[str, Any]]()
    for one in every_one:
        same = one.fault and not options.adapters
        same = same and model_code(one) == model_code(healthy[one.stranger])
        if not (raw / f"{one.stranger}-{one.name}.meta").exists() and not same:
            out = raw / f"{one.stranger}-{one.name}.json"
            check(one, out, options.adapters and options.adapters.resolve())
        rows.append(row(one, healthy[one.stranger] if same else one, raw))
    judged = json.loads(JUDGED.read_text("utf-8")).get(options.label, {})
    about = {
        "date": options.date,
        "faults_of": options.only or "all",
        "counts": counted(rows, judged),
    }
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    kept |= {options.label: about | {"reports": rows}}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(json.dumps(about["counts"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
