"""Run checks on code that may do anything: raise, return nonsense, print, or never return."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmtcheck.adapter import Adapter
from nmtcheck.checks import every  # noqa: F401 (every registers the checks)
from nmtcheck.checks.recorded import ON_PURPOSE
from nmtcheck.connect import ids  # noqa: F401 (every registers the checks)
from nmtcheck.measure.graph import every_module
from nmtcheck.measure.proof import Repair
from nmtcheck.measure.reading import reading
from nmtcheck.measure.tape import SECONDS
from nmtcheck.registry import CHECKS, Check, Finding
from nmtcheck.report.apart import Board, worker
from nmtcheck.report.relations import related
from nmtcheck.report.report import NO_PART, UNWRITTEN, Report
from nmtcheck.result import Result
from nmtlib.errors import did_you_mean

HERE = {Path(__file__).parents[1]}
# The requests for what is found out; others name a check.
FACTS, READ = "facts", "read"
# What must have been measured before anything is called sound: parts, a word, and the checks of
# which one must have given a verdict.
HEARTS = [
    ("masks", ["make_model"], "measured", ["masks.future_in_evaluation", "masks.more_padding"]),
    ("loss", ["run", "epoch"], "read", ["run.labels", "run.weights"]),
    ("search", ["translate"], "run", ["search.successors", "decoding.search_model"]),
    ("evaluation", ["evaluate"], "read", ["evaluation.mode", "evaluation.loss", "evaluation.bleu"]),
]
# Checks with no other needs look at passes of the model, and a repair of passes reaches them.
OF_THE_MODEL = {"make_model", "resizable", "scaled_embedding"}
UNDECIDED = "nmtcheck could not decide"
ENDLESS = "An endless loop, or a model far larger than the requested sizes."


def run_checks(
    adapter: Adapter,
    *,
    only: str | Sequence[str] | None = None,
    seed: int = 0,
    time_limit: float = 20.0,
) -> Report:
    """Run the checks for which the adapter has the parts; whatever the code does, this returns.

    `only` names checks ('inside.scale') or subjects ('inside'), one or several.  A check that
    needs more than `time_limit` seconds of processor time, twice, is ended with the process that
    runs it (see `nmtcheck.report.apart`); what the code prints goes into the report.  `seed` is any
    whole number, taken modulo 2^63.  Random states and number of threads are as before afterwards.

    Raises ValueError for a name that no check has, and where `adapter` is no Adapter.
    """
    if not isinstance(adapter, Adapter):
        given = type(adapter).__name__
        raise ValueError(f"expected an Adapter, not {given}; see nmtcheck.adapter")
    chosen, started = choose(only), time.monotonic()
    bench = Bench(adapter, seed % 2**63, time_limit)  # torch takes no larger seed
    if any("make_model" in check.needs for check in chosen):
        # The first optimizer of a program imports a large part of torch: once, and not in each copy
        # of this process.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    with _undisturbed():
        try:
            note = bench.find_facts()
            results = related([bench.run(check) for check in chosen], bench.ask_repaired)
            hearts = bench.hearts({result.check.id: result for result in results})
        finally:
            bench.apart.close()
    seconds = time.monotonic() - started
    return Report(adapter.name, results, seconds, note, adapter.where, seed, hearts=hearts)


def choose(only: str | Sequence[str] | None) -> list[Check]:
    """The checks of these ids or subjects, all by default; ValueError for an unknown name."""
    if only is None:
        return list(CHECKS.values())
    names = {only} if isinstance(only, str) else set(only)
    subjects = {check.subject for check in CHECKS.values()}
    if unknown := names - subjects - CHECKS.keys():
        known, name = ", ".join(sorted(subjects)), min(unknown)
        hint = did_you_mean(name, [*subjects, *CHECKS])
        raise ValueError(f"there is no check {name!r}{hint}; the subjects are {known}")
    return [check for check in CHECKS.values() if names & {check.id, check.subject}]


class Bench:
    """An adapter under the checks, and what is known of its parts so far."""

    def __init__(self, adapter: Adapter, seed: int, limit: float):
        self.given, self.seed, self.limit = adapter, seed, limit
        self.board, self.apart = Board(), worker(self.work)
        self.stuck: dict[str, tuple[str, str]] = {}  # part -> where it did not return, and why
        self.repairs: dict[str, Repair] = {}  # of the findings with a proved cause
        self.settle(ids.Facts(ids.with_ids(adapter), {}, {}, ""))

    def settle(self, found: ids.Facts) -> None:
        """Take these facts, and watch which part is running."""
        adapter = found.of(self.given)
        parts = {f.name: getattr(adapter, f.name) for f in fields(adapter)}
        watched = {n: self.watched(n, part) for n, part in parts.items() if callable(part)}
        self.adapter = replace(adapter, **watched)

    def watched(self, name: str, part: Callable) -> Callable:
        """The part, which now notes when it is called and when it has come back."""

        def run(*args: object, **kwargs: object) -> object:
            outer = self.board.read()
            self.board.write(name)
            # Where the part raises, the board keeps its name for the report.
            result = part(*args, **kwargs)
            self.board.write(outer[0] if outer else "")
            return result

        return run

    def find_facts(self) -> str:
        """Find out what the adapter does not say; the lines about it."""
        if not self.given.make_model:
            return ""
        answer = self.apart.ask(FACTS, self.limit)
        if not answer.value:
            return ""  # the checks will say what is wrong
        found, way, frame, note, unsure = answer.value
        self.settle(ids.Facts(ids.Ids(*found), way, frame, note, tuple(unsure)))
        return note

    def hearts(self, results: dict[str, Result]) -> tuple[tuple[str, str, bool], ...]:
        """Of attention, masks, loss, search and evaluation: what was read, and whether enough."""

        def decided(*names: str) -> bool:
            """Whether one of these checks gave a verdict, or could have but for a convention."""
            mine = [results[name] for name in names if name in results]
            return any(r.verdict in ("passed", "failed") or ON_PURPOSE in r.measured for r in mine)

        told = list[tuple[str, str, bool]]()
        if "inside.sums" in results and self.adapter.make_model:
            read, seen = self.apart.ask(READ, self.limit).value or (0, 0)
            text = f"read in {read} of {seen}" if read else "not read"
            told.append(("attention", text, 0 < read == seen))
        for name, parts, verb, checks in HEARTS:
            if not results.keys() & set(checks):
                continue
            if not any(self.adapter.has(part) for part in parts):
                if name != "evaluation":  # a model is sound without one
                    told.append((name, "not given", True))
            else:
                fine = decided(*checks)
                told.append((name, verb if fine else f"not {verb}", fine))
        return tuple(told)

    def work(self, request: str) -> Any:
        """What the other process does: find facts, or run a check: verdict, measured, cause."""
        self.board.begin()
        torch.set_grad_enabled(True)  # of this thread alone; a script may have switched it off
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed % 2**32)
        try:
            if request == FACTS:
                found = ids.find_facts(self.given, self.seed)
                self.settle(found)
                return found
            if request == READ:
                attentions = reading(self.adapter, self.seed)
                return len(attentions.attentions), attentions.seen
            if not isinstance(request, str):
                return self.measure_repaired(*request)
            return {"verdict": "passed"} | {
                "measured": str(CHECKS[request].measure(self.adapter, self.seed))
            }
        except BaseException as error:  # SystemExit too: this is somebody else's code
            known = isinstance(request, str) and request in CHECKS
            return self.judged(CHECKS[request], error) if known else None

    def measure_repaired(self, causes: Sequence[str], name: str) -> str:
        """What a check measures where these findings are repaired; '' where it passes."""
        repaired = self.adapter
        for cause in causes:
            if cause not in self.repairs:  # found by another process, which has ended
                try:
                    CHECKS[cause].measure(self.adapter, self.seed)
                except Finding as finding:
                    self.note_repair(cause, finding)
            repaired = self.repairs[cause](repaired)
        try:
            CHECKS[name].measure(repaired, self.seed)
        except Finding as finding:
            return finding.measured
        return ""

    def ask_repaired(self, causes: Sequence[str], name: str) -> str | None:
        """What a check that fails measures once these findings are repaired; '' where it passes.

        What is repaired are passes of the model: None of a search, and of a training.
        """
        if not {*CHECKS[name].needs} <= OF_THE_MODEL:
            return None
        return self.apart.ask([[*causes], name], self.limit).value

    def note_repair(self, name: str, finding: Finding) -> None:
        """Keep the repair that proves a cause, for the checks that fail beside it."""
        if finding.repair is not None:
            self.repairs[name] = finding.repair

    def judged(self, check: Check, error: BaseException) -> dict[str, Any]:
        """Verdict, what was measured and the cause, for what a check raised."""
        if isinstance(error, Finding):
            self.note_repair(check.id, error)
            cause = {"cause": error.fits or check.cause, "proved": error.proved}
            repairable = error.repair is not None
            return {"verdict": "failed", "measured": error.measured, **cause} | {
                "repairable": repairable
            }
        said = next(iter(str(error).strip().splitlines()), "")[:200]
        if isinstance(error, NotImplementedError):
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            begin = "" if HERE & {*Path(last).parents} else UNWRITTEN
            return {"verdict": "skipped", "measured": begin + (said or "it says nothing more")}
        running = self.board.read()
        place = _where(error) or f" in {running[0] if running else 'the check'}"
        measured = f"{type(error).__name__}: {said}; raised{place}"
        return {"verdict": "error", "measured": measured}

    def run(self, check: Check) -> Result:
        """The verdict on one property."""
        if missing := [part for part in check.needs if not self.adapter.has(part)]:
            return Result(check, "skipped", NO_PART + ", ".join(missing))
        needs = [name for part in check.needs for name in part.split("|")]
        if self.stuck.get("logits", ("", ""))[1] == "asleep":  # minutes are not waited for twice
            needs += ["logits"] * ("make_model" in needs)
        if stuck := [name for name in needs if name in self.stuck]:
            first, how = self.stuck[stuck[0]]
            measured = f"not run: {stuck[0]} did not return in {first}"
            if how == "asleep":
                return Result(check, "skipped", f"{UNDECIDED}: {measured}")
            return Result(check, "timeout", measured, check.cause, follows=first)
        started = time.monotonic()
        limit = max(self.limit, 2 * SECONDS) if check.subject == "run" else self.limit
        answer = self.apart.ask(check.id, limit)
        seconds = time.monotonic() - started
        if answer.ended:
            return self.ended(check, answer.ended, seconds, answer.printed)
        return Result(check, **answer.value, seconds=seconds, printed=answer.printed)

    def ended(self, check: Check, how: str, seconds: float, printed: str) -> Result:
        """The verdict on code that ended with its process."""
        part, began = self.board.read() or ("the check", 0.0)
        if how not in ("limit", "asleep"):
            measured = f"the process ended within {part}: {how}"
            return Result(check, "error", measured, seconds=seconds, printed=printed)
        if how == "asleep" or self.limit - began > self.limit / 2:
            self.stuck[part] = check.id, how
        if how == "asleep":
            measured = f"{UNDECIDED}: {part} waits and computes nothing"
            return Result(check, "skipped", measured, seconds=seconds, printed=printed)
        measured = f"stopped twice in {part}, after {self.limit:g} s of computing"
        return Result(check, "timeout", measured, ENDLESS, seconds, printed)  # not proved


def _where(error: BaseException) -> str:
    """The last line of the reader's own code that the exception came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not HERE & {*Path(frame.filename).parents} and "site-packages" not in frame.filename:
            return f" in line {frame.lineno} of {Path(frame.filename).name} ({frame.name})"
    return ""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Run on one thread; afterwards random states, default type and threads are as before."""
    states = random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)  # tiny tensors: threads would wait for each other
    try:
        with every_module(), torch.random.fork_rng(gpus):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        random.setstate(states[0])
        np.random.set_state(states[1])
