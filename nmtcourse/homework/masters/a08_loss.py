"""Homework 08: the warm-up schedule, the smoothed loss of a batch, gradients independent of
batching.
"""

import math

import torch
from torch import Tensor, nn

from nmtcourse.homework import compare
from nmtcourse.homework.compare import holds, refuses
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import unmoved
from nmtcourse.homework.signatures import Float, Ids, Made, OneOf, Whole, left_in
from nmtcourse.homework.task import Assignment
from nmtlib.data.batching import Batch
from nmtlib.training.loss import label_smoothed_loss

homework = Assignment(
    "08",
    "loss",
    "Label smoothing, Noam, and the loss of a batch",
    opening="""
    You write the paper's learning rate schedule and the smoothed loss of a batch, and repair a loop
    whose gradients depend on how sentences are batched.
    """,
    imports=(
        "import math\n\nimport torch\nfrom torch import Tensor, nn\n\n"
        "from nmtlib.data.batching import Batch"
    ),
)


@homework.task(
    "easy",
    "Learning rate with warm-up",
    """
    Write the learning rate of Vaswani et al. 2017, equation 3, as a function of the update number,
    counted from 1: it rises linearly for `warmup` updates and then falls with the inverse square
    root. An update number below 1 raises a `ValueError`.
    """,
    hints=(
        "The formula takes the smaller of two terms; which one applies during the warm-up?",
        "The terms are equal at step = warmup. Write the equation as the paper does.",
    ),
    read="notebook 08, section 4",
    mistakes=r"""
    The larger of the two terms is taken, not the smaller.
        min( => max(
    d_model has the wrong exponent: +0.5 instead of -0.5.
        d_model**-0.5 => d_model**0.5
    d_model is ignored.
        d_model**-0.5 * =>
    The rate falls with the step itself, not with its square root.
        step**-0.5 => step**-1.0
    The rise is too steep: the peak comes before the end of the warm-up.
        warmup**-1.5 => warmup**-1.0
    The rise is not linear.
        step * warmup => step**2 * warmup
    Updates are counted from 0: everything is one step late.
        return d_model => step = max(step - 1, 1)\n    return d_model
    Update 0 raises no ValueError.
        if step < 1: => if False:
    """,
    signature={"step": Whole(1, 90_000), "d_model": Whole(1, 600), "warmup": Whole(1, 5000)},
)
def rate(step: int, d_model: int, warmup: int) -> float:
    """The learning rate of update number `step`, counted from 1."""
    ### BEGIN SOLUTION
    if step < 1:
        raise ValueError(f"updates are counted from 1, not {step}")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


@homework.check(rate, "Compute updates 1, 2 and 4 with pen and paper for a warm-up of 2.", worth=2)
def is_equation_3(answer, step, d_model, warmup):
    """The rate is that of the formula, before, at and after the end of the warm-up."""
    for now in (step, max(1, warmup - 1), warmup, warmup + 1, 7 * warmup, 10**6):
        found = answer(now, d_model, warmup)
        kind = type(found).__name__
        holds(isinstance(found, float) and found > 0, f"the {kind} {found}", "a positive float")
        yield "the logarithm of your result", math.log(found), 1e-6


@homework.check(rate, "What would update 0 be, and what does the formula give for it?")
def refuses_update_0(answer, step, d_model, warmup):
    """Updates 0 and below raise ValueError."""
    refuses(answer, (1 - step, d_model, warmup), f"update {1 - step}")


@homework.task(
    "medium",
    "The smoothed loss of a batch",
    """
    Given logits (B, T, V) and labels (B, T), with PAD = 0, return the cross-entropy against a
    smoothed target: it gives $1 - \\varepsilon$ to the label and distributes $\\varepsilon$ evenly
    over the **V - 1 classes other than PAD**, the label included. The result, in nats, is the mean
    over all labels that are not PAD. The logits are float32 or float64; the loss and its gradient
    are finite for logits as large as 1,000. Ready-made losses, from `torch` or the course, are not
    allowed; `log_softmax` is. If all labels are PAD, raise a `ValueError`.
    """,
    hints=(
        "Write the target of one label first, then its dot product with the log-probabilities.",
        "Two terms are enough: the label's log-probability, and the sum over all except PAD.",
    ),
    read="notebook 08, section 2",
    forbidden=("cross_entropy", "nll_loss", "kl_div"),
    sealed=("nmtlib.training.loss",),
    mistakes=r"""
    PAD gets a share of the smoothing.
        (logp.sum(-1) - logp[..., 0]) => logp.sum(-1)
    ε is distributed over V classes, not over the V - 1 words.
        (logits.size(-1) - 1) => logits.size(-1)
    ε is distributed over V - 2 classes: the label gets no share.
        (logits.size(-1) - 1) => (logits.size(-1) - 2)
    Positions whose label is PAD are included in the sum.
        (loss * real).sum() => loss.sum()
    The sum is divided by all positions, padding included.
        real.sum() => real.numel()
    The mean is taken within each sentence first, so short sentences weigh more.
        (loss * real).sum() / real.sum() => ((loss * real).sum(1) / real.sum(1).clamp(1)).mean()
    The sum is divided by the number of sentences.
        / real.sum() => / len(labels)
    The logits are used as log-probabilities: the softmax is missing.
        logits.log_softmax(-1) => logits
    The logarithm of a softmax underflows for large logits: use log_softmax.
        logits.log_softmax(-1) => logits.softmax(-1).log()
    The label lacks its share of ε: it should get 1 - ε plus that share.
        (1 - smoothing) * own => (1 - smoothing - even) * own
    The sign is wrong: a loss is positive.
        loss = -( => loss = (
    """,
    signature={
        "logits": Float("B T V", half=False),
        "labels": Ids("B T", "V", low=1, padded=True),
        "smoothing": OneOf(0.1, 0.0, 0.5),
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


homework.promise(
    smoothed_loss,
    "With ε = 0 and no padding the loss is the mean negative log-likelihood.",
    "Start with ε = 0: minus the log-probability of the label.",
    labels=Ids("B T", "V", low=1),
    smoothing=0.0,
)
homework.promise(
    smoothed_loss,
    "With ε and no padding the loss is that against the smoothed target.",
    "Write down the smoothed target of one label: does it add up to 1?",
    labels=Ids("B T", "V", low=1),
)
homework.promise(
    smoothed_loss,
    "Padded positions change nothing, however many there are.",
    "Which positions count, and what is the sum divided by?",
)


@homework.check(smoothed_loss, "For which logits is the logarithm of a softmax infinite?")
def large_logits(answer, logits, labels, smoothing, draw):
    """Logits of 1,000 give finite losses and gradients; all-PAD labels raise ValueError."""
    logits = (logits * draw.one_of([1, 300])).clamp(-1000, 1000).requires_grad_()
    loss = answer(logits, labels, smoothing)
    yield "the loss", loss
    yield "the gradient", compare.gradients(loss, torch.ones((), dtype=draw.dtype), logits)[0]
    nothing = torch.zeros_like(labels)
    refuses(answer, (logits.detach(), nothing, smoothing), "labels that are all PAD")


class Guesser(nn.Module):
    """A tiny model which counts its calls and its graphs."""

    def __init__(self, draw: Draw):
        super().__init__()
        self.table = nn.Parameter(draw.normal(11, 6))
        self.output = nn.Parameter(draw.normal(6, 11))
        self.unused = nn.Parameter(draw.normal(2))
        self.tied = nn.ParameterDict({"output": self.output, "table": self.table})
        self.calls, self.alive, self.most, self.resting = 0, 0, 0, 0
        for weight in self.parameters() if draw.choose(2) else ():
            weight.grad = torch.ones_like(weight)  # of an earlier update

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.calls, self.resting = self.calls + 1, self.resting + (not self.training)
        logits = (self.table[target] + self.table[source].mean(1, keepdim=True)) @ self.output
        if logits.requires_grad:
            self.alive += 1
            self.most = max(self.most, self.alive)
            logits.register_hook(self.done)  # a graph is freed by its backward pass
        return logits

    def done(self, gradient: Tensor) -> None:
        self.alive -= 1


def some_batches(draw: Draw) -> list[Batch]:
    """Batches with padding; a sentence has at least one label."""
    made = []
    for _ in range(draw.size(1, 4)):
        (size, source), length = draw.sizes(2, 1, 5, large=40), draw.size(2, 9)
        target = draw.ids(1, 11, size, length)
        for row in range(size):
            target[row, draw.random.choice((length, draw.random.randint(2, length))) :] = 0
        made.append(Batch(draw.ids(1, 11, size, source), target))
    return made


@homework.task(
    "hard",
    "Gradients independent of batching",
    """
    `wrong_gradients` processes several batches before one update, but its gradients change if the
    same sentences are batched differently. Write `gradients(model, batches, smoothing)`: it
    replaces the model's gradients by those of the smoothed loss averaged over all labels of *all*
    batches, and returns the mean **unsmoothed** negative log-likelihood (nats) of these labels as a
    float. The model takes `batch.source` and `batch.decoder_input`; `batch.labels` is padded with
    PAD = 0, and no batch is all PAD. Call the model once for each batch, and do not keep the graphs
    of all batches in memory.
    """,
    hints=(
        "What is each batch divided by, and what should it be divided by?",
        "Count the labels of all batches first; each batch adds its *sum* divided by that count.",
    ),
    read="notebook 08, section 6",
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
    mistakes=r"""
    Each batch contributes the mean over its own labels: small batches weigh more.
        smoothing, reduction="sum") / count => smoothing) / len(batches)
    The means of the batches are added up: more batches, larger gradients.
        smoothing, reduction="sum") / count => smoothing)
    The gradients are those of the sum, not of the mean.
        reduction="sum") / count => reduction="sum")
    Padding is counted as labels.
        int((batch.labels != 0).sum()) => batch.labels.numel()
    The gradients of an earlier update remain.
        model.zero_grad() => pass
    The gradients are cleared before each batch: only the last batch counts.
        in batches:\n        logits => in batches:\n        model.zero_grad()\n        logits
    The returned loss is smoothed, so its exponential is not a perplexity.
        labels, 0.0, reduction => labels, smoothing, reduction
    The mean of the batch means is returned.
        return total / count => return total / len(batches)
        labels, 0.0, reduction="sum") => labels, 0.0)
    The sum is returned, not the mean.
        return total / count => return total
    The model is in evaluation mode, so dropout is off during training.
        model.zero_grad()\n => model.zero_grad()\n    model.eval()\n
    The model is left in evaluation mode: later updates run without dropout.
        return total / count => return (total / count, model.eval())[0]
    """,
    changes=("model",),
    signature={"model": Made(Guesser), "batches": Made(some_batches)}
    | {"smoothing": OneOf(0.1, 0.0, 0.4)},
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


@homework.check(gradients, "Divide every sum by the same number: which one?", worth=2)
def are_those_of_the_mean(answer, model, batches, smoothing):
    """The gradients are those of the mean over all labels, without earlier gradients."""
    answer(model, batches, smoothing)
    yield from left_in({"model": model}, ("model",))


homework.promise(
    gradients,
    "The result is the mean unsmoothed negative log-likelihood of all labels, as a float.",
    "Is your result smoothed, and over what is the mean taken?",
)


@homework.check(gradients, "When is the graph of a batch freed?")
def holds_one_graph_at_a_time(answer, model, batches, smoothing):
    """The model is called once for each batch, with one graph in memory at a time."""
    answer(model, batches, smoothing)
    holds(model.calls == len(batches), f"{model.calls} calls of the model", f"{len(batches)}")
    holds(model.most < 2, f"{model.most} graphs in memory at the same time", "1")


@homework.check(
    gradients, "How does `model.eval()` affect dropout, and what restores training mode?", draws=4
)
def keeps_the_model_in_training(answer, model, batches, smoothing, draw):
    """A model in training mode is called in training mode and stays in it; one in evaluation mode
    is left in that.
    """
    model.train(draw.one_of([True, False]))
    with unmoved(model):
        answer(model, batches, smoothing)
    calls = model.resting * model.training
    holds(not calls, f"{calls} calls of the model in evaluation mode", "none")


@homework.question(
    "The loss of a perfect model",
    options=["0 nats.", "More than 0 and less than 0.5 nats.", "More than 0.5 nats."],
    hints=(
        "A perfect model does not give all probability to one word. What does it predict?",
        "Use the logarithm of the smoothed target as logits, with a very low one for PAD.",
    ),
    read="notebook 08, section 2",
    uses=(smoothed_loss,),
)
def how_small_can_it_get(smoothed_loss) -> str:
    """
    With smoothing 0.1 and 1,000 classes, a model predicts exactly the smoothed target. What is its
    loss according to **your** function?
    """
    target = torch.full((1, 1, 1000), 0.1 / 999, dtype=torch.float64)
    target[..., 0], target[..., 5] = 1e-30, 0.9 + 0.1 / 999
    loss = float(smoothed_loss(target.log(), torch.tensor([[5]]), 0.1))
    return "A" if loss < 1e-6 else "B" if loss < 0.5 else "C"
