"""Checks of the order of words in a whole model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build, distance, logits, prepare, silence, source_rows
from nmtcheck.measure.reading import hide, mended, read, reading, run, uneven_batch
from nmtcheck.registry import Finding, check

ALONG_BATCH = """\
Positions are counted along the batch, not along the sentence. With the axes exchanged, the check \
passes."""
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
        with exchanged_axes():
            if repaired(adapter, seed, side) and still(adapter, seed):
                raise Finding(failure.measured, ALONG_BATCH) from None
        unmoved = still(adapter, seed)  # or positions are there, and belong to rows of the batch
        with positions_added():
            cause = ADDED.format(side) * (unmoved and repaired(adapter, seed, side))
        raise Finding(failure.measured, cause, failure.possible) from None


@contextlib.contextmanager
def exchanged_axes() -> Iterator[None]:
    """Every module that only adds positions gets the axes of its input exchanged, and back."""

    def adds(module: nn.Module, given: tuple) -> bool:
        inner = [m for m in module.modules() if [*m.parameters(recurse=False)]]
        learned = all(isinstance(m, nn.Embedding) or m is module for m in inner)
        holds = [*module.buffers(), *module.parameters()]
        one = len(given) == 1 and isinstance(given[0], Tensor) and given[0].dim() == 3
        return one and learned and any(x.squeeze().dim() == 2 for x in holds)

    def before(module: nn.Module, given: tuple) -> tuple | None:
        return (given[0].transpose(0, 1),) if adds(module, given) else None

    def after(module: nn.Module, given: tuple, output: Tensor) -> Tensor | None:
        return output.transpose(0, 1) if adds(module, given) else None

    with register_module_forward_pre_hook(before), register_module_forward_hook(after):
        yield


def still(adapter: Adapter, seed: int) -> bool:
    """Whether another order of the sentences moves no logit."""
    model, source, target = prepare(adapter, seed)
    order = torch.tensor([1, 0, 2])  # masks may be wrong as well: padding is compared with padding
    source, target = source.clone(), target.clone()
    source[1:], target[1:] = source[0].roll(1), target[0].roll(1)
    with contextlib.suppress(Finding):
        plain = logits(adapter, model, source, target)
        return distance(logits(adapter, model, source[order], target[order]), plain[order]) < 1e-4
    return False


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

    with register_module_forward_hook(add):
        yield


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


@check("positions.relative", "make_model")
def relative(adapter: Adapter, seed: int) -> str:
    """Positions that are not added to the embeddings count by their distance alone."""
    view, words = reading(adapter, seed), 6
    numbers = [each.number for each in view.attentions if each.part == "encoder"]
    if not numbers:
        raise NotImplementedError("no self-attention of the encoder was read")
    source = source_rows(adapter, [[adapter.first_word] * words])
    start = int((source[0] == adapter.first_word).nonzero()[0, 0])
    seen = run(adapter, view.model, source, view.target[:1]).attentions[min(numbers)]
    rows = slice(start, start + words)
    query, key = seen.query[:, rows], seen.key[..., rows]
    maker = view.trace.linears[seen.makers[0]].name if seen.makers[0] >= 0 else ""
    linears = run(adapter, view.model, source, view.target[:1]).linears
    read = next((x.read for x in linears if x.name == maker), None)
    if read is None or len(read) != source.size(1) or float(read[rows].std(0).max()) > 1e-5:
        raise NotImplementedError("positions are added to the embeddings")
    scores = query @ key
    along, size = scores.diagonal(1, -2, -1), float(scores.std())
    off = float((along.amax(-1) - along.amin(-1)).max())
    if off > 0.01 * size:
        said = f"scores of one word at one distance differ by {off:.2g}; all scores by {size:.2g}"
        cause = "Queries and keys are not rotated: sines and cosines belong to other pairs."
        raise Finding(said, possible=cause)
    return f"scores of one word at one distance agree within {off:.0e}"
