"""Does every silent bug of the catalogue set off an alarm?  Plant each and run the checks.

    python benchmarks/mutation.py                     # all bugs, all checks, a short training each
    python benchmarks/mutation.py --quick             # only what a bug names
    python benchmarks/mutation.py --only pad-in-loss  # one bug (or several)

Writes results/mutation.json and MUTATION.md beside this script, except with --quick or --only.
A bug that no check of a whole model can see names unit tests of nmtlib; they run in a process of
their own, with the bug in place before anything is imported.

Exit status 1 where the clean code raises an alarm, or a bug is caught by nothing that its entry
names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from mutation_page import table

from nmtcheck import Adapter, Sizes, ours, run_checks
from nmtcourse.bugs import BUGS, Bug, get
from nmtcourse.provenance import describe_machine
from nmtlib.data import batching
from nmtlib.inference import search
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.trainer import Trainer

FOLDER = Path(__file__).resolve().parent
RESULT = FOLDER / "results" / "mutation.json"
WORDS, TEST = 6, 128
TIME_LIMIT = 10.0  # seconds for one check
CONFIG = TransformerConfig(
    4 + WORDS,
    4 + WORDS,
    d_model=64,
    n_heads=4,
    n_encoder_layers=2,
    n_decoder_layers=1,
    d_ff=128,
    attention_dropout=0.1,
    max_length=48,
    norm="pre",
)
SETTINGS = TrainingSettings(
    epochs=4,
    max_tokens=440,
    accumulate=2,
    learning_rate=0.01,
    schedule="inverse-sqrt",
    warmup=5,
    average=1,
    precision="fp32",
    device="cpu",
)


def sentences(count: int) -> list[batching.Example]:
    """One to three of six words, said backwards: one of the words twice, another not at all."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for length in torch.randint(1, 4, (count,), generator=generator).tolist():
        words = torch.randint(4, 4 + WORDS, (length,), generator=generator).tolist()
        said = [word for w in reversed(words) for word in [w] * {4: 2, 5: 0}.get(w, 1)]
        made.append(batching.make_example(words, said))
    return made


def train_a_little(seed: int = 0) -> dict[str, Any]:
    """What a reader would see after some 40 updates: the validation loss, and what share is right.

    Everything runs through the real trainer and search, with whatever is planted in them; functions
    are called through their modules, for a name imported here would stay clean.
    """
    seen: dict[str, Any] = {"updates": None, "loss": None, "right": None, "error": None}
    examples = sentences(2048 + TEST)
    train, test = examples[TEST:], examples[:TEST]
    try:
        torch.manual_seed(seed)
        model = Transformer(CONFIG)
        with tempfile.TemporaryDirectory() as folder:
            settings = replace(SETTINGS, seed=1 + seed)
            trainer = Trainer(model, train, test, settings, folder, report=lambda line: None)
            history = trainer.fit()
        if not math.isfinite(history[-1].validation_nll):
            raise FloatingPointError(f"the validation loss is {history[-1].validation_nll}")
        seen["updates"], seen["loss"] = history[-1].updates, round(history[-1].validation_nll, 4)
        found = search.beam_search(model, batching.pad([e.source for e in test]), 3)
        right = sum(
            best[0].ids == list(e.target[1:-1]) for best, e in zip(found, test, strict=True)
        )
        seen["right"] = round(right / TEST, 3)
    except Exception as error:  # a bug may raise anything
        what = (str(error).splitlines() or [""])[0].partition(";")[0]
        seen["error"] = f"{type(error).__name__}: {what[:150]}"
    return seen


def short_adapter() -> Adapter:
    """What a reader has after a minute: a model that is made, and its logits."""
    return Adapter(name="short", make_model=ours().make_model)


PLANTED = """
import sys
import pytest
from contextlib import nullcontext
from nmtcourse.bugs import plant

key, *tests = sys.argv[1:]
with plant(key) if key else nullcontext():
    raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-m", "", *tests]))
"""


def fail(tests: Iterable[str], key: str = "") -> bool:
    """Whether some of these unit tests fail, with a bug planted.

    Raises RuntimeError where they could not run.
    """
    command = [sys.executable, "-c", PLANTED, key, *tests]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # of pytest: all passed, or some failed
        raise RuntimeError(f"{' '.join(tests)} could not run: {done.stdout[-500:]}{done.stderr}")
    return done.returncode == 1


def runs_in_model() -> bool:
    """Whether a planted function is called where a model is made, called and differentiated."""
    called: set[str] = set()
    sys.setprofile(lambda frame, event, given: called.add(frame.f_code.co_filename))
    try:
        model = short_adapter().make_model(Sizes())
        ids = torch.tensor([[4, 5, 2], [6, 2, 0]])
        for training in (True, False):
            model.train(training)(ids, ids).sum().backward()
    except Exception:  # a bug may raise anything
        pass
    finally:
        sys.setprofile(None)
    return any(name.startswith("<bug") for name in called)


def examine(bug: Bug | None, *, quick: bool) -> dict[str, Any]:
    """The checks that fail with a bug (or without one), and what a short training shows."""
    started, only = time.perf_counter(), bug.caught_by if bug and quick else None
    with bug.plant() if bug else contextlib.nullcontext():
        report = run_checks(ours(), only=only, time_limit=TIME_LIMIT)
        seen = {} if quick else train_a_little()
        if not quick and (not bug or runs_in_model()):
            short = run_checks(short_adapter(), time_limit=TIME_LIMIT)
            seen["short"] = [result.check.id for result in short.failed]
    failed = {r.check.id: {"verdict": r.verdict, "measured": r.measured} for r in report.failed}
    return {"failed": failed, **seen, "seconds": round(time.perf_counter() - started, 2)}


def row(key: str, quick: bool) -> dict[str, Any]:
    """One bug's entry in the results."""
    bug = get(key)
    entry: dict[str, Any] = {"number": bug.number, "key": key, "title": bug.title}
    if not bug.edits:
        return {**entry, "planted": False, "why_not": bug.why_not}
    found = examine(bug, quick=quick)
    missed = [id for id in bug.caught_by if id not in found["failed"]]
    missed += [test for test in bug.tests if not fail([test], key)]
    named = [*bug.caught_by, *bug.tests]
    verdict = {"caught": len(missed) < len(named), "caught_by": named}
    return {**entry, "planted": True, **verdict, "missed_by": missed, **found}


def rows(keys: list[str], quick: bool, workers: int) -> Iterator[dict[str, Any]]:
    """The entries of these bugs, in this order; several workers are processes of their own."""
    if workers == 1:
        yield from (row(key, quick) for key in keys)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(row, keys, [quick] * len(keys))


def show(entry: dict[str, Any], *, everything: bool) -> None:
    """One line on the terminal, and with `everything` what each failing check measured."""
    mark, seen = "caught" if entry["caught"] else "MISSED", entry.get("error") or ""
    if not seen and "loss" in entry:
        seen = f"loss {entry['loss']:.3f}, right {entry['right']:.0%}"
    begin = f"{entry['number']:>2} {entry['key']:<32} {mark}"
    print(f"{begin}  {entry['seconds']:5.1f} s  {seen}", flush=True)
    if everything and "short" in entry:
        print(f"   with make_model and logits alone: {', '.join(entry['short']) or 'nothing'}")
    if entry["missed_by"]:
        print(f"   no alarm from: {', '.join(entry['missed_by'])}")
    for id, alarm in entry["failed"].items() if everything else ():
        print(f"   {id} ({alarm['verdict']}): {alarm['measured']}")


def measure(keys: list[str], quick: bool, workers: int, everything: bool) -> dict[str, Any]:
    """Examine the clean code and these bugs, and show what is found as it comes."""
    started = time.perf_counter()
    clean = examine(None, quick=quick)
    if not quick:  # how far chance alone moves the figures
        clean["losses_of_other_seeds"] = [train_a_little(seed)["loss"] for seed in (1, 2, 3)]
    tests = {test for key in keys for test in get(key).tests}
    if tests and fail(sorted(tests)):
        clean["failed"]["unit tests"] = {"verdict": "failed", "measured": "on the clean code"}
    for id, alarm in clean["failed"].items():
        print(f"false alarm on clean code: {id}: {alarm['measured']}")
    for id in clean.get("short", []):
        print(f"false alarm on clean code, with the short adapter: {id}")
    found = []
    for entry in rows(keys, quick, workers):
        found.append(entry)
        if entry["planted"]:
            show(entry, everything=everything)
    planted = [entry for entry in found if entry["planted"]]
    caught = sum(entry["caught"] for entry in planted)
    short = [entry["short"] for entry in planted if "short" in entry]
    return {
        "command": "python benchmarks/mutation.py",
        "planted": len(planted),
        "caught": caught,
        "score": round(caught / max(len(planted), 1), 3),
        "translations": TEST,
        "in_model": len(short),
        "caught_by_short_adapter": sum(map(bool, short)),
        "seconds": round(time.perf_counter() - started, 1),
        "machine": describe_machine(),
        "clean": clean,
        "bugs": found,
    }


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="KEY", default=[], help="plant these bugs")
    parser.add_argument("--quick", action="store_true", help="run only what a bug names")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes; one thread each (default: 2)"
    )
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.set_num_threads(1)  # the models are tiny
    keys = [get(key).key for key in options.only] or [bug.key for bug in BUGS]
    result = measure(keys, options.quick, options.workers, bool(options.only))
    alarms = len(result["clean"]["failed"]) + len(result["clean"].get("short", []))
    found = f"{result['caught']} of {result['planted']} bugs caught, {alarms} false alarms"
    print(f"{found}, {result['seconds']:.0f} s")
    if not options.only and not options.quick:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
        (FOLDER / "MUTATION.md").write_text(table(result), "utf-8")
    return int(result["caught"] < result["planted"] or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
