"""Checks of the layers in a whole model: gradients, weights of their own, dropout, residuals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.graph import PRODUCTS, Node
from nmtcheck.measure.helpers import (
    TOLERANCE,
    another_word,
    applies_dropout,
    close,
    distance,
    listed,
    logits,
    prepare,
    source_frame,
)
from nmtcheck.measure.paths import find_dropouts, layer_of
from nmtcheck.measure.reading import record, run
from nmtcheck.registry import Finding, check

UNHEEDED = "the model has its own dropout, or none: `make_model` does not pass on sizes.dropout"
PLAIN_LIST = "Modules are in a plain list or dictionary; use nn.ModuleList."


@check("layers.gradient", "make_model")
def gradient(adapter: Adapter, seed: int) -> str:
    """One backward pass reaches every parameter."""
    model, source, target = prepare(adapter, seed)
    logits(adapter, model.train(), source, target, grad=True).pow(2).mean().backward()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise Finding("the model has no trainable parameters", PLAIN_LIST)
    # Vectors may be without gradient for a reason: the bias of the keys moves all scores of a query
    # alike.
    without = [n for n, p in trained if p.grad is None or (p.dim() > 1 and not p.grad.any())]
    if without:
        counts = f"{len(without)} of {len(trained)} parameters"
        raise Finding(f"{counts} get no gradient: {listed(without)}")
    return f"all {len(trained)} parameters get a gradient"


@check("layers.separate_weights", "make_model")
def separate_weights(adapter: Adapter, seed: int) -> str:
    """Every layer has its own weights."""
    sizes = Sizes(source_vocab_size=37, target_vocab_size=37)
    model, names = adapter.make_model(sizes), dict[tuple, list[str]]()
    tables = {37, sizes.max_length}
    if not adapter.resizable:
        tables = {m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        # Tied embeddings and a shared position table are meant; weights of layers are not.
        if parameter.dim() > 1 and not tables & set(parameter.shape):
            names.setdefault((parameter.data_ptr(), parameter.shape), []).append(name)
    shared = [group for group in names.values() if len(group) > 1]
    # Of a model of one size, names that differ in a number alone are those of layers in a list.
    for group in sorted(shared, key=lambda group: "," in listed(group)):
        said = f"{group[0]!r} and {group[1]!r} are the same tensor"
        if adapter.resizable or "," not in listed(group):
            raise Finding(said)
        raise NotImplementedError(f"{said}, perhaps a table that is shared on purpose")
    if len(names) < 4:
        message = f"the model has only {len(names)} matrices in its layers"
        raise Finding(message, PLAIN_LIST)
    return f"{len(names)} matrices in the layers, none of them shared"


@check("layers.no_dropout", "make_model", "resizable")
def no_dropout(adapter: Adapter, seed: int) -> str:
    """With dropout 0, train mode and eval mode give the same result."""
    model, source, target = prepare(adapter, seed, dropout=0.0)
    real = target != adapter.pad
    evaluated = logits(adapter, model.eval(), source, target)[real]
    trained = [logits(adapter, model.train(), source, target)[real] for _ in range(2)]
    if not applies_dropout(adapter, seed) and distance(*trained) > TOLERANCE:
        raise NotImplementedError(UNHEEDED)
    close(*trained, "with dropout 0, two passes in train mode differ")
    message = "with dropout 0, train and eval mode differ"
    cause = "Something other than dropout depends on `self.training`."
    off = close(trained[0], evaluated, message, cause)
    return f"train and eval mode agree within {off:.0e}"


@check("layers.dropout_rate", "make_model", "resizable")
def dropout_rate(adapter: Adapter, seed: int) -> str:
    """No dropout keeps 0.5, that of `nn.Dropout()`, where another probability is requested."""
    model, source, target = prepare(adapter, seed, dropout=0.3)
    model.train()
    rates = {name: m.p for name, m in model.named_modules() if isinstance(m, nn.Dropout)}
    if 0.3 not in rates.values() and not applies_dropout(adapter, seed):
        raise NotImplementedError(UNHEEDED)
    # Some parts keep a rate of their own on purpose; that of `nn.Dropout()` is chosen by nobody.
    others = {name: rate for name, rate in rates.items() if rate == 0.5}
    if others:
        found = ", ".join(f"{rate:g}" for rate in sorted(set(others.values())))
        raise Finding(f"dropout 0.3 was requested, but there is {found} in {listed([*others])}")
    moved = distance(*(logits(adapter, model, source, target) for _ in range(2)))
    if moved < TOLERANCE:
        message = "dropout 0.3 was requested, and two passes in train mode are equal"
        raise Finding(message, "Dropout is never applied.")
    shown = " and ".join(f"{rate:g}" for rate in sorted({*rates.values()}))
    modules = f"{len(rates)} dropout modules with {shown}" if rates else "no dropout modules"
    return f"{modules}; two passes in train mode differ by {moved:.2f}"


@check("layers.dropout_once", "make_model", "resizable")
def dropout_once(adapter: Adapter, seed: int) -> str:
    """No value passes through two dropouts in a row."""
    model, source, target = prepare(adapter, seed, dropout=0.3)
    graph = record(adapter, model.train(), source, target)
    dropouts = find_dropouts(graph)
    if not dropouts:
        raise NotImplementedError("nothing is dropped in a pass in train mode")
    outputs = {id(output) for output, _ in dropouts}
    twice = [output for output, read in dropouts if id(read) in outputs]
    if twice:
        places = listed([*dict.fromkeys(owner_before(node) for node in twice)])
        raise Finding(f"the output of a dropout is dropped again, behind {places}")
    return f"{len(dropouts)} dropouts in one pass, none applied to the output of another"


@check("inside.dropout", "make_model", "resizable")
def weights_dropped(adapter: Adapter, seed: int) -> str:
    """In an attention dropout acts behind the softmax, not on the scores that it reads."""
    model, source, target = prepare(adapter, seed, dropout=0.3)
    graph = record(adapter, model.train(), source, target)
    outputs = {id(output) for output, _ in find_dropouts(graph)}
    softmaxes = [node for node in graph.nodes if node.softmax >= 0]
    if not outputs or not softmaxes:
        raise NotImplementedError("no attention was read in a pass in which something is dropped")
    dropped = [node for node in softmaxes if outputs & {*map(id, scores_of(node))}]
    if dropped:
        said = f"in {len(dropped)} of {len(softmaxes)} attentions scores are dropped"
        raise Finding(f"{said} before the softmax")
    return f"nothing is dropped between the product and the softmax of {len(softmaxes)} attentions"


def scores_of(softmax: Node) -> Iterator[Node]:
    """The nodes between the product of an attention and its softmax."""
    ahead = list(softmax.makers[:1])
    while ahead:
        node = ahead.pop()
        if node is not None and node.kind not in PRODUCTS:
            yield node
            ahead += node.makers


def owner_before(node: Node | None) -> str:
    """The parameter that was read last on the way to a node."""
    while node is not None and not node.owner:
        node = next((maker for maker in node.makers if maker is not None), None)
    return node.owner if node else "the embeddings"


@check("layers.cross_attention", "make_model")
def cross_attention(adapter: Adapter, seed: int) -> str:
    """Every source word affects the logits."""
    model, source, target = prepare(adapter, seed)
    before, moved = logits(adapter, model, source[:1], target[:1]), []
    first, _ = map(len, source_frame(adapter))
    for place in range(first, first + 5):  # the words of the longest source
        changed = source[:1].clone()
        changed[0, place] = another_word(adapter, changed[0, place])
        moved.append(distance(logits(adapter, model, changed, target[:1]), before))
    if min(moved) < 1e-6:
        place = moved.index(min(moved))
        raise Finding(f"a different word at position {place} of the source changes no logit")
    return f"a different source word moves the logits by {min(moved):.2g} or more"


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
    for linear in run(adapter, model, source, target).linears:
        layer = layer_of(linear.name)
        fits = [ids for ids in (source, target) if ids.numel() == len(linear.read.flatten(0, -2))]
        if layer in layers and len(fits) == 1:  # the last map of a layer belongs to its own side
            sides[layer] = fits[0]

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
