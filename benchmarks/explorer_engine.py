"""Compare the explorer's engine with PyTorch in every test, and note the sources of that day.

    python benchmarks/explorer_engine.py      # a few minutes; needs node

Writes results/explorer-engine.json.  While the sources are those, a commit runs some of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from digests import digest_of
from shared import RESULTS, parser, write_result

ROOT = Path(__file__).resolve().parents[1]
RESULT = RESULTS / "explorer-engine.json"
TESTS = "tests/explorer/test_engine.py"
SOURCES = (
    "nmtcourse/explorer/**/*.py",
    "nmtcourse/explorer/web/**/*.js",
    "nmtlib/model/*.py",
    "nmtlib/inference/*.py",
    "tests/explorer/conftest.py",
    "tests/explorer/engine.mjs",
    TESTS,
)


def source_digest(root: Path = ROOT) -> str:
    """SHA-256 of the engine, of what it imitates, and of the tests that compare both."""
    return digest_of(root, *SOURCES)


def is_recorded() -> bool:
    """Whether all tests passed with the sources of today."""
    return json.loads(RESULT.read_text("utf-8"))["sources"] == source_digest()


def main() -> int:
    parser(__doc__).parse_args()
    digest, command = source_digest(), [sys.executable, "-m", "pytest", "-q", TESTS]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "NMTLIB_ALL": "1"})
    if done.returncode == 0:
        command = "python benchmarks/explorer_engine.py"
        write_result(RESULT, {"command": command, "sources": digest})
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
