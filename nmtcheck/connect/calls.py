"""Ways to call a model whose forward does not take two padded tables of ids.

>>> import torch
>>> model = lambda source, target, lengths: (target[:, :, None] * lengths[:, None, None], None)
>>> logits = called(lengths=True)
>>> logits(model, torch.tensor([[5, 6, 0]]), torch.tensor([[1, 5]]))
tensor([[[ 2],
         [10]]])
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter
from nmtcheck.connect.uses import MASK, given_arguments, optional_masks
from nmtcheck.measure.graph import Graph, record_graph
from nmtcheck.measure.helpers import TOLERANCE, another_word, build, distance

# What a mask may be: what True or a number means, and its shape.  As in annotated scripts, as torch
# has them (a `memory_mask` may be one of the memory's padding), as attention layers broadcast them,
# as numbers that are added to scores, and so on.
MASKS = (
    "rows",
    "torch",
    "torch memory",
    "heads",
    "add rows",
    "add heads",
    "hide rows",
    "hide heads",
    "flat",
)

MEMORY = re.compile("mem|enc|src|source")
TARGET = re.compile("trg|tgt|target|dec")


def called(
    *,
    pad: int = 0,
    time_major: bool = False,
    lengths: bool = False,
    shifts: bool = False,
    fixed: int = 0,
    first: int = 0,
    masks: str = "",
    names: tuple[str, ...] = (),
    keyword: str = "",
    head: str = "",
    labels: str = "",
    staged: bool = False,
) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """`Adapter.logits` for a model that is not called as `model(source, target)`.

    `time_major`: it wants and returns time first.  `lengths`: its third argument is the number of
    tokens (B,) of each source that are not `pad`.  `shifts`: it is given the whole target and cuts
    its last place off itself.  `fixed`: it wants exactly so many positions on both sides.  Where it
    returns a tuple, the logits stand at `first`.  `names` are the arguments after source and
    target: masks of one of the kinds `MASKS`, or lengths.  `keyword` names the decoder's input, if
    it is not the second argument; `head` the module that makes logits of what the model returns.
    `labels` names an argument without which it does not run: it returns a loss, whose logits are
    read at their softmax.  `staged`: it has no forward, but `encode` and `decode`.  Logits
    (B * T, V) get their two axes back.
    """

    def logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
        length = target.size(1)
        if fixed:
            source, target = (filled_up(x, fixed, pad) for x in (source, target))
        if shifts:
            target = F.pad(target, (0, 1), value=pad)
        more = {name: extra(name, source, target, pad, masks) for name in names}
        rest = [(source != pad).sum(1)] if lengths else []
        if time_major:
            source, target = source.t().contiguous(), target.t().contiguous()
        by_name = {keyword: target} if keyword else {}
        by_name |= {labels: target} if labels else {}
        with record_graph() if labels else contextlib.nullcontext() as graph:
            run = Stages(model) if staged else model
            found = run(source, *([] if keyword else [target]), *rest, **more, **by_name)
        found = read_softmax(graph, target) if labels else unpack_logits(found, first)
        found = getattr(model, head)(found) if head else found
        found = with_two_axes(found, target, time_major)
        return (found.transpose(0, 1) if time_major else found)[:, :length]

    return logits


def read_softmax(graph: Graph, ids: Tensor) -> Tensor:
    """The logits (B, T, V) of ids (B, T) that the last log-softmax of a pass has read.

    The classes may stand in any axis: torch's own cross-entropy takes (B, V, T).
    """
    last = [node for node in graph.nodes if node.kind is torch.ops.aten._log_softmax][-1]
    return last.read[0].movedim(last.options[0], -1).reshape(*ids.shape, -1)


class Stages:
    """A model without a forward of its own, called by `encode` and then by `decode`.

    >>> class Model(nn.Module):
    ...     def encode(self, src, src_mask): return src * src_mask
    ...     def decode(self, memory, src_mask, tgt): return memory + tgt
    >>> [p.name for p in Stages(Model()).parameters]
    ['source', 'target', 'src_mask']
    >>> Stages(Model())(torch.ones(1), torch.ones(1), src_mask=3)
    tensor([4.])
    """

    def __init__(self, model: nn.Module):
        self.encode, self.decode = (getattr(model, name) for name in ("encode", "decode"))
        both = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.parameters = [inspect.Parameter(name, both) for name in ("source", "target")]
        own = {p.name: p for stage in (self.encode, self.decode) for p in arguments_of(stage)}
        self.parameters += [p for p in own.values() if is_extra(p.name)]

    @staticmethod
    def of(model: nn.Module) -> Stages | None:
        """The stages of a model that has them; None for any other."""
        both = all(callable(getattr(model, name, None)) for name in ("encode", "decode"))
        return Stages(model) if both else None

    def __call__(self, source: Tensor, target: Tensor, **extras: Any) -> Any:
        first, *others = arguments_of(self.encode)
        memory = self.encode(source, **{p.name: extras[p.name] for p in others if p.name in extras})
        memory = memory[0] if isinstance(memory, tuple | list) else memory
        read = arguments_of(self.decode)
        named = {p.name: extras[p.name] for p in read if p.name in extras}
        plain = [p.name for p in read if not is_extra(p.name) and p.default is p.empty]
        # Of two arguments one is the memory: it says so, or the other says that it is the target.
        plain.sort(key=lambda name: MEMORY.search(name.lower()) is None)
        plain.sort(key=lambda name: TARGET.search(name.lower()) is not None)
        named |= dict(zip(plain, (memory, target), strict=False))
        return self.decode(**named)


def arguments_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of a function that can be given by name."""
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in several]


def is_extra(name: str) -> bool:
    """Whether an argument is a mask or lengths, by its name."""
    return bool(MASK.search(name.lower())) or "len" in name.lower()


def with_two_axes(logits: Any, target: Tensor, time_major: bool) -> Any:
    """Logits (B, T, V) where a model returns (B * T, V), and anything else as it is."""
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        return logits
    sentences = target.size(1) if time_major else target.size(0)
    if len(logits) % sentences:
        return logits
    steps = len(logits) // sentences
    axes = (steps, sentences) if time_major else (sentences, steps)
    return logits.reshape(*axes, -1)


def filled_up(ids: Tensor, fixed: int, pad: int) -> Tensor:
    """Ids (B, S) as exactly `fixed` positions; ValueError where there are more."""
    if ids.size(1) > fixed:
        raise ValueError(f"the model takes at most {fixed} positions, not {ids.size(1)}")
    return F.pad(ids, (0, fixed - ids.size(1)), value=pad)


def unpack_logits(found: Any, first: int = 0) -> Any:
    """The logits in what a model returns: an output object, a table, or a tuple."""
    found = found.get("logits") if isinstance(found, dict) else getattr(found, "logits", found)
    if not isinstance(found, tuple | list):
        return found
    tables = [x for x in found[first:] if isinstance(x, Tensor) and x.dim() == 3]
    return tables[0] if tables else found[first]


def extra(name: str, source: Tensor, target: Tensor, pad: int, kind: str) -> Tensor | None:
    """The argument that is meant by a name: a mask of that kind, or lengths."""
    ours = re.search("trg|tgt|target|dec|look|causal|future|sub", name.lower()) is not None
    ids = target if ours and "mem" not in name.lower() else source
    if "len" in name.lower():
        return (ids != pad).sum(1)
    seen, size = ids != pad, ids.size(1)  # (B, S)
    past = torch.ones(size, size, dtype=torch.bool).tril()
    if kind.startswith("torch"):  # True or -inf hides
        if "pad" in name.lower() or (kind == "torch memory" and "mem" in name.lower()):
            return ~seen
        return torch.full((size, size), -math.inf).triu(1) if ids is target else None
    rows = seen[:, None]  # (B, 1, S)
    rows = rows & past if ids is target and "pad" not in name.lower() else rows
    if kind.startswith("add"):
        rows = torch.zeros(rows.shape).masked_fill(~rows, -1e9)
    elif kind.startswith("hide"):
        rows = ~rows
    return seen if kind == "flat" else rows[:, None] if kind.endswith("heads") else rows


def conventions(adapter: Adapter, seed: int) -> dict[str, Any]:
    """The options of `called` with which a model works, if it is not called as `model(s, t)`.

    A model is taken for what it runs as, if then a sentence moves its own logits and no others.
    Masks with the default None are filled if training gives them.
    """
    if adapter.make_model is None or adapter.logits is not Adapter.logits:
        return {}
    model = build(adapter, seed)
    filled = given_masks(adapter, model)
    if filled and (way := conventions_with(adapter, model, filled)):
        return way
    way, stages = conventions_with(adapter, model, ()), Stages.of(model)
    if stages is None or separates(adapter, model, way):
        return way
    return conventions_with(adapter, model, (), stages) or way


def given_masks(adapter: Adapter, model: nn.Module) -> tuple[str, ...]:
    """The masks with the default None that training gives, as an adapter or its file says."""
    given = adapter.given
    if given is None:
        given = tuple(given_arguments(adapter.file, model) or ())
    return tuple(name for name in optional_masks(model) if name in given)


def unsure_masks(adapter: Adapter, way: dict[str, Any], seed: int) -> tuple[str, ...]:
    """The masks with the default None that are left out although training may give them."""
    if adapter.make_model is None or adapter.logits is not Adapter.logits:
        return ()
    model = build(adapter, seed)
    known = adapter.given is not None or given_arguments(adapter.file, model) is not None
    wanted = given_masks(adapter, model) if known else tuple(optional_masks(model))
    return tuple(name for name in wanted if name not in way.get("names", ()))


def conventions_with(
    adapter: Adapter, model: nn.Module, filled: tuple[str, ...], stages: Stages | None = None
) -> dict[str, Any]:
    """The options of `called` with which a model works whose masks `filled` are given as well.

    With `stages` it is called by them and not by its forward.
    """
    parameters = stages.parameters if stages else arguments_of(model.forward)
    needed = [p.name for p in parameters if p.default is p.empty]
    # What is "padded" is a sentence, and no mask.
    extras = [name for name in needed[1:] if is_extra(name)]
    extras += [name for name in filled if name not in extras]
    named = [p.name for p in parameters[1:] if p.name not in extras]
    ours = [name for name in named if re.match("(padded_)?(dec.*in|tgt|trg|target)", name.lower())]
    ways: list[dict[str, Any]] = [{}, {"shifts": True}, {"time_major": True}]
    ways.append({"time_major": True, "shifts": True})
    if stages:
        ways = [{**way, "staged": True} for way in ways]
    if ours and ours[0] not in needed[1:2]:
        ways = [*ways, *({**way, "keyword": ours[0]} for way in ways)]
    if more := tuple(extras):
        ways = [{**way, "masks": kind, "names": more} for way in ways for kind in MASKS]
    rest = [name for name in needed[2:] if name not in [*extras, *ours]]
    if len(rest) == 1:
        ways = [{**way, "labels": rest[0]} for way in ways]
    lengths = {len(t.squeeze()) for t in model.state_dict().values() if t.squeeze().dim() == 2}
    ways += [{**way, "fixed": n} for way in ways for n in sorted(lengths) if 20 <= n <= 300]
    works = [way for way in ways if separates(adapter, model, way)]
    if more and len(works) > 1:  # masks may be taken in the wrong sense, and hide nothing
        works.sort(key=lambda way: not hides(adapter, model, way))
    way = {name: value for name, value in (works or [{}])[0].items() if value}
    with contextlib.suppress(Exception), torch.no_grad():
        ids = torch.full((2, 3), adapter.first_word)
        found = None if way else model(ids, ids)
        if isinstance(found, tuple | list | dict) or (
            isinstance(found, Tensor) and found.dim() == 2
        ):
            way["pad"] = max(adapter.pad, 0)  # any option unpacks what the model returns
    return way | ({"head": head} if (head := unused_head(adapter, model, way)) else {})


def unused_head(adapter: Adapter, model: nn.Module, way: dict[str, Any]) -> str:
    """The name of a part that no pass calls and that takes what the model returns; '' for none."""
    source, target = examples(adapter)
    with contextlib.suppress(Exception), torch.no_grad():
        with record_graph(model) as graph:
            found = called(**{"pad": max(adapter.pad, 0), **way})(model, source, target)
        read = {node.owner.partition(".")[0] for node in graph.nodes}
        for name, part in model.named_children():
            if name in read or not [*part.parameters()]:
                continue
            with contextlib.suppress(Exception):
                if part(found).shape[:2] == target.shape:
                    return name
    return ""


def taken(adapter: Adapter, way: dict[str, Any], pad: int) -> Adapter:
    """The adapter, its model called in that way."""
    return replace(adapter, logits=called(**{"pad": pad, **way})) if way else adapter


def examples(adapter: Adapter) -> tuple[Tensor, Tensor]:
    """Three sources of six words and decoder inputs of four, without special ids."""
    source, target = (torch.arange(3 * n).view(3, n) % 5 + adapter.first_word for n in (6, 4))
    return source, target


def hides(adapter: Adapter, model: Any, way: dict[str, Any]) -> bool:
    """Whether PAD behind a source and later words of the target move no logit."""
    pad, (source, target) = max(adapter.pad, 0), examples(adapter)
    run, later = called(**{"pad": pad, **way}), target.clone()
    later[:, 3] = another_word(adapter, later[:, 3])
    with torch.no_grad(), contextlib.suppress(Exception):
        plain = run(model, source, target)
        padded = run(model, F.pad(source, (0, 2), value=pad), target)
        future = run(model, source, later)[:, :3]
        return max(distance(padded, plain), distance(future, plain[:, :3])) < TOLERANCE
    return False


def separates(adapter: Adapter, model: Any, way: dict[str, Any]) -> bool:
    """Whether a model that is called in this way keeps three sentences apart."""
    source, target = examples(adapter)
    run = called(**{"pad": max(adapter.pad, 0), **way})
    try:
        with torch.no_grad():
            plain = run(model, source, target)
            if plain.dim() != 3 or plain.shape[:2] != target.shape:
                return False
            for ids in (source, target):
                other = ids.clone()
                other[0] = another_word(adapter, other[0])
                given = (other, target) if ids is source else (source, other)
                moved = run(model, *given)
                if distance(moved[1:], plain[1:]) > TOLERANCE or torch.equal(moved[0], plain[0]):
                    return False
    except Exception:  # it is somebody else's code, called in a way that it does not know
        return False
    return True
