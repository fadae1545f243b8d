"""The cost formulas agree with what torch counts and keeps."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmtcourse.teaching.cost import peak_memory, training_flops, training_memory
from nmtlib.data.batching import Batch
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import autocast, compute_loss

CPU = torch.device("cpu")
DEPTHS = {"n_encoder_layers": 2, "n_decoder_layers": 1}
RATES = {"dropout": 0.1, "attention_dropout": 0.1}
CONFIG = TransformerConfig(50, 60, d_model=32, n_heads=4, d_ff=96, norm="pre", **DEPTHS, **RATES)
CONFIGS = {
    "pre-norm": CONFIG,
    "post-norm, tied": replace(CONFIG, norm="post", target_vocab_size=50, tied="all"),
    "no dropout": replace(CONFIG, dropout=0.0, attention_dropout=0.0),
    "attention without dropout": replace(CONFIG, attention_dropout=0.0),
    "deep decoder": replace(CONFIG, d_model=64, d_ff=64, n_encoder_layers=1, n_decoder_layers=4),
}
SIZES = [(1, 1, 1), (5, 7, 9), (2, 40, 25), (24, 6, 12)]  # sentences, source length, target length


def make_batch(config, sentences, source_length, target_length):
    return Batch(
        torch.randint(4, config.source_vocab_size, (sentences, source_length)),
        torch.randint(4, config.target_vocab_size, (sentences, target_length + 1)),
    )


def kept_bytes(config, sizes, precision, checkpointing=False):
    """What autograd really keeps of one forward, except weights, tables and log-probabilities."""
    model = Transformer(config)
    model.checkpoint_activations = checkpointing
    batch = make_batch(config, *sizes)
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept = {}

    def pack(x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            # One storage may be kept by several operations.
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        # The graph stays alive, so that no storage is used again.
        with autocast(CPU, precision):
            _graph = compute_loss(model, batch, 0.1)
    return sum(kept.values()) - batch.labels.numel() * config.target_vocab_size * 4


@pytest.mark.slow
def test_the_operations_are_those_that_torch_counts():
    for config, sizes in product(CONFIGS.values(), SIZES):
        model = Transformer(config)
        with FlopCounterMode(display=False) as counter:
            compute_loss(model, make_batch(config, *sizes))[0].backward()
        counted = counter.get_total_flops()
        assert training_flops(config, *sizes) == pytest.approx(counted, rel=0.02), (config, sizes)


PRECISIONS, CHECKPOINTING = (torch.float32, torch.bfloat16), (False, True)


@pytest.mark.slow
def test_the_memory_is_what_autograd_keeps():
    for config, sizes, *how in product(CONFIGS.values(), SIZES, PRECISIONS, CHECKPOINTING):
        memory = training_memory(config, *sizes, precision=how[0], checkpointing=how[1])
        kept = kept_bytes(config, sizes, *how)
        total = memory.activations + memory.weight_copies
        assert total == pytest.approx(kept, rel=0.03), (config, sizes, how)


def test_weights_gradients_and_moments_are_those_of_the_optimizer():
    for config in CONFIGS.values():
        model = Transformer(config)
        optimizer = torch.optim.Adam(model.parameters())
        compute_loss(model, make_batch(config, 2, 5, 6))[0].backward()
        optimizer.step()
        memory = training_memory(config, 2, 5, 6, precision=torch.float32)
        assert memory.weights == sum(p.nbytes for p in model.parameters())
        assert memory.gradients == sum(p.grad.nbytes for p in model.parameters())
        # Not the step counts, which have no dimension.
        moments = [m for state in optimizer.state.values() for m in state.values() if m.dim()]
        assert memory.moments == sum(m.nbytes for m in moments)


PEAKS = [  # vocabulary, layers, sizes, and what is largest there
    (2000, 1, (12, 20, 40)),  # the logits
    (2000, 1, (5, 20, 20)),
    (20, 2, (4, 60, 60)),  # the layers
    (2000, 2, (1, 2, 2)),  # the gradients
]


@pytest.mark.slow
def test_the_peak_is_that_of_a_training_step():
    for (vocabulary, layers, sizes), *how in product(PEAKS, PRECISIONS, CHECKPOINTING):
        depth = {"n_encoder_layers": layers, "n_decoder_layers": layers}
        config = replace(CONFIG, target_vocab_size=vocabulary, **depth)
        model, batch = Transformer(config), make_batch(config, *sizes)
        model.checkpoint_activations = how[1]
        optimizer = torch.optim.Adam(model.parameters(), fused=True)

        def step(model=model, batch=batch, optimizer=optimizer, precision=how[0]):
            with autocast(CPU, precision):
                loss, _ = compute_loss(model, batch, 0.1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step()  # makes the moments, which stay
        memory = training_memory(config, *sizes, precision=how[0], checkpointing=how[1])
        measured = memory.weights + memory.moments + peak_memory(step, CPU)
        assert memory.peak == pytest.approx(measured, rel=0.15), (sizes, how)


def test_the_peak_on_a_gpu_is_what_its_allocator_says_beyond_what_was_there(monkeypatch):
    log, allocated = [], iter([700])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: log.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: next(allocated))
    monkeypatch.setattr(
        torch.cuda, "max_memory_allocated", lambda device: log.append("read") or 1000
    )
    assert peak_memory(lambda: log.append("work"), torch.device("cuda")) == 300
    assert log == ["wait", "reset", "work", "read"]
