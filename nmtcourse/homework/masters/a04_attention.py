"""Homework 04: a softmax that does not overflow, attention with a mask, causal self-attention."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtcourse.homework.compare import holds, same
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment

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
    the *last* dimension of a tensor of any shape, without `torch.softmax` and its relatives.
    """,
    hints=(
        "What happens to the weights if you add the same number to all scores of a row?",
        "Subtract from each row its own maximum before you exponentiate.",
    ),
    read="notebook 04, section 5",
    forbidden=("softmax", "log_softmax", "softmin", "gumbel_softmax"),
    mistakes={
        "The maximum of the whole tensor is subtracted: other rows become 0 / 0.": [
            ("scores.amax(dim=-1, keepdim=True)", "scores.max()")
        ],
        "Nothing is subtracted, so large scores overflow.": [
            ("scores - scores.amax(dim=-1, keepdim=True)", "scores")
        ],
        "The weights are divided by the sum of the whole tensor, not of their row.": [
            ("powers.sum(dim=-1, keepdim=True)", "powers.sum()")
        ],
        "The sum runs over the first dimension, not the last.": [
            ("powers.sum(dim=-1, keepdim=True)", "powers.sum(dim=0, keepdim=True)")
        ],
    },
)
def stable_softmax(scores: Tensor) -> Tensor:
    """Weights over the last dimension of scores (..., N), however large the scores are."""
    ### BEGIN SOLUTION
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True)
    ### END SOLUTION


@homework.check(stable_softmax, "Check the dimension of the sum.", worth=2)
def equals_the_formula(answer, draw: Draw):
    """For small scores the weights are those of the formula, for tensors of any shape."""
    a, b, c = draw.sizes(3)
    for shape in [(b,), (a, b), (a, b, c), (2, a, 3, b)]:
        scores = draw.normal(*shape)
        same(answer(scores), scores.softmax(-1), f"a weight of scores of shape {shape}")


@homework.check(stable_softmax, "Subtract something from the scores before the exponential.")
def does_not_overflow(answer, draw: Draw):
    """Scores around a thousand give the weights of the formula."""
    scores = draw.normal(*draw.sizes(2)) + 1000
    same(answer(scores), scores.softmax(-1), "a weight for scores around 1000")


@homework.check(stable_softmax, "A weight of 1e-20 is not 0: do not round or clamp.")
def keeps_small_weights(answer, draw: Draw):
    """Weights as small as 1e-20 are kept: their logarithms are those of torch's log_softmax."""
    scores = torch.linspace(-45, 0, draw.sizes(1, 5)[0], dtype=draw.dtype).repeat(2, 1)
    same(answer(scores).log(), scores.log_softmax(-1), "the logarithm of a weight")


@homework.check(stable_softmax, "Each row needs its own maximum.")
def rows_of_unlike_size(answer, draw: Draw):
    """Rows around -1000, 0 and 1000 in one tensor give the weights of the formula."""
    shift = torch.tensor([[-1000.0], [0.0], [1000.0]], dtype=draw.dtype)
    scores = draw.normal(3, *draw.sizes(1)) + shift
    same(answer(scores), scores.softmax(-1), "a weight next to a row of a different magnitude")


@homework.check(stable_softmax, "A score of -inf means no weight; the other keys share the weight.")
def minus_infinity_is_no_weight(answer, draw: Draw):
    """A score of minus infinity gets exactly no weight."""
    scores = draw.normal(*draw.sizes(2)).index_fill(-1, torch.tensor([0]), -math.inf)
    same(answer(scores), scores.softmax(-1), "a weight next to a score of -inf")


@homework.task(
    "medium",
    "Attention with a mask",
    """
    Write attention (Vaswani et al. 2017, equation 1) for queries (..., T, d_k), keys (..., S, d_k)
    and values (..., S, d_v). The boolean mask broadcasts to (..., T, S); True means *may attend*. A
    query that may not attend to any key gets a vector of zeros, not NaN. Return only the result
    (..., T, d_v). `torch.softmax` is allowed, torch's own attention is not.
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
    mistakes={
        "The scores are divided by the root of the number of keys, not of d_k.": [
            ("math.sqrt(query.size(-1))", "math.sqrt(key.size(-2))")
        ],
        "The scores are divided by d_k, not by its square root.": [
            ("math.sqrt(query.size(-1))", "query.size(-1)")
        ],
        "The scores are not scaled.": [(" / math.sqrt(query.size(-1))", "")],
        "The softmax runs over the queries, not over the keys.": [
            ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)")
        ],
        "The mask is inverted: True means may attend.": [("masked_fill(~mask", "masked_fill(mask")],
        "Masked weights are set to 0 after the softmax, so the others do not add up to 1.": [
            ("scores = scores.masked_fill(~mask, -math.inf)", "pass"),
            ("weights.nan_to_num(0.0)", "weights.masked_fill(~mask, 0.0)"),
        ],
        "A query that may not attend to any key gives NaN.": [
            ("weights.nan_to_num(0.0)", "weights")
        ],
        "A masked score becomes 0, which still gets weight.": [("-math.inf", "0.0")],
        "A large negative number replaces -inf: a fully masked row becomes an average.": [
            ("-math.inf", "-1e9")
        ],
        "The weights are returned as well; only the result is wanted.": [
            ("return weights @ value", "return weights @ value, weights")
        ],
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


@homework.check(masked_attention, "Compare the scale and the softmax with equation 1.", worth=2)
def equals_torch(answer, draw: Draw):
    """Without a mask the result is torch's, with all sizes different."""
    batch, heads, t, s, k, v = draw.sizes(6)
    query, key = draw.normal(batch, heads, t, k), draw.normal(batch, heads, s, k)
    value = draw.normal(batch, heads, s, v)
    expected = F.scaled_dot_product_attention(query, key, value)
    same(answer(query, key, value), expected, "a result without a mask")
    alone = answer(query[0, 0], key[0, 0], value[0, 0])
    same(alone, expected[0, 0], "a result without a batch dimension")


@homework.check(masked_attention, "Masked keys take part, or allowed keys do not.", worth=2)
def obeys_the_mask(answer, draw: Draw):
    """With a mask, broadcast or not, the result is torch's."""
    batch, heads, t, s, k = draw.sizes(5)
    query, key = draw.normal(batch, heads, t, k), draw.normal(batch, heads, s, k)
    value = key.clone()
    for shape in [(batch, heads, t, s), (batch, 1, 1, s), (t, s)]:
        mask = draw.mask(*shape)
        expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        same(answer(query, key, value, mask), expected, f"a result under a mask of shape {shape}")
    query, key, value = torch.ones_like(query).double(), 1 + key.double() / 200, value.double()
    for low in (-60, -600):  # all scores are about this large
        asked = query * low / math.sqrt(k)
        expected = F.scaled_dot_product_attention(asked, key, value, attn_mask=mask)
        found = answer(asked, key, value, mask)
        same(found, expected, f"a result for scores of {low} under a mask")


@homework.check(masked_attention, "The softmax of a row that is all -inf divides 0 by 0.")
def nothing_allowed_gives_zeros(answer, draw: Draw):
    """A query that may not attend gets zeros; the other queries are unaffected."""
    t, s, k = draw.sizes(3)
    query, key, mask = draw.normal(t, k), draw.normal(s, k), draw.mask(t, s)
    mask[0] = False
    expected = F.scaled_dot_product_attention(query, key, key, attn_mask=mask).nan_to_num(0.0)
    same(answer(query, key, key, mask), expected, "a result where query 0 may attend to no key")


@homework.task(
    "hard",
    "Causal self-attention",
    """
    A sentence is a matrix $X$ (B, T, D). Project it with three matrices (D, d_k) into queries, keys
    and values; each position attends to itself and to earlier positions only. Return the vectors
    (B, T, d_k) and the weights (B, T, T).
    """,
    hints=(
        "Follow the formula: three matrix multiplications, the scores, the mask, the softmax.",
        "`torch.ones(t, t, dtype=torch.bool).tril()` is True at and below the diagonal.",
    ),
    read="notebook 04, sections 3 and 4",
    minutes=40,
    mistakes={
        "A position may not attend to itself, so the first one attends to nothing.": [
            (".tril()", ".tril(-1)")
        ],
        "Each position attends to later positions instead of earlier ones.": [
            (".tril()", ".triu()")
        ],
        "Each position attends to the next one as well.": [(".tril()", ".tril(1)")],
        "The mask is missing: later positions are attended to.": [(".tril()", "")],
        "The keys are computed with the matrix of the queries.": [("x @ w_key", "x @ w_query")],
        "The keys are used as values.": [("weights @ (x @ w_value)", "weights @ key")],
        "The scores are divided by the root of D, not of d_k.": [
            ("math.sqrt(query.size(-1))", "math.sqrt(x.size(-1))")
        ],
        "The scores are not scaled.": [(" / math.sqrt(query.size(-1))", "")],
        "The softmax runs over the queries, not over the keys.": [
            (".softmax(dim=-1)", ".softmax(dim=-2)")
        ],
        "Later weights are set to 0 after the softmax, so the others do not add up to 1.": [
            (
                "scores.masked_fill(~past, -math.inf).softmax(dim=-1)",
                "scores.softmax(dim=-1).masked_fill(~past, 0.0)",
            )
        ],
        "A later score becomes 0, which still gets weight.": [("-math.inf", "0.0")],
        "The scores are transposed: queries and keys are exchanged.": [
            ("query @ key.transpose(-2, -1)", "key @ query.transpose(-2, -1)")
        ],
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


def sentences(draw: Draw) -> tuple[Tensor, ...]:
    """Sentences and three projections, with all sizes different."""
    batch, t, d, k = draw.sizes(4)
    return draw.normal(batch, t, d), *(draw.normal(d, k, scale=d**-0.5) for _ in range(3))


def expected_of(x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor) -> Tensor:
    """The vectors of torch's own causal attention."""
    return F.scaled_dot_product_attention(x @ w_query, x @ w_key, x @ w_value, is_causal=True)


@homework.check(causal_self_attention, "Return a pair: the vectors, then the weights.", worth=0)
def returns_vectors_and_weights(answer, draw: Draw):
    """The answer is a pair, and each sentence has a T by T table of weights."""
    x, *maps = sentences(draw)
    found = answer(x, *maps)
    holds(isinstance(found, tuple | list) and len(found) == 2, "not a pair", "vectors and weights")
    sizes = (len(x), x.size(1), x.size(1))
    holds(found[1].shape == sizes, f"weights of shape {tuple(found[1].shape)}", f"{sizes}")


@homework.check(causal_self_attention, "Print your mask for T = 3 and read row 0 aloud.", worth=2)
def does_not_see_the_future(answer, draw: Draw):
    """The weights on later positions, and only those, are zero; each row adds up to 1."""
    _, weights = answer(*sentences(draw))
    future = weights.triu(1).abs().amax()
    holds(future == 0, f"a weight of {float(future):.3g} on a later position", "0")
    same(weights.sum(-1), torch.ones_like(weights[..., 0]), "the sum of a row of weights")
    past = weights.tril().count_nonzero()
    t = weights.size(1)
    same(int(past), len(weights) * t * (t + 1) // 2, "the number of positions with a weight")


@homework.check(
    causal_self_attention, "The mask is right; compare the matrix multiplications with the task."
)
def equals_torch_too(answer, draw: Draw):
    """The vectors are those of torch's causal attention, with all sizes different, and are the
    values averaged with the returned weights.
    """
    x, *maps = sentences(draw)
    vectors, weights = answer(x, *maps)
    same(vectors, expected_of(x, *maps), "a vector")
    value = x @ maps[2]
    same(weights @ value, vectors.detach(), "a sum of the values with the returned weights")


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
    draw, largest = Draw(0, 1), []  # in float64 even a softmax that overflows gives an answer
    for size in (4, 4096):
        scores = (draw.normal(200, 1, size) * draw.normal(200, 10, size)).sum(-1)
        largest.append(float(stable_softmax(scores).amax(-1).mean()))
    if largest[1] > 0.9:
        return "A"
    return "C" if largest[1] < 0.2 else "B"
