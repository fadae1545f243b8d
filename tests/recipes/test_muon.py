"""Muon for the matrices of the layers, Adam for the rest: what moves, and how far."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nmtcourse.recipes.muon import Muon
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.trainer import ADAM, adam

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(20, 20, d_model=16, n_heads=2, d_ff=32, **LAYERS)
RATE = 0.01


def small_model(tied="none", positions="sinusoidal"):
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, tied=tied, positions=positions))


def with_gradients(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return model


def steps_of(optimizer, model, count=1):
    """What each parameter, by name, moves by in the last of `count` steps at RATE."""
    for group in optimizer.param_groups:
        group["lr"] = RATE
    for seed in range(count):
        with_gradients(model, seed)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.step()
    return {name: p.detach() - before[name] for name, p in model.named_parameters()}


def names_of(optimizer, model, kind):
    """The parameters that one of torch's optimizers moves."""
    parts = getattr(optimizer, "parts", [optimizer])
    groups = [group for part in parts if type(part) is kind for group in part.param_groups]
    own = {id(p) for group in groups for p in group["params"]}
    return {name for name, p in model.named_parameters() if id(p) in own}


@pytest.mark.parametrize("tied", ["none", "target", "all"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_muon_takes_the_matrices_of_the_layers_and_adam_the_rest(tied, positions):
    model = small_model(tied, positions)
    optimizer = Muon(model)
    inside = {n for n, _ in model.named_parameters() if n.startswith(("encoder.", "decoder."))}
    matrices = {name for name in inside if "norm" not in name and name.endswith("weight")}
    assert names_of(optimizer, model, torch.optim.Muon) == matrices
    assert len(matrices) == 4 + 2 + 2 * 4 + 2
    moved = [p for group in optimizer.param_groups for p in group["params"]]
    assert sorted(map(id, moved)) == sorted(map(id, model.parameters()))  # each of them once


def test_adam_is_torchs_adam_and_moves_what_muon_leaves_to_it_alike():
    plain = small_model()
    peer = torch.optim.Adam(plain.parameters(), RATE, **ADAM)
    expected = steps_of(peer, plain, count=3)
    for make in (adam, Muon):
        optimizer = make(model := small_model())
        found = steps_of(optimizer, model, count=3)
        theirs = names_of(optimizer, model, torch.optim.Adam)
        assert (theirs == set(expected)) == (make is adam) and theirs
        for part in theirs:
            assert torch.allclose(found[part], expected[part], atol=1e-6), part


@pytest.mark.parametrize("name", ["encoder.0.feed_forward.fc1", "decoder.0.cross_attention.key"])
def test_muon_goes_equally_far_in_every_direction_of_a_matrix(name):
    model = small_model()
    optimizer, name = Muon(model), f"{name}.weight"
    step = steps_of(optimizer, model)[name]
    # The first step is along the gradient: U V', where the gradient is U S V'.
    left, sizes, right = torch.linalg.svd(model.get_parameter(name).grad, full_matrices=False)
    reached = left.mT @ -step @ right.mT  # the step in the gradient's own directions
    scale = RATE * 0.2 * max(step.shape) ** 0.5
    assert sizes.max() > 5 * sizes.min()  # the gradient itself is far from equal
    assert ((reached.diag() / scale > 0.6) & (reached.diag() / scale < 1.3)).all()
    assert (reached - reached.diag().diag()).abs().max() < 0.05 * scale


def test_without_a_gradient_muon_moves_nothing():
    optimizer, before = Muon(model := small_model()), small_model().state_dict()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = RATE
    optimizer.step()
    assert all(torch.equal(after, before[name]) for name, after in model.state_dict().items())


def test_gradients_are_forgotten_by_both():
    optimizer = Muon(model := with_gradients(small_model()))
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
