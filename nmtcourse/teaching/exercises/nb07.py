"""The judges of notebook 07."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, agree, call, equal, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib.data.batching import collate
from nmtlib.data.corpora import load_corpus
from nmtlib.model.transformer import Transformer
from nmtlib.training.loss import label_smoothed_loss


def judge_1(units: Callable[[Tensor], Tensor], *, draw: Random) -> str:
    """Four hidden units for words made of the meanings person, time, action, past."""
    words = torch.tensor([*product((0.0, 2.0), (0.0, 2.0), (0.0, 2.0), (0.0, 1.0))])  # (16, D)
    words = words[draw.sample(range(16), 16)]
    strong = torch.tensor([[2.0, 0, 0, 1], [3.0, 2, 4, 2], [4.0, 4, 8, 3]])  # on one line
    words = torch.cat([words, strong])  # (19, D)
    given = call(units, words)
    if not isinstance(given, Tensor) or given.shape != (len(words), 4):
        raise Wrong(say(f"units returns {show(given)}, not a tensor of shape (words, 4)"))
    given = given.detach()
    w1 = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1]])  # of section 2
    of_section_2 = (words @ w1 - torch.tensor([1.0, 2, 2])).relu()
    for column, name in enumerate(("person", "time & past", "action & past")):
        for word, unit, expected in zip(
            words.tolist(), given[:, column].tolist(), of_section_2[:, column].tolist(), strict=True
        ):
            require_equal(f"units({word})[{column}], {name}", unit, expected)
    for word, unit in zip(words[:16].tolist(), given[:16, 3].tolist(), strict=True):
        wanted = bool(word[0] and word[3])
        if unit > 0 and not wanted:
            raise Wrong(say(f"the unit person & past should not fire for the word {word}"))
        if wanted and not unit > 0:
            raise Wrong(say(f"the unit person & past should fire for the word {word}"))
    if given.min() < 0:
        raise Wrong(say("a hidden unit is negative; ReLU sets what is below zero to zero"))
    weak, middle, most = given[16:, 3].tolist()
    if not weak < middle < most or abs(weak + most - 2 * middle) > 1e-4:
        raise Wrong(say("where the unit person & past fires, it should grow in a straight line"))
    return "19 words"


def judge_2(
    my_dropout: Callable[[Tensor, float, bool], Tensor],
    my_sublayer: Callable[[Tensor, Any, nn.Module, float, bool], Tensor],
    *,
    draw: Random,
) -> str:
    """Dropout, and a pre-norm sub-layer that drops out what it adds and nothing else."""
    tried = [0.1, 0.25, 0.5, 0.75, round(draw.uniform(0.1, 0.8), 2)]
    for p in tried:
        require_dropout(my_dropout, p)
        require_sublayer(my_sublayer, p)
    return f"p = {', '.join(map(str, tried))}"


def require_dropout(my_dropout: Callable[[Tensor, float, bool], Tensor], p: float) -> None:
    """Raise Wrong unless this is dropout, each number for itself, with its gradient."""
    x = torch.randn(2, 50_000) + 3
    agree(my_dropout, x, p, False, expected=x)
    before = x.clone()
    dropped = call(lambda: my_dropout(x, p, True))
    if not torch.equal(x, before):
        raise Wrong(say("my_dropout changes its input; return a new tensor"))
    require_dropped("my_dropout(x, p, True)", dropped, x, p)
    if torch.equal(dropped, call(my_dropout, x, p, True)):
        raise Wrong(say("my_dropout drops the same numbers at each call"))
    if torch.equal(dropped[0] == 0, dropped[1] == 0):
        raise Wrong(say("my_dropout drops the same numbers in each sentence of a batch"))
    x.requires_grad_()
    dropped = call(lambda: my_dropout(x, p, True))
    expected = (dropped.detach() != 0) / (1 - p)
    require_gradients("my_dropout(x, p, True)", dropped, {"x": (x, expected)})


def require_sublayer(my_sublayer: Callable[..., Tensor], p: float) -> None:
    """Raise Wrong unless a pre-norm sub-layer drops out what it adds, with its gradients."""
    norm, branch = nn.LayerNorm(64), nn.Linear(64, 64)
    nn.init.normal_(norm.weight)
    path = torch.randn(1, 400, 64)
    before = path.clone()
    with torch.no_grad():
        added = branch(norm(path))
        call(lambda: my_sublayer(path, branch, norm, p, True))
        if not torch.equal(path, before):
            raise Wrong(say("my_sublayer changes its input; return a new tensor"))
        what = f"my_sublayer(x, sublayer, norm, {p}, False)"
        outside = call(my_sublayer, path, branch, norm, p, False)
        require_equal(what, outside, path + added, why="x + sublayer(norm(x))")
        in_training = call(lambda: my_sublayer(path, branch, norm, p, True)) - path
    require_dropped("what my_sublayer adds in training", in_training, added, p)
    path.requires_grad_()
    given = call(lambda: my_sublayer(path, branch, norm, p, True))
    mask = (given != path).detach() / (1 - p)  # what was dropped adds exactly nothing
    inputs = {"x": path, "norm.weight": norm.weight, "sublayer.weight": branch.weight}
    sums = torch.autograd.grad((path + mask * branch(norm(path))).sum(), list(inputs.values()))
    expected = {name: (inputs[name], sums[i]) for i, name in enumerate(inputs)}
    require_gradients(f"my_sublayer(x, sublayer, norm, {p}, True)", given, expected)


def require_gradients(what: str, given: Tensor, expected: dict[str, tuple[Tensor, Tensor]]) -> None:
    """Raise Wrong unless the sum of what was given has these gradients, (tensor, gradient) each."""
    for name, (tensor, gradient) in expected.items():
        found = None
        if given.requires_grad:
            (found,) = torch.autograd.grad(
                given.sum(), tensor, retain_graph=True, allow_unused=True
            )
        if found is None:
            raise Wrong(say(f"{what}: no gradient arrives at {name}"))
        if not torch.allclose(found, gradient, rtol=1e-2, atol=1e-2):
            raise Wrong(say(f"{what}: the gradient of {name} is not that of the numbers kept"))


def require_dropped(what: str, given: Any, whole: Tensor, p: float) -> None:
    """Raise Wrong unless a share p of the numbers is zero and the others are 1/(1-p) times."""
    if not isinstance(given, Tensor) or given.shape != whole.shape:
        raise Wrong(say(f"{what} has another shape than what went in"))
    zero = given.abs() < 1e-6
    require_equal(say(f"the share of zeros in {what}"), zero.float().mean().item(), p, 0.02)
    kept = whole[~zero] / (1 - p)
    if not torch.allclose(given[~zero], kept, atol=1e-4):
        raise Wrong(say(f"{what}: the other numbers are not multiplied by 1 / (1 - p)"))


def judge_3(new_model: Callable[[bool, bool], Transformer], *, draw: Random) -> str:
    """Untrained models with a large target table, a tied one, both, or neither."""
    translator, pairs = load_toy("de-en"), draw.sample(load_corpus("toy-de-en").validation, 40)
    batch = collate([translator.example(p.source, p.target) for p in pairs])
    level = math.log(len(translator.target.vocab))
    losses = {}
    for large, tied in product((False, True), repeat=2):
        model, what = call(new_model, large, tied), f"new_model({large}, {tied})"
        if not isinstance(model, Transformer):
            raise Wrong(say(f"{what} returns {show(model)}, not a Transformer"))
        model = model.eval()
        table = model.target_embedding.weight
        is_tied = model.output.weight is table
        require_equal(f"{what}: output.weight is target_embedding.weight", is_tied, tied)
        spread = table.std().item()
        if large and not 0.8 < spread < 1.2:
            message = f"{what}: the target table should have variance 1, not {spread**2:.2g}"
            raise Wrong(say(message))
        if not large and 0.8 < spread < 1.2:
            raise Wrong(say(f"{what}: the target table should not have variance 1"))
        read = model.target_embedding(batch.decoder_input)
        whole = table[batch.decoder_input] * math.sqrt(table.size(1))
        if not torch.allclose(read, whole, atol=1e-4):
            raise Wrong(say("the target embedding has lost its factor"))
        if not tied and model.output.weight.std().item() > 0.5:
            raise Wrong(say(f"{what}: the output layer should stay as it was"))
        with torch.no_grad():
            logits = model(batch.source, batch.decoder_input)
        losses[large, tied] = label_smoothed_loss(logits, batch.labels, 0.0).item()
        if losses[large, tied] < level - 0.5:
            raise Wrong(say(f"{what} was trained: its loss is {losses[large, tied]:.1f}"))
    return f"losses {', '.join(f'{loss:.1f}' for loss in losses.values())}, ln V = {level:.1f}"


def judge_4(make: Callable[[int, int, int, float], nn.Module], *, draw: Random) -> str:
    """An encoder layer with its norms inside the branches, after the sub-layers."""
    size, n_heads = draw.choice(((16, 2), (24, 4), (32, 4)))
    layer = call(make, size, n_heads, 2 * size, 0.5)
    parts = ("attention", "feed_forward", "norms")
    if missing := [part for part in parts if not hasattr(layer, part)]:
        raise Wrong(say(f"the layer has no {', '.join(missing)}; EncoderLayer has"))
    if any(not torch.equal(norm.weight, torch.ones(size)) for norm in layer.norms):
        raise Wrong(say("the gains of the norms should start at 1; set them to 0 afterwards"))
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    x, mask = torch.randn(2, 5, size), torch.rand(2, 1, 5, 5) < 0.7
    mask |= torch.eye(5, dtype=torch.bool)
    with torch.no_grad():
        layer.eval()
        given = call(layer, x, mask)
        norms = list(layer.norms)
        expected = norms_in_branches(layer, norms, x, mask)
        if not equal(given, expected, 1e-4):  # either norm may be that of attention
            norms.reverse()
            expected = norms_in_branches(layer, norms, x, mask)
        require_equal("layer(x, mask)", given, expected, why="x + norm(sublayer(x)), twice")
        require_branch_dropout(layer, norms, x, mask)
        for norm in norms:
            nn.init.zeros_(norm.weight)
            nn.init.zeros_(norm.bias)
        why = "with gains of 0 nothing is added, and dropout leaves the path as it is"
        for mode in (False, True):
            agree(layer.train(mode), x, mask, expected=x, why=why)
    return f"d_model = {size}"


def norms_in_branches(layer: Any, norms: list[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
    """What the layer returns without dropout; the first norm is that of attention."""
    x = x + norms[0](layer.attention(x, x, mask))
    return x + norms[1](layer.feed_forward(x))


def require_branch_dropout(layer: Any, norms: list[nn.Module], x: Tensor, mask: Tensor) -> None:
    """Raise Wrong unless each branch adds zeros in training while the other adds nothing."""
    if isinstance(layer.feed_forward, nn.Module):
        for module in layer.feed_forward.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # that inside feed-forward is another one
    layer.train()
    for name, silent in (("attention", norms[1]), ("feed_forward", norms[0])):
        state = copy.deepcopy(silent.state_dict())
        for parameter in silent.parameters():
            nn.init.zeros_(parameter)
        given = call(layer, x, mask)
        zeros = (given == x).float().mean().item()  # half of what is added, with p = 0.5
        if zeros < 0.2 or torch.equal(given, call(layer, x, mask)):
            raise Wrong(say(f"in training there is no dropout on what {name} adds"))
        silent.load_state_dict(state)
