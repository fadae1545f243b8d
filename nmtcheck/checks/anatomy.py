"""Checks that look inside any model: its fixed tensors, and the order of its modules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.helpers import build, logits, prepare
from nmtcheck.measure.proof import explained
from nmtcheck.registry import Finding, check

ROWS = 60  # of a position table that are looked at
OFF = 1e-3  # how far a table in float32 may be from the formula


def plain_tensors(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """The tensors of real numbers that are neither parameters nor buffers: module, name, value."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1:
                yield module, name, value


def fixed_tables(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every table (L, D) that is not trained and as wide as the embeddings, and its name."""
    widths = {m.embedding_dim for m in model.modules() if isinstance(m, nn.Embedding)}
    named: list[tuple[str, Tensor]]
    named = [(name, p) for name, p in model.named_parameters() if not p.requires_grad]
    named += [*model.named_buffers(), *((name, value) for _, name, value in plain_tensors(model))]
    for name, value in named:
        table = value.detach().squeeze()
        if table.dim() == 2 and table.size(1) in widths and table[20:].any():
            yield name, table[:ROWS].double()


def made_of_sines(table: Tensor) -> bool:
    """Whether a table (L, D) holds sines and cosines: one speed a column, or those of the paper."""
    place, second = torch.arange(len(table)).double()[:, None], table[1].clamp(-1, 1)
    angles = torch.stack([second.asin(), math.pi - second.asin(), second.acos()])  # (3, D)
    waves = torch.cat(
        [(place[None] * angles[:, None]).sin(), (place[None] * angles[:, None]).cos()]
    )
    real = table.any(1)  # the row of PAD may be zero; no row of sines and cosines is
    by_column = (waves - table)[:, real].abs().amax(dim=1).amin(dim=0)  # (D,)
    if float(by_column.max()) < OFF:
        return True
    pairs = torch.arange(table.size(1)) // 2
    angle = place * 10000.0 ** (-2 * pairs / table.size(1))  # (L, D)
    by_place = torch.minimum((angle.sin() - table).abs(), (angle.cos() - table).abs())
    return float(by_place[real].max()) < OFF


def rotates(table: Tensor) -> float:
    """How far the best linear map from each row p of a table (L, D) to row p + 7 is off."""
    real = table[:-7].any(1) & table[7:].any(1)  # the row of PAD may be zero
    before, after = table.double()[:-7][real], table.double()[7:][real]
    # Slow dimensions of few positions are almost dependent, hence the driver that tolerates it.
    shift = torch.linalg.lstsq(before, after, driver="gelsd").solution  # (D, D)
    return float((before @ shift - after).abs().max())


@check("positions.table", "make_model", "fixed_positions")
def table_rotates(adapter: Adapter, seed: int) -> str:
    """In a table of sines, one rotation takes every position to the one a few steps on."""
    tables = list(fixed_tables(adapter.make_model(Sizes())))
    tables = [(name, table) for name, table in tables if made_of_sines(table)]
    if not tables:
        raise NotImplementedError("the model contains no sinusoidal table of embedding width")
    for name, table in tables:
        if (off := rotates(table)) > OFF:
            best = f"the best one is off by {off:.2g}"
            raise Finding(f"no linear map takes each row p of {name!r} to row p + 7: {best}")
    return f"one matrix takes each row p of {tables[0][0]!r} to row p + 7"


@check("positions.balance", "make_model")
@torch.no_grad()
def balance(adapter: Adapter, seed: int) -> str:
    """In a new model words move the input of the first layer about as much as positions do."""
    model, first = build(adapter, seed, noise=0.0, d_model=64), adapter.first_word
    widths = {m.embedding_dim for m in model.modules() if isinstance(m, nn.Embedding)}
    read: list[Tensor] = []

    def listen(module: nn.Module, given: tuple) -> None:
        if given and isinstance(given[0], Tensor) and given[0].is_floating_point():
            if given[0].dim() == 3 and given[0].size(-1) in widths and not read:
                read.append(given[0].reshape(-1, given[0].size(-1)).clone())

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.MultiheadAttention | nn.LayerNorm):
            module.register_forward_pre_hook(listen)
    moved = []
    for ids in ([first] * 6, [first + 1] * 6):
        read.clear()
        logits(adapter, model, torch.tensor([ids]), torch.tensor([[adapter.bos, first]]))
        if not read or len(read[0]) != 6:
            raise NotImplementedError("the input of the first layer was not found")
        moved.append(read[0])
    word = float((moved[0] - moved[1]).pow(2).mean().sqrt())
    place = float((moved[0] - moved[0].roll(3, 0)).pow(2).mean().sqrt())
    said = (
        f"another word moves the first layer's input by {word:.2g}, another position by {place:.2g}"
    )
    if word < 0.08 * place:
        cause = "Positions drown the words: multiply embeddings by sqrt(d_model), or start larger."
        raise Finding(said, cause)
    return said


@check("model.device", "make_model")
def device(adapter: Adapter, seed: int) -> str:
    """Everything the model computes with moves with it to a different device."""
    model, source, target = prepare(adapter, seed)
    logits(adapter, model, source, target)  # where no pass succeeds, nothing else can be told
    names = [name for _, name, _ in plain_tensors(model)]
    if not names:
        return "every tensor is a parameter or a buffer, which .to(device) moves"
    try:
        elsewhere(adapter, seed)
    except Exception as error:  # it is somebody else's code
        said = f"{names[0]!r} is neither a parameter nor a buffer, and the pass fails elsewhere"
        found = Finding(said, "Use register_buffer, or nn.Parameter if it learns.")
        explained(adapter, seed, found, registered, elsewhere, "it registered")
        raise found if found.proved else NotImplementedError(str(error)) from None
    return f"{names[0]!r} is not a buffer and is moved in every pass"


def elsewhere(adapter: Adapter, seed: int) -> None:
    """Make a pass on the device 'meta', which holds no numbers and is there on every computer."""
    model, source, target = prepare(adapter, seed)
    with torch.no_grad(), torch.device("meta"):  # masks that a pass makes are made there
        adapter.logits(model.to("meta"), source.to("meta"), target.to("meta"))


def registered(adapter: Adapter) -> Adapter:
    """The adapter of models all of whose tensors are parameters or buffers."""

    def make_model(sizes: Sizes) -> nn.Module:
        model = adapter.make_model(sizes)
        for module, name, value in [*plain_tensors(model)]:
            delattr(module, name)
            module.register_buffer(name, value)
        return model

    return replace(adapter, make_model=make_model)
