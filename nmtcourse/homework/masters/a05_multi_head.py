"""Homework 05: splitting into heads, multi-head attention, weights copied from torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.homework.compare import holds, refuses, same, shaped
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment
from nmtlib.model import MultiHeadAttention

homework = Assignment(
    "05",
    "multi_head",
    "Multi-head attention",
    opening="""
    You repair a split into heads that is wrong but raises no error, write multi-head attention, and
    copy the weights of torch's own module to prove that two implementations agree.
    """,
    imports=(
        "import torch\nfrom torch import Tensor, nn\nfrom torch.nn import functional as F\n\n"
        "from nmtlib.model import MultiHeadAttention"
    ),
)


@homework.task(
    "easy",
    "Repair a split",
    """
    `wrong_split` splits vectors (B, S, D) into H heads and returns the right shape (B, H, S, d_k),
    with d_k = D / H, but mixes the words: row s of a head does not come from word s. Write
    `split_heads` so that head h contains the numbers h·d_k to (h + 1)·d_k - 1 of each word. A
    number of heads that does not divide D raises a `ValueError`.
    """,
    hints=(
        "Number the entries of three words, as notebook 05 does, and print the wrong split.",
        "Split only the last dimension, then move the heads forward in a second step.",
    ),
    read="notebook 05, the section on the missing transpose",
    given='''
    def wrong_split(x: Tensor, n_heads: int) -> Tensor:
        """Not what it claims to be."""
        return x.reshape(x.size(0), n_heads, x.size(1), -1)
    ''',
    example="""
    print(wrong_split(torch.arange(12).reshape(1, 3, 4), 2)[0, 0])
    """,
    mistakes={
        "The transpose is missing: each head mixes different words.": [
            (
                "x.reshape(batch, length, n_heads, -1).transpose(1, 2)",
                "x.reshape(batch, n_heads, length, -1)",
            )
        ],
        "Each head takes every H-th number of a word instead of adjacent ones.": [
            (
                "x.reshape(batch, length, n_heads, -1).transpose(1, 2)",
                "x.reshape(batch, length, -1, n_heads).permute(0, 3, 1, 2)",
            )
        ],
        "The heads come after the words: (B, S, H, d_k).": [(".transpose(1, 2)", "")],
        "The wrong axes are exchanged: (B, S, d_k, H).": [(".transpose(1, 2)", ".transpose(2, 3)")],
        "A number of heads that does not divide D raises no ValueError.": [
            ("if d_model % n_heads:", "if False:")
        ],
        "The divisibility test is inverted: valid numbers of heads are refused.": [
            ("d_model % n_heads", "n_heads % d_model")
        ],
        "The order of the heads is reversed.": [(".transpose(1, 2)", ".transpose(1, 2).flip(1)")],
    },
)
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split vectors (B, S, D) into heads (B, H, S, d_k) of adjacent numbers."""
    ### BEGIN SOLUTION
    batch, length, d_model = x.shape
    if d_model % n_heads:
        raise ValueError(f"{n_heads} heads cannot share {d_model} numbers evenly")
    return x.reshape(batch, length, n_heads, -1).transpose(1, 2)
    ### END SOLUTION


@homework.check(split_heads, "The heads are the second axis: (B, H, S, d_k).", worth=0)
def has_the_shape(answer, draw: Draw):
    """The shape is (B, H, S, d_k), with all sizes different."""
    batch, length, heads, size = draw.sizes(4)
    shaped(
        answer(draw.normal(batch, length, heads * size), heads), (batch, heads, length, size), "it"
    )


@homework.check(split_heads, "Number the entries and follow one word through your steps.", worth=2)
def each_row_is_a_word(answer, draw: Draw):
    """Row s of head h contains the numbers h·d_k to (h + 1)·d_k - 1 of word s."""
    batch, length, heads, size = draw.sizes(4)
    numbers = torch.randperm(batch * length * heads * size, generator=draw.generator)
    x = numbers.reshape(batch, length, -1).to(draw.dtype)
    found = answer(x, heads)
    for h in range(heads):
        same(found[:, h], x[..., h * size : (h + 1) * size], f"head {h}")


@homework.check(split_heads, "Check that the number of heads divides D before you split.")
def refuses_what_does_not_divide(answer, draw: Draw):
    """A number of heads that does not divide D raises ValueError."""
    x = draw.normal(2, 4, 3 * draw.sizes(1)[0] + 1)
    refuses(answer, (x, 3), f"{x.size(-1)} numbers and 3 heads")


@homework.task(
    "medium",
    "Multi-head attention",
    """
    Write multi-head attention (Vaswani et al. 2017, section 3.2.2) from queries (B, T, D) to a
    memory (B, S, D). `weights` contains four matrices (D, D), `"query"`, `"key"`, `"value"` and
    `"output"`, applied as `x @ weights["query"]`, without biases. Head h uses columns h·d_k to (h +
    1)·d_k - 1. The mask broadcasts to (B, H, T, S); True means may attend. You may use
    `F.scaled_dot_product_attention(query, key, value, mask)`; do not loop over heads.
    """,
    hints=(
        "Project three times, split, attend, merge the heads, project once more.",
        "To merge, exchange the axes of heads and words first, then flatten (H, d_k) to D.",
    ),
    read="notebook 05, the section on all heads at once",
    mistakes={
        "The heads are merged without exchanging the axes back.": [
            ("heads.transpose(1, 2).reshape(query.shape)", "heads.reshape(query.shape)")
        ],
        "The split mixes words: its transpose is missing.": [
            (
                "x.reshape(len(x), x.size(1), n_heads, -1).transpose(1, 2)",
                "x.reshape(len(x), n_heads, x.size(1), -1)",
            )
        ],
        "The output projection is missing.": [(' @ weights["output"]', "")],
        "The keys are computed from the queries, not from the memory.": [
            (
                'split(memory @ weights["key"])',
                'split(query[:, torch.arange(memory.size(1)) % query.size(1)] @ weights["key"])',
            )
        ],
        "Keys and values are exchanged.": [
            ('split(memory @ weights["key"])', 'split(memory @ weights["val""ue"])'),
            ('split(memory @ weights["value"])', 'split(memory @ weights["key"])'),
        ],
        "The mask is ignored.": [("v, mask)", "v)")],
        "The mask is inverted: True means may attend.": [
            ("v, mask)", "v, None if mask is None else ~mask)")
        ],
        "The scores are divided by the root of D, not of d_k.": [
            ("attention(q, k", "attention(q / n_heads**0.5, k")
        ],
        "The matrices are transposed, as in nn.Linear.": [
            ('query @ weights["query"]', 'query @ weights["query"].T')
        ],
    },
)
def multi_head_attention(
    query: Tensor,
    memory: Tensor,
    weights: dict[str, Tensor],
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """Attend from query (B, T, D) to memory (B, S, D) with several heads -> (B, T, D)."""

    ### BEGIN SOLUTION
    def split(x: Tensor) -> Tensor:
        return x.reshape(len(x), x.size(1), n_heads, -1).transpose(1, 2)

    q = split(query @ weights["query"])
    k, v = split(memory @ weights["key"]), split(memory @ weights["value"])
    attention = F.scaled_dot_product_attention
    heads = attention(q, k, v, mask)
    return heads.transpose(1, 2).reshape(query.shape) @ weights["output"]
    ### END SOLUTION


def problem(draw: Draw) -> tuple[Tensor, Tensor, dict[str, Tensor], int]:
    """Query, memory, weights and a number of heads, with all sizes different."""
    batch, t, s, size = draw.sizes(4)
    n_heads = (3, 2, 5)[draw.number]
    d_model = n_heads * size
    names = ("query", "key", "value", "output")
    weights = {name: draw.normal(d_model, d_model) for name in names}
    return draw.normal(batch, t, d_model), draw.normal(batch, s, d_model), weights, n_heads


def expected_of(query: Tensor, memory: Tensor, weights: dict, n_heads: int, mask=None) -> Tensor:
    """The result of the package's module with the same weights."""
    module = MultiHeadAttention(query.size(-1), n_heads).to(query.dtype)
    with torch.no_grad():
        for name, weight in weights.items():
            getattr(module, name).weight.copy_(weight.T)
            getattr(module, name).bias.zero_()
        return module(query, memory, memory, mask)


@homework.check(multi_head_attention, "Compare your shapes with the steps of the section.", worth=0)
def keeps_the_shape(answer, draw: Draw):
    """The result has the shape of the query."""
    given = problem(draw)
    shaped(answer(*given), given[0].shape, "the result")


@homework.check(multi_head_attention, "One head needs no split: check the rest.")
def one_head(answer, draw: Draw):
    """With one head the result is plain attention between four projections."""
    query, memory, weights, _ = problem(draw)
    expected = expected_of(query, memory, weights, 1)
    same(answer(query, memory, weights, 1), expected, "a result with one head")


@homework.check(multi_head_attention, "Check the split, the scale and the merge.", worth=2)
def several_heads(answer, draw: Draw):
    """With several heads the result is that of the package's module, including self-attention."""
    query, memory, weights, n_heads = problem(draw)
    for keys, whom in ((memory, "on a memory"), (query, "in self-attention")):
        what = f"a result of {n_heads} heads {whom}"
        expected = expected_of(query, keys, weights, n_heads)
        same(answer(query, keys, weights, n_heads), expected, what)


@homework.check(multi_head_attention, "Where is the mask applied, and what does True mean?")
def obeys_the_mask(answer, draw: Draw):
    """Masks (T, S), (B, 1, 1, S) and one for each head hide the right keys."""
    query, memory, weights, n_heads = problem(draw)
    batch, t, s = len(query), query.size(1), memory.size(1)
    for shape in [(t, s), (batch, 1, 1, s), (batch, n_heads, t, s)]:
        mask = draw.mask(*shape)
        expected = expected_of(query, memory, weights, n_heads, mask)
        found = answer(query, memory, weights, n_heads, mask)
        same(found, expected, f"a result under a mask {shape}")


@homework.task(
    "hard",
    "Copy torch's weights",
    """
    `nn.MultiheadAttention` stores the matrices of query, key and value, in this order, in one
    `in_proj_weight` (3D, D) with `in_proj_bias` (3D); the output projection is `out_proj`. Write a
    function that returns a new `MultiHeadAttention` of nmtlib with the same sizes, weights and
    dtype, so that both compute the same. If the module has `bias=False`, our biases are zero. The
    copy is independent: changing one module must not change the other.
    """,
    hints=(
        "Print `{name: p.shape for name, p in module.named_parameters()}` for both modules.",
        ("`chunk` splits a tensor into parts; `copy_` within `torch.no_grad()` fills a parameter."),
    ),
    read="notebook 05, the section on torch's module",
    mistakes={
        "The three parts are not taken in the order query, key, value.": [
            ("[ours.query, ours.key, ours.value]", "[ours.key, ours.query, ours.value]")
        ],
        "The matrices are transposed, but both modules use nn.Linear's layout: (out, in).": [
            ("linear.weight.copy_(weight)", "linear.weight.copy_(weight.T)")
        ],
        "The biases of query, key and value are not copied.": [
            ("linear.bias.copy_(bias)", "linear.bias.zero_()")
        ],
        "The output projection is not copied.": [
            ("ours.output.weight.copy_(module.out_proj.weight)", "pass")
        ],
        "The bias of the output projection is not copied.": [
            ("ours.output.bias.copy_(module.out_proj.bias)", "pass")
        ],
        "The number of heads is not the module's.": [
            ("module.num_heads", "1"),
        ],
        "The weights are shared, not copied: training one module changes the other.": [
            (
                "ours.output.weight.copy_(module.out_proj.weight)",
                "ours.output.weight = module.out_proj.weight",
            )
        ],
        "For a module without biases, the random biases of nn.Linear remain.": [
            ("bias = torch.zeros(3 * d_model)", "bias = torch.ones(3 * d_model)"),
        ],
    },
)
def take_over(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """The same attention as a module of nmtlib, with copied weights."""
    ### BEGIN SOLUTION
    d_model = module.embed_dim
    ours = MultiHeadAttention(d_model, module.num_heads).to(module.in_proj_weight.dtype)
    bias = torch.zeros(3 * d_model)
    if module.in_proj_bias is not None:
        bias = module.in_proj_bias
    linears = [ours.query, ours.key, ours.value]
    weights, biases = module.in_proj_weight.chunk(3), bias.chunk(3)
    with torch.no_grad():
        for linear, weight, bias in zip(linears, weights, biases, strict=True):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        ours.output.weight.copy_(module.out_proj.weight)
        ours.output.bias.zero_()
        if module.out_proj.bias is not None:
            ours.output.bias.copy_(module.out_proj.bias)
    return ours
    ### END SOLUTION


def module_of(draw: Draw, bias: bool = True) -> nn.MultiheadAttention:
    """A module of torch with random weights, including the biases, which start at zero."""
    heads, size = draw.sizes(2)
    module = nn.MultiheadAttention(heads * size, heads, bias=bias, batch_first=True).to(draw.dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw.normal(*parameter.shape, scale=0.5))
    return module


def compare_results(ours: nn.Module, module: nn.MultiheadAttention, draw: Draw, what: str) -> None:
    """Raise Finding where two modules disagree on queries and a memory."""
    t, s = draw.sizes(2)
    query, memory = draw.normal(2, t, module.embed_dim), draw.normal(2, s, module.embed_dim)
    with torch.no_grad():
        same(ours(query, memory, memory), module(query, memory, memory)[0], what)


@homework.check(take_over, "Return a MultiHeadAttention of nmtlib.", worth=0)
def returns_our_module(answer, draw: Draw):
    """The result is a MultiHeadAttention with the same sizes and number of heads."""
    module = module_of(draw)
    ours = answer(module)
    holds(isinstance(ours, MultiHeadAttention), f"a {type(ours).__name__}", "a MultiHeadAttention")
    same(ours.n_heads, module.num_heads, "the number of heads")


@homework.check(take_over, "Copy the projections one by one and compare.", worth=2)
def computes_the_same(answer, draw: Draw):
    """Both modules compute the same, for queries and a memory of different lengths."""
    module = module_of(draw)
    ours = answer(module)
    names = ("query", "key", "value")
    for name, weight in zip(names, module.in_proj_weight.detach().chunk(3), strict=True):
        same(getattr(ours, name).weight.detach(), weight, f"the matrix of the {name}")
    compare_results(ours, module, draw, "a result")


@homework.check(take_over, "`in_proj_bias` is None there; what are our biases initially?")
def takes_over_a_module_without_biases(answer, draw: Draw):
    """A module without biases is copied correctly."""
    module = module_of(draw, bias=False)
    compare_results(answer(module), module, draw, "a result without biases")


@homework.check(take_over, "Copy the numbers, not the parameter itself.")
def is_independent(answer, draw: Draw):
    """Changing torch's module later does not change ours, nor the reverse."""
    module = module_of(draw)
    ours = answer(module)
    frozen = sum(not p.requires_grad for p in ours.parameters())
    holds(not frozen, f"{frozen} weights cannot be trained", "none", "They lost `requires_grad`.")
    before = [p.detach().clone() for p in ours.parameters()]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    unchanged = all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))
    holds(unchanged, "our weights change when torch's are changed", "independent weights")


@homework.question(
    "Exchanging two heads",
    options=[
        "It stays the same, up to rounding.",
        "It changes, because each head has learned something different.",
        "It stays the same only if both heads have the same keys.",
    ],
    hints=(
        "Try it: exchange the columns with `torch.cat` and compare the results.",
        "The output projection is a sum with one term for each head.",
    ),
    read="notebook 05, the section on the matrix behind the heads",
    uses=(multi_head_attention,),
)
def what_if_two_heads_change_places(multi_head_attention) -> str:
    """
    Two heads are exchanged: their columns in the matrices of query, key and value, **and** their
    rows in the output matrix. What happens to the result of **your** function?
    """
    draw = Draw(0, 1)
    query, d_model = draw.normal(2, 5, 8), 8
    weights = {name: draw.normal(d_model, d_model) for name in ("query", "key", "value", "output")}
    order = torch.tensor([4, 5, 6, 7, 0, 1, 2, 3])
    exchanged = {name: weight[:, order] for name, weight in weights.items()}
    exchanged["output"] = weights["output"][order]
    one = multi_head_attention(query, query, weights, 2)
    other = multi_head_attention(query, query, exchanged, 2)
    return "A" if torch.allclose(one, other) else "B"
