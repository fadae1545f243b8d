"""What is not ours and not wrong raises no alarm; students' mistakes get a verdict."""

from dataclasses import replace

import pytest
import torch
from peer_marian import marian
from peer_torch import torch_transformer
from some_checks import ONLY
from torch import nn

from nmtcheck import Adapter, ours, run_checks
from nmtlib.specials import PAD

DESIGNS = {
    "post-norm": {},
    "pre-norm": {"pre_norm": True},
    "learned positions, unscaled, no biases": {"learned": True, "scaled": False, "bias": False},
}
FIRST, *OTHERS = enumerate(DESIGNS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "design"),
    [FIRST, *(pytest.param(*other, marks=pytest.mark.nightly) for other in OTHERS)],
)
@pytest.mark.parametrize("only", ONLY)
def test_torch_transformer_raises_no_alarm(design, seed, only):
    report = run_checks(torch_transformer(**DESIGNS[design]), seed=seed, only=only)
    assert not report.failed, str(report)
    assert only or len(report.passed) >= 54, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("only", ["masks", pytest.param(None, marks=pytest.mark.nightly)])
@pytest.mark.extras("transformers")
def test_marian_raises_no_alarm(only):
    report = run_checks(marian(), only=only)
    assert report.passed and not report.failed, str(report)


@pytest.mark.parametrize(("hidden", "verdict"), [(True, "passed"), (False, "failed")])
def test_a_model_may_move_padding_to_the_left(hidden, verdict):
    def logits(model, source, target):
        moved = torch.stack([row.roll(int((row == PAD).sum())) for row in source])
        return model(moved if hidden else moved.where(moved != PAD, 5), target)

    report = run_checks(replace(ours(), logits=logits), only="inside.padding")
    assert [result.verdict for result in report.results] == [verdict], str(report)


class Plain(nn.Module):
    """A student's module: a GRU that reads the whole source first; no Transformer, yet right."""

    def __init__(self, sizes):
        super().__init__()
        self.source = nn.Embedding(sizes.source_vocab_size, sizes.d_model, padding_idx=0)
        self.target = nn.Embedding(sizes.target_vocab_size, sizes.d_model, padding_idx=0)
        self.encoder = nn.GRU(sizes.d_model, sizes.d_model, batch_first=True)
        self.decoder = nn.GRU(sizes.d_model, sizes.d_model, batch_first=True)
        self.output = nn.Linear(sizes.d_model, sizes.target_vocab_size)

    def forward(self, source, target):
        lengths = (source != 0).sum(1)
        states, _ = self.encoder(self.source(source))
        last = states[torch.arange(len(source)), lengths - 1]
        return self.output(self.decoder(self.target(target), last[None].contiguous())[0])


def test_the_checks_of_a_model_ask_for_behaviour_and_not_for_a_design():
    report = run_checks(Adapter(make_model=Plain), only=["masks", "model", "positions"])
    assert not report.failed and len(report.passed) >= 10, str(report)


class Half(Plain):
    """A student's module in several stages of despair."""

    def __init__(self, sizes, stage):
        super().__init__(sizes)
        self.stage = stage

    def forward(self, source, target):
        if self.stage == "attribute":
            return self.projection(target)
        if self.stage == "shape":
            return super().forward(source, target)[:, -1]
        if self.stage == "nan":
            return super().forward(source, target).log().log()
        if self.stage == "later":
            raise NotImplementedError("homework 7")
        if self.stage == "tuple":
            return super().forward(source, target), None
        while True:
            target = target + 0


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [
        ("attribute", "error"),
        ("shape", "failed"),
        ("nan", "failed"),
        ("later", "skipped"),
        ("endless", "timeout"),
    ],
)
def test_a_broken_module_gets_a_verdict_from_every_check(stage, verdict):
    adapter = Adapter(make_model=lambda sizes: Half(sizes, stage))
    # Each check that never returns costs a process.
    only, limit, least = ("masks", 0.1, 4) if stage == "endless" else (["model", "masks"], 5.0, 9)
    report = run_checks(adapter, only=only, time_limit=limit)
    asked = [r for r in report.results if "adapter has no" not in r.measured]
    assert len(asked) >= least and {r.verdict for r in asked} == {verdict}, str(report)
    assert not report.ok and str(report)
