"""Checks of what is around attention in any model: residual connections and activations."""

from __future__ import annotations

import re
from functools import partial

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import another_word, listed, logits, prepare
from nmtcheck.measure.reading import run
from nmtcheck.registry import Finding, check


def stacked(model: nn.Module) -> dict[str, list[Tensor]]:
    """The matrices of each member of a list of layers, by its name; embeddings are no layers."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    members, named = dict[str, list[Tensor]](), dict(model.named_modules())
    for name, weight in model.named_parameters():
        layer = re.match(r".*?\.\d+(?=\.)", name)
        if weight.dim() > 1 and id(weight) not in tables and layer and layer[0] in named:
            members.setdefault(layer[0], []).append(weight)
    return {name: weights for name, weights in members.items() if len(weights) > 1}


@check("inside.residual", "make_model")
@torch.no_grad()
def residual(adapter: Adapter, seed: int) -> str:
    """A layer whose matrices are zero still passes on what it reads."""
    model, source, target = prepare(adapter, seed)
    model.double()  # tells an effect that float32 rounds away from none
    layers, sides = stacked(model), dict[str, Tensor]()

    def listen(name: str, module: nn.Module, inputs: tuple, output: object) -> None:
        sizes = inputs[0].shape[:2] if inputs and isinstance(inputs[0], Tensor) else ()
        fits = [ids for ids in (source, target) if ids.size(1) in sizes]
        sides.update({name: fits[0]} if len(fits) == 1 else {})

    for name in layers:
        model.get_submodule(name).register_forward_hook(partial(listen, name))

    def effect(ids: Tensor) -> float:
        """How far other words on one side move the logits of a sentence's last position."""
        swapped = torch.where(ids < adapter.first_word, ids, another_word(adapter, ids))
        moved = logits(adapter, model, *(swapped if x is ids else x for x in (source, target)))
        return float((moved - logits(adapter, model, source, target))[0, -1].abs().max())

    if not (effect(source) and effect(target) and sides):
        raise NotImplementedError("no way of the words through layers was found")
    for name, ids in list(sides.items()):
        copies = [weight.clone() for weight in layers[name]]
        torch._foreach_zero_(layers[name])
        if effect(ids) < 1e-12:
            side = "source" if ids is source else "target"
            message = f"with the matrices of {name!r} at zero, no word of the {side} moves a logit"
            raise Finding(message, "A residual connection is missing: a layer is x + sublayer(x).")
        torch._foreach_copy_(layers[name], copies)
    return f"{len(sides)} layers pass on what they read when their matrices are zero"


@check("inside.activation", "make_model")
def activation(adapter: Adapter, seed: int) -> str:
    """Between the two linear maps of a feed-forward block is a function that is not linear."""
    model, source, target = prepare(adapter, seed)
    linears = run(adapter, model, source, target).linears
    bare = [x.name for x in linears if x.reads >= 0 and x.output.size(-1) < x.read.size(-1)]
    if bare:
        message = f"{len(bare)} times a linear map reads what another returns: {listed(bare)}"
        raise Finding(message, "The feed-forward block has no activation between its linear maps.")
    if not linears:
        raise NotImplementedError("the model calls no linear maps")
    return f"none of {len(linears)} linear maps reads the unchanged result of another"
