"""Checks of the order of words in a whole model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build, distance, logits, silence, source_rows
from nmtcheck.measure.reading import hide, mended, read, uneven_batch
from nmtcheck.registry import Finding, check

ADDED = "No positions are added to the {}'s embeddings. With positions added, the check passes."


def order_matters(adapter: Adapter, seed: int, side: str) -> str:
    """Ask a second model before the first is blamed: attention to one word alone hides an order.

    Where the order counts as soon as masks are repaired, masks are to blame and not positions.
    """
    try:
        return order_seen(adapter, seed, side)
    except Finding:
        pass
    try:
        return order_seen(adapter, seed + 1, side, noise=0.0)
    except Finding as failure:
        if repaired(adapter, seed, side):
            raise NotImplementedError("with masks repaired the order counts: see inside") from None
        with positions_added():
            cause = ADDED.format(side) * repaired(adapter, seed, side)
        raise Finding(failure.measured, cause, failure.possible) from None


def repaired(adapter: Adapter, seed: int, side: str) -> bool:
    """Whether the order counts when the scores are masked as they should be."""
    with contextlib.suppress(Finding):
        order_seen(adapter, seed, side, masked=True)
        return True
    return False


@contextlib.contextmanager
def positions_added() -> Iterator[None]:
    """Add waves to what every embedding of one sentence returns, while the block runs."""

    def add(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor | None:
        if not isinstance(module, nn.Embedding) or output.dim() != 3:
            return None
        # Sentences may be the first axis or the second: rows of a batch begin at other places.
        place = torch.arange(output.size(0))[:, None] + torch.arange(output.size(1))
        waves = (place[..., None] * torch.arange(1, output.size(-1) + 1)).sin()
        return output + output.std() * waves.to(output.dtype)

    handle = register_module_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()


def order_seen(
    adapter: Adapter, seed: int, side: str, *, noise: float = 1.0, masked: bool = False
) -> str:
    """Exchange two words of the source, or two before the last one of the target; replace one."""
    # With two layers even a decoder without positions knows some order, from the causal mask.
    model = build(adapter, seed, noise=noise, n_layers=1)
    if masked:
        failure = read(adapter, silence(model), *uneven_batch(adapter, seed))
        adapter = mended(adapter, failure, hide(["encoder", "cross"], future=False))
        adapter = mended(adapter, failure, hide(["decoder"], future=True))
    words = list(range(adapter.first_word, adapter.first_word + 5))
    # Words of the target change their own logits too: only the last ones count.
    places = slice(None) if side == "source" else slice(-1, None)

    def run(changed: list[int]) -> Tensor:
        source, target = (changed, words) if side == "source" else (words, changed)
        ids = source_rows(adapter, [source]), torch.tensor([[adapter.bos, *target]])
        return logits(adapter, model, *ids)[:, places]

    try:  # what small weights move by 1e-7 is lost in the rounding of float32
        model.double()
        run(words)
        least, share = 1e-8, 1e-6
    except Exception:  # a tensor that does not follow the model: see model.double
        model.float()
        least, share = 1e-4, 1e-3
    exchanged = distance(run([words[2], words[1], words[0], *words[3:]]), run(words))
    replaced = distance(run([words[-1] + 1, *words[1:]]), run(words))
    if replaced == 0 and least < 1e-4:  # in double precision nothing is lost
        never = f"a different first word of the {side} changes no logit"
        raise Finding(never, possible="It is never read.")
    if replaced < least:
        raise NotImplementedError(f"another word of the {side} moves the logits by {replaced:.0e}")
    if exchanged <= share * replaced:
        raise Finding(f"two words of the {side} are exchanged, and no logit changes")
    moved = f"exchanging two words of the {side} moves the logits by {exchanged:.2g}"
    return f"{moved}, a different word by {replaced:.2g}"


@check("positions.source_order", "make_model")
def source_order(adapter: Adapter, seed: int) -> str:
    """The order of the source words matters."""
    return order_matters(adapter, seed, "source")


@check("positions.target_order", "make_model", "resizable")
def target_order(adapter: Adapter, seed: int) -> str:
    """The order of the generated words matters."""
    return order_matters(adapter, seed, "target")
