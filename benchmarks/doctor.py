"""How long the doctor takes for a million pairs, in how much memory, and what a repair is worth.

Writes benchmarks/results/doctor.json.  The pairs are those of the toy grammar again and again, each
with a number of its own, so that no two are equal.

    python benchmarks/doctor.py            # a million pairs
    python benchmarks/doctor.py 20000 x.json
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nmtcourse.provenance import command_line, describe_machine
from nmtlib.data.corpora import load_corpus

RESULT = Path(__file__).parent / "results" / "doctor.json"
PAIRS = 1_000_000


def write(folder: Path, pairs: int) -> list[Path]:
    """Two text files of so many pairs."""
    files = [folder / "all.de", folder / "all.en"]
    train = load_corpus("toy-de-en").train
    with (
        open(files[0], "w", encoding="utf-8") as source,
        open(files[1], "w", encoding="utf-8") as to,
    ):
        for number in range(pairs):
            pair = train[number % len(train)]
            source.write(f"{number} {pair.source}\n")
            to.write(f"{number} {pair.target}\n")
    return files


def measure(pairs: int) -> dict:
    """Seconds and peak memory of the whole command, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        files = write(Path(name), pairs)
        code = (
            "import resource, sys, time; from nmtcourse.main import main; t = time.perf_counter(); "
            "c = time.process_time(); status = main(sys.argv[1:]); "
            "print(status, time.perf_counter() - t, time.process_time() - c, "
            "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        command = [sys.executable, "-c", code, "data", "check", *map(str, files)]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        status, seconds, processor, peak = done.stdout.splitlines()[-1].split()
        return {
            "pairs": pairs,
            "megabytes": round(sum(file.stat().st_size for file in files) / 1e6, 1),
            "status": int(status),
            "seconds": round(float(seconds), 1),
            "processor_seconds": round(float(processor), 1),
            "seconds_with_start": round(time.perf_counter() - started, 1),
            "peak_megabytes": round(int(peak) / 1024),
        }


def main() -> None:
    """Measure a tenth and all of the pairs, and write the result."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else RESULT
    rows = [measure(count) for count in (pairs // 10, pairs)]
    result = {"command": command_line(), "rows": rows, "machine": describe_machine()}
    place.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
