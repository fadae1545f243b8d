"""How long `make test` takes, for README: results/make-test.json.

    python benchmarks/make_test.py     # on a machine with nothing else to do

It records minutes only where all tests pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from shared import RESULTS, parser, write_result

from nmtcourse.provenance import command_line, describe_machine

RESULT = RESULTS / "make-test.json"
ROOT = RESULTS.parents[1]


def main() -> int:
    """Run the command, and record its minutes; returns its exit status."""
    parser(__doc__).parse_args()
    began = time.monotonic()
    status = subprocess.run(["make", "test"], cwd=ROOT).returncode
    minutes = (time.monotonic() - began) / 60
    if status:
        print("not recorded: make test has failed", file=sys.stderr)
        return status
    facts = {"minutes": max(1, round(minutes)), "cores": len(os.sched_getaffinity(0))}
    write_result(RESULT, {"command": command_line(), **facts, "machine": describe_machine()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
