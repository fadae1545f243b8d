"""Kinds of faults that were met in strangers' repositories: each is found, with its cause."""

import copy
from dataclasses import replace
from functools import partial

import pytest
import torch
from nightly import some
from patients import (
    PaddedTarget,
    Stranger,
    make,
    stranger,
    translate,
)
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from nmtcheck import Adapter, Finding, run_checks
from nmtcheck.checks.model import registered
from nmtcheck.checks.positions import added, exchanged_axes, within
from nmtcheck.connect.ids import find_facts
from nmtcheck.measure.graph import every_module
from nmtcheck.measure.helpers import TOLERANCE, distance, logits, prepare
from nmtcheck.measure.proof import prove_cause
from nmtcheck.measure.reading import hide, join, make_repair, over_keys


class Wrapped(nn.Module):
    """torch's own model within another: post-norm, and a norm behind all layers."""

    def __init__(self, sizes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(13, sizes.d_model) for _ in range(3))
        self.layers = nn.Transformer(sizes.d_model, 4, 2, 2, sizes.d_ff, 0.0, batch_first=True)
        self.last = nn.Linear(sizes.d_model, 13)

    def forward(self, source, target):
        own, other = (
            table(ids) + self.tables[2](torch.arange(ids.size(1)) % 13)
            for table, ids in zip(self.tables, (source, target), strict=False)
        )
        future = torch.ones(2 * [target.size(1)]).triu(1).bool()
        pads = [source == 0, target == 0, source == 0]
        return self.last(self.layers(own, other, None, future, None, *pads))


HEALTHY = {
    "plain": stranger(translate=translate),
    "what stands at PAD is random": stranger("unused padding"),
    "tied, of one size": stranger("tied", resizable=False),
    "scores scaled by the first weights": stranger("scale in the weights"),
    "torch's layers within a module": Adapter(make_model=Wrapped),
    "linear maps called with keywords": stranger("keyword"),
    "an activation in place": stranger("in place"),
    "rotary positions in a fused attention": stranger("turned"),
    "sources without BOS and EOS": stranger(translate=partial(translate, end=()), source_eos=False),
    "padded_target is no mask": Adapter(make_model=PaddedTarget),
}
SUBJECTS = ["inside", "masks", "layers", "embedding", "search.successors"]


@pytest.mark.slow
@pytest.mark.parametrize("style", some(HEALTHY, every=5))
def test_an_unusual_style_is_healthy_and_read(style):
    report = run_checks(HEALTHY[style], only=[*SUBJECTS, "positions.table"])
    assert not report.failed, report
    assert "attention read in 6 of 6" in report.read


REPAIRS = {
    "masked": make_repair(hide(["encoder", "cross"], future=False), 0),
    "causal": make_repair(hide(["decoder"], future=True), 0),
    "softmax over keys": make_repair(over_keys, 0),
    "axes of heads": make_repair(join, 0),
    "axes of the batch": partial(within, way=exchanged_axes),
    "positions": partial(within, way=added),
    "buffers": registered,
}


@pytest.mark.parametrize("style", some(HEALTHY, every=5))
def test_no_repair_changes_what_is_sound(style):
    adapter = find_facts(HEALTHY[style]).of(HEALTHY[style])
    with every_module():
        model, source, target = prepare(adapter, 0)
        real = target != adapter.pad
        plain = logits(adapter, model, source, target)[real]
        for name, repair in REPAIRS.items():
            repaired = repair(adapter)
            off = distance(logits(repaired, *prepare(repaired, 0))[real], plain)
            assert off < TOLERANCE, f"{name}: {off}"


def test_a_cause_is_proved_by_a_harmless_repair_alone():
    def doubled(adapter):
        return replace(adapter, logits=lambda model, *ids: 2 * model(*ids))

    def passes(adapter, seed):
        """Any check that the repair makes pass."""

    for repair, proved in ((doubled, False), (lambda adapter: adapter, True)):
        found = prove_cause(stranger(), 0, Finding("said", "Why."), repair, passes, "that")
        assert found.proved == proved and found.fits.startswith("Why.")


def test_a_model_may_have_no_scale_where_a_bias_is_added():
    (result,) = run_checks(stranger("no scale, a bias"), only="inside.scale").findings
    assert "relative" in result.cause, result


def test_what_nothing_can_be_read_of_is_not_sound():
    """Whether a resumed run skips the rest of an epoch is unreadable: no part shows it."""
    report = run_checks(Adapter(make_model=make()), only="training")
    assert not report.ok and report.status == 2 and not report.failed


class Shy(Stranger):
    """Refuses to run while its operations are watched."""

    def forward(self, source, target):
        if _get_current_dispatch_mode() is not None:
            raise TypeError("no modes, please")
        return super().forward(source, target)


def test_an_error_of_the_instrument_is_not_one_of_the_code():
    report = run_checks(Adapter(make_model=Shy), only=["inside", "masks"])
    assert not report.failed and report.status == 2, report
    assert "attention not read; masks measured" in str(report)
    assert "nmtcheck could not record the model: TypeError" in str(report)


class Bare(nn.Module):
    """torch's module called with nothing but two embeddings: no masks, no positions."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes.d_model
        self.tables = nn.ModuleList(nn.Embedding(sizes.source_vocab_size, width) for _ in range(2))
        layers = (sizes.n_layers, sizes.n_layers, sizes.d_ff, sizes.dropout)
        self.inner = nn.Transformer(width, sizes.n_heads, *layers, batch_first=True)
        self.last = nn.Linear(width, sizes.target_vocab_size)

    def forward(self, source, target):
        return self.last(self.inner(self.tables[0](source), self.tables[1](target)))


@pytest.mark.nightly
def test_torch_without_masks_and_positions_gets_every_finding_with_its_cause():
    report = run_checks(Adapter(make_model=Bare), only=["inside", "positions", "masks"])
    causes = {f.check.id: f.cause for f in report.findings if f.proved}
    assert causes.keys() == {f.check.id for f in report.findings}, report
    assert "No causal mask reaches" in causes["inside.future"]
    assert "No padding mask of the source reaches" in causes["inside.padding"]
    for side in ("source", "target"):
        assert "No positions are added" in causes[f"positions.{side}_order"]


@pytest.mark.slow
def test_a_search_with_a_copy_of_the_model_is_read():
    """Some search with a second model: a copy on the CPU, an average, a checkpoint read again."""

    def with_a_copy(model, words, longest, spoil=False):
        other = copy.deepcopy(model)
        if spoil:
            for table in other.tables:
                table.weight.data *= 3
        return translate(other, words, longest)

    (sound,) = run_checks(stranger(translate=with_a_copy), only="search.model").results
    assert sound.verdict == "passed", sound.measured
    wrong = stranger(translate=partial(with_a_copy, spoil=True))
    (found,) = run_checks(wrong, only="search.model").results
    assert found.verdict == "failed" and "in the full pass" in found.measured, found.measured
