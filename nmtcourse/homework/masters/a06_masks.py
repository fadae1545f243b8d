"""Homework 06: three masks, a test for leaks, a softmax without NaN."""

import math

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, same, shaped
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment, Finding
from nmtlib.model import Transformer, TransformerConfig

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
    mistakes={
        "The masks are inverted: True marks PAD instead of what may be attended to.": [
            ("(source != pad)", "(source == pad)"),
            ("(target != pad)", "(target == pad)"),
        ],
        "In the decoder's mask each position sees the next one.": [(".tril()", ".tril(1)")],
        "No position may attend to itself.": [(".tril()", ".tril(-1)")],
        "The decoder's mask looks forward instead of back.": [(".tril()", ".triu()")],
        "The decoder's mask does not hide padded keys, which matters with padding on the left.": [
            ("(target != pad)[:, None, None, :] & past", "past.expand(len(target), 1, -1, -1)")
        ],
        "The decoder's mask is not causal.": [
            (
                "(target != pad)[:, None, None, :] & past",
                "(target != pad)[:, None, None, :] | torch.zeros_like(past)",
            )
        ],
        "`pad` is ignored: 0 is treated as PAD.": [("!= pad", "!= 0")],
        "The cross-attention mask uses the target, but its keys are those of the source.": [
            ("keys, decoder, keys", "keys, decoder, (target != pad)[:, None, None, :]")
        ],
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


def padded(draw: Draw, batch: int, length: int, pad: int, left: bool | None) -> Tensor:
    """Ids padded on the left, on the right, or (None) on either side, of different lengths."""
    ids = draw.ids(0, 20, batch, length)
    ids[ids == pad] = 20
    for row in range(batch):
        empty = draw.random.randint(0, length - 1)
        if left or left is None and row % 2:
            ids[row, :empty] = pad
        else:
            ids[row, length - empty :] = pad
    return ids


@homework.check(three_masks, "Return three boolean tensors of these shapes.", worth=0)
def have_their_shapes(answer, draw: Draw):
    """The masks are boolean: (B, 1, 1, S), (B, 1, T, T) and (B, 1, 1, S)."""
    batch, s, t = draw.sizes(3)
    found = answer(draw.ids(4, 20, batch, s), draw.ids(4, 20, batch, t))
    same(len(found), 3, "the number of masks")
    shapes = [(batch, 1, 1, s), (batch, 1, t, t), (batch, 1, 1, s)]
    for name, mask, shape in zip(
        ("encoder", "decoder", "cross-attention"), found, shapes, strict=True
    ):
        shaped(mask, shape, f"the {name} mask")
        same(mask.dtype, torch.bool, f"the type of the {name} mask")


@homework.check(
    three_masks, "For three words, list which words each one may see.", worth=1, draws=1
)
def let_each_position_see_its_past(answer, draw: Draw):
    """Without PAD, each decoder position sees itself and earlier positions."""
    ids = draw.ids(4, 20, 2, 3)
    seen = [row.nonzero().flatten().tolist() for row in answer(ids, ids)[1][0, 0]]
    same(seen, [[0], [0, 1], [0, 1, 2]], "what positions 0 to 2 see")


@homework.check(
    three_masks,
    "Draw the masks of a sentence with two PAD: which axis are the keys? What is `pad`?",
    worth=1,
)
def hide_padded_keys(answer, draw: Draw):
    """Padded keys are hidden, and nothing else: PAD on either side, any PAD id, sources and targets
    of equal length included.
    """
    batch, s, t = draw.sizes(3)
    sides = {False: "the right", True: "the left", None: "either side"}
    for left, pad, wide in [(False, 0, s), (True, 0, s), (False, 3, s), (True, 1, s), (None, 2, t)]:
        source, target = padded(draw, batch, wide, pad, left), padded(draw, batch, t, pad, left)
        encoder, decoder, cross = answer(source, target, pad)
        side = f"with PAD {pad} at {sides[left]}"
        same(encoder[:, 0, 0], source != pad, f"the encoder's mask {side}")
        same(cross[:, 0, 0], source != pad, f"the cross mask {side}")
        for row in range(t):
            expected = (target != pad) & (torch.arange(t) <= row)
            words = target[:, row] != pad  # rows of padded queries are not checked
            what = f"row {row} of the decoder's mask {side}"
            same(decoder[:, 0, row][words], expected[words], what)


@homework.task(
    "medium",
    "Does this decoder see the future?",
    """
    Write a test for other people's models. `logits(source, target)` takes ids (B, S) and the
    decoder's input (B, T) and returns logits (B, T, V). If the token at position j changes, the
    logits *before* j must not change. Return the sorted list of all distances d > 0 at which a
    change at some j changes the logits at j - d; an empty list means that there is no leak. Ids
    range from 4 to `vocabulary - 1`. Detect leaks that show in only one sentence of the batch, and
    ignore rounding differences (less than 1e-4).
    """,
    hints=(
        "Change one target token at a time, for every j, and compare all earlier logits.",
        "Compare each sentence separately; take the largest difference over the vocabulary.",
    ),
    read="notebook 06, section 4",
    mistakes={
        "Only the last token is changed, so leaks in the middle are missed.": [
            ("for j in range(1, length):", "for j in range(length - 1, length):")
        ],
        "Position j itself is reported as a leak, but its logits may change.": [
            ("before = moved[:j]", "before = moved[: j + 1]")
        ],
        "Only the position just before the change is checked.": [
            ("before = moved[:j]", "before = moved[:j] & (torch.arange(j) == j - 1)")
        ],
        "Rounding is reported as a leak: compare with a tolerance.": [("> 1e-4", "> 0")],
        "A faint leak is missed: a single sentence, a mean or a wide tolerance hides it.": [
            (".amax(dim=(0, 2))", "[0].amax(dim=-1)")
        ],
        "The mean over the vocabulary is compared, which hides a change in a few logits.": [
            (".abs().amax(dim=(0, 2))", ".mean(dim=(0, 2)).abs()")
        ],
        "The positions are returned, not their distances from the change.": [
            ("j - int(i)", "int(i) + 1")
        ],
        "The distances are negative: a distance is j minus the position that changed.": [
            ("j - int(i)", "int(i) - j")
        ],
        "A distance is listed more than once.": [
            ("target.size(1), set()", "target.size(1), []"),
            (
                "found |= {j - int(i) for i in before.nonzero()}",
                "found += [j - i for i in before.nonzero().flatten().tolist()]",
            ),
        ],
        "The new token may equal the old one, in which case nothing changes.": [
            (
                "4 + (changed[:, j] - 4 + 1) % (vocabulary - 4)",
                "torch.full_like(changed[:, j], 4)",
            )
        ],
    },
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


def words_only(ids: Tensor, vocabulary: int) -> None:
    """Raise Finding for ids that are not words."""
    strange = ids[(ids < 4) | (ids >= vocabulary)]
    if len(strange):
        measured = f"the model received the id {int(strange[0])} with a vocabulary of {vocabulary}"
        cause = "Change a token into a different *word*, even the last one of the vocabulary."
        raise Finding(measured, f"ids from 4 to {vocabulary - 1}", cause)


class Decoder(nn.Module):
    """A toy model: position i sums itself, the past, and `ahead` at some distances.

    Only sentences with one of the `sources` leak, in a batch or alone, and only for changes from
    position `first` on.
    """

    def __init__(
        self,
        draw: Draw,
        ahead: list[int],
        sources: Tensor,
        first: int = 0,
        size: float = 1.0,
        vocabulary: int = 20,
    ):
        super().__init__()
        self.table = draw.normal(vocabulary, 12)
        self.table[:, 0] = torch.arange(vocabulary)  # every word leaks differently
        self.ahead, self.sources, self.first, self.size = ahead, sources, first, size

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        words_only(target, len(self.table))
        words = self.table[target]
        result = words.cumsum(1) + self.table[source].sum(1, keepdim=True)
        length = target.size(1)
        for distance in self.ahead:
            later = words[:, distance:].clone()
            later[:, : max(self.first - distance, 0)] = 0
            later[..., 2:] = 0  # only a few logits change
            later[..., 1] = -later[..., 0]  # up and down: the mean does not change
            leaky = (source[:, None] == self.sources).all(-1).any(-1)
            result[:, : length - distance] += self.size * later * leaky[:, None, None]
        noise = 1e-6 * torch.rand(
            result.shape, dtype=result.dtype
        )  # no two results are quite the same
        return result + noise


@homework.check(
    leaks, "Neither rounding (less than 1e-4) nor attention to earlier positions is a leak."
)
def finds_no_leak_where_there_is_none(answer, draw: Draw):
    """A causal decoder has no leak, although rounding changes its logits."""
    batch, s, t = draw.sizes(3, 3)
    decoder = Decoder(draw, [], draw.ids(4, 20, 0, s))
    found = answer(decoder, draw.ids(4, 20, batch, s), draw.ids(4, 20, batch, t), 20)
    same(list(found), [], "your result for a causal decoder")


@homework.check(
    leaks,
    "Does every token really change, one at a time, and is every sentence compared?",
    worth=2,
)
def finds_every_leak(answer, draw: Draw):
    """Leaks are found at their distances: near, far, faint, in one sentence, late or early, even
    with a vocabulary of only two words, 4 and 5.
    """
    s, t = 5, 8
    source = draw.ids(4, 6, 3, s)
    source[:, 0], source[:, 1] = torch.tensor([4, 4, 5]), torch.tensor([4, 5, 4])  # all different
    cases = [([1], [0, 1, 2], 0, 1), ([2], [1], 0, 2e-4), ([3, 1], [2], 0, 1), ([7], [0], 0, 1)]
    for ahead, rows, first, size in [*cases, ([1], [0, 1, 2], 4, 1)]:
        for target in (draw.ids(4, 6, 3, t), torch.full((3, t), 4), torch.full((3, t), 5)):
            decoder = Decoder(draw, ahead, source[rows], first, size, 6)
            found = answer(decoder, source, target, 6)
            where = f"in sentence {rows}" if len(rows) == 1 else "in all sentences"
            same(
                list(found),
                sorted(ahead),
                f"your result for leaks at {ahead} {where} from {first} on",
            )


@homework.check(leaks, "A leak in the middle of a sentence shows only if a middle token changes.")
def finds_leaks_in_the_middle(answer, draw: Draw):
    """A leak that shows only when an early token changes is found."""

    for late, early in [(3, 1), (1, 0), (4, 1), (2, 1), (5, 3)]:

        def logits(source: Tensor, target: Tensor, late=late, early=early) -> Tensor:
            words_only(target, 20)
            words = torch.nn.functional.one_hot(target, 20).to(draw.dtype)
            result = words.cumsum(1)
            result[:, early] += words[:, late]
            return result

        found = answer(logits, draw.ids(4, 20, 2, 3), draw.ids(4, 20, 2, 7), 20)
        same(
            list(found),
            [late - early],
            f"your result for a leak from word {late} into position {early}",
        )


@homework.check(leaks, "Compare single positions, not sums over positions.", draws=1)
def works_on_a_transformer(answer, draw: Draw):
    """The course's Transformer has no leak; without its causal mask it leaks everywhere."""
    config = TransformerConfig(
        20, 20, d_model=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, d_ff=16, dropout=0.0
    )
    model = Transformer(config).eval()
    source, target = draw.ids(4, 20, 2, 4), draw.ids(4, 20, 2, 5)
    same(list(answer(model, source, target, 20)), [], "your result for a Transformer")

    def blind(source: Tensor, target: Tensor) -> Tensor:
        return model(source, target) + model(source, target.flip(1)).sum(1, keepdim=True)

    same(list(answer(blind, source, target, 20)), [1, 2, 3, 4], "your result without a causal mask")


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
    mistakes={
        "Masked scores become -inf: a fully masked row gives NaN.": [
            ("fill(~mask, lowest)", "fill(~mask, -math.inf)"),
            ("return weights.masked_fill(~mask, 0.0)", "return weights"),
        ],
        "-inf is added: a fully masked row's NaN weights are replaced, but not its gradients.": [
            (
                "scores.masked_fill(~mask, lowest)",
                "(scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf))",
            ),
            ("weights.masked_fill(~mask, 0.0)", "weights.nan_to_num(0.0)"),
        ],
        "A fully masked row becomes an average of masked keys.": [
            ("return weights.masked_fill(~mask, 0.0)", "return weights")
        ],
        "A number is added, which does not hide a score of 1e30: fill the score instead.": [
            ("scores.masked_fill(~mask, lowest)", "(scores - 1e4 * (~mask).to(scores.dtype))")
        ],
        "-10,000 is not below all scores, which go down to -60,000 in float16.": [
            ("fill(~mask, lowest)", "fill(~mask, -1e4)")
        ],
        "The fill value does not fit into float16.": [
            ("fill(~mask, lowest)", "fill(~mask, -1e12)")
        ],
        "-1e9 is not the smallest number: next to scores of -1e30 it is the maximum.": [
            ("fill(~mask, lowest)", "fill(~mask, max(-1e9, lowest))")
        ],
        "The mask is inverted: True means may attend.": [
            ("mask = mask.expand_as(scores)", "mask = ~mask.expand_as(scores)")
        ],
        "The scores are multiplied by the mask: masked ones become 0, which still gets weight.": [
            ("scores.masked_fill(~mask, lowest)", "(scores * mask)")
        ],
        "Small weights are set to 0; only masked ones should be.": [
            ("masked_fill(~mask, 0.0)", "masked_fill(~mask | (weights < 1e-6), 0.0)")
        ],
    },
)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights (..., S), 0 where the mask is False; a fully masked row gives zeros."""
    ### BEGIN SOLUTION
    mask = mask.expand_as(scores)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


@homework.check(masked_softmax, "Masked weights are 0; the others add up to 1.", worth=2)
def is_a_softmax_of_what_is_allowed(answer, draw: Draw):
    """A row with allowed keys has the softmax of their scores, and 0 elsewhere."""
    batch, t, s = draw.sizes(3)
    scores = draw.normal(batch, t, s)
    for shape in [(batch, t, s), (t, s), (batch, 1, s)]:
        mask = draw.mask(*shape)
        expected = scores.masked_fill(~mask, -math.inf).softmax(-1)
        same(answer(scores, mask), expected, f"a weight under a mask {shape}")


@homework.check(masked_softmax, "A weight of 1e-20 is not 0: only masked ones are.")
def keeps_small_weights(answer, draw: Draw):
    """Weights as small as 1e-20 are kept: their logarithms are those of torch's log_softmax."""
    scores = torch.linspace(-45, 0, draw.sizes(1, 5)[0], dtype=draw.dtype)
    mask = torch.arange(len(scores)) != 1
    found, expected = answer(scores, mask), scores.masked_fill(~mask, -math.inf)
    same(found[mask].log(), expected.log_softmax(-1)[mask], "the logarithm of a weight")


@homework.check(masked_softmax, "What is the softmax of a fully masked row?")
def an_empty_row_is_zero(answer, draw: Draw):
    """A row without True gives zeros; the other rows are unaffected."""
    t, s = draw.sizes(2)
    scores, mask = draw.normal(t + 1, s), draw.mask(t + 1, s)
    mask[1] = False
    expected = scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num(0.0)
    same(answer(scores, mask), expected, "a weight where row 1 is fully masked")


@homework.check(
    masked_softmax,
    "The forward pass is right: where does the backward pass compute 0 times infinity?",
)
def gradients_are_numbers(answer, draw: Draw):
    """The gradients of the scores are finite where a row is fully masked, and right elsewhere."""
    t, s = draw.sizes(2)
    scores = draw.normal(t, s).requires_grad_()
    mask, towards = draw.mask(t, s), draw.normal(t, s)
    mask[0] = False
    (answer(scores, mask) * towards).sum().backward()
    holds(scores.grad is not None, "no gradient", "one", "The result is detached from the scores.")
    bad = int((~scores.grad.isfinite()).sum())
    holds(bad == 0, f"{bad} gradients are not finite", "finite ones")
    again = scores.detach().clone().requires_grad_()
    kept = again[1:].masked_fill(~mask[1:], -math.inf).softmax(-1)
    (kept * towards[1:]).sum().backward()
    same(scores.grad, again.grad, "a gradient")


@homework.check(
    masked_softmax,
    "Is the fill value below all allowed scores, and the maximum taken over the allowed scores?",
)
def extreme_scores(answer, draw: Draw):
    """Weights of scores near 1e30 and -1e30 (60,000 in float16) are finite and add up to 1."""
    (s,) = draw.sizes(1, 3)
    mask = torch.ones(s, dtype=torch.bool)
    mask[-1] = False
    for dtype, large in ((torch.float16, 6e4), (torch.float32, 1e30), (torch.float64, 1e30)):
        steps = (torch.arange(s).double() * large / s).to(dtype)
        most = float(answer(steps, mask)[s - 2])
        holds(most > 0.99, f"the weight of the largest of different scores is {most:.3g}", "1")
        for sign in (-1, 1):
            scores = (draw.normal(s) + sign * large).to(dtype)
            weights = answer(scores, mask)
            what = f"the weights of scores near {sign * large:g} in {dtype}"
            cause = "A tensor made without `dtype=` is float32, whatever the input is."
            measured = f"{what} have the dtype {weights.dtype}"
            holds(weights.dtype == dtype, measured, f"{dtype}", cause)
            holds(weights.isfinite().all(), f"{what} are not finite", "finite weights")
            total, last = float(weights.float().sum()), float(weights[-1])
            holds(last == 0, f"{what}: a masked one is {last:.3g}", "0")
            holds(abs(total - 1) < 0.01, f"{what} add up to {total:.3g}", "1")


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
    ids = Draw(0, 0).ids(4, 20, 3, 50)
    hidden = 1 - float(three_masks(ids, ids)[1].float().mean())
    return "A" if hidden < 0.58 else "B" if hidden < 0.71 else "C"
