"""Homework 02: a lookup as a matmul, the scaled embedding, one table for input and output."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.homework.compare import gradients, holds, refuses, same
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.operations import Operations
from nmtcourse.homework.signatures import Float, Ids, Made, Size
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "02",
    "embeddings",
    "Embeddings",
    opening="""
    Each word is a row of a table. You show that a lookup is a matrix multiplication, write the
    Transformer's embedding, and use one table both to embed words and to predict them.
    """,
    imports=(
        "import math\n\nimport torch\nfrom torch import Tensor, nn\n"
        "from torch.nn import functional as F"
    ),
)


@homework.task(
    "easy",
    "A lookup is a matrix multiplication",
    """
    `table` (V, D) has a row for each word of the vocabulary; `ids` is an int64 tensor of any shape.
    Return the rows (..., D) of these words as **one matrix multiplication** of a tensor of zeros
    and ones with the table, without indexing the table. Gradients must reach the table, and the
    result must have its dtype.
    """,
    hints=(
        "Write it for one word first: a row with a single 1.",
        "Compare each id with the numbers 0 to V - 1: the result is a tensor (..., V).",
    ),
    read="notebook 02, section 1",
    mistakes=r"""
    The width of the one-hot rows is the largest id, not the number of rows of the table.
        len(table) => int(ids.max()) + 1
        @ table => @ table[: int(ids.max()) + 1].flip(0).flip(0)
        'torch.arange(int(ids.max()) + 1)' => 'torch.arange(int(ids.max()))'
    The table is detached: no gradient reaches it.
        @ table => @ table.detach()
    Words are counted from 1 instead of 0.
        torch.arange(len(table)) => torch.arange(1, len(table) + 1)
    The one-hot tensor is float32 whatever the dtype of the table.
        .to(table.dtype) @ table => .float() @ table.float()
    The comparison is inverted: all rows except the right one are added up.
        ids[..., None] == => ids[..., None] !=
    The comparison accepts every smaller id as well.
        ids[..., None] == => ids[..., None] >=
    The ids are flattened, and their shape is lost.
        ids[..., None] => ids.flatten()[:, None]
    """,
    signature={"ids": Ids("...", "V"), "table": Float("V D", grad=True)},
)
def lookup(ids: Tensor, table: Tensor) -> Tensor:
    """The rows (..., D) of a table (V, D) for ids (...), as a matrix multiplication."""
    ### BEGIN SOLUTION
    one_hot = ids[..., None] == torch.arange(len(table))
    return one_hot.to(table.dtype) @ table
    ### END SOLUTION


homework.promise(
    lookup,
    "The result contains the rows of the words, for ids of any shape.",
    "Print your one-hot rows for ids 0, 1 and V - 1.",
    worth=2,
)


@homework.check(lookup, "Everything between the table and the result must be differentiable.")
def gradients_reach_the_table(answer, ids, table, draw):
    """The table gets the gradient of torch's embedding: a sum for repeated words."""
    towards = draw.normal(*ids.shape, table.size(1))
    yield "the gradient of the table", gradients(answer(ids, table), towards, table)[0]


@homework.check(
    lookup, "Multiply the table as a whole: read no single row of it.", draws=6, inside=True
)
def is_one_product(answer, ids, table):
    """The table is multiplied once, and not indexed."""
    with Operations(of=table) as operations:
        answer(ids, table)
    indexed = {*operations.touched} & {"index", "index_select", "embedding", "gather", "take"}
    indexed |= {*operations.touched} & {"select", "slice", "unbind", "split", "masked_select"}
    holds(not indexed, f"the table was indexed, by {sorted(indexed)}", "a matrix multiplication")
    holds(operations.products() == 1, f"{operations.products()} matrix multiplications", "one")


@homework.task(
    "medium",
    "The Transformer's embedding",
    """
    Write a module that looks up ids (B, S) and multiplies the rows by $\\sqrt{D}$ (Vaswani et al.
    2017, section 3.4). Its table is a parameter `weight` (V, D), initialised from a normal
    distribution with standard deviation $1 / \\sqrt{D}$. The row of `pad` is initialised to zero,
    and its gradient is always zero. An id outside 0 to V - 1 raises a `ValueError` that names it.
    """,
    hints=(
        "Does the factor belong to the parameter or to the forward pass?",
        "`F.embedding` has an argument for the untrained row; set that row to zero yourself.",
    ),
    read="notebook 02, section 4",
    mistakes=r"""
    The rows are not multiplied by the root of D.
        * math.sqrt(self.weight.size(1)) =>
    The rows are multiplied by D, not by its root.
        math.sqrt(self.weight.size(1)) => self.weight.size(1)
    The factor is the root of V, not of D.
        math.sqrt(self.weight.size(1)) => math.sqrt(self.weight.size(0))
    The row of PAD is not initialised to zero.
        weight[pad] = 0 => pass
    The row of PAD is trained.
        , padding_idx=self.pad =>
    `pad` is ignored: row 0 is treated as PAD.
        self.pad = pad => self.pad = 0
    The table is initialised with a standard deviation of 1, too much for the factor.
        torch.randn(vocab_size, d_model) / math.sqrt(d_model) => torch.randn(vocab_size, d_model)
    An id outside the vocabulary raises no ValueError.
        if not 0 <= int(ids.min()) <= int(ids.max()) < len(self.weight): => if False:
    A negative id is accepted.
        0 <= int(ids.min()) <= int => int
    """,
    signature={
        "vocab_size": Size("V"),
        "d_model": Size("D"),
        "pad": Made(lambda draw: draw.choose(draw.named("V")), half=True),
    }
    | {"ids": Ids("B S", "V")},
)
class ScaledEmbedding(nn.Module):
    """Ids (B, S) -> vectors (B, S, D), scaled by the root of D; the row of PAD stays zero."""

    def __init__(self, vocab_size: int, d_model: int, pad: int = 0):
        super().__init__()
        ### BEGIN SOLUTION
        self.pad = pad
        weight = torch.randn(vocab_size, d_model) / math.sqrt(d_model)
        weight[pad] = 0
        self.weight = nn.Parameter(weight)
        ### END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        if not 0 <= int(ids.min()) <= int(ids.max()) < len(self.weight):
            raise ValueError(f"ids {int(ids.min())} to {int(ids.max())} of {len(self.weight)}")
        rows = F.embedding(ids.clamp(0), self.weight, padding_idx=self.pad)
        return rows * math.sqrt(self.weight.size(1))
        ### END SOLUTION


@homework.check(ScaledEmbedding, "Name the table `weight` and make it a parameter.", worth=0)
def has_one_parameter(answer, vocab_size, d_model, pad):
    """The only parameter is the table, `weight`."""
    module = answer(vocab_size, d_model, pad)
    yield "the parameters", {name: [*p.shape] for name, p in module.named_parameters()}
    yield "the row of PAD", module.weight[pad]


homework.promise(
    ScaledEmbedding,
    "The result is the rows times the root of D, in training and evaluation mode; the table gets "
    "the gradient, except for the row of PAD.",
    "Divide a result by its row of the table: what is the factor?",
    worth=2,
)


@homework.check(
    ScaledEmbedding,
    "Factor and initialisation belong together: embedded words should have a deviation of 1.",
    draws=3,
    again=False,
)
def starts_small(answer, draw: Draw):
    """Initially the table has a standard deviation of 1/root(D), and embedded words one of 1."""
    for d in (16, 144):
        one, other = (answer(400, d).weight.detach()[1:] * math.sqrt(d) for _ in range(2))
        what = f"standard deviation times root of D = {float(one.std()):.2f} for D = {d}"
        holds(0.93 < one.std() < 1.07, what, "1")
        far = 100 * float((one.abs() > 2).float().mean())
        what = f"{far:.0f} % of the numbers are more than two standard deviations from 0"
        holds(3 < far < 7, what, "5 %, as for normal numbers")
        holds(not torch.equal(one, other), "tables with the same initial values", "random numbers")


@homework.check(ScaledEmbedding, "Compare the ids with the size of the table before the lookup.")
def refuses_strange_ids(answer, vocab_size, d_model, pad, ids, draw):
    """A negative id, or one of V or more, raises a ValueError that names it."""
    strange = draw.one_of([vocab_size, -1, vocab_size + 7, -vocab_size])
    ids[tuple(map(draw.choose, ids.shape))] = strange
    refuses(answer(vocab_size, d_model, pad), (ids,), f"the id {strange} of {vocab_size}", strange)


@homework.task(
    "hard",
    "One table for input and output",
    """
    Weight tying: the table (V, D) that embeds words is also the matrix that turns vectors into
    logits. Write a module with **one** parameter, `weight`, and two methods. `read(ids)` returns
    the rows times $\\sqrt{D}$; `speak(x)` turns vectors (..., D) into logits (..., V), without
    factor or bias. The table is initialised with standard deviation $1 / \\sqrt{D}$. Both methods
    must train the same tensor, even after `copy.deepcopy`, a change of dtype or reloading the
    `state_dict`.
    """,
    hints=(
        "Which tensor is stored, and which is only computed from it?",
        "`F.embedding` and `F.linear` take the table as an argument; no layer needs to own it.",
    ),
    read="notebook 02, section 5",
    mistakes=r"""
    `read` and `speak` have separate tables: nothing is tied.
        F.linear(x, self.weight) => F.linear(x, self.other)
        = nn.Parameter(weight) => = nn.Parameter(weight); self.other = nn.Parameter(weight.clone())
    `speak` uses a copy of the table, which is equal at first but not trained.
        F.linear(x, self.weight) => F.linear(x, self.weight.detach().clone())
    `speak` uses a copy made at initialisation, which is trained separately.
        F.linear(x, self.weight) => F.linear(x, self.start.to(x.dtype))
        weight = nn.Parameter(weight) => weight = nn.Parameter(weight); self.start = weight.clone()
    `speak` applies the factor as well: the logits are too large.
        F.linear(x, self.weight) => F.linear(x, self.weight) * math.sqrt(self.weight.size(1))
    `read` does not apply the factor.
        embedding(ids, self.weight) * math.sqrt(self.weight.size(1)) => embedding(ids, self.weight)
    The table is initialised with a standard deviation of 1: logits are too large.
        / math.sqrt(d_model) =>
    `speak` has a bias: one parameter too many.
        = nn.Parameter(weight) => = nn.Parameter(weight); self.bias = nn.Parameter(weight[:, 0])
    `read` does not train the table.
        F.embedding(ids, self.weight) => F.embedding(ids, self.weight.detach())
    """,
    signature={"vocab_size": Size("V"), "d_model": Size("D")}
    | {"ids": Ids("...", "V"), "x": Float("... D")},
)
class TiedTable(nn.Module):
    """One table (V, D) that embeds ids and computes logits."""

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        ### BEGIN SOLUTION
        weight = torch.randn(vocab_size, d_model) / math.sqrt(d_model)
        self.weight = nn.Parameter(weight)
        ### END SOLUTION

    def read(self, ids: Tensor) -> Tensor:
        """Ids (...) -> vectors (..., D), scaled by the root of D."""
        ### BEGIN SOLUTION
        return F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))
        ### END SOLUTION

    def speak(self, x: Tensor) -> Tensor:
        """Vectors (..., D) -> logits (..., V)."""
        ### BEGIN SOLUTION
        return F.linear(x, self.weight)
        ### END SOLUTION


@homework.check(
    TiedTable, "Count `sum(p.numel() for p in module.parameters())`.", draws=6, again=False
)
def has_a_single_table(answer, draw: Draw):
    """The only parameter is the table, `weight`, with standard deviation 1/root(D)."""
    module = answer(400, 144)
    same({n: [*p.shape] for n, p in module.named_parameters()}, {"weight": [400, 144]}, "the parts")
    same([*module.state_dict()], ["weight"], "the names in the state_dict")
    spread = float(module.weight.detach().std() * 12)
    holds(0.93 < spread < 1.07, f"standard deviation times root of D = {spread:.2f}", "1")
    alike = torch.equal(module.weight, answer(400, 144).weight)
    holds(not alike, "tables with the same initial values", "random numbers")


homework.promise(
    TiedTable,
    "`read` applies the factor; `speak` multiplies by all rows without it; both train the table, "
    "after copies, changes of dtype, reloading and changes of the weights.",
    "Which of the two methods has the factor, and what do copies share?",
)


@homework.question(
    "Which rows are trained?",
    options=[
        "The rows of the input words.",
        "The rows of the input words and of the next words.",
        "All rows.",
    ],
    hints=(
        "Look at `weight.grad` after one backward pass.",
        "The softmax compares the right word with every other word.",
    ),
    read="notebook 02, section 5",
    uses=(TiedTable,),
)
def which_rows_get_a_gradient(TiedTable) -> str:
    """
    A sentence of four words passes through **your** table: `read` embeds it, and `speak` turns the
    vectors into logits. The loss is the cross-entropy of the next word, with a vocabulary of 50.
    Which rows of the table get a non-zero gradient?
    """
    torch.manual_seed(0)
    module = TiedTable(50, 16)
    read, said = torch.tensor([3, 4, 5, 6]), torch.tensor([4, 5, 6, 7])
    F.cross_entropy(module.speak(module.read(read)), said).backward()
    rows = {int(i) for i in module.weight.grad.abs().sum(1).nonzero()}
    return "A" if rows == {3, 4, 5, 6} else "B" if rows == {3, 4, 5, 6, 7} else "C"
