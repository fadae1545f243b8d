"""A search that keeps its shapes says the same, never changes a shape, and hardly ever waits."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nmtlib.data.vocab import EOS, PAD
from nmtlib.inference import search, static
from nmtlib.inference.kernels import convert
from nmtlib.inference.search import beam_search, greedy_search
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.teaching.hardware_lab import ledger

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


@pytest.fixture
def on_a_gpu(monkeypatch):
    """What is searched here takes the way of a GPU."""

    def switch(on=True):
        for module in (static, search):
            monkeypatch.setattr(module, "keeps_shapes", lambda device: on)

    switch()
    return switch


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    eos_bias=st.floats(-3, 3),
    beam=st.integers(1, 5),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    limit=st.sampled_from([None, 1, 7, 8, 9]),
)
def test_the_hypotheses_are_those_of_the_search_on_a_cpu(seed, eos_bias, beam, positions, limit):
    model = make(seed, eos_bias, positions=positions)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for on in (False, True):
            for module in (static, search):
                patch.setattr(module, "keeps_shapes", lambda device, on=on: on)
            best = beam_search(model, SOURCE, beam, n_best=beam, max_length=limit)
            found.append((greedy_search(model, SOURCE, max_length=limit), best))
    (greedy, beams), (same, same_beams) = found
    assert same == greedy
    for one, other in zip(beams, same_beams, strict=True):
        assert [h.ids for h in other] == [h.ids for h in one]
        assert [h.score for h in other] == pytest.approx([h.score for h in one], abs=1e-9)


@pytest.mark.parametrize("beam", [None, 3])
def test_it_looks_only_now_and_then_and_runs_to_the_end_of_the_batch(on_a_gpu, beam, monkeypatch):
    """Nothing else reads a number, and no operation has a result whose size depends on numbers."""
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )
    model, steps, waits = make(3, -1.0), [], {}
    model.register_forward_hook(lambda *_: None)
    plain = model.step
    model.step = lambda tokens, state: steps.append(len(tokens)) or plain(tokens, state)
    run = lambda: greedy_search(model, SOURCE) if beam is None else beam_search(model, SOURCE, beam)  # noqa: E731
    for on in (True, False):
        on_a_gpu(on)
        steps.clear()
        book = ledger(run)
        waits[on] = book.waits + book.operations["nonzero"]
        widths = len(set(steps[1:]))
        assert (widths == 1) == on
        looks = len(steps) // static.LOOK_EVERY
        if on:
            assert waits[on] <= looks + 1, "the greatest length, and a look every few steps"
    assert waits[False] > 2 * waits[True]


def test_a_compiler_sees_one_step_and_then_the_same_again(on_a_gpu):
    """The position is a tensor, and the cache has its size from the start."""
    model, graphs = make(5, -9.0), []
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(
        TokenEmbedding, "forward", lambda self, ids: nn.Embedding.forward(self, ids) * self.scale
    )
    expected = greedy_search(model, SOURCE)
    torch.compiler.reset()
    count = lambda graph, inputs: graphs.append(graph) or graph.forward  # noqa: E731
    try:
        model.step = torch.compile(model.step, backend=count, fullgraph=True)
        assert greedy_search(model, SOURCE) == expected
    finally:
        monkeypatch.undo()
        torch.compiler.reset()
    assert len(expected[0]) > static.LOOK_EVERY and len(graphs) == 1


def test_bfloat16_on_a_gpu_is_a_copy_and_leaves_the_model_alone(monkeypatch):
    model = make().float()
    monkeypatch.setattr("nmtlib.inference.kernels.keeps_shapes", lambda device: True)
    copied = convert(model, "bf16")
    assert {p.dtype for p in copied.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert [len(h) for h in beam_search(copied, SOURCE, 2)] == [1, 1, 1]
