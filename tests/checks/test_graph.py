"""One recorder: its nodes, their owners, and what paths between them say."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, ours, run_checks
from nmtcheck.connect.calls import called
from nmtcheck.measure.graph import A, Listener, record_graph
from nmtcheck.measure.paths import (
    comes_from,
    find_dropouts,
    find_lookups,
    find_norms,
    find_residuals,
)


def test_a_node_belongs_to_the_parameter_that_it_read_whoever_called_it():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 3, 8)
    with torch.no_grad(), record_graph(nn.ModuleDict({"mha": attention})) as graph:
        attention.forward(x, x, x)  # no hook is called
    owners = {node.owner for node in graph.nodes if node.linear >= 0}
    assert owners == {"mha.in_proj_weight", "mha.out_proj"} and len(graph.attentions) == 1


def test_an_output_is_kept_as_it_was_when_something_is_written_over_it():
    with torch.no_grad(), record_graph() as graph:
        x = torch.ones(3) * 2
        x[1:].add_(5)
        y = x * 10
    values = [n.output.tolist() for n in graph.nodes if n.kind in (A.mul, A.add_)]
    assert values == [[2, 2, 2], [7, 7], [20, 70, 70]] and y.tolist() == [20, 70, 70]
    assert comes_from(graph.nodes[-1], graph.nodes[0])
    assert not comes_from(graph.nodes[0], graph.nodes[-1])


def test_a_listener_exchanges_what_is_read_and_made():
    class Twice(Listener):
        def before(self, kind, args):
            return (args[0] * 2, *args[1:]) if kind is A.relu else args

        def after(self, kind, args, output):
            return output + 1 if kind is A.relu else output

    with torch.no_grad(), record_graph(listener=Twice(), keep=False) as graph:
        assert F.relu(torch.tensor([-1.0, 3.0])).tolist() == [1, 7]
    assert not graph.nodes, "nothing is kept where only the listener asks"


def test_the_fused_attention_of_torch_is_taken_apart_in_inference_mode():
    q = torch.randn(1, 2, 3, 4)
    with torch.inference_mode(), record_graph() as graph:
        F.scaled_dot_product_attention(q, q, q)
    assert len(graph.attentions) == 1


@pytest.mark.parametrize("own", [False, True])
def test_dropouts_are_seen_whoever_writes_them(own):
    x = torch.randn(4, 6)
    with record_graph() as graph:
        y = x * torch.empty_like(x).bernoulli_(0.5).div_(0.5) if own else F.dropout(x, 0.5)
        F.dropout(y.view(6, 4) * 2, 0.5)
        F.dropout(y + 1, 0.5)
    drops = find_dropouts(graph)
    outputs = {id(output) for output, _ in drops}
    assert [id(read) in outputs for _, read in drops] == [False, True, False]


class OwnNorm(nn.Module):
    """A norm as the Annotated Transformer writes it, or that of T5."""

    def __init__(self, size, root=False):
        super().__init__()
        self.a_2, self.root = nn.Parameter(torch.ones(size)), root
        self.b_2 = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        if self.root:
            return self.a_2 * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return self.a_2 * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class Layer(nn.Module):
    def __init__(self, size, norm, style):
        super().__init__()
        self.style, self.norms = style, nn.ModuleList(norm(size) for _ in range(4))
        self.maps = nn.ModuleList(nn.Linear(size, size) for _ in range(4))
        self.gates = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.drop = nn.Dropout(0.1)

    def block(self, n, x):
        if self.style == "gated":
            gate = torch.sigmoid(self.maps[2 * n](x))
            return self.drop(self.maps[2 * n + 1](gate * self.gates[n](x)))
        return self.drop(self.maps[2 * n + 1](F.relu(self.maps[2 * n](x))))

    def forward(self, x):
        first, second, *after = self.norms
        if self.style in ("pre", "gated"):
            x = x + self.block(0, first(x))
            return x + self.block(1, second(x))
        if self.style == "post":
            x = first(x + self.block(0, x))
            return second(self.block(1, x) + x)
        if self.style == "parallel":
            return x + self.block(0, first(x)) + self.block(1, first(x))
        if self.style == "sandwich":
            x = x + after[0](self.block(0, first(x)))
            return x + after[1](self.block(1, second(x)))
        if self.style == "scaled":
            x = 0.7 * x + 0.5 * self.block(0, first(x))
            return x + self.block(1, second(x))
        if self.style == "an earlier tensor":
            y = x + self.block(0, first(x))
            return x + self.block(1, second(y))
        if self.style == "behind its norm":
            y = first(x)
            return y + self.block(0, y)
        raise AssertionError(self.style)


class Stack(nn.Module):
    """A model of stacks of layers without attention: causal, and the source as one vector."""

    def __init__(self, sizes, norm, style):
        super().__init__()
        self.words = nn.Embedding(13, sizes.d_model)
        make = lambda: nn.ModuleList(Layer(sizes.d_model, norm, style) for _ in range(2))  # noqa: E731
        self.encoder, self.decoder = make(), make()
        self.out = nn.Linear(sizes.d_model, 13)

    def forward(self, source, target):
        x, y = self.words(source), self.words(target)
        for layer in self.encoder:
            x = layer(x)
        y = y + x.mean(1, keepdim=True)
        for layer in self.decoder:
            y = layer(y)
        return self.out(y)


class Scaler(nn.Module):
    """A norm in a class of which nothing tells that it is one."""

    def __init__(self, size):
        super().__init__()
        self.gain, self.drop = nn.Parameter(torch.ones(size)), nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(F.normalize(x, dim=-1) * self.gain)


NORMS = {"torch": nn.LayerNorm, "own": OwnNorm, "root": lambda size: OwnNorm(size, root=True)}
HEALTHY = ["pre", "post", "parallel", "sandwich", "scaled", "gated"]


@pytest.mark.parametrize("norm", [*NORMS, "unknown"])
@pytest.mark.parametrize("style", HEALTHY)
def test_a_healthy_stream_raises_no_alarm(style, norm):
    made_by = NORMS.get(norm, Scaler)
    adapter = Adapter(make_model=lambda s: Stack(s, made_by, style), pad=0, bos=1, eos=2)
    (result,) = run_checks(adapter, only="layers.one_stream").results
    if norm == "unknown":  # then it may be read in part
        assert not result.bad, result.measured
    else:
        assert result.measured.startswith("8 blocks"), result.measured


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("style", "said"),
    [
        ("an earlier tensor", "is not added to what its block has read"),
        ("behind its norm", "makes of its layer's input is added again, and the input is not"),
    ],
)
def test_a_residual_around_the_wrong_tensor_is_found(style, said, norm):
    adapter = Adapter(make_model=lambda s: Stack(s, NORMS[norm], style), pad=0, bos=1, eos=2)
    (result,) = run_checks(adapter, only="layers.one_stream").results
    assert result.verdict == "failed" and said in result.measured, result.measured


def test_the_graph_of_our_model_has_its_norms_and_residuals():
    from nmtcheck.measure.reading import reading

    view = reading(ours(), 0)
    norms = find_norms(view.graph, view.model)
    assert len(norms) == 12 and len({norm.module for norm in norms}) == 12
    assert len([*find_residuals(view.graph, norms)]) == 10
    assert [ids.shape for ids in find_lookups(view.graph)] == [(3, 7), (3, 5)]


def test_a_loss_in_the_graph_gives_its_logits_whatever_its_axis():
    class Loss(nn.Module):
        def forward(self, source, target, labels):
            table = F.one_hot(target, 13).float()
            return F.cross_entropy(table.transpose(1, 2), labels)

    ids = torch.randint(4, 13, (3, 4))
    assert torch.equal(called(labels="labels")(Loss(), ids, ids), F.one_hot(ids, 13).float())
