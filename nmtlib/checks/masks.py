"""Checks of masks: alone, and by what a change of hidden tokens does to a whole model."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import TOLERANCE, build, close, distance, logits, padded_batch, tensor
from nmtlib.checks.registry import Finding, check

MASKING = "06_masking"


def bool_mask(mask, what: str, shape: tuple[int, ...]) -> Tensor:
    """The mask broadcast to `shape`, where it is a bool tensor that can be."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise Finding(
            f"{what} is {kind}, expected a bool tensor",
            "Convert it in the adapter: True = may attend.",
        )
    try:
        return mask.broadcast_to(shape)
    except RuntimeError:
        raise Finding(
            f"{what} has the shape {tuple(mask.shape)}, which does not broadcast to {shape}"
        ) from None


def refuse_difference(
    found: Tensor, expected: Tensor, what: str, causes: dict[str, Tensor]
) -> None:
    """A Finding where two bool masks differ, with the cause whose mask it equals."""
    if not torch.equal(found, expected):
        cause = next((text for text, mask in causes.items() if torch.equal(found, mask)), "")
        raise Finding(
            f"{what}: {int((found != expected).sum())} of {found.numel()} places are wrong", cause
        )


@check(
    "masks.padding",
    cause="Another id than PAD is compared, or queries are masked as well.",
    notebook=MASKING,
    needs=("padding_mask",),
)
def padding(adapter: Adapter, seed: int) -> str:
    """The padding mask hides PAD keys from every query, and nothing else."""
    source, _, _ = padded_batch(adapter, seed)
    rows, length = source.shape
    found = bool_mask(adapter.padding_mask(source), "the padding mask", (rows, 1, length, length))
    keys = (source != adapter.pad)[:, None, None].expand(rows, 1, length, length)
    refuse_difference(
        found,
        keys,
        "padding mask",
        {
            "The mask is inverted: True must mean *may attend* at the border of the adapter.": ~keys,
            "Padded queries are masked too, so that their rows hold nothing.": keys
            & keys.transpose(2, 3),
        },
    )
    return f"hides {int((source == adapter.pad).sum())} PAD of {source.numel()} places, from every query"


@check(
    "masks.causal",
    cause="The triangle starts at the wrong diagonal or is inverted.",
    notebook=MASKING,
    needs=("causal_mask",),
)
def causal(adapter: Adapter, seed: int) -> str:
    """The causal mask shows a position itself and what is before it."""
    for length in (1, 2, 6):
        found = bool_mask(adapter.causal_mask(length), "the causal mask", (1, 1, length, length))[
            0, 0
        ]
        every = torch.ones(length, length, dtype=torch.bool)
        refuse_difference(
            found,
            every.tril(),
            f"causal mask of {length} tokens",
            {
                "Each position sees the next token too: the diagonal is off by one.": every.tril(1),
                "No position sees itself: the diagonal is off by one.": every.tril(-1),
                "The mask is inverted: True must mean *may attend* at the border of the adapter.": ~every.tril(),
                "The triangle is upside down: positions see the future and not the past.": every.triu(),
            },
        )
    return "a triangle with its diagonal, for 1, 2 and 6 tokens"


def future(adapter: Adapter, seed: int, training: bool) -> str:
    """Change the third of five target tokens, and compare the logits before it."""
    model = build(adapter, seed).train(training)
    source, target, _ = padded_batch(adapter, seed)
    changed = target.clone()
    changed[0, 2] = adapter.first_word + (changed[0, 2] - adapter.first_word + 1) % 5

    def run(ids: Tensor) -> Tensor:
        torch.manual_seed(seed)  # so that dropout, where it cannot be switched off, drops the same
        return logits(adapter, model, source, ids)[0]

    before, after = run(target), run(changed)
    leak = distance(after[:2], before[:2])
    if leak > TOLERANCE:
        seen = distance(after[0], before[0]) > TOLERANCE
        raise Finding(
            f"token 2 was changed, and the logits at position {0 if seen else 1} move by {leak:.2g}",
            "" if seen else "Each position sees the next token: the diagonal is off by one.",
        )
    if distance(after[2:], before[2:]) < TOLERANCE:
        raise Finding(
            "a changed token changes nothing after it either",
            "The decoder does not read its input.",
        )
    return f"a changed token moves nothing before it (within {leak:.0e})"


@check(
    "masks.future_in_training",
    cause="The causal mask is missing, inverted, not low enough, or not handed to every layer.",
    notebook=MASKING,
    needs=("make_model",),
)
def future_in_training(adapter: Adapter, seed: int) -> str:
    """In train mode a future token changes nothing before it."""
    return future(adapter, seed, training=True)


@check(
    "masks.future_in_evaluation",
    cause="The causal mask is made in train mode only: `self.training` may decide "
    "on dropout and on nothing else.",
    notebook=MASKING,
    needs=("make_model",),
)
def future_in_evaluation(adapter: Adapter, seed: int) -> str:
    """In eval mode a future token changes nothing before it."""
    try:
        return future(adapter, seed, training=False)
    except Finding as found:
        try:
            future(adapter, seed, training=True)
        except Finding:
            found.cause = found.cause or "The same as in train mode: see masks.future_in_training."
        raise


@check(
    "masks.more_padding",
    cause="A padding mask is missing (often that of cross-attention), or it leaks.",
    notebook=MASKING,
    needs=("make_model",),
)
def more_padding(adapter: Adapter, seed: int) -> str:
    """More padding changes no logit of a real token."""
    model = build(adapter, seed)
    source, target, _ = padded_batch(adapter, seed)
    real, width = target != adapter.pad, target.size(1)
    plain = logits(adapter, model, source, target)[real]
    longer = F.pad(source, (0, 3), value=adapter.pad), F.pad(target, (0, 2), value=adapter.pad)
    off = close(
        logits(adapter, model, longer[0], target)[real],
        plain,
        "three more PAD in the source move logits",
        "The source's padding mask is missing in the encoder or in cross-attention.",
    )
    wider = logits(adapter, model, source, longer[1])[:, :width][real]
    off = max(off, close(wider, plain, "two more PAD in the target move logits"))
    return f"more padding on either side moves logits by at most {off:.0e}"


@check(
    "masks.encoder_padding",
    cause="The encoder's self-attention gets no padding mask.",
    notebook=MASKING,
    needs=("make_model", "encode"),
)
def encoder_padding(adapter: Adapter, seed: int) -> str:
    """The encoder gives a word the same vector with and without padding."""
    model = build(adapter, seed)
    source, _, _ = padded_batch(adapter, seed)
    length = int((source[1] != adapter.pad).sum())
    with torch.no_grad():
        padded = tensor(adapter.encode(model, source), "the memory")[1:2, :length]
        alone = tensor(adapter.encode(model, source[1:2, :length]), "the memory")
    off = close(padded, alone, "the memory of a padded sentence and of the same one alone")
    return f"memory of a sentence, padded and alone, agrees within {off:.0e}"


@check(
    "masks.cross_padding",
    cause="Cross-attention gets no padding mask of the source.",
    notebook=MASKING,
    needs=("make_model", "encode", "decode"),
)
def cross_padding(adapter: Adapter, seed: int) -> str:
    """What the memory holds at PAD changes nothing."""
    model = build(adapter, seed)
    source, target, _ = padded_batch(adapter, seed)
    with torch.no_grad():
        memory = tensor(adapter.encode(model, source), "the memory")
        spoiled = torch.where((source == adapter.pad)[..., None], torch.randn_like(memory), memory)
        before, after = (adapter.decode(model, target, m, source) for m in (memory, spoiled))
    real = target != adapter.pad
    off = close(after[real], before[real], "logits read the memory at PAD")
    return f"random memory at PAD moves logits by at most {off:.0e}"


@check(
    "masks.padded_queries",
    cause="Padded queries are masked too: a row without any key becomes NaN, and so does "
    "every gradient.",
    notebook=MASKING,
    needs=("make_model",),
)
def padded_queries(adapter: Adapter, seed: int) -> str:
    """Logits and gradients are finite where the target is padded."""
    model = build(adapter, seed)
    source, target, labels = padded_batch(adapter, seed)
    for training in (False, True):
        model.train(training)
        table = logits(adapter, model, source, target, grad=True)
        F.cross_entropy(table.flatten(0, 1), labels.flatten(), ignore_index=adapter.pad).backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensor(parameter.grad, f"the gradient of {name}")
    return f"finite at {int((target == adapter.pad).sum())} padded positions, in both modes"
