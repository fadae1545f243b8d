"""What a training step allocates, starts and multiplies: the instruments of notebook 12.

Counts and bytes come from torch's profiler and dispatcher and are the same in each run; seconds
are those of this machine at this moment.
"""

from __future__ import annotations

import cProfile
import json
import math
import os
import pstats
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from nmtcourse.teaching.show import ROOT

RECORDED = Path(__file__).parent / "recorded" / "benchmarks"
Work = Callable[[], object]
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


@dataclass(frozen=True)
class Timeline:
    """Bytes of tensors after each time that memory was taken or given back, beyond the start.

    `marks` says at which of these changes each `record_function` block began.
    """

    levels: list[int]
    marks: dict[str, int]

    @property
    def peak(self) -> int:
        """The most bytes there were."""
        return max(self.levels, default=0)

    def phase_of_peak(self) -> str:
        """The block in which the most memory was in use.  Raises ValueError without blocks."""
        if not self.marks:
            raise ValueError("no record_function block ran, so the peak belongs to none")
        index = self.levels.index(self.peak)
        return max((start, name) for name, start in self.marks.items() if start <= index)[1]


def timeline(work: Work) -> Timeline:
    """Follow the memory of tensors on the CPU through some work, change by change."""
    profiler: Any = _profiled(work, profile_memory=True).profiler
    events = profiler.kineto_results.events()
    changes = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    starts = [change.start_ns() for change in changes]
    # torch's optimizers open blocks of their own, whose names have a "#".
    named = (e for e in events if e.is_user_annotation() and "#" not in e.name())
    blocks = sorted(named, key=lambda e: e.start_ns())
    marks = {b.name(): sum(start < b.start_ns() for start in starts) for b in blocks}
    return Timeline(list(accumulate(change.nbytes() for change in changes)), marks)


@dataclass
class Ledger:
    """What some work started: each operation, views and empty tensors left out.

    `waits` are numbers read back to Python, `float32` the share of matrix products in float32,
    `flops` the operations of all products, `moved` the bytes of the tensors that operations read
    and write, `searches` how often Python searched a list.
    """

    operations: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[torch.dtype] = field(default_factory=Counter)
    flops: int = 0
    moved: int = 0
    searches: int = 0

    @property
    def started(self) -> int:
        return sum(self.operations.values())

    @property
    def waits(self) -> int:
        return self.operations["_local_scalar_dense"]

    @property
    def float32(self) -> float:
        return self.dtypes[torch.float32] / max(1, self.dtypes.total())


def ledger(work: Work) -> Ledger:
    """Run some work once and count what it starts."""
    counts, python = Ledger(), cProfile.Profile()
    with FlopCounterMode(display=False) as counter, _Listening(counts):
        python.runcall(work)
    counts.flops = counter.get_total_flops()
    calls: dict[Any, Any] = pstats.Stats(python).stats  # type: ignore[attr-defined]
    counts.searches = sum(
        row[1] for (*_, name), row in calls.items() if "'index' of 'list'" in name
    )
    return counts


class _Listening(TorchDispatchMode):
    """Writes each operation that reaches a kernel into a ledger."""

    def __init__(self, counts: Ledger):
        super().__init__()
        self.found = counts

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        name, result = function.overloadpacket.__name__, function(*arguments, **(options or {}))
        # A view is another way to read the same memory, and an empty tensor holds no result yet.
        if not (function.is_view or "empty" in name or name == "_unsafe_view"):
            self.found.operations[name] += 1
            tensors = tree_leaves((arguments, options, result))
            self.found.moved += sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor))
        if name in PRODUCTS:
            self.found.dtypes[arguments[-1].dtype] += 1
        return result


def seconds(work: Work, times: int = 3) -> float:
    """The least of the seconds that some work takes, after one run that does not count.

    The least and not the mean: other programs can only make it longer.
    """
    return compare({"": work}, times)[""]


def compare(works: Mapping[str, Work], rounds: int = 3) -> dict[str, float]:
    """`seconds` of each of some works, which take turns, so that a slow moment meets them all."""
    least = dict.fromkeys(works, math.inf)
    for number in range(rounds + 1):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if number:  # the first run allocates
                least[name] = min(least[name], time.perf_counter() - started)
    return least


def recorded(name: str) -> dict[str, Any] | None:
    """The recorded measurement of that name, or None.

    >>> recorded("a benchmark that nobody has run") is None
    True
    """
    path = RECORDED / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def human(count: float, unit: str = "B") -> str:
    """A number in three digits with its prefix, k for thousand.

    >>> human(63_119_496 * 16), human(0.5, "FLOP")
    ('1.01 GB', '0.5 FLOP')
    """
    prefixes = ["", "k", "M", "G", "T", "P", "E"]
    while count >= 999.5 and len(prefixes) > 1:
        count, prefixes = count / 1000, prefixes[1:]
    return f"{count:.3g} {prefixes[0]}{unit}"


def start_processes(count: int, module: str, *arguments: str, timeout: float = 1800) -> str:
    """Run a module in `count` processes that find each other, and return what they print.

    One process is started plainly, several by torchrun; each has one thread.  Raises RuntimeError
    with the last lines of what they said where they fail, subprocess.TimeoutExpired where they
    take more seconds.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    command = [sys.executable, *(torchrun if count > 1 else []), "-m", module, *arguments]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise RuntimeError(f"{count} processes of {module} failed:\n{last_lines}")
    return done.stdout


def _profiled(work: Work, **options: bool) -> profile:
    """The profile of some work on the CPU."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it says on stderr that it starts and stops
    with profile(activities=[ProfilerActivity.CPU], **options) as profiled:
        work()
    return profiled
