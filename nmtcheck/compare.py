"""Carry the weights of one model into another, and name the first tensor that differs.

Both are recorded on one batch.  Weights are carried by what they do (the queries of the first
attention of the encoder), not by their names; then the passes are compared from the beginning, on
sentences of one length first, and with padding then.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.connect.ids import find_facts
from nmtcheck.measure.graph import Graph, Linear
from nmtcheck.measure.helpers import silence, words_of
from nmtcheck.measure.paths import find_added, is_lookup
from nmtcheck.measure.reading import PARTS, Attention, read, uneven_batch, visible
from nmtcheck.registry import Finding

CLOSE = 1e-4
WORDS = {"q": "queries", "k": "keys", "v": "values", "o": "joined heads"}


@dataclass
class Side:
    """One of the two models, and what is known of its pass."""

    adapter: Adapter
    model: nn.Module
    ids: tuple[Tensor, Tensor]
    attentions: list[Attention] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)
    roles: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # map, block, blocks

    def read_again(self) -> None:
        """Run the model, and name its linear maps by what they do."""
        reading = read(self.adapter, self.model, *self.ids)
        self.attentions, self.graph = list(reading.attentions), reading.graph
        count, self.roles = Counter[str](), {}
        for each in self.attentions:
            count[each.part] += 1
            softmax = self.graph.attentions[each.number]
            name = f"{PARTS[each.part]} of layer {count[each.part]}"
            users = Counter(softmax.makers)
            for place, (letter, maker) in enumerate(zip("qkv", softmax.makers, strict=True)):
                block = place - (3 - users[maker]) if users[maker] < 3 else place
                block = block if users[maker] > 1 else 0
                self.roles[f"{letter} {name}"] = (maker, block, users[maker])
            self.roles[f"o {name}"] = (softmax.joined, 0, 1)
        known = {maker for maker, *_ in self.roles.values()}
        rest = [n for n in range(len(self.graph.linears)) if n not in known]
        self.roles |= {f"f map {n} outside attention": (m, 0, 1) for n, m in enumerate(rest, 1)}

    def weight(self, role: str) -> tuple[Tensor, Tensor | None]:
        """The weight (in, out) and bias (out,) of a role, as views of the parameters."""
        number, block, blocks = self.roles[role]
        linear: Linear = self.graph.linears[number]
        size = linear.weight.size(1) // blocks
        own = slice(block * size, (block + 1) * size)
        return linear.weight[:, own], None if linear.bias is None else linear.bias[own]

    def tables(self) -> dict[str, Tensor]:
        """Embeddings by what they look up: words of the source, of the target, or positions."""
        result = dict[str, Tensor]()
        for table, ids in (node.read for node in self.graph.nodes if is_lookup(node)):
            words = words_of(self.adapter, ids)
            sides = zip(("source", "target"), self.ids, strict=True)
            same = [n for n, x in sides if words == words_of(self.adapter, x)]
            result.setdefault(same[0] if same else "positions", table)
        return result


def side(adapter: Adapter, like: Side | None = None) -> Side:
    """A new model of an adapter; its batch is that of the other side, with its own special ids."""
    adapter = find_facts(adapter).of(adapter)
    torch.manual_seed(0)
    model = silence(adapter.make_model(Sizes())).eval()
    with torch.no_grad():  # norms of both begin alike; biases of zero would hide mistakes
        for module in model.modules():
            if "Norm" in type(module).__name__ and not [*module.children()]:
                for name, parameter in module.named_parameters(recurse=False):
                    parameter.fill_(float("weight" in name or name in ("gamma", "scale", "a_2")))
    own = uneven_batch(adapter, 0, padded=False) if like is None else None
    new_side = Side(adapter, model, own or translated(like.ids, like.adapter, adapter))
    new_side.read_again()
    return new_side


def translated(batch: tuple[Tensor, ...], old: Adapter, adapter: Adapter) -> tuple[Tensor, ...]:
    """A batch with the special ids of another adapter."""
    converted = []
    for ids in batch:
        new = ids.clone()
        for name in ("pad", "bos", "eos"):
            new[ids == getattr(old, name)] = getattr(adapter, name)
        converted.append(new)
    return tuple(converted)


@torch.no_grad()
def carry(a: Side, b: Side) -> list[str]:
    """Copy the weights of one side into the other; lines about what cannot be carried."""
    lines = list[str]()
    for role in a.roles:
        if role not in b.roles:
            lines.append(f"{b.adapter.name} has no {named(role)}")
            continue
        (source, bias), (target, target_bias) = a.weight(role), b.weight(role)
        if source.shape != target.shape:
            shapes = f"{tuple(source.shape)} and {tuple(target.shape)}"
            lines.append(f"the weights of {named(role)} have the shapes {shapes}")
            continue
        target.copy_(source)
        if target_bias is not None:
            target_bias.copy_(bias) if bias is not None else target_bias.zero_()
        elif bias is not None:
            bias.zero_()
    theirs = b.tables()
    for name, table in a.tables().items():
        if name in theirs and theirs[name].shape == table.shape:
            theirs[name].copy_(table)
    return lines


def named(role: str) -> str:
    """What a role is, for messages."""
    letter, _, place = role.partition(" ")
    return f"the {WORDS[letter]} of {place}" if letter in WORDS else place


def begins(a: Side, b: Side) -> list[str]:
    """Roles whose weights begin with another spread, before anything is carried."""
    lines = list[str]()
    for role in sorted(a.roles.keys() & b.roles.keys()):
        one, two = (float(s.weight(role)[0].detach().std()) for s in (a, b))
        if min(one, two) > 0 and not 0.7 < one / two < 1.4:
            lines.append(f"{named(role)}: standard deviation {one:.3g} and {two:.3g}")
    for name in a.tables().keys() & b.tables().keys():
        one, two = (float(s.tables()[name].detach().std()) for s in (a, b))
        if not 0.7 < one / two < 1.4:
            lines.append(f"the embedding of the {name}: standard deviation {one:.3g} and {two:.3g}")
    return lines


def far(x: Tensor | None, y: Tensor | None) -> bool:
    """Whether two tensors differ by more than rounding, whatever the order of their rows."""
    if x is None or y is None or x.numel() != y.numel() or x.size(-1) != y.size(-1):
        return True
    flat = [t.reshape(-1, t.size(-1)) for t in (x, y)]
    # Time first or batch first: rows are compared as sets, sorted by a random projection.
    axis = torch.randn(flat[0].size(-1), generator=torch.Generator().manual_seed(0))
    one, two = (t[(t @ axis).argsort()] for t in flat)
    return bool((one - two).abs().max() > CLOSE * (1 + one.abs().max()))


def normal(x: Tensor) -> bool:
    """Whether every row of a tensor is normalised: mean 0 and variance 1, or mean square 1."""
    return bool(((x.pow(2).mean(-1) - 1).abs() < 0.02).all())


def input_reason(a: Side, b: Side, x: Tensor, y: Tensor) -> str:
    """Why a linear map reads different tensors."""
    if normal(x) != normal(y):
        one, two = (s.adapter.name for s in ((a, b) if normal(x) else (b, a)))
        return f"place of the norm: {one} normalises before this map, {two} does not"
    return "place of the norm or of the residual connection before this map"


def first_difference(a: Side, b: Side) -> tuple[str, str] | None:
    """The first tensor that differs, and the setting that explains it; None where none does."""
    both = zip(find_added(a.graph), find_added(b.graph), strict=False)
    for number, (one, two) in enumerate(both, start=1):
        what = f"vectors of embedding {number}"
        if not math.isclose(one.factor, two.factor, rel_tol=1e-3):
            return what, f"scale: they are multiplied by {one.factor:.3g} and by {two.factor:.3g}"
        if far(one.total, two.total):
            return what, "positions: what is added to them differs"
    order = sorted(a.roles, key=lambda role: (a.roles[role][0], "qkvof".index(role[0])))
    numbers = {a.roles[f"o {name}"][0]: name for name in places(a)}
    for role in order:
        number, letter = a.roles[role][0], role[0]
        if letter == "o" and (result := inside(a, b, numbers[number])):
            return result
        if role not in b.roles:
            return named(role), f"size: {b.adapter.name} does not have it"
        x, y = (s.graph.linears[s.roles[role][0]].read for s in (a, b))
        if far(x, y):
            if letter == "o":
                return f"what {named(role)} are made of", "heads are joined in another order"
            wide = letter == "f" and x.size(-1) > Sizes().d_model
            reason = "activation" if wide else input_reason(a, b, x, y)
            return (
                f"what {named(role)} reads" if letter == "f" else f"what makes {named(role)}",
                reason,
            )
    if far(a.graph.result, b.graph.result):
        return "the logits", "what follows the last linear map"
    return padded_difference(a, b)


def padded_difference(a: Side, b: Side) -> tuple[str, str] | None:
    """The first attention that reads other positions where sentences are padded."""
    batch = uneven_batch(a.adapter, 0)
    one = read(a.adapter, a.model, *batch)
    two = read(b.adapter, b.model, *translated(batch, a.adapter, b.adapter))
    for name, x, y in zip(places(a), one.attentions, two.attentions, strict=False):
        real, keys = visible(one, a.adapter, x)
        mine, theirs = (each.weights.transpose(1, 2)[real] for each in (x, y))  # (N, H, S)
        if mine.shape == theirs.shape and (mine - theirs).abs().max() > CLOSE:
            pad = ~keys[:, None].expand(-1, real.size(1), -1)[real]  # (N, S)
            most = [float((w * pad[:, None]).max()) for w in (mine, theirs)]
            leak = f"PAD has the weight {most[0]:.2g} in {a.adapter.name}, {most[1]:.2g} in"
            return f"weights of {name}", f"mask: {leak} {b.adapter.name}"
    return None


def places(a: Side) -> list[str]:
    """The names of the attentions of a side, in their order."""
    return [role[2:] for role in a.roles if role.startswith("o ")]


def inside(a: Side, b: Side, name: str) -> tuple[str, str] | None:
    """The first difference within one attention."""
    index = places(a).index(name)
    if index >= len(b.attentions):
        return name, f"size: {b.adapter.name} has {len(b.attentions)} attentions"
    one, two = a.attentions[index], b.attentions[index]
    if one.size != two.size:
        return f"heads of {name}", f"size: {one.size} and {two.size} dimensions a head"
    if abs(one.factor / two.factor - 1) > 1e-3:  # it may be unknown
        scales = f"{1 / one.factor:.3g} and by {1 / two.factor:.3g}"
        return f"scores of {name}", f"scale: they are divided by {scales}"
    if far(one.weights, two.weights):
        hidden = [int((each.weights < 1e-7).sum()) for each in (one, two)]
        counts = f"{a.adapter.name} hides {hidden[0]} of {one.weights.numel()} pairs of positions, "
        counts += f"{b.adapter.name} {hidden[1]}"
        differ = hidden[0] != hidden[1]
        return f"weights of {name}", f"mask: {counts}" if differ else "queries, keys"
    return None


@dataclass(frozen=True)
class Comparison:
    """What two models have in common."""

    names: tuple[str, str]
    initial: tuple[str, ...]  # differences of new weights
    missing: tuple[str, ...]  # what could not be carried
    first: tuple[str, str] | None  # the first tensor that differs, and why

    @property
    def same(self) -> bool:
        return self.first is None and not self.missing

    def __str__(self) -> str:
        lines = [f"{self.names[0]} into {self.names[1]}"]
        for what, found in (("initialisation", self.initial), ("cannot be carried", self.missing)):
            more = f", and {len(found) - 1} more" * (len(found) > 1)
            lines += [f"  {what}: {found[0]}{more}"] if found else []
        if self.first:
            lines += [f"  first difference: {self.first[0]}", f"  {self.first[1]}"]
        elif not self.missing:
            lines.append("  with the same weights all tensors are the same")
        return "\n".join(lines)


def compare(a: Adapter, b: Adapter) -> Comparison:
    """Carry the weights of `a` into a model of `b`, and compare the two from the beginning.

    Raises ValueError where no attention of one of them could be read.
    """
    try:
        one = side(a)
        two = side(b, one)
    except Finding as error:
        raise ValueError(f"nmtcheck could not compare: {error.measured}") from None
    for each in (one, two):
        if not each.attentions:
            raise ValueError(
                f"nmtcheck could not compare: no attention of {each.adapter.name} is read"
            )
    initial = begins(one, two)
    missing = carry(one, two)
    for each in (one, two):
        each.read_again()
    result = None if missing else first_difference(one, two)
    return Comparison((one.adapter.name, two.adapter.name), tuple(initial), tuple(missing), result)
