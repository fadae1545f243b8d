"""Homework 03: the sinusoidal table, shifting by k positions, positions in incremental decoding."""

import math

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, refuses, same
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Made, OneOf, Size, Whole
from nmtcourse.homework.task import Assignment
from nmtlib.model.embeddings import sinusoidal_table

homework = Assignment(
    "03",
    "positions",
    "Positional encoding",
    opening="""
    You write the table of positions, find the matrix that shifts it by k positions, and add
    positions to words in a way that also works when words arrive one by one.
    """,
    imports="import math\n\nimport torch\nfrom torch import Tensor, nn",
)


@homework.task(
    "easy",
    "The sinusoidal table",
    """
    Write the table of Vaswani et al. 2017, section 3.5: row p is position p, counted from 0, and
    columns 2i and 2i + 1 are the sine and the cosine of $p / 10000^{2i/D}$. Return a float32 tensor
    (length, D). An odd D raises a `ValueError`.
    """,
    hints=(
        "Does i count dimensions, or pairs of dimensions?",
        "Compute the D/2 frequencies first, then a table (length, D/2) of angles.",
    ),
    read="notebook 03, section 3",
    mistakes=r"""
    i counts dimensions where it should count pairs: the exponent stays below 1.
        torch.arange(0, d_model, 2) / d_model => 2 * torch.arange(0, d_model, 2) / d_model
    The exponent lacks the factor 2: the lowest frequency is far too high.
        torch.arange(0, d_model, 2) / d_model => torch.arange(d_model // 2) / d_model
    All sines come before all cosines; the columns should alternate.
        torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model)
        => torch.cat([angle.sin(), angle.cos()], dim=-1)
    Sine and cosine are exchanged.
        [angle.sin(), angle.cos()] => [angle.cos(), angle.sin()]
    Positions are counted from 1.
        torch.arange(length) => torch.arange(1, length + 1)
    The angle is multiplied by the wavelength, not divided.
        position / 10000 => position * 10000
    The base is 1000 instead of 10000.
        10000 => 1000
    An odd D raises no ValueError.
        if d_model % 2: => if False:
    """,
    signature={"length": Whole(1, 120), "d_model": Whole(2, 512, step=2)},
)
def position_table(length: int, d_model: int) -> Tensor:
    """Sines and cosines of the positions 0 to length - 1, as a table (length, D)."""
    ### BEGIN SOLUTION
    if d_model % 2:
        raise ValueError(f"the columns are pairs: D must be even, not {d_model}")
    position = torch.arange(length)[:, None]
    angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model)
    ### END SOLUTION


homework.promise(
    position_table,
    "Every value is that of the formula, for all lengths and even D.",
    "Write down the first two rows for D = 4 by hand.",
    worth=2,
)


@homework.check(position_table, "Columns come in pairs: check D.")
def refuses_half_a_pair(answer, length, d_model):
    """An odd D raises ValueError."""
    refuses(answer, (length, d_model - 1), f"D = {d_model - 1}")


@homework.check(
    position_table, "How exact is an angle of thousands of turns in float32?", draws=1, again=False
)
def is_exact_far_out(answer):
    """Values are correct to three digits even at position 5,000."""
    yield "a row", answer(5001, 10)[[2049, 4099, 4999, 5000]], 2e-3


@homework.task(
    "medium",
    "Shifting by k positions is a rotation",
    """
    Let $t_p$ be row p of the table. There is a matrix $R_k$ with $R_k\\, t_p = t_{p+k}$ for
    **every** position p. Write `rotation(k, d_model)`, which returns it as a float64 tensor (D, D);
    k may be negative. Write the matrix down from its formula: do not solve for it or fit it.
    """,
    hints=(
        "A pair of columns is the hand of a clock. What turns a hand by a fixed angle?",
        "sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b.",
    ),
    read="notebook 03, section 6",
    mistakes=r"""
    The rotation goes backwards: the signs of the two sines are exchanged.
        [[c, s], [-s, c]] => [[c, -s], [s, c]]
    All pairs rotate at the same frequency.
        10000 ** (-2 * i / d_model) => 1.0
    Sine and cosine are exchanged.
        c, s = math.cos(k * speed), math.sin => s, c = math.cos(k * speed), math.sin
    Both sines have the same sign, so the matrix is not a rotation.
        [-s, c] => [s, c]
    i counts dimensions where it should count pairs.
        10000 ** (-2 * i / d_model) => 10000 ** (-4 * i / d_model)
    k is ignored: the matrix always rotates by one step.
        k * speed => speed
    Only the first pair is rotated.
        for i in range(d_model // 2): => for i in range(1):
    Only the absolute value of k is used.
        k * speed => abs(k) * speed
    """,
    signature={"k": Whole(-1000, 1000), "d_model": Whole(2, 128, step=2)},
)
def rotation(k: int, d_model: int) -> Tensor:
    """The matrix (D, D) that turns the vector of each position p into that of position p + k."""
    ### BEGIN SOLUTION
    matrix = torch.eye(d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        speed = 10000 ** (-2 * i / d_model)
        c, s = math.cos(k * speed), math.sin(k * speed)
        pair = slice(2 * i, 2 * i + 2)
        matrix[pair, pair] = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    return matrix
    ### END SOLUTION


homework.promise(
    rotation,
    "The matrix is that of the formula: float64, (D, D), for k up to a thousand.",
    "Try D = 2 first: one hand, one angle.",
    worth=2,
    k=Whole(1, 1000),
)
homework.promise(
    rotation,
    "A negative k shifts backwards, and k = 0 gives the identity.",
    "A rotation by -k undoes the rotation by k.",
    k=Whole(-1000, 0),
)


def some_words(draw: Draw) -> Tensor:
    """Embedded words, one or as many as the table has."""
    return draw.normal(draw.named("B"), 1 + draw.choose(draw.named("M")), draw.named("2*D"))


def some_start(draw: Draw, known: dict) -> int:
    """A number of earlier words that leaves room for the others."""
    return draw.choose(known["max_length"] - known["embedded"].size(1) + 1)


@homework.task(
    "hard",
    "Positions in incremental decoding",
    """
    Write a module that adds positions to embedded words (B, S, D). `kind="sinusoidal"` uses the
    fixed table; `kind="learned"` uses a learned table, initialised with normal numbers. In
    decoding, words arrive one by one: `start` is the number of earlier words. The fixed table
    follows the module to a different dtype or device, is not trained, and is not part of the
    `state_dict`. A position after the last one of the table, `max_length` - 1, raises a
    `ValueError`, and so does an unknown `kind`. The function `sinusoidal_table` below is given.
    """,
    hints=(
        "What do you call a tensor that belongs to a module but is not a parameter?",
        "`register_buffer(name, tensor, persistent=False)`, and a slice from start to start + S.",
    ),
    read="notebook 03, section 8",
    given="""
    from nmtlib.model.embeddings import sinusoidal_table
    """,
    mistakes=r"""
    `start` is ignored: the first word always gets position 0.
        self.table[start:end] => self.table[: embedded.size(1)]
    Positions are counted along the batch, not along the sentence.
        end = start + embedded.size(1) => end = start + embedded.size(0)
        self.table[start:end] => self.table[start:end][:, None]
    The fixed table is a plain attribute, which `.to(...)` does not move.
        self.register_buffer("table", table, persistent=False) => self.table = table
    The fixed table is a parameter, so it would be trained.
        self.register_buffer("table", table, persistent=False) => self.table = nn.Parameter(table)
    The fixed table is part of the state_dict, although it can be computed.
        , persistent=False =>
    The learned table is not a parameter, so it is never trained.
        nn.Parameter(torch.randn(max_length, d_model)) => torch.randn(max_length, d_model)
    A sentence beyond the table raises no ValueError.
        if end > len(self.table): => if False:
    Only the length of the input is compared with the table, not its last position.
        if end > len(self.table): => if embedded.size(1) > len(self.table):
    An unknown kind raises no ValueError.
        elif kind == "learned": => else:
        else:\n            raise ValueError(f"sinusoidal or learned, not {kind!r}")\n =>
    """,
    signature={"d_model": Size("2*D"), "max_length": Size("M")}
    | {"kind": OneOf("sinusoidal", "learned"), "embedded": Made(some_words, half=True)}
    | {"start": Made(some_start, needs=True, half=True)},
)
class Positions(nn.Module):
    """Add its position vector to each word (B, S, D); `start` is the number of earlier words."""

    def __init__(self, d_model: int, max_length: int, kind: str = "sinusoidal"):
        super().__init__()
        ### BEGIN SOLUTION
        if kind == "sinusoidal":
            table = sinusoidal_table(max_length, d_model)
            self.register_buffer("table", table, persistent=False)
        elif kind == "learned":
            self.table = nn.Parameter(torch.randn(max_length, d_model))
        else:
            raise ValueError(f"sinusoidal or learned, not {kind!r}")
        ### END SOLUTION

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        ### BEGIN SOLUTION
        end = start + embedded.size(1)
        if end > len(self.table):
            raise ValueError(f"position {end} lies beyond the table of {len(self.table)}")
        return embedded + self.table[start:end]
        ### END SOLUTION


homework.promise(
    Positions,
    "Word s gets the vector of position start + s, in every sentence, in whole or word by word; "
    "gradients reach the words and the rows of the learned table that were used.",
    "Which axis is the sentence, and what is added to it?",
    worth=3,
)


@homework.check(Positions, "Parameter, buffer or plain attribute: what is each table?", draws=8)
def keeps_its_tables_where_they_belong(answer, d_model, max_length):
    """The learned table is the only parameter; the fixed one is neither a parameter nor saved, and
    follows the module to a different dtype or device.
    """
    kinds = ("sinusoidal", "learned", "learned")
    fixed, learned, other = (answer(d_model, max_length, kind) for kind in kinds)
    shapes = [tuple(p.shape) for p in learned.parameters()]
    same(shapes, [(max_length, d_model)], "the learned parameters")
    same(len(list(fixed.parameters())), 0, "the number of parameters of the fixed kind")
    same(list(fixed.state_dict()), [], "the state_dict of the fixed kind")
    tables = [next(iter(each.parameters())) for each in (learned, other)]
    holds(not torch.equal(*tables), "tables with the same initial values", "random numbers")
    table = next(iter(answer(64, 200, "learned").parameters())).detach()
    tails = float(((table - table.mean()) / table.std()).pow(4).mean())  # 3 for any normal numbers
    holds(2.6 < tails < 3.4, f"a learned table with a kurtosis of {tails:.1f}", "3, normal numbers")
    words = torch.zeros(1, max_length, d_model)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        same(fixed.to(dtype)(words.to(dtype)).dtype, dtype, f"the dtype of the result in {dtype}")
    left = [name for name, x in vars(fixed.to("meta")).items() if isinstance(x, Tensor)]
    moved = f"a fixed table, `{left}`, that stays where it is when the module moves"
    holds(not left, moved, "a table that moves with its module")


@homework.check(Positions, "What is the position of the last word of the input?")
def refuses_what_is_too_long(answer, d_model, max_length, kind, embedded, start, draw):
    """Positions beyond the table and an unknown kind raise ValueError; the last position fits."""
    module, words = answer(d_model, max_length, kind).to(draw.dtype), embedded.size(1)
    module(embedded, max_length - words)
    for first in (max_length - words + 1, max_length + start):
        refuses(module, (embedded, first), f"{words} words from {first} on, of {max_length}")
    refuses(answer, (d_model, max_length, draw.one_of(["round", "", "Learned"])), "an unknown kind")


@homework.question(
    "Near and far",
    options=[
        "On both positions.",
        "Only on the distance between them.",
        "On neither: it is the same for all pairs.",
    ],
    hints=(
        "Compare the dot product of rows 3 and 8 with that of rows 20 and 25.",
        "A rotation changes neither lengths nor angles.",
    ),
    read="notebook 03, section 5",
    uses=(position_table,),
)
def what_does_a_product_depend_on(position_table) -> str:
    """
    Take the dot product of two rows of **your** table. What does it depend on?
    """
    table = position_table(40, 16).double()
    products = table @ table.T
    near = torch.stack([products[i, i + 5] for i in range(30)])
    far = torch.stack([products[i, i + 9] for i in range(30)])
    if near.std() > 1e-3:
        return "A"
    return "C" if torch.allclose(near, far, atol=1e-3) else "B"
