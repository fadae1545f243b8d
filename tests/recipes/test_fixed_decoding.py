"""A search that keeps its shapes says the same, never changes a shape, and hardly ever waits."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nmtcourse.recipes.fixed_decoding import LOOK_EVERY, FixedShapes
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.inference.search import beam_search, greedy_search
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import EOS, PAD

SIZES = {"d_model": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2, "d_ff": 16}
CONFIG = TransformerConfig(30, 30, **SIZES, max_length=40)
SOURCE = torch.tensor([[4, 5, 6, 7, EOS], [8, 4, EOS, PAD, PAD], [6, EOS, PAD, PAD, PAD]])


def make(seed=0, eos_bias=0.0, **changes) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(dataclasses.replace(CONFIG, **changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        model.output.bias[EOS] += eos_bias
    return model.eval()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    eos_bias=st.floats(-3, 3),
    beam=st.integers(1, 5),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    limit=st.sampled_from([None, 1, 7, 8, 9, 39]),
)
def test_the_hypotheses_are_those_of_the_plain_search(seed, eos_bias, beam, positions, limit):
    model = make(seed, eos_bias, positions=positions)
    found = []
    for searched in (model, FixedShapes(model)):
        best = beam_search(searched, SOURCE, beam, n_best=beam, max_length=limit)
        found.append((greedy_search(searched, SOURCE, max_length=limit), best))
    (greedy, beams), (same, same_beams) = found
    assert same == greedy
    for one, other in zip(beams, same_beams, strict=True):
        assert [h.ids for h in other] == [h.ids for h in one]
        assert [h.score for h in other] == pytest.approx([h.score for h in one], abs=1e-9)


def test_a_greater_max_length_than_usual_finds_room():
    model = make(5, -20.0)
    longest = greedy_search(FixedShapes(model), SOURCE, max_length=39)
    assert longest == greedy_search(model, SOURCE, max_length=39)
    assert {len(ids) for ids in longest} == {39} and 2 * SOURCE.size(1) + 10 < 39


@pytest.mark.parametrize("beam", [None, 3])
def test_it_looks_only_now_and_then_and_runs_to_the_end_of_the_batch(beam, monkeypatch):
    """Nothing else reads a number, and no operation has a result whose size depends on numbers."""
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )
    waits = {}
    for searched in (FixedShapes(make(3, -1.0)), make(3, -1.0)):
        steps, plain, fixed = [], searched.step, isinstance(searched, FixedShapes)
        searched.step = lambda tokens, state, steps=steps, plain=plain: (
            steps.append(len(tokens)) or plain(tokens, state)
        )
        book = ledger(
            lambda searched=searched: (
                greedy_search(searched, SOURCE)
                if beam is None
                else beam_search(searched, SOURCE, beam)
            )
        )
        waits[fixed] = book.waits + book.operations["nonzero"]
        assert (len(set(steps[1:])) == 1) == fixed
        if fixed:
            looks = len(steps) // LOOK_EVERY
            assert waits[fixed] <= looks + 1, "the lengths, and a look every few steps"
    assert waits[False] > 2 * waits[True]


def test_a_compiler_sees_one_step_and_then_the_same_again(monkeypatch):
    """The position is a tensor, and the cache has its size from the start."""
    plain, graphs = make(5, -9.0), []
    model = FixedShapes(plain)
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )
    expected = greedy_search(plain, SOURCE)
    torch.compiler.reset()
    count = lambda graph, inputs: graphs.append(graph) or graph.forward  # noqa: E731
    model.step = torch.compile(model.step, backend=count, fullgraph=True)
    assert greedy_search(model, SOURCE) == expected
    torch.compiler.reset()
    assert len(expected[0]) > LOOK_EVERY and len(graphs) == 1
