"""Homework 04: softmax that does not overflow, attention with a mask, causal self-attention."""

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
        You write the three functions at the heart of the Transformer. Everything that you need
        stands in notebook 04, and no function needs another one of this page.
        """,
    imports="import math\n\nimport torch\nfrom torch import Tensor",
)


@homework.task(
    "easy",
    "A softmax that never overflows",
    """
    Softmax turns a row of scores into weights that are positive and add up to 1. The plain formula
    $e^{s_i} / \\sum_j e^{s_j}$ fails for scores of a few hundred. Write one that does not, over the
    *last* dimension of a tensor of any shape. Do not use `torch.softmax` or one of its relatives.
    """,
    hints=(
        "What happens to the weights if you add the same number to all scores of a row?",
        "Subtract from each row its own largest score before you take exponentials.",
    ),
    read="notebook 04, section 5",
    forbidden=("softmax", "log_softmax", "softmin", "gumbel_softmax"),
    mistakes={
        "The largest score of the whole tensor is subtracted: others become 0 / 0.": [
            ("scores.amax(dim=-1, keepdim=True)", "scores.max()")
        ],
        "Nothing is subtracted, so large scores overflow.": [
            ("scores - scores.amax(dim=-1, keepdim=True)", "scores")
        ],
        "The weights are divided by the sum over everything, not over their row.": [
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


@homework.check(stable_softmax, "Look along which dimension you add up.", worth=2)
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
    same(answer(scores), scores.softmax(-1), "a weight of scores around 1000")


@homework.check(stable_softmax, "A weight of 1e-20 is not 0: nothing may be rounded or cut off.")
def keeps_small_weights(answer, draw: Draw):
    """Weights as small as 1e-20 are kept: their logarithms are those of torch's log_softmax."""
    scores = torch.linspace(-45, 0, draw.sizes(1, 5)[0], dtype=draw.dtype).repeat(2, 1)
    same(answer(scores).log(), scores.log_softmax(-1), "the logarithm of a weight")


@homework.check(stable_softmax, "Each row needs a number of its own that is subtracted.")
def rows_of_unlike_size(answer, draw: Draw):
    """Rows around -1000, 0 and 1000 in one tensor give the weights of the formula."""
    shift = torch.tensor([[-1000.0], [0.0], [1000.0]], dtype=draw.dtype)
    scores = draw.normal(3, *draw.sizes(1)) + shift
    same(answer(scores), scores.softmax(-1), "a weight beside rows of another size")


@homework.check(stable_softmax, "A score of -inf means: no weight. The others share what there is.")
def minus_infinity_is_no_weight(answer, draw: Draw):
    """A score of minus infinity gets exactly no weight."""
    scores = draw.normal(*draw.sizes(2)).index_fill(-1, torch.tensor([0]), -math.inf)
    same(answer(scores), scores.softmax(-1), "a weight beside a score of -inf")


@homework.task(
    "medium",
    "Attention with a mask",
    """
    Write attention (Vaswani et al. 2017, equation 1) for queries (..., T, K), keys (..., S, K) and
    values (..., S, V). A mask of truth values broadcasts to (..., T, S); True means *may attend*.
    A query that may attend to nothing gets a vector of zeros, not NaN. Return the result
    (..., T, V) alone. `torch.softmax` is allowed here, torch's finished attention is not.
    """,
    hints=(
        "Write it without a mask first and compare it with your loops of notebook 04. Then decide "
        "what the scores of forbidden keys become, before or after the softmax.",
        "Fill forbidden scores with -inf before the softmax. Only a row that is all -inf becomes "
        "NaN: replace these weights by 0 afterwards.",
    ),
    read="notebook 04, sections 2, 4 and 8",
    forbidden=("scaled_dot_product_attention", "multi_head_attention_forward"),
    mistakes={
        "It divides by the root of the number of keys, not of the size of a key.": [
            ("math.sqrt(query.size(-1))", "math.sqrt(key.size(-2))")
        ],
        "It divides by the size of a key, not by its square root.": [
            ("math.sqrt(query.size(-1))", "query.size(-1)")
        ],
        "The scores are not divided by anything.": [(" / math.sqrt(query.size(-1))", "")],
        "The softmax runs over the queries, not over the keys.": [
            ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)")
        ],
        "The mask is read the other way round: True means may attend.": [
            ("masked_fill(~mask", "masked_fill(mask")
        ],
        "Forbidden weights are set to 0 after the softmax, so the others no longer add up to 1.": [
            ("scores = scores.masked_fill(~mask, -math.inf)", "pass"),
            ("weights.nan_to_num(0.0)", "weights.masked_fill(~mask, 0.0)"),
        ],
        "A query that may attend to nothing gives NaN.": [("weights.nan_to_num(0.0)", "weights")],
        "A forbidden score is 0, which is a score like any other.": [("-math.inf", "0.0")],
        "A large negative number stands for -inf: a fully masked row becomes an average.": [
            ("-math.inf", "-1e9")
        ],
        "The weights are returned as well: only the result is asked for.": [
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


@homework.check(masked_attention, "Compare scale and softmax with equation 1.", worth=2)
def equals_torch(answer, draw: Draw):
    """Without a mask the result is that of torch, with sizes that all differ."""
    batch, heads, t, s, k, v = draw.sizes(6)
    query, key = draw.normal(batch, heads, t, k), draw.normal(batch, heads, s, k)
    value = draw.normal(batch, heads, s, v)
    expected = F.scaled_dot_product_attention(query, key, value)
    same(answer(query, key, value), expected, "a result without a mask")
    same(answer(query[0, 0], key[0, 0], value[0, 0]), expected[0, 0], "a result without a batch")


@homework.check(masked_attention, "Forbidden keys take part, or allowed ones do not.", worth=2)
def obeys_the_mask(answer, draw: Draw):
    """With a mask, also one that broadcasts, the result is that of torch."""
    batch, heads, t, s, k = draw.sizes(5)
    query, key = draw.normal(batch, heads, t, k), draw.normal(batch, heads, s, k)
    value = key.clone()
    for shape in [(batch, heads, t, s), (batch, 1, 1, s), (t, s)]:
        mask = draw.mask(*shape)
        expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        same(answer(query, key, value, mask), expected, f"a result under a mask of shape {shape}")
    query, key, value = torch.ones_like(query).double(), 1 + key.double() / 200, value.double()
    for low in (-60, -600):  # all scores about that
        asked = query * low / math.sqrt(k)
        expected = F.scaled_dot_product_attention(asked, key, value, attn_mask=mask)
        found = answer(asked, key, value, mask)
        same(found, expected, f"a result of scores of {low} under a mask")


@homework.check(masked_attention, "The softmax of a row that is all -inf divides 0 by 0.")
def nothing_allowed_gives_zeros(answer, draw: Draw):
    """A query that may attend to nothing gets zeros, and the others what they would get."""
    t, s, k = draw.sizes(3)
    query, key, mask = draw.normal(t, k), draw.normal(s, k), draw.mask(t, s)
    mask[0] = False
    expected = F.scaled_dot_product_attention(query, key, key, attn_mask=mask).nan_to_num(0.0)
    same(answer(query, key, key, mask), expected, "a result where query 0 may attend to nothing")


@homework.task(
    "hard",
    "Causal self-attention",
    """
    A sentence is a matrix $X$ (B, T, D). Project it with three matrices (D, K) into queries, keys
    and values, and let each position attend to itself and to earlier ones, never to later ones.
    Return the vectors (B, T, K) and the weights (B, T, T).
    """,
    hints=(
        "Write it in the order of the formula: three products, the scores, the mask, the softmax.",
        "`torch.ones(t, t, dtype=torch.bool).tril()` is True at and below the diagonal.",
    ),
    read="notebook 04, sections 3 and 4",
    minutes=40,
    mistakes={
        "A position may not attend to itself, so the first one attends to nothing.": [
            (".tril()", ".tril(-1)")
        ],
        "Each position attends to the later ones instead of the earlier ones.": [
            (".tril()", ".triu()")
        ],
        "Each position sees one word too far: the next one.": [(".tril()", ".tril(1)")],
        "Nothing is hidden: later positions are attended to.": [(".tril()", "")],
        "Keys are made with the matrix of the queries.": [("x @ w_key", "x @ w_query")],
        "Keys stand in for the values.": [("weights @ (x @ w_value)", "weights @ key")],
        "The scores are divided by the root of D, not of K.": [
            ("math.sqrt(query.size(-1))", "math.sqrt(x.size(-1))")
        ],
        "The scores are not divided by anything.": [(" / math.sqrt(query.size(-1))", "")],
        "The softmax runs over the queries, not over the keys.": [
            (".softmax(dim=-1)", ".softmax(dim=-2)")
        ],
        "Later weights are set to 0 after the softmax, so the others no longer add up to 1.": [
            (
                "scores.masked_fill(~past, -math.inf).softmax(dim=-1)",
                "scores.softmax(dim=-1).masked_fill(~past, 0.0)",
            )
        ],
        "A later score is 0, which is a score like any other.": [("-math.inf", "0.0")],
        "The scores are transposed: keys ask and queries answer.": [
            ("query @ key.transpose(-2, -1)", "key @ query.transpose(-2, -1)")
        ],
    },
)
def causal_self_attention(
    x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor
) -> tuple[Tensor, Tensor]:
    """Vectors (B, T, K) and weights (B, T, T) of sentences x (B, T, D) that look back only."""
    ### BEGIN SOLUTION
    query, key = x @ w_query, x @ w_key
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    past = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1)
    return weights @ (x @ w_value), weights
    ### END SOLUTION


def sentences(draw: Draw) -> tuple[Tensor, ...]:
    """Sentences and three projections of sizes that all differ."""
    batch, t, d, k = draw.sizes(4)
    return draw.normal(batch, t, d), *(draw.normal(d, k, scale=d**-0.5) for _ in range(3))


def expected_of(x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor) -> Tensor:
    """The vectors by torch's own causal attention."""
    return F.scaled_dot_product_attention(x @ w_query, x @ w_key, x @ w_value, is_causal=True)


@homework.check(
    causal_self_attention, "Return a pair: first the vectors, then the weights.", worth=0
)
def returns_vectors_and_weights(answer, draw: Draw):
    """The answer is a pair, and the weights form one T by T table a sentence."""
    x, *maps = sentences(draw)
    found = answer(x, *maps)
    holds(isinstance(found, tuple | list) and len(found) == 2, "no pair", "vectors and weights")
    sizes = (len(x), x.size(1), x.size(1))
    holds(found[1].shape == sizes, f"weights of shape {tuple(found[1].shape)}", f"{sizes}")


@homework.check(causal_self_attention, "Draw your mask for T = 3 and read row 0 aloud.", worth=2)
def does_not_see_the_future(answer, draw: Draw):
    """Exactly the weights on later positions are zero, and each row adds up to 1."""
    _, weights = answer(*sentences(draw))
    future = weights.triu(1).abs().amax()
    holds(future == 0, f"a weight of {float(future):.3g} on a later position", "0")
    same(weights.sum(-1), torch.ones_like(weights[..., 0]), "the sum of the weights of a row")
    past = weights.tril().count_nonzero()
    t = weights.size(1)
    same(int(past), len(weights) * t * (t + 1) // 2, "the number of positions with a weight")


@homework.check(causal_self_attention, "The mask is right; compare the products with the text.")
def equals_torch_too(answer, draw: Draw):
    """The vectors are those of torch's causal attention, for sizes that all differ, and the weights
    are those that made them."""
    x, *maps = sentences(draw)
    vectors, weights = answer(x, *maps)
    same(vectors, expected_of(x, *maps), "a vector")
    value = x @ maps[2]
    same(weights @ value, vectors.detach(), "a value weighed by the weights that are returned")


@homework.question(
    "What the root is for",
    options=[
        "It comes close to 1: one key takes everything.",
        "It stays about where it was.",
        "It comes close to one over the number of keys.",
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
    Queries and keys hold normal numbers, and their products are *not* divided by
    $\\sqrt{d_k}$. Let $d_k$ grow from 4 to 4096 and compute the weights over 10 keys with **your**
    softmax. What becomes of the largest weight, on average?
    """
    draw, largest = Draw(0, 1), []  # in float64 even a softmax that overflows has an answer
    for size in (4, 4096):
        scores = (draw.normal(200, 1, size) * draw.normal(200, 10, size)).sum(-1)
        largest.append(float(stable_softmax(scores).amax(-1).mean()))
    if largest[1] > 0.9:
        return "A"
    return "C" if largest[1] < 0.2 else "B"
