"""Homework 04: a softmax that does not overflow, attention with a mask, causal self-attention."""

import math
from functools import partial

import torch
from torch import Tensor

from nmtcourse.homework.compare import holds
from nmtcourse.homework.signatures import Float, Mask
from nmtcourse.homework.task import Assignment

SHAPES = "...? T? S?"
homework = Assignment(
    "04",
    "attention",
    "Scaled dot-product attention",
    opening="""
    You write the three functions at the heart of the Transformer. Notebook 04 explains everything
    you need, and each function can be written without the others.
    """,
    imports="import math\n\nimport torch\nfrom torch import Tensor",
)


@homework.task(
    "easy",
    "A softmax that never overflows",
    """
    Softmax turns a row of scores into positive weights that add up to 1. The plain formula $e^{s_i}
    / \\sum_j e^{s_j}$ overflows for scores of a few hundred. Write a softmax that does not, over
    the *last* dimension of a tensor of any shape, without `softmax`, `log_softmax` or `softmin`;
    `logsumexp` is allowed. A score of -inf gets no weight; no row is all -inf.
    """,
    hints=(
        "What happens to the weights if you add the same number to all scores of a row?",
        "Subtract from each row its own maximum before you exponentiate.",
    ),
    read="notebook 04, section 5",
    forbidden=("softmax", "log_softmax", "softmin", "gumbel_softmax"),
    mistakes=r"""
    The maximum of the whole tensor is subtracted: other rows become 0 / 0.
        scores.amax(dim=-1, keepdim=True) => scores.max()
    Nothing is subtracted, so large scores overflow.
        scores - scores.amax(dim=-1, keepdim=True) => scores
    The weights are divided by the sum of the whole tensor, not of their row.
        powers.sum(dim=-1, keepdim=True) => powers.sum()
    The sum runs over the first dimension, not the last.
        powers.sum(dim=-1, keepdim=True) => powers.sum(dim=0, keepdim=True)
    """,
    signature={"scores": Float("... N", infinite=True, far=True)},
)
def stable_softmax(scores: Tensor) -> Tensor:
    """Weights over the last dimension of scores (..., N), however large the scores are."""
    ### BEGIN SOLUTION
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True)
    ### END SOLUTION


homework.promise(
    stable_softmax,
    "For small scores the weights are those of the formula, for tensors of any shape.",
    "Check the dimension of the sum.",
    worth=2,
    scores=Float("... N"),
)
homework.promise(
    stable_softmax,
    "Rows around 0, 1000, -1000 and numbers between in one tensor give the formula's weights.",
    "Subtract something from the scores before the exponential.",
    scores=Float("... N", far=True),
)


@homework.check(stable_softmax, "A weight of 1e-20 is not 0: do not round or clamp.")
def keeps_small_weights(answer, draw):
    """Weights as small as 1e-20 are kept: their logarithms are those of torch's log_softmax."""
    scores = torch.linspace(-45, 0, draw.size(2, 9)).to(draw.dtype)
    yield "the logarithm of a weight", answer(scores.repeat(2, 1)).log()


homework.promise(
    stable_softmax,
    "A score of minus infinity gets exactly no weight.",
    "A score of -inf means no weight; the other keys share the weight.",
)


@homework.task(
    "medium",
    "Attention with a mask",
    """
    Write attention (Vaswani et al. 2017, equation 1) for queries (..., T, d_k), keys (..., S, d_k)
    and values (..., S, d_v). The boolean mask has at least two dimensions and broadcasts to (...,
    T, S); True means *may attend*. A query that may not attend to any key gets a vector of zeros,
    not NaN. In float32 and float64 scores may be as large as 100,000, masked ones too. Return only
    the result (..., T, d_v). `torch.softmax` is allowed, torch's own attention is not.
    """,
    hints=(
        (
            "Write it without a mask and compare it with the loops of notebook 04. Then decide "
            "what happens to the scores of masked keys, before or after the softmax."
        ),
        (
            "Fill masked scores with -inf before the softmax. Only a row that is all -inf "
            "becomes NaN: replace those weights by 0 afterwards."
        ),
    ),
    read="notebook 04, sections 2, 4 and 8",
    forbidden=("scaled_dot_product_attention", "multi_head_attention_forward"),
    mistakes=r"""
    The scores are divided by the root of the number of keys, not of d_k.
        math.sqrt(query.size(-1)) => math.sqrt(key.size(-2))
    The scores are divided by d_k, not by its square root.
        math.sqrt(query.size(-1)) => query.size(-1)
    The scores are not scaled.
        / math.sqrt(query.size(-1)) =>
    The softmax runs over the queries, not over the keys.
        scores.softmax(dim=-1) => scores.softmax(dim=-2)
    The mask is inverted: True means may attend.
        masked_fill(~mask => masked_fill(mask
    Masked weights are set to 0 after the softmax, so the others do not add up to 1.
        scores = scores.masked_fill(~mask, -math.inf) => pass
        weights.nan_to_num(0.0) => weights.masked_fill(~mask, 0.0)
    A query that may not attend to any key gives NaN.
        weights.nan_to_num(0.0) => weights
    A masked score becomes 0, which still gets weight.
        -math.inf => 0.0
    A large negative number replaces -inf: a fully masked row becomes an average.
        -math.inf => -1e9
    The weights are returned as well; only the result is wanted.
        return weights @ value => return weights @ value, weights
    """,
    signature={
        "query": Float("... T K", large=8e3),
        "key": Float("... S K"),
        "value": Float("... S V"),
        "mask": Mask(SHAPES, optional=True),
    },
)
def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Weigh the values by how well each key matches the query; True in the mask = may attend."""
    ### BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.nan_to_num(0.0)
    return weights @ value
    ### END SOLUTION


homework.promise(
    masked_attention,
    "Without a mask the result is that of equation 1.",
    "Compare the scale and the softmax with equation 1.",
    worth=2,
    mask=None,
)


@homework.check(
    masked_attention,
    "Masked keys take part, or allowed keys do not.",
    worth=2,
    mask=Mask(SHAPES, empty=False),
)
def obeys_the_mask(answer, query, key, value, mask, draw):
    """Under a mask, broadcast or not, only allowed keys take part, even with very low scores."""
    yield "your result", answer(query, key, value, mask)
    low = torch.tensor(draw.one_of([-1.0, -60.0, -600.0, -6e4]) / math.sqrt(query.size(-1)))
    query, key = torch.full_like(query, low).double(), 1 + key.double() / 2000
    yield "your result", answer(query, key, value.double(), mask)


homework.promise(
    masked_attention,
    "A query that may not attend gets zeros; the other queries are unaffected.",
    "The softmax of a row that is all -inf divides 0 by 0.",
)


@homework.task(
    "hard",
    "Causal self-attention",
    """
    A sentence is a matrix $X$ (B, T, D). Project it with three matrices (D, d_k) into queries, keys
    and values; each position attends to itself and to earlier positions only. In float32 and
    float64 scores may be as large as 100,000. Return the vectors (B, T, d_k) and the weights (B, T,
    T).
    """,
    hints=(
        "Follow the formula: three matrix multiplications, the scores, the mask, the softmax.",
        "`torch.ones(t, t, dtype=torch.bool).tril()` is True at and below the diagonal.",
    ),
    read="notebook 04, sections 3 and 4",
    minutes=40,
    mistakes=r"""
    A position may not attend to itself, so the first one attends to nothing.
        .tril() => .tril(-1)
    Each position attends to later positions instead of earlier ones.
        .tril() => .triu()
    Each position attends to the next one as well.
        .tril() => .tril(1)
    The mask is missing: later positions are attended to.
        .tril() =>
    The keys are computed with the matrix of the queries.
        x @ w_key => x @ w_query
    The keys are used as values.
        weights @ (x @ w_value) => weights @ key
    The scores are divided by the root of D, not of d_k.
        math.sqrt(query.size(-1)) => math.sqrt(x.size(-1))
    The scores are not scaled.
        / math.sqrt(query.size(-1)) =>
    The softmax runs over the queries, not over the keys.
        .softmax(dim=-1) => .softmax(dim=-2)
    Later weights are set to 0 after the softmax, so the others do not add up to 1.
        .masked_fill(~past, -math.inf).softmax(dim=-1) => .softmax(dim=-1).masked_fill(~past, 0.0)
    A later score becomes 0, which still gets weight.
        -math.inf => 0.0
    The scores are transposed: queries and keys are exchanged.
        query @ key.transpose(-2, -1) => key @ query.transpose(-2, -1)
    """,
    signature={
        "x": Float("B T D"),
        "w_query": Float("D K", scale="D", large=8e3),
        "w_key": Float("D K", scale="D"),
        "w_value": Float("D K", scale="D"),
    },
)
def causal_self_attention(
    x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor
) -> tuple[Tensor, Tensor]:
    """Vectors (B, T, d_k) and weights (B, T, T) of causal self-attention on x (B, T, D)."""
    ### BEGIN SOLUTION
    query, key = x @ w_query, x @ w_key
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    past = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1)
    return weights @ (x @ w_value), weights
    ### END SOLUTION


@homework.check(causal_self_attention, "Print your mask for T = 3 and read row 0 aloud.", worth=2)
def attends_to_the_past(answer, x, w_query, w_key, w_value):
    """The answer is a pair: the vectors, and the weights, which are zero on later positions."""
    found = answer(x, w_query, w_key, w_value)
    holds(isinstance(found, tuple | list) and len(found) == 2, "not a pair", "vectors and weights")
    yield "a weight", found[1]
    holds(not found[1].triu(1).any(), "a weight on a later position that is not exactly 0", "0")
    yield "a vector", found[0]


@homework.question(
    "Why the scores are scaled",
    options=[
        "It approaches 1: one key takes all the weight.",
        "It hardly changes.",
        "It approaches one over the number of keys.",
    ],
    hints=(
        "Print a row of weights for d_k = 4 and for d_k = 4096.",
        "A sum of d_k products of normal numbers has a standard deviation of the root of d_k.",
    ),
    read="notebook 04, section 7",
    uses=(stable_softmax,),
)
def what_becomes_of_the_largest_weight(stable_softmax) -> str:
    """
    Queries and keys are normal numbers, and their dot products are *not* divided by $\\sqrt{d_k}$.
    Let $d_k$ grow from 4 to 4096 and compute the weights over 10 keys with **your** softmax. What
    happens to the largest weight, on average?
    """
    largest = []  # in float64 even a softmax that overflows gives an answer
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for size in (4, 4096):
        scores = (draw(200, 1, size) * draw(200, 10, size)).sum(-1)
        largest.append(float(stable_softmax(scores).amax(-1).mean()))
    if largest[1] > 0.9:
        return "A"
    return "C" if largest[1] < 0.2 else "B"
