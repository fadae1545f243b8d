"""Checks of the blocks: residual connections, norms, feed-forward, dropout, and what gradients
reach.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmtlib.checks.adapter import Adapter, Sizes
from nmtlib.checks.helpers import TOLERANCE, build, distance, logits, padded_batch, tensor
from nmtlib.checks.registry import Finding, check

MODEL = "07_the_full_model"
CLINIC = "15_debugging_clinic"


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalises, judged by its class."""
    return "norm" in type(module).__name__.lower()


def run_layer(module: nn.Module, x: Tensor) -> Tensor:
    """What an encoder layer makes of x (B, S, D) without padding; Finding where the shape is
    another.
    """
    with torch.no_grad():
        mask = torch.ones(len(x), 1, 1, x.size(1), dtype=torch.bool)
        return tensor(module(x, mask), "the result of an encoder layer", tuple(x.shape))


def silent_layer(adapter: Adapter) -> tuple[Tensor, Tensor, bool, bool]:
    """Study an encoder layer: its input x, its result with silent sub-layers, whether a sub-layer
    reads x itself, and whether the result is normalised when the sub-layers speak.

    Sub-layers are silent when all weights but those of norms are zero; then only the residual path
    is left.
    """
    module = adapter.encoder_layer(
        Sizes()
    ).train()  # train mode: torch's eval shortcut calls no sub-module
    x, raw = 2 * torch.randn(2, 5, 16) + 1, []
    inner = [
        m
        for m in module.modules()
        if m is not module and not isinstance(m, nn.Dropout | nn.Identity)
    ]
    inner = [m for m in inner if not any(is_norm(part) for part in m.modules())]
    hooks = [
        m.register_forward_pre_hook(
            lambda _, args, kwargs: raw.extend(
                value.shape == x.shape and torch.allclose(value, x)
                for value in (*args, *kwargs.values())
                if isinstance(value, Tensor)
            ),
            with_kwargs=True,
        )
        for m in inner
    ]
    speaking = run_layer(module, x)
    for hook in hooks:
        hook.remove()
    sizes = (
        speaking.std(-1),
        speaking.pow(2).mean(-1).sqrt(),
    )  # LayerNorm makes the one 1, RMSNorm the other
    normalised = any(bool((size - 1).abs().max() < 0.1) for size in sizes)
    norms = {id(p) for m in module.modules() if is_norm(m) for p in m.parameters()}
    with torch.no_grad():
        for parameter in module.parameters():
            if id(parameter) not in norms:
                parameter.zero_()
    return x, run_layer(module, x), any(raw), normalised


@check(
    "layers.residual",
    cause="The residual connection is missing, or adds the normalised tensor and not the input.",
    notebook=MODEL,
    needs=("encoder_layer",),
)
def residual(adapter: Adapter, seed: int) -> str:
    """A layer whose sub-layers are silent hands its input on."""
    x, silent, reads_input, normalised = silent_layer(adapter)
    # Post-norm hands the input on normalised: every token is a line through that of x, and nothing
    # else.
    centred, given = silent - silent.mean(-1, keepdim=True), x - x.mean(-1, keepdim=True)
    carried = torch.nn.functional.cosine_similarity(centred, given, dim=-1).min()
    if carried < 0.999:
        raise Finding(
            f"only {max(float(carried), 0):.0%} of the direction of the input comes out of a silent layer",
            "There is no residual connection, or it adds another tensor.",
        )
    off = distance(silent, x)
    if not reads_input and not normalised and off > TOLERANCE:
        raise Finding(
            f"sub-layers read normalised input (pre-norm), but the input comes out changed by {off:.2g}",
            "Keep x and add to it: x + sublayer(norm(x)).",
        )
    return "the input comes out " + (
        "unchanged" if off <= TOLERANCE else "normalised, and otherwise unchanged"
    )


@check(
    "layers.normalised_once",
    cause="Pre-norm and post-norm are mixed.",
    notebook=MODEL,
    needs=("encoder_layer",),
)
def normalised_once(adapter: Adapter, seed: int) -> str:
    """A residual block normalises before its sub-layer or after it, not both."""
    x, silent, reads_input, normalised = silent_layer(adapter)
    if not reads_input and normalised:
        raise Finding("sub-layers read normalised input, and the sum is normalised again")
    if reads_input and not normalised:
        raise Finding(
            "sub-layers read their input as it is, and the result is not normalised either",
            "The norm is missing or not called.",
        )
    return (
        "post-norm: normalised after the sum"
        if normalised
        else "pre-norm: normalised before the sub-layer"
    )


@check(
    "layers.feed_forward",
    cause="forward returns another variable than the one that was computed.",
    notebook=MODEL,
    needs=("encoder_layer",),
)
def feed_forward(adapter: Adapter, seed: int) -> str:
    """The feed-forward block changes the result."""
    module, x, width = adapter.encoder_layer(Sizes()).train(), torch.randn(2, 5, 16), Sizes().d_ff
    before, moved = run_layer(module, x), {}
    for name, parameter in module.named_parameters():
        if width in parameter.shape and parameter.dim() > 1:
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter))
            after = run_layer(module, x)
            moved[name], before = distance(after, before), after
    if not moved:
        raise NotImplementedError(f"no parameter of the layer has the size d_ff = {width}")
    unused = [name for name, by in moved.items() if by < TOLERANCE]
    if unused:
        raise Finding(f"{unused[0]!r} can be changed, and the result stays the same")
    return (
        f"each of its {len(moved)} matrices moves the result, by {min(moved.values()):.2f} or more"
    )


@check(
    "layers.gradient",
    cause="A module is made in __init__ and not used in forward, or the graph is cut by "
    "detach, .data or no_grad.",
    notebook=CLINIC,
    needs=("make_model",),
)
def gradient(adapter: Adapter, seed: int) -> str:
    """One backward pass reaches every parameter."""
    model = build(adapter, seed).train()
    source, target, _ = padded_batch(adapter, seed)
    logits(adapter, model, source, target, grad=True).pow(2).mean().backward()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise Finding(
            "the model has no trained parameters",
            "Modules stand in a plain list or dictionary; use nn.ModuleList.",
        )
    # Vectors may be without gradient for a reason: the bias of the keys moves all scores of a query
    # alike.
    without = [n for n, p in trained if p.grad is None or (p.dim() > 1 and not p.grad.any())]
    if without:
        raise Finding(
            f"{len(without)} of {len(trained)} parameters get no gradient, such as {without[0]!r}"
        )
    return f"all {len(trained)} parameters get a gradient"


@check(
    "layers.separate_weights",
    cause="One layer object stands in all places, as in [layer] * n; use copy.deepcopy or a loop.",
    notebook=MODEL,
    needs=("make_model",),
)
def separate_weights(adapter: Adapter, seed: int) -> str:
    """Every layer has weights of its own."""
    sizes = Sizes(source_vocab_size=37, target_vocab_size=37)
    model = adapter.make_model(sizes)
    names: dict[tuple, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        # Tied embeddings and a shared position table are meant; weights of layers are not.
        if parameter.dim() > 1 and not {37, sizes.max_length} & set(parameter.shape):
            names.setdefault((parameter.data_ptr(), parameter.shape), []).append(name)
    shared = [group for group in names.values() if len(group) > 1]
    if shared and adapter.resizable:
        raise Finding(f"{shared[0][0]!r} and {shared[0][1]!r} are one tensor")
    if len(names) < 4:
        raise Finding(
            f"the model has only {len(names)} matrices in its layers",
            "Modules stand in a plain list or dictionary; use nn.ModuleList.",
        )
    return f"{len(names)} matrices in the layers, all of their own"


@check(
    "layers.no_dropout",
    cause="A dropout probability is not passed on (nn.Dropout() is 0.5), or forward asks for "
    "`self.training`.",
    notebook=CLINIC,
    needs=("make_model", "resizable"),
)
def no_dropout(adapter: Adapter, seed: int) -> str:
    """With dropout 0, train mode and eval mode compute the same."""
    model = build(adapter, seed, dropout=0.0)
    source, target, _ = padded_batch(adapter, seed)
    evaluated = logits(adapter, model.eval(), source, target)
    trained = [logits(adapter, model.train(), source, target) for _ in range(2)]
    if distance(trained[0], trained[1]) > TOLERANCE:
        raise Finding(
            "with dropout 0, two passes in train mode differ by "
            f"{distance(trained[0], trained[1]):.2g}"
        )
    # torch's eval shortcut leaves zeros at padded positions.
    real = target != adapter.pad
    off = distance(trained[0][real], evaluated[real])
    if off > TOLERANCE:
        raise Finding(
            f"with dropout 0, train and eval mode differ by {off:.2g}",
            "Something else than dropout depends on `self.training`.",
        )
    return f"train and eval mode agree within {off:.0e}"


@check(
    "layers.dropout_rate",
    cause="The probability is not passed on; nn.Dropout() alone is 0.5.",
    notebook=CLINIC,
    needs=("make_model", "resizable"),
)
def dropout_rate(adapter: Adapter, seed: int) -> str:
    """Every dropout has the probability that was asked for."""
    model = build(adapter, seed, dropout=0.3).train()
    rates = {name: m.p for name, m in model.named_modules() if isinstance(m, nn.Dropout)}
    wrong = {name: p for name, p in rates.items() if p not in (0, 0.3)}
    if wrong:
        name, p = next(iter(wrong.items()))
        raise Finding(f"dropout 0.3 was asked for, but {name!r} has {p}")
    source, target, _ = padded_batch(adapter, seed)
    moved = distance(*(logits(adapter, model, source, target) for _ in range(2)))
    if moved < TOLERANCE and not rates:
        raise NotImplementedError("the model has no dropout")
    if moved < TOLERANCE:
        raise Finding(
            "dropout 0.3 was asked for, and two passes in train mode are equal",
            "Dropout is never applied.",
        )
    return f"{len(rates)} dropout modules with 0.3 or 0; two passes in train mode differ by {moved:.2f}"


@check(
    "layers.dropout_once",
    cause="A sub-layer ends in dropout, and the residual connection drops once more.",
    notebook=MODEL,
    needs=("make_model", "resizable"),
)
def dropout_once(adapter: Adapter, seed: int) -> str:
    """No path goes through two dropouts in a row."""
    model, dropped, twice = build(adapter, seed, dropout=0.3).train(), [], []

    def listen(name: str):
        def hook(module: nn.Module, given: tuple, result: Tensor) -> None:
            if module.p and given and any(given[0] is earlier for earlier in dropped):
                twice.append(name)
            if module.p:
                dropped.append(result)

        return hook

    names = [name for name, m in model.named_modules() if isinstance(m, nn.Dropout)]
    if not names:
        raise NotImplementedError("the model holds no nn.Dropout")
    for name in names:
        model.get_submodule(name).register_forward_hook(listen(name))
    source, target, _ = padded_batch(adapter, seed)
    logits(adapter, model, source, target)
    if twice:
        raise Finding(f"{twice[0]!r} drops what another dropout has just dropped")
    return f"{len(dropped)} dropouts in one pass, none of the result of another"


@check(
    "layers.cross_attention",
    cause="Cross-attention takes its keys and values from the decoder, not from the "
    "encoder's memory.",
    notebook=MODEL,
    needs=("make_model",),
)
def cross_attention(adapter: Adapter, seed: int) -> str:
    """Every source word moves the logits."""
    model = build(adapter, seed)
    source, target, _ = padded_batch(adapter, seed)
    before, moved = logits(adapter, model, source[:1], target[:1]), []
    for place in range(source.size(1) - 1):
        changed = source[:1].clone()
        changed[0, place] = adapter.first_word + (changed[0, place] - adapter.first_word + 1) % 5
        moved.append(distance(logits(adapter, model, changed, target[:1]), before))
    if min(moved) < 1e-6:
        raise Finding(
            f"another word at place {moved.index(min(moved))} of the source changes no logit"
        )
    return f"another source word moves the logits by {min(moved):.2g} or more"
