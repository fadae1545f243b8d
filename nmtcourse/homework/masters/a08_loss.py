"""Homework 08: the schedule with warm-up, the smoothed loss of a batch, a loss free of batches."""

import copy

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, same
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment
from nmtlib.data.batching import Batch
from nmtlib.training.loss import label_smoothed_loss
from nmtlib.training.schedule import noam_rate

homework = Assignment(
    "08",
    "loss",
    "Label smoothing, Noam, and the loss of a batch",
    opening="""
        You write the rate of the paper, the smoothed loss of a whole batch, and mend a loop whose
        gradients depend on how sentences were put together.
        """,
    imports=(
        "import math\n\nimport torch\nfrom torch import Tensor, nn\n\n"
        "from nmtlib.data.batching import Batch"
    ),
)


@homework.task(
    "easy",
    "A rate that warms up",
    """
    Write the learning rate of Vaswani et al. 2017, equation 3, as a function of the number of the
    update, which is counted from 1: it rises in a straight line for `warmup` updates, and falls
    then with the inverse root. Update 0 does not exist, and neither do fewer: raise `ValueError`.
    """,
    hints=(
        "The formula takes the smaller of two numbers; which one counts before the warm-up ends?",
        "Both are the same at step = warmup. Write the equation as it stands in the paper.",
    ),
    read="notebook 08, the section on the schedule",
    mistakes={
        "The larger of the two terms is taken instead of the smaller.": [("min(", "max(")],
        "The root of the model's size is in the numerator: the sign of its exponent is lost.": [
            ("d_model**-0.5", "d_model**0.5")
        ],
        "The model's size is not used.": [("d_model**-0.5 * ", "")],
        "The rate falls with the step itself, not with its root.": [("step**-0.5", "step**-1.0")],
        "The rise is too steep: the peak comes before the end of the warm-up.": [
            ("warmup**-1.5", "warmup**-1.0")
        ],
        "The rate does not rise in a straight line.": [("step * warmup", "step**2 * warmup")],
        "Updates are counted from 0: everything comes one step late.": [
            ("    return d_model", "    step = max(step - 1, 1)\n    return d_model")
        ],
        "Update 0 raises no ValueError.": [("if step < 1:", "if False:")],
    },
)
def rate(step: int, d_model: int, warmup: int) -> float:
    """The learning rate of update number `step`, counted from 1."""
    ### BEGIN SOLUTION
    if step < 1:
        raise ValueError(f"updates are counted from 1, not {step}")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


@homework.check(rate, "Compute steps 1, 2 and 4 with pen and paper for a warm-up of 2.", worth=2)
def is_equation_3(answer, draw: Draw):
    """The rate is that of the formula, before, at and after the end of the warm-up."""
    d_model, warmup = 4 * draw.sizes(1)[0], draw.random.randint(5, 400)
    for step in (1, 2, warmup - 1, warmup, warmup + 1, 7 * warmup):
        expected = noam_rate(step, d_model, warmup) * 1e4
        found = answer(step, d_model, warmup)
        same(found * 1e4, expected, f"10,000 times the rate of update {step} (warm-up {warmup})")


@homework.check(rate, "What would update 0 be, and what does the formula make of it?", draws=1)
def refuses_update_0(answer, draw: Draw):
    """Updates 0 and -1 raise ValueError."""
    for step in (0, -1):
        try:
            answer(step, 64, 10)
        except ValueError:
            continue
        except Exception as error:
            holds(False, f"{type(error).__name__} for update {step}", "ValueError")
        holds(False, f"no error for update {step}", "ValueError")


@homework.task(
    "medium",
    "The smoothed loss of a batch",
    """
    Logits (B, T, V), labels (B, T), PAD = 0. The target gives $1 - \\varepsilon$ to the label and
    spreads $\\varepsilon$ evenly over the **V - 1 classes that are words**, itself among them, and
    never over PAD. Return the cross-entropy in nats as the mean over all labels that are not PAD.
    Logits may be as large as 1,000. Finished losses, of `torch` or of the course, are not
    allowed; `log_softmax` is. Labels that are all PAD are a `ValueError`.
    """,
    hints=(
        "Write the target of one label first; then its product with the log-probabilities.",
        "Two sums are enough: the log-probability of the label, and that of all words.",
    ),
    read="notebook 08, the section on the loss of a batch",
    forbidden=("cross_entropy", "nll_loss", "kl_div"),
    sealed=("nmtlib.training.loss",),
    mistakes={
        "PAD gets a share of the smoothing.": [
            ("(logp.sum(-1) - logp[..., 0])", "logp.sum(-1)"),
        ],
        "The share is spread over V classes, not over the V - 1 words.": [
            ("(logits.size(-1) - 1)", "logits.size(-1)")
        ],
        "The share is spread over V - 2 classes, as if the label had none of it.": [
            ("(logits.size(-1) - 1)", "(logits.size(-1) - 2)")
        ],
        "Positions whose label is PAD count in the sum.": [("(loss * real).sum()", "loss.sum()")],
        "The sum is divided by all positions, padding included.": [("real.sum()", "real.numel()")],
        "The mean is taken for each sentence first, so short sentences weigh more.": [
            (
                "return (loss * real).sum() / real.sum()",
                "return ((loss * real).sum(1) / real.sum(1).clamp(1)).mean()",
            )
        ],
        "The sum is divided by the number of sentences.": [("/ real.sum()", "/ len(labels)")],
        "The logits were taken for log-probabilities: the softmax is missing.": [
            ("logits.log_softmax(-1)", "logits")
        ],
        "The logarithm of a softmax underflows for large logits: use log_softmax.": [
            ("logits.log_softmax(-1)", "logits.softmax(-1).log()")
        ],
        "The label lost its own share: it should have (1 - ε) and its part of ε.": [
            ("(1 - smoothing) * own", "(1 - smoothing - even) * own"),
        ],
        "The sign is wrong: a loss is positive.": [("loss = -(", "loss = (")],
    },
)
def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy (nats) against the smoothed target: mean over the labels that are not PAD."""
    ### BEGIN SOLUTION
    real = labels != 0
    if not real.any():
        raise ValueError("every label is PAD: there is no mean over nothing")
    logp = logits.log_softmax(-1)
    own = logp.gather(-1, labels[..., None])[..., 0]
    even = smoothing / (logits.size(-1) - 1)
    loss = -((1 - smoothing) * own + even * (logp.sum(-1) - logp[..., 0]))
    return (loss * real).sum() / real.sum()
    ### END SOLUTION


def batch(draw: Draw, pads: bool = True) -> tuple[Tensor, Tensor]:
    """Logits and labels of sentences of unlike lengths."""
    b, t, v = draw.sizes(3, 4)
    labels = draw.ids(1, v, b, t)
    if pads:
        for row in range(1, b):
            labels[row, t - draw.random.randint(0, t - 1) :] = 0
        labels[1, 1:] = 0
    return draw.normal(b, t, v, scale=2.0), labels


@homework.check(smoothed_loss, "Return one number as a tensor.", worth=0)
def is_one_number(answer, draw: Draw):
    """The loss is a single number, that of the type of the logits, and can be differentiated."""
    logits, labels = batch(draw)
    loss = answer(logits.requires_grad_(), labels)
    holds(isinstance(loss, Tensor) and loss.shape == (), "no single number", "a scalar tensor")
    holds(loss.requires_grad, "the loss knows nothing of the logits", "a gradient")


@homework.check(smoothed_loss, "Begin with ε = 0: minus the log-probability of the label.")
def without_smoothing(answer, draw: Draw):
    """With ε = 0 and no padding it is the mean negative log-likelihood."""
    logits, labels = batch(draw, pads=False)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    same(answer(logits, labels, 0.0), expected, "the loss without smoothing")


@homework.check(smoothed_loss, "Write the smoothed target of one label down: does it add up to 1?")
def with_smoothing(answer, draw: Draw):
    """With ε and no padding it is the loss of the course."""
    logits, labels = batch(draw, pads=False)
    for smoothing in (0.1, 0.4):
        expected = label_smoothed_loss(logits, labels, smoothing)
        same(answer(logits, labels, smoothing), expected, f"the loss with ε = {smoothing}")


@homework.check(smoothed_loss, "Which positions count, and by what is the sum divided?")
def padding_does_not_count(answer, draw: Draw):
    """Padded positions change nothing, however many there are."""
    logits, labels = batch(draw)
    for x, y, where in ((logits, labels, "behind"), (logits.flip(1), labels.flip(1), "before")):
        expected = label_smoothed_loss(x, y, 0.1)
        same(answer(x, y), expected, f"the loss with padding {where} the sentence")


@homework.check(smoothed_loss, "Which logits make the logarithm of a softmax infinite?")
def large_logits(answer, draw: Draw):
    """Logits of 1,000 give finite losses and gradients; labels of nothing but PAD a ValueError."""
    logits, labels = batch(draw)
    logits = (logits * 500).requires_grad_()
    loss = answer(logits, labels)
    same(
        loss.detach() / 100, label_smoothed_loss(logits, labels, 0.1).detach() / 100, "a hundredth"
    )
    loss.backward()
    holds(logits.grad is not None, "no gradient", "one", "The loss was cut off from the logits.")
    holds(logits.grad.isfinite().all(), "gradients that are not finite", "finite ones")
    again = logits.detach().clone().requires_grad_()
    label_smoothed_loss(again, labels, 0.1).backward()
    same(logits.grad, again.grad, "a gradient of the logits")
    try:
        answer(logits.detach(), torch.zeros_like(labels))
    except ValueError:
        return
    holds(False, "no error for labels that are all PAD", "ValueError")


@homework.task(
    "hard",
    "Gradients that do not depend on the batches",
    """
    `wrong_gradients` goes through several batches before one update. But its gradients change when
    the same sentences are put together in other batches. Write `gradients(model, batches,
    smoothing)`: afterwards the gradients of the model are those of the smoothed loss averaged over
    all labels of *all* batches, and gradients that were there before are gone. Return the mean
    **unsmoothed** negative log-likelihood (nats) of these labels as a float. The model takes
    `batch.source` and `batch.decoder_input`; `batch.labels` holds PAD = 0 behind the end. Call the
    model once for each batch, and do not hold the graphs of all batches at the same time.
    """,
    hints=(
        "What does each batch divide by, and what should all of them divide by?",
        "Count the labels of all batches first; then each batch adds its *sum* divided by it.",
    ),
    read="notebook 08, the section on the batch-size puzzle",
    given='''
    from nmtlib.training.loss import label_smoothed_loss


    def wrong_gradients(model: nn.Module, batches: list[Batch], smoothing: float) -> float:
        """Not what it claims to be."""
        total = 0.0
        for batch in batches:
            logits = model(batch.source, batch.decoder_input)
            loss = label_smoothed_loss(logits, batch.labels, smoothing)
            loss.backward()
            total += float(loss)
        return total / len(batches)
    ''',
    mistakes={
        "Each batch takes the mean over its own labels: small batches weigh more.": [
            ('smoothing, reduction="sum") / count', "smoothing) / len(batches)")
        ],
        "The means of the batches are added up: more batches, larger gradients.": [
            ('smoothing, reduction="sum") / count', "smoothing)")
        ],
        "The gradients are those of the sum, not of the mean.": [
            ('reduction="sum") / count', 'reduction="sum")')
        ],
        "Padding is counted among the labels.": [
            ("int((batch.labels != 0).sum())", "batch.labels.numel()")
        ],
        "The gradients of an earlier update are still there.": [("model.zero_grad()", "pass")],
        "The gradients are cleared before each batch: only the last one is left.": [
            (
                "    for batch in batches:\n        logits",
                "    for batch in batches:\n        model.zero_grad()\n        logits",
            )
        ],
        "The loss that is returned is smoothed: its exp is no perplexity.": [
            ("labels, 0.0, reduction", "labels, smoothing, reduction")
        ],
        "The mean over the batches' means is returned.": [
            ("return total / count", "return total / len(batches)"),
            ('labels, 0.0, reduction="sum")', "labels, 0.0)"),
        ],
        "The sum is returned, not the mean.": [("return total / count", "return total")],
        "The model is called in evaluation, so its dropout rests while it learns.": [
            ("    model.zero_grad()\n", "    model.zero_grad()\n    model.eval()\n")
        ],
        "The model is left in evaluation: from the second update on its dropout rests.": [
            ("return total / count", "return (total / count, model.eval())[0]")
        ],
    },
    pure=False,
)
def gradients(model: nn.Module, batches: list[Batch], smoothing: float) -> float:
    """Leave the gradients of the mean smoothed loss in the model; return the mean NLL."""
    ### BEGIN SOLUTION
    count = sum(int((batch.labels != 0).sum()) for batch in batches)
    total = 0.0
    model.zero_grad()
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        loss = label_smoothed_loss(logits, batch.labels, smoothing, reduction="sum") / count
        loss.backward()
        total += float(label_smoothed_loss(logits.detach(), batch.labels, 0.0, reduction="sum"))
    return total / count
    ### END SOLUTION


class Guesser(nn.Module):
    """A tiny model that can be called only while the graph of the call before is gone."""

    def __init__(self, draw: Draw):
        super().__init__()
        self.table = nn.Parameter(draw.normal(11, 6))
        self.output = nn.Parameter(draw.normal(6, 11))
        self.calls, self.alive, self.most, self.resting = 0, 0, 0, 0

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.calls, self.resting = self.calls + 1, self.resting + (not self.training)
        logits = (self.table[target] + self.table[source].mean(1, keepdim=True)) @ self.output
        self.alive += 1
        self.most = max(self.most, self.alive)
        logits.register_hook(self.done)  # a graph is freed by its backward pass
        return logits

    def done(self, gradient: Tensor) -> None:
        self.alive -= 1


def some_batches(draw: Draw) -> list[Batch]:
    """Batches of unlike sizes, with padding."""
    made = []
    for size, length in zip((1, 4, 2), draw.sizes(3, 3), strict=True):
        target = draw.ids(1, 11, size, length)
        for row in range(1, size):
            target[row, draw.random.randint(2, length) :] = 0
        made.append(Batch(draw.ids(1, 11, size, 3), target))
    return made


def expected_of(model: Guesser, batches: list[Batch], smoothing: float) -> tuple[float, list]:
    """The mean NLL and the gradients, from all batches at once."""
    twin = copy.deepcopy(model)
    count = sum(int((batch.labels != 0).sum()) for batch in batches)
    pairs = [(twin(b.source, b.decoder_input), b.labels) for b in batches]
    total = sum(label_smoothed_loss(x, y, smoothing, reduction="sum") for x, y in pairs)
    nll = sum(float(label_smoothed_loss(x, y, 0.0, reduction="sum")) for x, y in pairs)
    twin.zero_grad()
    (total / count).backward()
    return nll / count, [p.grad for p in twin.parameters()]


@homework.check(gradients, "Divide each sum by the same number: which one?", worth=2)
def are_those_of_the_mean(answer, draw: Draw):
    """The gradients are those of the mean over all labels, whatever was there before."""
    batches, model = some_batches(draw), Guesser(draw)
    smoothing = 0.1 + 0.1 * draw.number
    expected = expected_of(model, batches, smoothing)[1]
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    answer(model, batches, smoothing)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        holds(parameter.grad is not None, "no gradient", "one")
        same(parameter.grad, gradient, "a gradient")


@homework.check(gradients, "Put the same sentences into other batches and compare.")
def do_not_depend_on_the_batches(answer, draw: Draw):
    """The same sentences one by one give the same gradients and the same result."""
    batches, model = some_batches(draw), Guesser(draw)
    single = [
        Batch(b.source[i : i + 1], b.target[i : i + 1])
        for b in batches
        for i in range(len(b.source))
    ]
    found = []
    for group in (batches, single):
        nll = answer(model, group, 0.1)
        found.append((nll, [p.grad.clone() for p in model.parameters()]))
    for one, other in zip(found[0][1], found[1][1], strict=True):
        same(other, one, "a gradient of single sentences")
    same(float(found[1][0]), float(found[0][0]), "the result for single sentences")


@homework.check(gradients, "Is what you return smoothed, and what is it a mean of?")
def returns_the_mean_nll(answer, draw: Draw):
    """The result is the mean unsmoothed negative log-likelihood of all labels, as a float."""
    batches, model = some_batches(draw), Guesser(draw)
    found = answer(model, batches, 0.3)
    holds(isinstance(found, float), f"a {type(found).__name__}", "a float")
    same(found, expected_of(model, batches, 0.3)[0], "the result")


@homework.check(gradients, "When is the graph of a batch freed?")
def holds_one_graph_at_a_time(answer, draw: Draw):
    """The model is called once for each batch, and each graph is used before the next is made."""
    batches, model = some_batches(draw), Guesser(draw)
    answer(model, batches, 0.1)
    holds(model.calls == len(batches), f"{model.calls} calls of the model", f"{len(batches)}")
    holds(model.most == 1, f"{model.most} graphs at the same time", "1")


@homework.check(gradients, "What does `model.eval()` do to dropout, and who calls `train()` again?")
def keeps_the_model_in_training(answer, draw: Draw):
    """A model that is in training is called in training, and is in training afterwards."""
    model, batches = Guesser(draw), some_batches(draw)
    answer(model, batches, 0.1)
    holds(not model.resting, f"{model.resting} calls of the model in evaluation", "none")
    holds(model.training, "the model is left in evaluation", "a model in training")


@homework.question(
    "The loss of a perfect model",
    options=["0 nats.", "More than 0 and less than 0.5 nats.", "More than 0.5 nats."],
    hints=(
        "Which probabilities would a perfect model give? Not all to one word.",
        "Make logits that are the logarithms of the smoothed target, and PAD very unlikely.",
    ),
    read="notebook 08, the section on the smallest loss",
    uses=(smoothed_loss,),
)
def how_small_can_it_get(smoothed_loss) -> str:
    """
    With smoothing 0.1 and 1,000 classes, a model says exactly the smoothed target. What is its
    loss, measured by **your** function?
    """
    target = torch.full((1, 1, 1000), 0.1 / 999, dtype=torch.float64)
    target[..., 0], target[..., 5] = 1e-30, 0.9 + 0.1 / 999
    loss = float(smoothed_loss(target.log(), torch.tensor([[5]]), 0.1))
    return "A" if loss < 1e-6 else "B" if loss < 0.5 else "C"
