"""PLAN.md is what its program writes; its figures follow from the model and from each other."""

import json
import re
from dataclasses import replace
from pathlib import Path

import operations as measuring
import plan as script
import pytest
import torch
from plan_figures import GPUS, Assumptions, Plan
from torch.utils.flop_counter import FlopCounterMode

from nmtlib.data.batching import Batch
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.model.transformer import Transformer
from nmtlib.training.loss import compute_loss

SCRIPTS = Path(__file__).parents[1] / "benchmarks"
MEASURED = json.loads((SCRIPTS / "results" / "operations.json").read_text("utf-8"))
CPU = json.loads((SCRIPTS / "results" / "train.json").read_text("utf-8"))
GPU = {
    "command": "python benchmarks/gpu.py",
    "max_tokens": 4096,
    "machine": {"device": "a GPU"},
    "candidates": {
        "float32": {"target_tokens_per_second": 11_000.0},
        "bfloat16": {"target_tokens_per_second": 123_456.0},
        "bfloat16, compiled": {"failed": "too little memory"},
    },
}


def make(assumed=None, **measured) -> Plan:
    return Plan(assumed or Assumptions(), MEASURED | measured, CPU, GPU)


def test_the_page_is_what_the_program_writes(tmp_path, monkeypatch, capsys):
    assert script.main(["--check"]) == 0, "run: python benchmarks/plan.py"
    text = script.PAGE.read_text("utf-8")
    monkeypatch.setattr(script, "PAGE", tmp_path / "PLAN.md")
    assert script.main(["--check"]) == 1 and "not up to date" in capsys.readouterr().err
    assert script.main([]) == 0 and script.PAGE.read_text("utf-8") == text
    script.PAGE.write_text(text.replace("1", "2"), "utf-8")
    assert script.main(["--check"]) == 1
    capsys.readouterr()
    before = script.PAGE.read_bytes()
    assert script.main(["--price", "5"]) == 0
    assert script.PAGE.read_bytes() == before
    assert "5 dollars an hour" in one_line(capsys.readouterr().out)


def test_the_operations_of_an_update_are_those_that_torch_counts():
    plan = make()
    plan.config = replace(
        plan.config, source_vocab_size=70, target_vocab_size=70, d_model=32, n_heads=4, d_ff=64
    )
    plan.sentences = 3
    ids = [
        torch.randint(4, 70, (3, length)) for length in (plan.source_length, plan.target_length + 1)
    ]
    with FlopCounterMode(display=False) as counter:
        compute_loss(Transformer(plan.config), Batch(*ids))[0].backward()
    assert plan.flops == pytest.approx(counter.get_total_flops(), rel=0.05)


def test_the_figures_agree_with_the_paper_as_far_as_they_can():
    plan = make()
    assert plan.parameters == pytest.approx(65e6, rel=0.05)
    assert plan.batch_tokens == pytest.approx(25_000, rel=0.01)
    assert plan.flops_per_token == pytest.approx(6 * plan.parameters, rel=0.1), (
        "the rule of six for each parameter"
    )
    assert 0.1 < plan.flops * 100_000 / 3.3e18 < 1, "the paper counts what the GPUs could have done"
    assert plan.hours(plan.paper_speed) == pytest.approx(12)


def test_the_figures_follow_from_each_other():
    plan, peak = make(), GPUS["H100 SXM"][0]
    assert plan.state == 20 * plan.parameters and plan.checkpoint == 12 * plan.parameters
    assert plan.all_reduce(1e9, 2) == pytest.approx(4e-9 * plan.parameters)
    assert plan.all_reduce(1e9, 1) == 0 and plan.all_reduce(2e9) == pytest.approx(
        plan.all_reduce(1e9) / 2
    )
    assert plan.hours(1000) == pytest.approx(2 * plan.hours(2000))
    assert make(Assumptions(gpus=16)).hours(1000) == pytest.approx(plan.hours(1000) / 2)
    assert plan.update(peak) == plan.launches and plan.update(1e9) == pytest.approx(
        plan.flops / 8 / 1e9
    )
    assert make(Assumptions(price=5.0)).dollars(1000) == pytest.approx(2 * plan.dollars(1000))
    assert make(encoding_bytes_a_token=2).encoded == pytest.approx(16 * plan.tokens)
    doubled = make(pairs_a_second=2 * MEASURED["pairs_a_second"])
    assert doubled.encoding == pytest.approx(plan.encoding / 2)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_launch_costs_what_it_did_on_the_gpu_unless_another_figure_is_given():
    measured, given = make(), make(Assumptions(launch=5e-6))
    assert measured.launches == pytest.approx(4096 / 123_456)
    assert given.launches == pytest.approx(5e-6 * MEASURED["operations_an_update"])
    assert "(measured on one a GPU)" in measured.launch and "5 µs each (assumed)" in given.launch


def test_only_what_ran_on_the_gpu_is_said_to_be_measured_on_it():
    text = one_line(script.page(make()))
    assert "**Calculated, not measured**" in text and "GPUs, measured on one a GPU by" in text
    assert (
        "| bfloat16 | 123,456 |" in text
        and "11,000" not in text
        and "| bfloat16, compiled" not in text
    )
    text = script.page(make(Assumptions(tokens_per_second=98_765.0)))
    assert "| as given | 98,765 |" in text and "123,456" not in text


def test_what_breaks_first_stands_first():
    def factors(plan):
        rows = re.findall(
            r"^\| .*\d \|$", script.page(plan).split("times as large")[1], re.MULTILINE
        )
        return [float(row.split("|")[-2].replace(",", "")) for row in rows]

    found = factors(make())
    assert len(found) == 6 and found == sorted(found)
    slow = factors(make(planning_seconds_a_million_pairs=100.0))
    assert slow[0] == pytest.approx(60 / 450, rel=0.01), (
        "planning that takes minutes is too slow already"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1e3, "1 kB"),
        (2.52e8, "252 MB"),
        (999_600, "1 MB"),
        (3e18, "3 EB"),
    ],
)
def test_bytes_for_people(count, text):
    assert script.human(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00098, "0.98 ms"),
        (1.5, "1.5 s"),
        (59, "59 s"),
        (275.4, "4.59 min"),
        (86_400, "1 day"),
        (86_400 * 3, "3 days"),
    ],
)
def test_times_for_people(seconds, text):
    assert script.lasting(seconds) == text


def test_encoding_and_planning_are_measured(monkeypatch):
    pairs = [
        Pair(" ".join(f"wort{n + i}" for i in range(9)), f"word{n} and more") for n in range(300)
    ]
    monkeypatch.setattr(measuring, "load", lambda name: Corpus(name, "de", "en", pairs, pairs[:2]))
    found = measuring.measure("toy-de-en")
    assert found.keys() == MEASURED.keys() and found["pairs"] == 300
    assert found["tokens"] > 300 * (9 + 3 + 3), "words and specials"
    assert found["encoding_bytes_a_token"] > 8, "a list has 8 bytes for each id"
    assert found["planning_bytes_a_pair"] >= 8 + 8, "lengths, and an order"
    assert found["operations_an_update"] == MEASURED["operations_an_update"]
