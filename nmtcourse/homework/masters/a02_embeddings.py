"""Homework 02: a lookup as a matmul, the scaled embedding, one table for input and output."""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.homework.compare import holds, refuses, same, shaped
from nmtcourse.homework.draw import Draw
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
    `table` (V, D) has a row for each word of the vocabulary; `ids` is an integer tensor of any
    shape. Return the rows (..., D) of these words as **one matrix multiplication** of a tensor of
    zeros and ones with the table, without indexing the table. Gradients must reach the table, and
    the result must have its dtype.
    """,
    hints=(
        "Write it for one word first: a row with a single 1.",
        "Compare each id with the numbers 0 to V - 1: the result is a tensor (..., V).",
    ),
    read="notebook 02, the section on one-hot vectors",
    mistakes={
        "The width of the one-hot rows is the largest id, not the number of rows of the table.": [
            ("len(table)", "int(ids.max()) + 1"),
            ("@ table", "@ table[: int(ids.max()) + 1].flip(0).flip(0)"),
            ("torch.arange(int(ids.max()) + 1)", "torch.arange(int(ids.max()))"),
        ],
        "The table is detached: no gradient reaches it.": [("@ table", "@ table.detach()")],
        "Words are counted from 1 instead of 0.": [
            ("torch.arange(len(table))", "torch.arange(1, len(table) + 1)")
        ],
        "The one-hot tensor is float32 whatever the dtype of the table.": [
            (".to(table.dtype) @ table", ".float() @ table.float()")
        ],
        "The comparison is inverted: all rows except the right one are added up.": [
            ("ids[..., None] == ", "ids[..., None] != ")
        ],
        "The comparison accepts every smaller id as well.": [
            ("ids[..., None] == ", "ids[..., None] >= ")
        ],
        "The ids are flattened, and their shape is lost.": [
            ("ids[..., None]", "ids.flatten()[:, None]")
        ],
    },
)
def lookup(ids: Tensor, table: Tensor) -> Tensor:
    """The rows (..., D) of a table (V, D) for ids (...), as a matrix multiplication."""
    ### BEGIN SOLUTION
    one_hot = ids[..., None] == torch.arange(len(table))
    return one_hot.to(table.dtype) @ table
    ### END SOLUTION


@homework.check(lookup, "The result has the shape of the ids, followed by D.", worth=0)
def keeps_the_shape(answer, draw: Draw):
    """Ids of any shape give (..., D)."""
    v, d, b, s = draw.sizes(4)
    for shape in [(), (s,), (b, s)]:
        found = answer(draw.ids(0, v, *shape), draw.normal(v, d))
        shaped(found, (*shape, d), f"the result for ids of shape {shape}")


@homework.check(lookup, "Print your one-hot rows for ids 0, 1 and V - 1.", worth=2)
def finds_the_rows(answer, draw: Draw):
    """The result contains the rows of the words, including the first and the last."""
    v, d, b, s = draw.sizes(4)
    table = draw.normal(v, d)
    for ids in (draw.ids(0, v, b, s), torch.tensor([0, v - 1]), torch.zeros(2, dtype=torch.long)):
        same(answer(ids, table), table[ids], f"a row of ids {ids.flatten().tolist()[:4]} of {v}")


@homework.check(lookup, "Everything between the table and the result must be differentiable.")
def gradients_reach_the_table(answer, draw: Draw):
    """The table gets the gradient of torch's embedding: a sum for repeated words."""
    v, d, s = draw.sizes(3)
    table = draw.normal(v, d).requires_grad_()
    ids, towards = torch.cat([draw.ids(0, v, s), torch.tensor([0, 0])]), draw.normal(s + 2, d)
    result = answer(ids, table)
    holds(result.requires_grad, "a result without a gradient to the table", "one with a gradient")
    (result * towards).sum().backward()
    mine, table.grad = table.grad, None
    (F.embedding(ids, table) * towards).sum().backward()
    same(mine, table.grad, "the gradient of the table")


@homework.task(
    "medium",
    "The Transformer's embedding",
    """
    Write a module that looks up ids (B, S) and multiplies the rows by $\\sqrt{D}$ (Vaswani et al.
    2017, section 3.4). Its table is a parameter `weight` (V, D), initialised from a normal
    distribution with standard deviation $1 / \\sqrt{D}$. The row of `pad` is initialised to zero
    and gets no gradient. An id outside 0 to V - 1 raises a `ValueError` that names it.
    """,
    hints=(
        "Does the factor belong to the parameter or to the forward pass?",
        "`F.embedding` has an argument for the untrained row; set that row to zero yourself.",
    ),
    read="notebook 02, the section on the root of D",
    mistakes={
        "The rows are not multiplied by the root of D.": [
            (" * math.sqrt(self.weight.size(1))", "")
        ],
        "The rows are multiplied by D, not by its root.": [
            ("math.sqrt(self.weight.size(1))", "self.weight.size(1)")
        ],
        "The factor is the root of V, not of D.": [
            ("math.sqrt(self.weight.size(1))", "math.sqrt(self.weight.size(0))")
        ],
        "The row of PAD is not initialised to zero.": [("weight[pad] = 0", "pass")],
        "The row of PAD is trained.": [(", padding_idx=self.pad", "")],
        "`pad` is ignored: row 0 is treated as PAD.": [("self.pad = pad", "self.pad = 0")],
        "The table is initialised with a standard deviation of 1, too much for the factor.": [
            (
                "torch.randn(vocab_size, d_model) / math.sqrt(d_model)",
                "torch.randn(vocab_size, d_model)",
            )
        ],
        "An id outside the vocabulary raises no ValueError.": [
            ("if not 0 <= int(ids.min()) <= int(ids.max()) < len(self.weight):", "if False:")
        ],
        "A negative id is accepted.": [("0 <= int(ids.min()) <= int", "int")],
    },
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
def has_one_parameter(answer, draw: Draw):
    """The only parameter is the table, `weight`."""
    v, d = draw.sizes(2)
    shapes = {name: tuple(p.shape) for name, p in answer(v, d).named_parameters()}
    same(shapes, {"weight": (v, d)}, "the parameters")


@homework.check(
    ScaledEmbedding, "Divide a result by its row of the table: what is the factor?", worth=2
)
def is_scaled(answer, draw: Draw):
    """The result is the rows times the root of D, in training and evaluation mode."""
    v, d, b, s = draw.sizes(4, 3, 20)
    module = answer(v, d).to(draw.dtype)
    ids = draw.ids(1, v, b, s)
    expected = module.weight.detach()[ids] * math.sqrt(d)
    same(module(ids), expected, "an embedded word")
    same(module.eval()(ids), expected, "an embedded word in evaluation mode")


@homework.check(
    ScaledEmbedding,
    "Factor and initialisation belong together: embedded words should have a deviation of 1.",
)
def starts_small(answer, draw: Draw):
    """Initially the table has a standard deviation of 1/root(D), and embedded words one of 1."""
    for d in (16, 144):
        spread = float(answer(400, d).weight.detach()[1:].std() * math.sqrt(d))
        what = f"standard deviation times root of D = {spread:.1f} for D = {d}"
        holds(0.93 < spread < 1.07, what, "1")
        one, other = (answer(400, d).weight.detach()[1:] * math.sqrt(d) for _ in range(2))
        far = 100 * float((one.abs() > 2).float().mean())
        what = f"{far:.0f} % of the numbers are more than two standard deviations from 0"
        holds(3 < far < 7, what, "5 %, as for normal numbers")
        holds(not torch.equal(one, other), "tables with the same initial values", "random numbers")


@homework.check(ScaledEmbedding, "What is the embedding of padding, initially and after training?")
def padding_stays_zero(answer, draw: Draw):
    """The row of `pad` is zero and gets no gradient, whichever row it is; all others get one."""
    v, d = draw.sizes(2, 5)
    for pad in (0, 3):
        module = answer(v, d, pad=pad).to(draw.dtype)
        ids = torch.arange(v).repeat(2)[None]
        holds((module.weight[pad] == 0).all(), f"row {pad}, of PAD, is not zero", "zeros")
        module(ids).sum().backward()
        got = module.weight.grad.abs().sum(1)
        holds(got[pad] == 0, f"row {pad}, of PAD, gets a gradient", "none")
        holds(
            int((got > 0).sum()) == v - 1, f"{int((got > 0).sum())} rows get a gradient", f"{v - 1}"
        )


@homework.check(ScaledEmbedding, "Compare the ids with the size of the table before the lookup.")
def refuses_strange_ids(answer, draw: Draw):
    """Ids of -1 and V raise a ValueError that names them."""
    v, d = draw.sizes(2)
    for strange in (v, -1):
        ids = torch.tensor([[0, strange]])
        refuses(answer(v, d), (ids,), f"the id {strange} of {v}", str(strange))


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
    read="notebook 02, the section on weight tying",
    mistakes={
        "`read` and `speak` have separate tables: nothing is tied.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.other)"),
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.other = nn.Parameter(weight.clone())",
            ),
        ],
        "`speak` uses a copy of the table, which is equal at first but not trained.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.weight.detach().clone())")
        ],
        "`speak` uses a copy made at initialisation, which is trained separately.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.start.to(x.dtype))"),
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.start = weight.clone()",
            ),
        ],
        "`speak` applies the factor as well: the logits are too large.": [
            (
                "F.linear(x, self.weight)",
                "F.linear(x, self.weight) * math.sqrt(self.weight.size(1))",
            )
        ],
        "`read` does not apply the factor.": [
            (
                "F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))",
                "F.embedding(ids, self.weight)",
            )
        ],
        "The table is initialised with a standard deviation of 1: logits are too large.": [
            (" / math.sqrt(d_model)", "")
        ],
        "`speak` has a bias: one parameter too many.": [
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.bias = nn.Parameter(weight[:, 0])",
            )
        ],
        "`read` does not train the table.": [
            ("F.embedding(ids, self.weight)", "F.embedding(ids, self.weight.detach())")
        ],
    },
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


@homework.check(TiedTable, "Count `sum(p.numel() for p in module.parameters())`.")
def has_a_single_table(answer, draw: Draw):
    """The only parameter is the table, `weight`, with standard deviation 1/root(D)."""
    v, d = draw.sizes(2)
    shapes = {name: tuple(p.shape) for name, p in answer(v, d).named_parameters()}
    same(shapes, {"weight": (v, d)}, "the parameters")
    spread = float(answer(400, 144).weight.detach().std() * 12)
    holds(0.93 < spread < 1.07, f"standard deviation times root of D = {spread:.1f}", "1")


@homework.check(TiedTable, "Which of the two methods has the factor?", worth=2)
def reads_and_speaks(answer, draw: Draw):
    """`read` applies the factor; `speak` multiplies by all rows without it."""
    v, d, b, s = draw.sizes(4)
    module = answer(v, d).to(draw.dtype)
    table, ids, x = module.weight.detach(), draw.ids(0, v, b, s), draw.normal(b, s, d)
    same(module.read(ids), table[ids] * math.sqrt(d), "a vector from `read`")
    same(module.speak(x), x @ table.T, "a logit from `speak`")


@homework.check(TiedTable, "Both methods must use the parameter itself, in every call.", worth=2)
def both_jobs_train_it(answer, draw: Draw):
    """The gradient of the table is the sum of both methods', and copies stay tied."""
    v, d, s = draw.sizes(3)
    module = answer(v, d).to(draw.dtype)
    ids, towards = draw.ids(0, v, s), draw.normal(s, v)
    for name, each in (("the module", module), ("its copy", copy.deepcopy(module))):
        with torch.no_grad():
            each.weight.add_(0.5)  # one training step
        own = each.weight.detach().clone().requires_grad_()
        (each.speak(each.read(ids)) * towards).sum().backward()
        (F.linear(F.embedding(ids, own) * math.sqrt(d), own) * towards).sum().backward()
        holds(each.weight.grad is not None, f"no gradient in {name}", "one")
        same(each.weight.grad, own.grad, f"the gradient in {name}", tolerance=1e-4)


@homework.check(TiedTable, "What does the state_dict contain?")
def can_be_saved(answer, draw: Draw):
    """The state_dict contains only the table, and loading it restores the module."""
    v, d, s = draw.sizes(3)
    module, other = answer(v, d), answer(v, d)
    same(list(module.state_dict()), ["weight"], "the keys of the state_dict")
    other.load_state_dict(module.state_dict())
    ids = draw.ids(0, v, s)
    expected = module.speak(module.read(ids)).detach()
    same(other.speak(other.read(ids)), expected, "a logit after reloading")


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
    read="notebook 02, the section on weight tying",
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
