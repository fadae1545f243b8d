"""Whatever the code under the checks does, the runner returns a verdict and changes nothing."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from nmtcheck import CHECKS, ours, run_checks
from nmtcheck.report import apart, runner

OURS = ours()


def one(adapter, name="model.shape", **options):
    (result,) = run_checks(adapter, only=name, **options).results
    return result


def raising(error):
    def make_model(sizes):
        raise error

    return make_model


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            AttributeError("'Decoder' object has no attribute 'norm3'"),
            "AttributeError: 'Decoder' object",
        ),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (RecursionError("too deep"), "too deep"),
    ],
)
def test_an_exception_is_a_verdict_with_its_place(error, said):
    result = one(replace(OURS, make_model=raising(error)))
    assert result.verdict == "error" and not result.cause, "an exception is its own cause"
    assert re.search(said, result.measured)
    assert re.search(r"raised in line \d+ of test_runner.py", result.measured)


def test_what_is_not_written_yet_is_skipped_and_never_passed():
    result = one(replace(OURS, make_model=raising(NotImplementedError("exercise 3"))))
    assert result.verdict == "skipped" and result.measured.endswith(
        "NotImplementedError: exercise 3"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda m, s, t: None, "NoneType, expected a tensor"),
        (lambda m, s, t: m(s, t).transpose(0, 1), r"shape \(5, 3, 13\)"),
        (lambda m, s, t: m(s, t) / 0 * 0, "NaN"),
        (lambda m, s, t: m(s, t).softmax(-1), "probabilities"),
        (lambda m, s, t: m(s, t)[..., :7], "made for 13 target words but returns 7"),
    ],
)
def test_nonsense_is_a_finding(answer, said):
    result = one(replace(OURS, logits=answer))
    assert result.verdict == "failed" and re.search(said, result.measured)


def forever(*given):
    while True:
        pass


def forever_and_stubborn(*given):
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: BLE001 (on purpose)
            pass


def test_a_call_that_waits_for_ever_is_not_decided(monkeypatch):
    monkeypatch.setattr(apart, "ASLEEP", 0.5)
    report = run_checks(replace(OURS, logits=lambda *given: time.sleep(600)), only="masks")
    asleep = [r for r in report.skipped if r.measured.startswith(runner.UNDECIDED)]
    assert len(asleep) >= 4 and "logits waits" in asleep[0].measured
    assert "did not return in" in asleep[1].measured and not report.failed, report


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a thread is left behind there")
@pytest.mark.parametrize("loop", [forever, forever_and_stubborn])
def test_an_endless_loop_is_stopped(loop):
    began, before = apart.computed(os.getpid()), set(threading.enumerate())
    result = one(replace(OURS, logits=loop), time_limit=1.0)
    assert result.verdict == "timeout" and "stopped twice in logits" in result.measured
    assert apart.computed(os.getpid()) - began < 8
    assert set(threading.enumerate()) <= before, "the loop no longer runs"


def test_without_a_process_of_its_own_a_thread_does(monkeypatch):
    monkeypatch.setattr(runner, "worker", apart.Thread)
    loud = replace(OURS, logits=lambda *given: print("said") or OURS.logits(*given))
    report = run_checks(loud, only=["masks", "model.shape"])
    assert report.ok and {r.printed.split()[0] for r in report.results if r.printed} == {"said"}
    slow = replace(OURS, logits=lambda *given: compute(1.0))
    report = run_checks(slow, only="model.shape", time_limit=0.1)
    assert len(report.findings) == 1 and report.findings[0].verdict == "timeout"


@pytest.mark.slow
def test_a_part_that_never_came_back_is_not_asked_again():
    began = apart.computed(os.getpid())
    report = run_checks(replace(OURS, translate=forever), only="decoding", time_limit=0.3)
    assert {r.verdict for r in report.results} == {"timeout"}
    assert "not run: translate did not return in decoding.source_ids" in report.results[1].measured
    assert apart.computed(os.getpid()) - began < 5


def test_a_slow_check_does_not_condemn_its_parts():
    def slow(model, *ids):
        print("slow")
        compute(0.1)
        return model(*ids)

    report = run_checks(replace(OURS, logits=slow), only="masks.more_padding", time_limit=0.3)
    first = report.results[0]
    assert first.verdict == "timeout" and 1 < len(first.printed.splitlines()) < 20
    assert not any("did not return" in result.measured for result in report.results)


def compute(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a thread cannot be stopped")
def test_a_frozen_machine_changes_no_verdict(tmp_path):
    def freeze(model, *ids):
        mark = tmp_path / "frozen"
        if model.training and not mark.exists():
            mark.touch()
            subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        return model(*ids)

    adapter, name = replace(OURS, logits=freeze), "masks.future_in_training"
    assert one(adapter, name, time_limit=0.3).verdict == "passed"
    assert (tmp_path / "frozen").exists()


def test_it_works_off_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(run_checks(OURS, only="masks")))
    thread.start()
    thread.join()
    assert found[0].ok and len(found[0].passed) == len(
        [c for c in CHECKS if c.startswith("masks.")]
    )


@pytest.mark.parametrize("copied", [True, False])
def test_gradients_that_a_script_has_switched_off_are_no_fault_of_the_model(monkeypatch, copied):
    if not copied:
        monkeypatch.setattr(runner, "worker", apart.Thread)
    with torch.no_grad():
        assert one(OURS, "layers.gradient").verdict == "passed"
        assert not torch.is_grad_enabled()


def test_random_states_types_and_threads_are_as_before():
    def meddle(sizes):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        random.random(), np.random.rand(), torch.rand(1)
        raise ValueError("and now?")

    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    before = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_num_threads(),
    )
    run_checks(replace(OURS, make_model=meddle), only=["model.shape", "masks"])
    after = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_num_threads(),
    )
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_a_run_repeats_and_another_seed_measures_anew():
    first, again, other = (one(OURS, "positions.balance", seed=seed).measured for seed in (1, 1, 2))
    assert first == again != other


def test_only_takes_checks_and_subjects_in_the_usual_order():
    report = run_checks(OURS, only=["model.shape", "masks", "inside.scale"])
    masks = [id for id in CHECKS if id.startswith("masks.")]
    assert [r.check.id for r in report.results] == ["inside.scale", *masks, "model.shape"]
    with pytest.raises(ValueError, match=r"no check 'inside.size' \(did you mean inside\.") as e:
        run_checks(OURS, only="inside.size")
    assert "; the subjects are decoding, embedding" in str(e.value)
    with pytest.raises(ValueError, match="expected an Adapter, not Linear"):
        run_checks(torch.nn.Linear(1, 1))
