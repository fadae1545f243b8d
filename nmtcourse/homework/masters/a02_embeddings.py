"""Homework 02: a lookup as a product, the scaled embedding, one table for input and output."""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.homework.compare import holds, same, shaped
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "02",
    "embeddings",
    "Embeddings",
    opening="""
        A word is a row of a table. You show that looking it up is a product with a matrix, write
        the embedding of the Transformer, and let one table both read words and say them.
        """,
    imports=(
        "import math\n\nimport torch\nfrom torch import Tensor, nn\n"
        "from torch.nn import functional as F"
    ),
)


@homework.task(
    "easy",
    "A lookup is a product",
    """
    `table` has a row (D) for each word of a vocabulary of V words, and `ids` is a tensor of whole
    numbers of any shape. Return the rows (..., D) of these words as **one product** of a tensor of
    zeros and ones with the table; do not index the table. Gradients must reach it. The result has
    the type of the table.
    """,
    hints=(
        "Write the product for one word first: a row with a single 1.",
        "Compare each id with the numbers 0 to V - 1, which gives a table (..., V).",
    ),
    read="notebook 02, the section on one-hot vectors",
    mistakes={
        "The one-hot rows are as wide as the largest id, not as the table is long.": [
            ("len(table)", "int(ids.max()) + 1"),
            ("@ table", "@ table[: int(ids.max()) + 1].flip(0).flip(0)"),
            ("torch.arange(int(ids.max()) + 1)", "torch.arange(int(ids.max()))"),
        ],
        "The table was detached: no gradient reaches it.": [("@ table", "@ table.detach()")],
        "The words are counted from 1 instead of from 0.": [
            ("torch.arange(len(table))", "torch.arange(1, len(table) + 1)")
        ],
        "The ones are float32 whatever the table is.": [
            (".to(table.dtype) @ table", ".float() @ table.float()")
        ],
        "All rows but the right one are added up: the comparison is the wrong way round.": [
            ("ids[..., None] == ", "ids[..., None] != ")
        ],
        "Every smaller id counts as the same word.": [("ids[..., None] == ", "ids[..., None] >= ")],
        "The ids were flattened, and their shape is lost.": [
            ("ids[..., None]", "ids.flatten()[:, None]")
        ],
    },
)
def lookup(ids: Tensor, table: Tensor) -> Tensor:
    """The rows (..., D) of a table (V, D) for ids (...), as a product."""
    ### BEGIN SOLUTION
    one_hot = ids[..., None] == torch.arange(len(table))
    return one_hot.to(table.dtype) @ table
    ### END SOLUTION


@homework.check(lookup, "The result has the shape of the ids, and D behind it.", worth=0)
def keeps_the_shape(answer, draw: Draw):
    """Ids of any shape give (..., D)."""
    v, d, b, s = draw.sizes(4)
    for shape in [(), (s,), (b, s)]:
        found = answer(draw.ids(0, v, *shape), draw.normal(v, d))
        shaped(found, (*shape, d), f"the result for ids of shape {shape}")


@homework.check(lookup, "Print your one-hot rows for ids 0, 1 and V - 1.", worth=2)
def finds_the_rows(answer, draw: Draw):
    """The result holds the rows of the words, also the first and the last."""
    v, d, b, s = draw.sizes(4)
    table = draw.normal(v, d)
    for ids in (draw.ids(0, v, b, s), torch.tensor([0, v - 1]), torch.zeros(2, dtype=torch.long)):
        same(answer(ids, table), table[ids], f"a row of ids {ids.flatten().tolist()[:4]} of {v}")


@homework.check(lookup, "Everything between the table and the result must be differentiable.")
def gradients_reach_the_table(answer, draw: Draw):
    """The table gets the gradient of torch's embedding: sums for words that occur twice."""
    v, d, s = draw.sizes(3)
    table = draw.normal(v, d).requires_grad_()
    ids, towards = torch.cat([draw.ids(0, v, s), torch.tensor([0, 0])]), draw.normal(s + 2, d)
    result = answer(ids, table)
    holds(result.requires_grad, "the result knows nothing of the table", "a gradient")
    (result * towards).sum().backward()
    mine, table.grad = table.grad, None
    (F.embedding(ids, table) * towards).sum().backward()
    same(mine, table.grad, "the gradient of the table")


@homework.task(
    "medium",
    "The embedding of the Transformer",
    """
    Write a module that looks up ids (B, S) and multiplies the rows by $\\sqrt{D}$ (Vaswani et al.
    2017, section 3.4). Its table is a parameter named `weight` (V, D) that starts with normal
    numbers of standard deviation $1 / \\sqrt{D}$; the row of `pad` is zero at the start and gets no
    gradient. An id outside of 0 to V - 1 is a `ValueError` that names it.
    """,
    hints=(
        "Is the factor part of the parameter, or of what is done with it?",
        "`F.embedding` has an argument for a row that is not trained; the zero you write yourself.",
    ),
    read="notebook 02, the section on the root of D",
    mistakes={
        "The rows are not multiplied by the root of D.": [
            (" * math.sqrt(self.weight.size(1))", "")
        ],
        "The rows are multiplied by D, not by its root.": [
            ("math.sqrt(self.weight.size(1))", "self.weight.size(1)")
        ],
        "The root of the vocabulary stands for that of D.": [
            ("math.sqrt(self.weight.size(1))", "math.sqrt(self.weight.size(0))")
        ],
        "The row of PAD is not zero at the start.": [("weight[pad] = 0", "pass")],
        "The row of PAD is trained.": [(", padding_idx=self.pad", "")],
        "PAD is taken to be 0, whatever `pad` says.": [("self.pad = pad", "self.pad = 0")],
        "The table starts with a deviation of 1, and the factor makes that too large.": [
            (
                "torch.randn(vocab_size, d_model) / math.sqrt(d_model)",
                "torch.randn(vocab_size, d_model)",
            )
        ],
        "An id outside of the vocabulary raises no ValueError.": [
            ("if not 0 <= int(ids.min()) <= int(ids.max()) < len(self.weight):", "if False:")
        ],
        "A negative id is not refused.": [("0 <= int(ids.min()) <= int", "int")],
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


@homework.check(ScaledEmbedding, "Name the table `weight`, and make it a parameter.", worth=0)
def has_one_parameter(answer, draw: Draw):
    """The only parameter is the table, named weight."""
    v, d = draw.sizes(2)
    shapes = {name: tuple(p.shape) for name, p in answer(v, d).named_parameters()}
    same(shapes, {"weight": (v, d)}, "the parameters")


@homework.check(
    ScaledEmbedding, "Divide a result by its row of the table: which factor is it?", worth=2
)
def is_scaled(answer, draw: Draw):
    """The result is the rows times the root of D, in training and in evaluation."""
    v, d, b, s = draw.sizes(4, 3, 20)
    module = answer(v, d).to(draw.dtype)
    ids = draw.ids(1, v, b, s)
    expected = module.weight.detach()[ids] * math.sqrt(d)
    same(module(ids), expected, "a vector")
    same(module.eval()(ids), expected, "a vector in evaluation")


@homework.check(
    ScaledEmbedding, "Factor and start belong together: the vectors should have size 1."
)
def starts_small(answer, draw: Draw):
    """At the start vectors come out with a deviation of 1; in the table it is 1/root(D)."""
    for d in (16, 144):
        spread = float(answer(400, d).weight.detach()[1:].std() * math.sqrt(d))
        holds(0.93 < spread < 1.07, f"deviation times root of D = {spread:.1f} for D = {d}", "1")
        one, other = (answer(400, d).weight.detach()[1:] * math.sqrt(d) for _ in range(2))
        far = 100 * float((one.abs() > 2).float().mean())
        what = f"{far:.0f} % of the numbers lie beyond two deviations"
        holds(3 < far < 7, what, "5 %, as with normal numbers")
        holds(not torch.equal(one, other), "two tables that start alike", "random numbers")


@homework.check(ScaledEmbedding, "What does a sentence's padding become, at first and later?")
def padding_stays_zero(answer, draw: Draw):
    """The row of `pad` is zero and gets no gradient, whichever row it is; all others get theirs."""
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


@homework.check(ScaledEmbedding, "Compare the ids with the size of the table before you look up.")
def refuses_strange_ids(answer, draw: Draw):
    """Ids of -1 and V raise a ValueError that names them."""
    v, d = draw.sizes(2)
    for strange in (v, -1):
        try:
            answer(v, d)(torch.tensor([[0, strange]]))
        except ValueError as error:
            holds(str(strange) in str(error), f"the message {str(error)!r}", f"one with {strange}")
            continue
        except Exception as error:
            holds(False, f"{type(error).__name__} for the id {strange} of {v}", "ValueError")
        holds(False, f"no error for the id {strange} of {v}", "ValueError")


@homework.task(
    "hard",
    "One table reads and speaks",
    """
    Weight tying: the table that reads words (V, D) is also the matrix that turns a vector into the
    logits of all V words. Write a module with **one** parameter, named `weight`, and two methods.
    `read(ids)` gives the rows times $\\sqrt{D}$; `speak(x)` gives logits (..., V) of vectors
    (..., D), without factor and without bias. The table starts with the deviation
    $1 / \\sqrt{D}$. Both jobs train the same tensor, also after a copy (`copy.deepcopy`), a change
    of type and a reload of the `state_dict`.
    """,
    hints=(
        "What has to be stored, and what is only done with it?",
        "`F.embedding` and `F.linear` take the table as an argument; no layer needs to own it.",
    ),
    read="notebook 02, the section on weight tying",
    mistakes={
        "Reading and speaking have tables of their own: nothing is tied.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.other)"),
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.other = nn.Parameter(weight.clone())",
            ),
        ],
        "The output uses a copy of the table: it is equal once, and is not trained.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.weight.detach().clone())")
        ],
        "The copy made at the start is used for the output: it goes its own way.": [
            ("F.linear(x, self.weight)", "F.linear(x, self.start.to(x.dtype))"),
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.start = weight.clone()",
            ),
        ],
        "The factor stands in the output, too: logits are scaled up.": [
            (
                "F.linear(x, self.weight)",
                "F.linear(x, self.weight) * math.sqrt(self.weight.size(1))",
            )
        ],
        "The rows that are read lack the factor.": [
            (
                "F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))",
                "F.embedding(ids, self.weight)",
            )
        ],
        "The table starts with a deviation of 1: the first logits are huge.": [
            (" / math.sqrt(d_model)", "")
        ],
        "The output has a bias, which is one parameter too many.": [
            (
                "self.weight = nn.Parameter(weight)",
                "self.weight = nn.Parameter(weight); self.bias = nn.Parameter(weight[:, 0])",
            )
        ],
        "Reading does not train the table.": [
            ("F.embedding(ids, self.weight)", "F.embedding(ids, self.weight.detach())")
        ],
    },
)
class TiedTable(nn.Module):
    """One table (V, D) that reads ids and says words."""

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
    """There is one parameter, the table, named weight, of deviation 1/root(D)."""
    v, d = draw.sizes(2)
    shapes = {name: tuple(p.shape) for name, p in answer(v, d).named_parameters()}
    same(shapes, {"weight": (v, d)}, "the parameters")
    spread = float(answer(400, 144).weight.detach().std() * 12)
    holds(0.93 < spread < 1.07, f"deviation times root of D = {spread:.1f}", "1")


@homework.check(TiedTable, "Which of the two jobs has the factor?", worth=2)
def reads_and_speaks(answer, draw: Draw):
    """Rows are read with the factor, and logits are products with all rows, without it."""
    v, d, b, s = draw.sizes(4)
    module = answer(v, d).to(draw.dtype)
    table, ids, x = module.weight.detach(), draw.ids(0, v, b, s), draw.normal(b, s, d)
    same(module.read(ids), table[ids] * math.sqrt(d), "a vector that is read")
    same(module.speak(x), x @ table.T, "a logit")


@homework.check(TiedTable, "Both jobs must use the parameter itself, each time.", worth=2)
def both_jobs_train_it(answer, draw: Draw):
    """The gradient of the table is the sum of those of both jobs, and copies stay tied."""
    v, d, s = draw.sizes(3)
    module = answer(v, d).to(draw.dtype)
    ids, towards = draw.ids(0, v, s), draw.normal(s, v)
    for name, each in (("the module", module), ("its copy", copy.deepcopy(module))):
        with torch.no_grad():
            each.weight.add_(0.5)  # a step of training
        own = each.weight.detach().clone().requires_grad_()
        (each.speak(each.read(ids)) * towards).sum().backward()
        (F.linear(F.embedding(ids, own) * math.sqrt(d), own) * towards).sum().backward()
        holds(each.weight.grad is not None, f"no gradient in {name}", "one")
        same(each.weight.grad, own.grad, f"the gradient in {name}", tolerance=1e-4)


@homework.check(TiedTable, "What lies in the state_dict?")
def can_be_saved(answer, draw: Draw):
    """The state_dict holds the table alone, and loading it makes the same module."""
    v, d, s = draw.sizes(3)
    module, other = answer(v, d), answer(v, d)
    same(list(module.state_dict()), ["weight"], "what is saved")
    other.load_state_dict(module.state_dict())
    ids = draw.ids(0, v, s)
    same(other.speak(other.read(ids)), module.speak(module.read(ids)).detach(), "a reloaded logit")


@homework.question(
    "Who is trained?",
    options=[
        "Those of the words that were read.",
        "Those of the words that were read, and of the next words to be said.",
        "All of them.",
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
    One sentence of four words passes **your** table: it is read, and the vectors are spoken again;
    the loss is the cross-entropy of the next word among 50. Which rows of the table get a gradient
    that is not zero?
    """
    torch.manual_seed(0)
    module = TiedTable(50, 16)
    read, said = torch.tensor([3, 4, 5, 6]), torch.tensor([4, 5, 6, 7])
    F.cross_entropy(module.speak(module.read(read)), said).backward()
    rows = {int(i) for i in module.weight.grad.abs().sum(1).nonzero()}
    return "A" if rows == {3, 4, 5, 6} else "B" if rows == {3, 4, 5, 6, 7} else "C"
