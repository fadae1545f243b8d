"""The model and the batches that notebook 12 measures, and what the formulas say about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.teaching.cost import TrainingMemory, flop_terms, training_memory
from nmtlib.data.batching import Batch
from nmtlib.model.attention import padding_mask
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import BOS, PAD

LAYERS = {"n_encoder_layers": 2, "n_decoder_layers": 2}
MIB = 2**20
CONFIG = TransformerConfig(4000, 4000, **LAYERS, d_model=128, n_heads=4, d_ff=512, norm="pre")


def new_model(
    config: TransformerConfig = CONFIG, *, checkpointing: bool = False
) -> tuple[Transformer, torch.optim.Adam]:
    """A model, always with the same weights, and Adam, whose moments are there already."""
    torch.manual_seed(0)
    model = Transformer(config).train()
    model.checkpoint_activations = checkpointing
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # by nothing, but now it has moments
    optimizer.zero_grad()
    return model, optimizer


def random_batch(sentences: int, length: int, config: TransformerConfig = CONFIG) -> Batch:
    """Ids without PAD: so many sentences, `length` positions on either side."""
    size = min(config.source_vocab_size, config.target_vocab_size)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, size, (2, sentences, length + 1), generator=generator)
    return Batch(ids[0, :, 1:], ids[1])


def pad_to(batch: Batch, width: int) -> Batch:
    """The same batch, filled up with PAD to `width` positions on either side."""

    def wide(ids: Tensor) -> Tensor:
        return F.pad(ids, (0, width - ids.size(1)), value=PAD)  # (B, width)

    return Batch(wide(batch.source), wide(batch.target))


def kept_for_backward(module: nn.Module, *inputs: Tensor) -> list[tuple[tuple[int, ...], int]]:
    """Shape and bytes of each tensor that autograd keeps of a forward pass, weights left out."""
    own = {p.data_ptr() for p in module.parameters()}
    kept: dict[int, tuple[tuple[int, ...], int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = (tuple(tensor.shape), tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = module(*inputs)  # held, so that no memory is used twice
    del result
    return list(kept.values())


def sweep(measured_peak: Callable[..., int]) -> dict[str, dict[str, tuple[list, list]]]:
    """Peak memory in MiB against length, sentences and layers, each varied alone.

    `measured_peak(batches, config=...)` gives the bytes.  Returns what `against_formula` draws.
    """
    varied = {
        "length of the sentences": [8, 32, 64, 96],
        "sentences in the batch": [4, 16, 32, 64],
        "layers on each side": [1, 2, 4, 6],
    }
    panels = {}
    for name, values in varied.items():

        def case(value: int, name: str = name) -> tuple[Batch, TransformerConfig]:
            length = value if name.startswith("length") else 24
            sentences = value if name.startswith("sentences") else 16
            layers = value if name.startswith("layers") else 2
            sizes = {"n_encoder_layers": layers, "n_decoder_layers": layers}
            return random_batch(sentences, length), replace(CONFIG, **sizes)

        line = [*range(1, 7), *range(8, values[-1] + 1, 4)]  # with every measured value
        formula = [memory_by_formula(batch, config=config) for batch, config in map(case, line)]
        measured = [measured_peak([batch], config=config) for batch, config in map(case, values)]
        panels[name] = {
            "formula": (line, [m.peak / MIB for m in formula]),
            "measured": (values, [peak / MIB for peak in measured]),
            "floor": (line, [(m.weights + m.moments) / MIB for m in formula]),
        }
    return panels


@torch.no_grad()
def decode(model: Transformer, source: Tensor, cached: bool, words: int = 20) -> Tensor:
    """Greedy search, always for so many words: with a cache, or with all words each time anew."""
    mask = padding_mask(source, PAD)
    generated, memory = torch.full((len(source), 1), BOS), model.encode(source)
    state: Any = model.start(source)
    for _ in range(words):
        if cached:
            logits = model.step(generated[:, -1], state)  # (B, V)
        else:
            logits = model.decode(generated, memory, mask)[:, -1]  # (B, V), the rest unused
        generated = torch.cat([generated, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return generated


def load_word_by_word(texts: Sequence[tuple[str, str]], translator: Any) -> None:
    """Load data as beginners do: search a list for each word, copy a tensor to lengthen it."""
    for pair in texts:
        for text, codec in zip(pair, (translator.source, translator.target), strict=True):
            ids = torch.tensor([], dtype=torch.long)
            for word in text.split():
                ids = torch.cat([ids, torch.tensor([codec.vocab.tokens.index(word)])])


def shape_of(batch: Batch) -> tuple[int, int, int]:
    """Sentences, and positions of source and decoder input."""
    return len(batch.source), batch.source.size(1), batch.labels.size(1)


def positions(batch: Batch) -> int:
    """How many positions the model computes for a batch, PAD included."""
    return batch.source.numel() + batch.decoder_input.numel()


def memory_by_formula(
    batch: Batch,
    precision: torch.dtype = torch.float32,
    checkpointing: bool = False,
    config: TransformerConfig = CONFIG,
) -> TrainingMemory:
    """`training_memory` of an update on a batch."""
    options = {"precision": precision, "checkpointing": checkpointing}
    return training_memory(config, *shape_of(batch), **options)


def epoch_flops(
    batches: Sequence[Batch], checkpointing: bool = False, config: TransformerConfig = CONFIG
) -> float:
    """Operations of an epoch; layers that are recomputed pass forward, a third, once more."""
    total = 0.0
    for batch in batches:
        terms = flop_terms(config, *shape_of(batch))
        flops = sum(terms.values())
        total += flops + checkpointing * (flops - terms["vocabulary"]) / 3
    return total


def two_constants(
    counts: Mapping[int, tuple[int, int]], seconds: Mapping[int, float]
) -> tuple[float, float]:
    """Seconds of a start and of an operation, from the smallest and the largest of some steps.

    `counts` are the operations started and the FLOP of each.  Neither is below zero.
    """
    ends = min(counts), max(counts)
    rows = torch.tensor([counts[end] for end in ends], dtype=torch.float64)
    taken = torch.tensor([seconds[end] for end in ends], dtype=torch.float64)
    start, flop = torch.linalg.solve(rows, taken).tolist()
    return max(start, 0.0), max(flop, 0.0)
