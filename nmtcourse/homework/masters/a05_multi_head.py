"""Homework 05: splitting into heads, multi-head attention, weights copied from torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.homework.compare import holds, refuses
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.operations import Operations
from nmtcourse.homework.signatures import Either, Float, Made, Mask, Named, Size
from nmtcourse.homework.task import Assignment
from nmtlib.model import MultiHeadAttention

MATRICES = ("query", "key", "value", "output")
SHAPES = "T S | B? H? T? S?"
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
    read="notebook 05, section 4",
    given='''
    def wrong_split(x: Tensor, n_heads: int) -> Tensor:
        """Not what it claims to be."""
        return x.reshape(x.size(0), n_heads, x.size(1), -1)
    ''',
    example="""
    print(wrong_split(torch.arange(12).reshape(1, 3, 4), 2)[0, 0])
    """,
    mistakes=r"""
    The transpose is missing: each head mixes different words.
        .reshape(batch, length, n_heads, -1).transpose(1, 2) => .reshape(batch, n_heads, length, -1)
    Each head takes every H-th number of a word instead of adjacent ones.
        batch, length, n_heads, -1).transpose(1, 2 => batch, length, -1, n_heads).permute(0, 3, 1, 2
    The heads come after the words: (B, S, H, d_k).
        .transpose(1, 2) =>
    The wrong axes are exchanged: (B, S, d_k, H).
        .transpose(1, 2) => .transpose(2, 3)
    A number of heads that does not divide D raises no ValueError.
        if d_model % n_heads: => if False:
    The divisibility test is inverted: valid numbers of heads are refused.
        d_model % n_heads => n_heads % d_model
    The order of the heads is reversed.
        .transpose(1, 2) => .transpose(1, 2).flip(1)
    """,
    signature={"x": Float("B S H*K"), "n_heads": Size("H")},
)
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split vectors (B, S, D) into heads (B, H, S, d_k) of adjacent numbers."""
    ### BEGIN SOLUTION
    batch, length, d_model = x.shape
    if d_model % n_heads:
        raise ValueError(f"{n_heads} heads cannot share {d_model} numbers evenly")
    return x.reshape(batch, length, n_heads, -1).transpose(1, 2)
    ### END SOLUTION


homework.promise(
    split_heads,
    "Row s of head h contains the numbers h·d_k to (h + 1)·d_k - 1 of word s.",
    "Number the entries and follow one word through your steps.",
    worth=2,
)


@homework.check(split_heads, "Check that the number of heads divides D before you split.")
def refuses_what_does_not_divide(answer, draw):
    """A number of heads that does not divide D raises ValueError."""
    (b, s), heads, size = draw.sizes(2), draw.size(2, 9), draw.choose(5)
    d_model = size * heads + draw.size(1, heads - 1)
    refuses(answer, (draw.normal(b, s, d_model), heads), f"{d_model} numbers and {heads} heads")


@homework.task(
    "medium",
    "Multi-head attention",
    """
    Write multi-head attention (Vaswani et al. 2017, section 3.2.2) from queries (B, T, D) to a
    memory (B, S, D). `weights` contains four matrices (D, D), `"query"`, `"key"`, `"value"` and
    `"output"`, applied as `x @ weights["query"]`, without biases. Head h uses columns h·d_k to (h +
    1)·d_k - 1. The mask, (T, S) or of four dimensions, broadcasts to (B, H, T, S); True means may
    attend, and each query may attend to some key. The tensors are float32 or float64, and scores
    may be as large as 100,000. You may use
    `F.scaled_dot_product_attention(query, key, value, mask)`; do not loop over heads.
    """,
    hints=(
        "Project three times, split, attend, merge the heads, project once more.",
        "To merge, exchange the axes of heads and words first, then flatten (H, d_k) to D.",
    ),
    read="notebook 05, section 3",
    mistakes=r"""
    The heads are merged without exchanging the axes back.
        heads.transpose(1, 2).reshape(query.shape) => heads.reshape(query.shape)
    The split mixes words: its transpose is missing.
        (len(x), x.size(1), n_heads, -1).transpose(1, 2) => (len(x), n_heads, x.size(1), -1)
    The output projection is missing.
        @ weights["output"] =>
    The keys are computed from the queries, not from the memory.
        split(memory @ weights["key"])
        => split(query[:, torch.arange(memory.size(1)) % query.size(1)] @ weights["key"])
    Keys and values are exchanged.
        split(memory @ weights["key"]) => split(memory @ weights["val""ue"])
        split(memory @ weights["value"]) => split(memory @ weights["key"])
    The mask is ignored.
        v, mask) => v)
    The mask is inverted: True means may attend.
        v, mask) => v, None if mask is None else ~mask)
    The scores are divided by the root of D, not of d_k.
        attention(q, k => attention(q / n_heads**0.5, k
    The matrices are transposed, as in nn.Linear.
        query @ weights["query"] => query @ weights["query"].T
    """,
    signature={
        "query": Float("B T H*K", half=False, large=2e3),
        "memory": Either("query", Float("B S H*K")),
        "weights": Named(dict.fromkeys(MATRICES, Float("H*K H*K", scale="H*K"))),
        "n_heads": Size("H"),
        "mask": Mask(SHAPES, optional=True, empty=False),
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


homework.promise(
    multi_head_attention,
    "With one head the result is plain attention between four projections.",
    "One head needs no split: check the rest.",
    query=Float("B T 1*K", half=False),
    memory=Either("query", Float("B S 1*K")),
    weights=Named(dict.fromkeys(MATRICES, Float("1*K 1*K", scale="K"))),
    n_heads=1,
    mask=None,
)
homework.promise(
    multi_head_attention,
    "With several heads the result is that of the paper, including self-attention.",
    "Check the split, the scale and the merge.",
    worth=2,
    mask=None,
)
homework.promise(
    multi_head_attention,
    "Masks (T, S), (B, 1, 1, S) and one for each head hide the right keys.",
    "Where is the mask applied, and what does True mean?",
    mask=Mask(SHAPES, empty=False),
)


@homework.check(
    multi_head_attention,
    "One operation can serve all heads: give them an axis.",
    draws=4,
    inside=True,
)
def takes_all_heads_at_once(answer, draw):
    """More heads do not mean more operations: there is no loop over heads."""
    counts = []
    for n_heads in (2, 12):
        query, weight = draw.normal(2, 3, 24), draw.normal(24, 24)
        with Operations() as operations:
            answer(query, query, dict.fromkeys(MATRICES, weight), n_heads)
        counts.append(len(operations.seen))
    measured = f"{counts[0]} operations for 2 heads and {counts[1]} for 12"
    holds(counts[1] < counts[0] + 10, measured, "as many, without a loop")


def module_of(draw: Draw) -> nn.MultiheadAttention:
    """A module of torch with random weights, including the biases, or without biases."""
    (heads, size), bias = draw.sizes(2, large=0), draw.one_of([True, False])
    module = nn.MultiheadAttention(heads * size, heads, bias=bias, batch_first=True).to(draw.dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw.normal(*parameter.shape, scale=0.5))
    return module


@homework.task(
    "hard",
    "Copy torch's weights",
    """
    `nn.MultiheadAttention` stores the matrices of query, key and value, in this order, in one
    `in_proj_weight` (3D, D) with `in_proj_bias` (3D); the output projection is `out_proj`. Write a
    function that returns a new `MultiHeadAttention` of nmtlib with the same sizes, weights and
    dtype, so that both compute the same. If the module has `bias=False`, our biases are zero. The
    copy is independent: changing one module must not change the other. The given module has no
    dropout, and no frozen or shared weights; ours may be parts of one new tensor.
    """,
    hints=(
        "Print `{name: p.shape for name, p in module.named_parameters()}` for both modules.",
        ("`chunk` splits a tensor into parts; `copy_` within `torch.no_grad()` fills a parameter."),
    ),
    read="notebook 05, section 5",
    mistakes=r"""
    The three parts are not taken in the order query, key, value.
        [ours.query, ours.key, ours.value] => [ours.key, ours.query, ours.value]
    The matrices are transposed, but both modules use nn.Linear's layout: (out, in).
        linear.weight.copy_(weight) => linear.weight.copy_(weight.T)
    The biases of query, key and value are not copied.
        linear.bias.copy_(bias) => linear.bias.zero_()
    The output projection is not copied.
        ours.output.weight.copy_(module.out_proj.weight) => pass
    The bias of the output projection is not copied.
        ours.output.bias.copy_(module.out_proj.bias) => pass
    The number of heads is not the module's.
        module.num_heads => 1
    The weights are shared, not copied: training one module changes the other.
        .output.weight.copy_(module.out_proj.weight) => .output.weight = module.out_proj.weight
    For a module without biases, the random biases of nn.Linear remain.
        bias = torch.zeros(3 * d_model) => bias = torch.ones(3 * d_model)
    """,
    signature={"module": Made(module_of)},
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


@homework.check(
    take_over, "Copy the projections one by one and compare.", worth=3, draws=16, whole=True
)
def computes_the_same(answer, module):
    """The result is a MultiHeadAttention with the heads, dtype and weights of torch's module, all
    of which train, and computes the same; where that has no biases, ours are zero.
    """
    ours = answer(module)
    holds(isinstance(ours, MultiHeadAttention), f"a {type(ours).__name__}", "a MultiHeadAttention")
    yield "the number of heads", ours.n_heads
    yield "the weights that train", {n: p.requires_grad for n, p in ours.named_parameters()}
    for name, weight in ours.named_parameters():
        yield f"the weight {name}", weight


@homework.check(take_over, "Copy the numbers, not the parameter itself.", draws=5)
def is_independent(answer, module):
    """Changing one module later changes no other, including a second copy."""
    ours, other = answer(module), answer(module)
    for changed, name in ((module, "torch's module"), (other, "a second copy")):
        for parameter in changed.parameters():
            parameter.detach().add_(1)
        for part, weight in ours.named_parameters():
            yield f"{part} after {name} has changed", weight
    for parameter in ours.parameters():
        parameter.detach().zero_()
    for part, weight in module.named_parameters():
        yield f"torch's {part} after ours has changed", weight


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
    read="notebook 05, section 2",
    uses=(multi_head_attention,),
)
def what_if_two_heads_change_places(multi_head_attention) -> str:
    """
    Two heads are exchanged: their columns in the matrices of query, key and value, **and** their
    rows in the output matrix. What happens to the result of **your** function?
    """
    draw = Draw(0)
    query, d_model = draw.normal(2, 5, 8), 8
    weights = {name: draw.normal(d_model, d_model) for name in ("query", "key", "value", "output")}
    order = torch.tensor([4, 5, 6, 7, 0, 1, 2, 3])
    exchanged = {name: weight[:, order] for name, weight in weights.items()}
    exchanged["output"] = weights["output"][order]
    one = multi_head_attention(query, query, weights, 2)
    other = multi_head_attention(query, query, exchanged, 2)
    return "A" if torch.allclose(one, other) else "B"
