"""The judges of notebook 12."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

import torch
from torch import Tensor, nn

from nmtcourse.teaching.cost import training_memory
from nmtcourse.teaching.exercises import agree
from nmtcourse.teaching.hardware_steps import CONFIG, MIB, kept_for_backward
from nmtlib.data.batching import Batch, collate, make_example
from nmtlib.model.layers import DecoderLayer
from nmtlib.model.transformer import Transformer
from nmtlib.specials import PAD
from nmtlib.training.loss import losses

FLOAT32 = torch.float32


def judge_1(most_sentences: Callable[[int, float], int], *, draw: Random) -> str:
    """The largest batch whose update stays within a limit of memory."""
    limits = [(24, 30.0), (24, 35.0), (8, draw.uniform(255, 270))]  # none fits; hundreds do
    limits += [(draw.randint(40, 90), draw.uniform(100, 250)) for _ in range(3)]
    for length, limit in limits:
        count = bisect_right(range(1, 2000), limit, key=partial(peak, length=length))
        agree(most_sentences, length, limit, expected=count, why="one sentence more is too many")
    return f"{len(limits)} limits"


def peak(sentences: int, length: int) -> float:
    """Peak memory of an update in MiB, by the formula."""
    return training_memory(CONFIG, sentences, length, length, precision=FLOAT32).peak / MIB


def judge_2(accumulated: Callable[[nn.Module, Sequence[Batch]], Tensor], *, draw: Random) -> str:
    """The gradient of one large batch, from its parts of different lengths."""
    for _ in range(4):
        model = small_model(draw)
        parts = [draw_batch(draw) for _ in range(draw.randint(2, 4))]
        tokens = sum(int(part.labels.ne(PAD).sum()) for part in parts)
        model.zero_grad()
        for part in parts:
            logits = model(part.source, part.decoder_input)
            (losses(logits, part.labels, 0.1)[0] / tokens).backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        expected = torch.cat(gradients)
        hint = "sum the losses, divide by the tokens of all parts; begin with no gradient"
        agree(accumulated, model, parts, expected=expected, tolerance=1e-9, why=hint)
    return "4 batches in parts"


def small_model(draw: Random) -> Transformer:
    """A model in float64 that has a gradient from before."""
    torch.manual_seed(draw.randrange(1000))
    sizes = {"source_vocab_size": 40, "target_vocab_size": 40, "d_model": 16, "d_ff": 32}
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1, "n_heads": 2, "dropout": 0.0}
    model = Transformer(replace(CONFIG, **sizes, **layers)).double()
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    return model


def draw_batch(draw: Random) -> Batch:
    """Random sentences and targets, each of a length of its own, with PAD after it."""
    examples = []
    for _ in range(draw.randint(1, 6)):
        source, target = (torch.randint(4, 40, (draw.randint(1, 12),)).tolist() for _ in range(2))
        examples.append(make_example(source, target))
    return collate(examples)


def judge_3(
    decoder_layer_bytes: Callable[[int, int, int, int, int, int], int], *, draw: Random
) -> str:
    """What one decoder layer keeps for its backward pass, its memory left out."""
    for _ in range(5):
        B, T, S, H = (draw.randint(1, 4), *draw.sample(range(2, 20), 2), draw.choice([1, 2, 4]))
        D, F = H * draw.choice([4, 8]), draw.choice([24, 40, 64])
        config = replace(CONFIG, d_model=D, n_heads=H, d_ff=F)
        layer = DecoderLayer(config).train()
        x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
        masks = torch.ones(B, 1, T, T).bool(), torch.ones(B, 1, 1, S).bool()
        inputs = x.requires_grad_(), memory.requires_grad_(), *masks
        kept = sum(size for _, size in kept_for_backward(layer, *inputs)) - memory.nbytes
        hint = "measured; two attentions, three norms, and the masks"
        agree(decoder_layer_bytes, B, T, S, D, H, F, expected=kept, tolerance=0.0, why=hint)
    return "5 layers"
