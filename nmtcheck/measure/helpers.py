"""Shared helpers of the checks: tiny models, padded batches, comparisons that explain."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, IdBatch, IdPair, Sizes
from nmtcheck.registry import Finding

# For float32 results that are equal but for rounding, relative to 1 + the largest value.
TOLERANCE = 1e-4


def tensor(value: object, what: str, shape: tuple[int | str, ...] | None = None) -> Tensor:
    """The value, if it is a tensor of numbers of that shape, where a letter stands for any size."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise Finding(f"{what} is {kind}, expected a tensor")
    known = {n: size for n, size in enumerate(shape or ()) if isinstance(size, int)}
    if shape and (len(shape) != value.dim() or any(value.size(n) != known[n] for n in known)):
        expected = f"({', '.join(map(str, shape))})"
        cause = "Axes are exchanged, or a position is lost or added."
        raise Finding(f"{what} has the shape {tuple(value.shape)}, expected {expected}", cause)
    if not value.isfinite().all():
        cause = "A softmax over -inf only, or a number too large for its dtype."
        raise Finding(f"{what} contains NaN or infinity", cause)
    return value


def distance(actual: Tensor, expected: Tensor, what: str = "the result") -> float:
    """The largest difference, relative to 1 + the largest value expected."""
    actual = tensor(actual, what, tuple(expected.shape)).detach().double()
    expected = tensor(expected, f"{what} to compare with").detach().double()
    if not actual.numel():
        return 0.0
    return float((actual - expected).abs().max() / (1 + expected.abs().max()))


def close(
    actual: Tensor, expected: Tensor, message: str, fits: str = "", tolerance: float = TOLERANCE
) -> float:
    """The distance; a Finding with `message` where it is too large."""
    found = distance(actual, expected)
    if found > tolerance:
        raise Finding(f"{message}: they differ by {found:.2g}", fits)
    return found


def build(adapter: Adapter, seed: int = 0, *, noise: float = 1.0, **sizes: float) -> nn.Module:
    """A new model in eval mode with large weights: biases that start at 0 hide mistakes."""
    torch.manual_seed(seed)
    model = adapter.make_model(Sizes(**sizes))
    if not isinstance(model, nn.Module):
        raise Finding(f"make_model returned {type(model).__name__}, expected a torch.nn.Module")
    with torch.no_grad():
        for parameter in model.parameters():
            size = float(parameter.std()) if parameter.dim() > 1 and parameter.numel() > 1 else 0.0
            parameter.add_(noise * (size or 0.2) * torch.randn_like(parameter))
    return model.eval()


def silence(model: nn.Module) -> nn.Module:
    """The model, its dropout modules switched off: some drop whatever they are asked for."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


@contextlib.contextmanager
def still() -> Iterator[None]:
    """No dropout while the block runs, be it that of a module or a function with a fixed rate."""
    kept = {name: getattr(F, name) for name in ("dropout", "scaled_dot_product_attention")}

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        *given: Any,
        **options: Any,
    ) -> Tensor:
        """The attention without dropout; torch gives what follows, such as is_causal, by place."""
        original = kept["scaled_dot_product_attention"]
        return original(query, key, value, attn_mask, 0.0, *given, **options)

    vars(F).update(dropout=lambda x, *given, **options: x, scaled_dot_product_attention=attend)
    try:
        yield
    finally:
        vars(F).update(kept)


@functools.lru_cache(maxsize=16)
def applies_dropout(adapter: Adapter, seed: int) -> bool:
    """Whether the dropout that is asked for changes a pass in train mode."""
    passes = []
    for dropout in (0.0, 0.5):
        model, source, target = prepare(adapter, seed, dropout=dropout)
        torch.manual_seed(seed)
        passes.append(logits(adapter, model.train(), source, target))
    return distance(*passes) > TOLERANCE


def listed(names: Sequence[str]) -> str:
    """All names in one line, those that differ only in their numbers put together."""
    groups: dict[str, str] = {}
    for name in names:
        starred = re.sub(r"\b\d+\b", "*", name)
        groups[starred] = starred if starred in groups else name
    return ", ".join(map(repr, groups.values()))


def prepare(adapter: Adapter, seed: int, **sizes: float) -> tuple[nn.Module, Tensor, Tensor]:
    """A model as `build` makes it, and the source and decoder input of a `padded_batch`."""
    return build(adapter, seed, **sizes), *padded_batch(adapter, seed)[:2]


def logits(
    adapter: Adapter, model: nn.Module, source: Tensor, target: Tensor, *, grad: bool = False
) -> Tensor:
    """The model's logits (B, T, V), found to be of that shape and finite."""
    with torch.set_grad_enabled(grad):
        found = adapter.logits(model, source, target)
    return tensor(found, "the table of logits", (*target.shape, "V"))


def random_rows(
    first: int, end: int, lengths: Sequence[int], generator: torch.Generator
) -> list[list[int]]:
    """Rows of these lengths, of random ids from `first` on, below `end`."""
    return [torch.randint(first, end, (n,), generator=generator).tolist() for n in lengths]


def pairs(
    adapter: Adapter, seed: int, lengths: list[tuple[int, int]], vocab: int = 0
) -> list[IdPair]:
    """Random word ids for sources and targets of these lengths."""
    generator, end = torch.Generator().manual_seed(seed), vocab or Sizes().target_vocab_size
    return [tuple(random_rows(adapter.first_word, end, pair, generator)) for pair in lengths]


def three_pairs(adapter: Adapter, seed: int) -> list[IdPair]:
    """Three pairs of different lengths, the longest first."""
    return pairs(adapter, seed, [(5, 4), (3, 3), (1, 1)])


def another_word(adapter: Adapter, word: Tensor) -> Tensor:
    """The id of some other word, one of the first five."""
    return adapter.first_word + (word - adapter.first_word + 1) % 5


def words_of(adapter: Adapter, ids: Tensor) -> list[int]:
    """The word ids of a batch, sorted."""
    return sorted(i for i in ids.flatten().tolist() if i >= adapter.first_word)


def pad(rows: list[list[int]], value: int) -> Tensor:
    """Rows of any lengths as one tensor, filled up at the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def source_frame(adapter: Adapter) -> tuple[list[int], list[int]]:
    """The ids before and after the words of a source."""
    ending = [] if adapter.source_eos is False else [adapter.eos]
    return [adapter.bos] if adapter.source_bos else [], ending


def source_rows(adapter: Adapter, sources: Sequence[Sequence[int]]) -> Tensor:
    """Word ids as padded sources (B, S), with the special ids that frame them."""
    before, after = source_frame(adapter)
    return pad([[*before, *words, *after] for words in sources], adapter.pad)


def batch(adapter: Adapter, examples: list[IdPair]) -> IdBatch:
    """Source (B, S), decoder input (B, T) and labels (B, T): padded here, not by the adapter."""
    source = source_rows(adapter, [s for s, _ in examples])
    target = pad([[adapter.bos, *t] for _, t in examples], adapter.pad)
    labels = pad([[*t, adapter.eos] for _, t in examples], adapter.pad)
    return source, target, labels


def padded_batch(adapter: Adapter, seed: int) -> IdBatch:
    """The batch of `three_pairs`; its first row has no padding."""
    return batch(adapter, three_pairs(adapter, seed))


def cross_entropy(adapter: Adapter, table: Tensor, labels: Tensor) -> Tensor:
    """The mean over the labels (B, T) that are not PAD, for logits (B, T, V); in nats."""
    return F.cross_entropy(table.flatten(0, 1), labels.flatten(), ignore_index=adapter.pad)


def padded_gradients(adapter: Adapter, model: nn.Module, seed: int) -> None:
    """Forward and backward pass of a padded batch; a Finding where a number is not finite."""
    source, target, labels = padded_batch(adapter, seed)
    table = logits(adapter, model, source, target, grad=True)
    cross_entropy(adapter, table, labels).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            tensor(parameter.grad, f"the gradient of {name}")


def nll(adapter: Adapter, model: nn.Module, examples: list[IdPair]) -> float:
    """Mean negative log-likelihood per label, in nats, in eval mode; the mode is restored."""
    source, target, labels = batch(adapter, examples)
    training = model.training
    model.eval()
    table = logits(adapter, model, source, target)
    model.train(training)
    return float(cross_entropy(adapter, table.double(), labels))
