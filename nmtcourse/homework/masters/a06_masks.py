"""Homework 06: three masks, a test for leaks, a softmax without NaN."""

from functools import partial

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import gradients, holds, shaped, short
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Float, Ids, Made, Mask, OneOf
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "06",
    "masks",
    "Masks",
    opening="""
    Wrong masks raise no error. You write the three masks of a translation model, a test that
    detects whether a decoder sees the future, and a softmax that handles fully masked rows. As
    everywhere in the course, True means *may attend*.
    """,
    imports="import math\n\nimport torch\nfrom torch import Tensor, nn",
)


def padded(draw: Draw, known: dict, name: str) -> Tensor:
    """Ids padded on the left or right, of different lengths, some of them PAD alone."""
    draw.huge = False  # a loop over all pairs of 520 words would be too slow
    batch, pad = draw.named("B"), known["pad"]
    length = draw.named(draw.one_of([name, name, "S"]))
    ids = draw.ids(0, 20, batch, length)
    ids[ids == pad] = 20
    left = draw.one_of([(False,), (True,), (False, True)])
    for row in range(batch):
        ids[row, length - draw.random.choice((0, *range(length + 1))) :] = pad
        if draw.random.choice(left):
            ids[row] = ids[row].flip(0)
    return ids


@homework.task(
    "easy",
    "Three masks in one function",
    """
    Sources (B, S) and targets (B, T) are ids, padded with `pad` on the left or on the right. Return
    three boolean masks: for the encoder's self-attention (B, 1, 1, S), for the decoder's
    self-attention (B, 1, T, T), and for cross-attention (B, 1, 1, S). A padded *key* is always
    masked; in the decoder, later positions are masked as well. Rows of padded queries are not
    checked.
    """,
    hints=(
        "Which masks depend only on the keys, and which sentence provides the keys?",
        "`ids != pad` broadcasts over queries with keys in the last axis: [:, None, None, :].",
    ),
    read="notebook 06, sections 2 and 3",
    mistakes=r"""
    The masks are inverted: True marks PAD instead of what may be attended to.
        (source != pad) => (source == pad)
        (target != pad) => (target == pad)
    In the decoder's mask each position sees the next one.
        .tril() => .tril(1)
    No position may attend to itself.
        .tril() => .tril(-1)
    The decoder's mask looks forward instead of back.
        .tril() => .triu()
    The decoder's mask does not hide padded keys, which matters with padding on the left.
        (target != pad)[:, None, None, :] & past => past.expand(len(target), 1, -1, -1)
    The decoder's mask is not causal.
        [:, None, None, :] & past => [:, None, None, :] | torch.zeros_like(past)
    `pad` is ignored: 0 is treated as PAD.
        != pad => != 0
    The cross-attention mask uses the target, but its keys are those of the source.
        keys, decoder, keys => keys, decoder, (target != pad)[:, None, None, :]
    """,
    signature={
        "pad": OneOf(0, 1, 3, 7),
        "source": Made(partial(padded, name="S"), needs=True),
        "target": Made(partial(padded, name="T"), needs=True),
    },
)
def three_masks(source: Tensor, target: Tensor, pad: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The masks of the encoder, of the decoder's self-attention and of cross-attention."""
    ### BEGIN SOLUTION
    keys = (source != pad)[:, None, None, :]
    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
    decoder = (target != pad)[:, None, None, :] & past
    return keys, decoder, keys
    ### END SOLUTION


homework.promise(
    three_masks,
    "Without PAD, each decoder position sees itself and earlier positions; masks are boolean.",
    "For three words, list which words each one may see.",
    source=Ids("B S", "V", low=1),
    target=Ids("B T", "V", low=1),
    pad=0,
)


@homework.check(
    three_masks,
    "Draw the masks of a sentence with two PAD: which axis are the keys? What is `pad`?",
    worth=2,
    draws=96,
    whole=True,
)
def hide_padded_keys(answer, source, target, pad):
    """Padded keys are hidden, and nothing else: PAD on either side, any PAD id, sources and targets
    of equal length included.
    """
    encoder, decoder, cross = answer(source, target, pad)
    yield f"the encoder mask of {short(source)}", encoder
    yield f"the cross mask of {short(source)}", cross
    words = (target != pad)[:, None, :, None]  # rows of padded queries are not checked
    shaped(decoder, (*words.shape[:2], target.size(1), target.size(1)), "the decoder mask")
    yield f"the decoder mask of {short(target)}", decoder & words


@homework.task(
    "medium",
    "Does this decoder see the future?",
    """
    Write a test for other people's models. `logits(source, target)` takes ids (B, S) and the
    decoder's input (B, T) and returns logits (B, T, V). If the token at position j changes, the
    logits *before* j must not change. Return the sorted list of all distances d > 0 at which a
    change at some j changes the logits at j - d; an empty list means that there is no leak. Ids
    range from 4 to `vocabulary - 1`. Detect leaks that show in only one sentence of the batch, and
    ignore rounding differences (less than 1e-4 in each logit). One other id at each position is
    enough. Global random generators stay untouched.
    """,
    hints=(
        "Change one target token at a time, for every j, and compare all earlier logits.",
        "Compare each sentence separately; take the largest difference over the vocabulary.",
    ),
    seeded=True,
    read="notebook 06, section 4",
    mistakes=r"""
    Only the last token is changed, so leaks in the middle are missed.
        for j in range(1, length): => for j in range(length - 1, length):
    Position j itself is reported as a leak, but its logits may change.
        before = moved[:j] => before = moved[: j + 1]
    Only the position just before the change is checked.
        before = moved[:j] => before = moved[:j] & (torch.arange(j) == j - 1)
    Rounding is reported as a leak: compare with a tolerance.
        > 1e-4 => > 0
    A faint leak is missed: a single sentence, a mean or a wide tolerance hides it.
        .amax(dim=(0, 2)) => [0].amax(dim=-1)
    The mean over the vocabulary is compared, which hides a change in a few logits.
        .abs().amax(dim=(0, 2)) => .mean(dim=(0, 2)).abs()
    The positions are returned, not their distances from the change.
        j - int(i) => int(i) + 1
    The distances are negative: a distance is j minus the position that changed.
        j - int(i) => int(i) - j
    A distance is listed more than once.
        target.size(1), set() => target.size(1), []
        found |= {j - int(i) for i in before.nonzero()}
        => found += [j - i for i in before.nonzero().flatten().tolist()]
    The new token may equal the old one, in which case nothing changes.
        4 + (changed[:, j] - 4 + 1) % (vocabulary - 4) => torch.full_like(changed[:, j], 4)
    """,
)
def leaks(logits, source: Tensor, target: Tensor, vocabulary: int) -> list[int]:
    """The distances at which logits depend on later target tokens, sorted."""
    ### BEGIN SOLUTION
    length, found = target.size(1), set()
    with torch.no_grad():
        original = logits(source, target)
        for j in range(1, length):
            changed = target.clone()
            changed[:, j] = 4 + (changed[:, j] - 4 + 1) % (vocabulary - 4)
            moved = (logits(source, changed) - original).abs().amax(dim=(0, 2)) > 1e-4
            before = moved[:j]
            found |= {j - int(i) for i in before.nonzero()}
    return sorted(found)
    ### END SOLUTION


class Decoder(nn.Module):
    """A toy model: position i sums itself and the past; `leaks` are pairs of a later position and
    an earlier one that sees it, in some `sources` only. No two calls are quite the same.
    """

    def __init__(
        self, draw: Draw, leaks: list, sources: Tensor, vocabulary: int, size: float = 1.0
    ):
        super().__init__()
        self.table = draw.normal(vocabulary, 12)
        signs = 1 - 2 * (torch.arange(vocabulary)[:, None] >> torch.arange(6) & 1)
        self.signs = torch.cat([signs, -signs], 1)  # two words differ by 2; the mean does not
        if draw.choose(2):  # a change in one direction alone
            self.signs = torch.zeros(vocabulary, 12)
            self.signs[:, 5] = -torch.arange(vocabulary)
        self.leaks, self.sources, self.size = leaks, sources, size
        self.noise = torch.Generator().manual_seed(draw.value_seed)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        strange = target[(target < 4) | (target >= len(self.table))].tolist()
        cause = "Change a token into a different *word*, even the last one of the vocabulary."
        wanted = f"ids from 4 to {len(self.table) - 1}"
        holds(not strange, f"the model received the ids {short(strange)}", wanted, cause)
        words = self.table[target]
        result = words.cumsum(1) + self.table[source].sum(1, keepdim=True)
        leaky = (source[:, None] == self.sources).all(-1).any(-1)
        for later, earlier in self.leaks:
            result[:, earlier] += self.size * self.signs[target[:, later]] * leaky[:, None]
        return result + 3e-5 * torch.rand(result.shape, generator=self.noise, dtype=result.dtype)


def asked(draw: Draw, count: int) -> tuple[Decoder, Tensor, Tensor, int]:
    """A decoder with some leaks, a source, a target, and the size of the vocabulary."""
    vocabulary, b, t = draw.one_of([20, 6, 7]), draw.size(1, 4), draw.one_of([draw.size(2, 9), 13])
    source = draw.ids(4, vocabulary, b, draw.size(2, 5))
    source[:, 0], source[:, 1] = 4 + torch.arange(b) % 2, 4 + torch.arange(b) // 2  # all different
    target = draw.ids(4, vocabulary, b, t)
    target[:] = draw.one_of([target, torch.tensor(4), torch.tensor(vocabulary - 1)])
    pairs = [(later, earlier) for later in range(t) for earlier in range(later)]
    leaks = [draw.one_of([draw.one_of(pairs), (t - 1, 0)]) for _ in range(count)]
    if draw.choose(2):  # one change that moves several positions
        leaks += [(leaks[0][0], earlier) for earlier in range(leaks[0][0])] if leaks else []
    if t == 13 and count and draw.choose(2):
        leaks += [(12, 3), (12, 10)]  # a set of 9 and 2 has them in this order
    sources = draw.one_of([source, source[-1:], source[b // 2 : b // 2 + 1]])
    size = draw.one_of([1.0, 1.35e-4])
    if b > 2 and len(sources) == 1:
        size = 1.35e-4  # a mean over the batch hides it
    return Decoder(draw, leaks, sources, vocabulary, size), source, target, vocabulary


@homework.check(
    leaks, "Neither rounding (less than 1e-4) nor attention to earlier positions is a leak."
)
def finds_no_leak_where_there_is_none(answer, draw: Draw):
    """A causal decoder has no leak, although rounding changes its logits."""
    yield "your result for a causal decoder", list(answer(*asked(draw, 0)))


@homework.check(
    leaks,
    "Does every token really change, one at a time, and is every sentence compared?",
    worth=3,
    draws=12,
)
def finds_every_leak(answer, draw: Draw):
    """Leaks are found at their distances: near, far, faint, in one sentence, late or early, even
    with a vocabulary of only two words, 4 and 5.
    """
    given = asked(draw, draw.size(1, 3))
    where = f"of {given[0].leaks} in {len(given[0].sources)} of {len(given[1])} sentences"
    found = answer(*given)
    yield f"your result for leaks {where}", list(found) if isinstance(found, tuple) else found


@homework.task(
    "hard",
    "A softmax without NaN, forward and backward",
    """
    `masked_softmax(scores, mask)` returns weights over the last dimension, exactly 0 where the mask
    is False. A row without True gives zeros. Neither the weights **nor the gradients** of the
    scores may be NaN, even for scores as large as 1e30, or 60,000 in float16, near its maximum. The
    weights have the dtype of the scores, and the mask broadcasts.
    """,
    hints=(
        (
            "Which number can replace a masked score? Is it added or filled in? What happens to "
            "a row that is fully masked? Check the weights and the gradients."
        ),
        "Fill masked scores with a finite number *before* the softmax, and weights with 0 after.",
    ),
    read="notebook 06, section 5",
    minutes=30,
    mistakes=r"""
    Masked scores become -inf: a fully masked row gives NaN.
        fill(~mask, lowest) => fill(~mask, -torch.inf)
        return weights.masked_fill(~mask, 0.0) => return weights
    -inf is added: a fully masked row's NaN weights are replaced, but not its gradients.
        scores.masked_fill(~mask, lowest)
        => (scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf))
        weights.masked_fill(~mask, 0.0) => weights.nan_to_num(0.0)
    A fully masked row becomes an average of masked keys.
        return weights.masked_fill(~mask, 0.0) => return weights
    A number is added, which does not hide a score of 1e30: fill the score instead.
        scores.masked_fill(~mask, lowest) => (scores - 1e4 * (~mask).to(scores.dtype))
    -10,000 is not below all scores, which go down to -60,000 in float16.
        fill(~mask, lowest) => fill(~mask, -1e4)
    The fill value does not fit into float16.
        fill(~mask, lowest) => fill(~mask, -1e12)
    -1e9 is not the smallest number: next to scores of -1e30 it is the maximum.
        fill(~mask, lowest) => fill(~mask, max(-1e9, lowest))
    The mask is inverted: True means may attend.
        mask = mask.expand_as(scores) => mask = ~mask.expand_as(scores)
    The scores are multiplied by the mask: masked ones become 0, which still gets weight.
        scores.masked_fill(~mask, lowest) => (scores * mask)
    Small weights are set to 0; only masked ones should be.
        masked_fill(~mask, 0.0) => masked_fill(~mask | (weights < 1e-6), 0.0)
    """,
    signature={"scores": Float("... T S", far=True), "mask": Mask("...? T? S? | S?")},
)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights (..., S), 0 where the mask is False; a fully masked row gives zeros."""
    ### BEGIN SOLUTION
    mask = mask.expand_as(scores)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


homework.promise(
    masked_softmax,
    "A row has the softmax of its allowed scores, and 0 elsewhere; a row without True is 0.",
    "Masked weights are 0; the others add up to 1.",
    worth=2,
)


@homework.check(masked_softmax, "A weight of 1e-20 is not 0: only masked ones are.")
def keeps_small_weights(answer, draw):
    """Weights as small as 1e-20 are kept: their logarithms are those of torch's log_softmax."""
    scores = torch.linspace(-45, 0, draw.size(2, 9)).to(draw.dtype)
    mask = torch.arange(len(scores)) != draw.choose(len(scores))
    yield "the logarithm of a weight", answer(scores, mask)[mask].log()


@homework.check(
    masked_softmax,
    "The forward pass is right: where does the backward pass compute 0 times infinity?",
    scores=Float("... T S", half=False),
)
def gradients_are_numbers(answer, scores, mask, draw):
    """The gradients of the scores are finite where a row is fully masked, and right elsewhere."""
    scores = (scores * draw.one_of([1.0, 100.0, 1e30])).to(draw.dtype).requires_grad_()
    towards = draw.normal(*scores.shape)
    yield "the gradient", gradients(answer(scores, mask), towards, scores)[0]


@homework.check(
    masked_softmax,
    "Is the fill value below all allowed scores, and the maximum taken over the allowed scores?",
    scores=Float("... T S", half=False),
)
def extreme_scores(answer, scores, mask, draw):
    """Weights of scores near 1e30 and -1e30 (60,000 in float16) are right, with masked ones 0."""
    kinds = [(torch.float32, 1e30), *[(torch.float16, 6e4)] * 2, (torch.float64, 1e30)]
    dtype, large = draw.one_of(kinds)
    steps = draw.ids(0, 4, *scores.shape) / 1000 + draw.one_of([1, -1, -1, 0.5])
    yield "a weight", answer((steps * large).clamp(-large, large).to(dtype), mask)


@homework.question(
    "How much is computed in vain?",
    options=["About half.", "About two thirds.", "About three quarters."],
    hints=(
        "Count the True entries of your decoder mask.",
        "Without padding, row i of the decoder's mask has i + 1 True entries.",
    ),
    read="notebook 06, section 3",
    uses=(three_masks,),
)
def what_share_of_scores_is_hidden(three_masks) -> str:
    """
    In training, all scores of the decoder's self-attention are computed and then partly masked.
    What share does **your** mask hide for sentences of 50 tokens without padding?
    """
    ids = torch.full((3, 50), 5)
    hidden = 1 - float(three_masks(ids, ids)[1].float().mean())
    return "A" if hidden < 0.58 else "B" if hidden < 0.71 else "C"
