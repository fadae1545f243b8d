"""What several checks share: tiny models, padded batches, and comparisons that say what they found."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.checks.adapter import Adapter, IdPair, Sizes
from nmtlib.checks.registry import Finding

TOLERANCE = (
    1e-4  # for float32 results that are equal but for rounding, relative to 1 + the largest value
)


def tensor(value, what: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """The value, where it is a tensor of that shape holding numbers only; otherwise a Finding."""
    if not isinstance(value, Tensor):
        raise Finding(
            f"{what} is {type(value).__name__}, expected a tensor", "A part returns something else."
        )
    if shape is not None and tuple(value.shape) != shape:
        raise Finding(
            f"{what} has the shape {tuple(value.shape)}, expected {shape}",
            "Axes are exchanged, or a position is lost or added on the way.",
        )
    if not value.isfinite().all():
        raise Finding(
            f"{what} holds NaN or infinity",
            "softmax over nothing but -inf, or a number too large for its type.",
        )
    return value


def distance(actual: Tensor, expected: Tensor, what: str = "the result") -> float:
    """The largest difference, relative to 1 + the largest value expected."""
    actual = tensor(actual, what, tuple(expected.shape)).detach().double()
    expected = tensor(expected, f"{what} to compare with").detach().double()
    if not actual.numel():
        return 0.0
    return float((actual - expected).abs().max() / (1 + expected.abs().max()))


def close(
    actual: Tensor, expected: Tensor, message: str, cause: str = "", tolerance: float = TOLERANCE
) -> float:
    """The distance; a Finding with `message` where it is too large."""
    found = distance(actual, expected)
    if found > tolerance:
        raise Finding(f"{message}: they differ by {found:.2g}", cause)
    return found


def build(adapter: Adapter, seed: int = 0, *, noise: float = 1.0, **sizes) -> nn.Module:
    """A new model in eval mode whose weights are far from those of a careful initialisation.

    Biases that start at 0 and norms that start at 1 hide mistakes.
    """
    torch.manual_seed(seed)
    model = adapter.make_model(Sizes(**sizes))
    if not isinstance(model, nn.Module):
        raise Finding(f"make_model returned {type(model).__name__}, expected a torch.nn.Module")
    with torch.no_grad():
        for parameter in model.parameters():
            size = float(parameter.std()) if parameter.dim() > 1 and parameter.numel() > 1 else 0.0
            parameter.add_(noise * (size or 0.2) * torch.randn_like(parameter))
    return model.eval()


def logits(
    adapter: Adapter, model: nn.Module, source: Tensor, target: Tensor, *, grad: bool = False
) -> Tensor:
    """The model's logits (B, T, V), found to be of that shape and finite."""
    with torch.set_grad_enabled(grad):
        found = adapter.logits(model, source, target)
    tensor(found, "the table of logits")
    if found.dim() != 3 or found.shape[:2] != target.shape:
        raise Finding(
            f"logits have the shape {tuple(found.shape)}, expected ({len(target)}, {target.size(1)}, V)",
            "Batch and time are exchanged, or the last projection is missing.",
        )
    return found


def pairs(
    adapter: Adapter, seed: int, lengths: list[tuple[int, int]], vocab: int = 0
) -> list[IdPair]:
    """Random word ids for sources and targets of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    vocab = vocab or Sizes().target_vocab_size

    def words(count: int) -> list[int]:
        return torch.randint(adapter.first_word, vocab, (count,), generator=generator).tolist()

    return [(words(s), words(t)) for s, t in lengths]


def pad(rows: list[list[int]], value: int) -> Tensor:
    """Rows of any lengths as one tensor, filled up at the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def batch(adapter: Adapter, examples: list[IdPair]) -> tuple[Tensor, Tensor, Tensor]:
    """Source (B, S), decoder input (B, T) and labels (B, T), padded: made here, not by the adapter."""
    source = pad([[*s, adapter.eos] for s, _ in examples], adapter.pad)
    target = pad([[adapter.bos, *t] for _, t in examples], adapter.pad)
    labels = pad([[*t, adapter.eos] for _, t in examples], adapter.pad)
    return source, target, labels


def padded_batch(adapter: Adapter, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Three pairs of different lengths, the first without padding."""
    return batch(adapter, pairs(adapter, seed, [(5, 4), (3, 3), (1, 1)]))


def nll(adapter: Adapter, model: nn.Module, examples: list[IdPair]) -> float:
    """Mean negative log-likelihood a label, in nats, in eval mode; the mode is restored."""
    source, target, labels = batch(adapter, examples)
    training = model.training
    model.eval()
    table = logits(adapter, model, source, target)
    model.train(training)
    return float(
        F.cross_entropy(table.double().flatten(0, 1), labels.flatten(), ignore_index=adapter.pad)
    )
