"""Bugs 31 to 43: loss, schedule, updates and validation."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "loss and optimisation"
FORWARD = "training.loss:_SmoothedCrossEntropy.forward"
UPDATE = "training.trainer:Trainer.update"
MEASURE_ALL = "training.measure:measure_all"

BUGS = (
    Bug(
        number=31,
        key="target-not-shifted",
        title="Target not shifted: the model reads what it has to say",
        subject=SUBJECT,
        symptom="The loss falls to nearly zero within minutes, for training and for validation, and every "
        "translation is worthless: the model has learnt to copy its input.",
        cure="Read target[:, :-1] and predict target[:, 1:], in one place that everything else uses.",
        source="forum questions and course projects",
        caught_by=("data.shift",),
        edits=(Edit("data.batching:Batch.decoder_input", "self.target[:, :-1]", "self.target[:, 1:]"),),
    ),
    Bug(
        number=32,
        key="pad-in-loss",
        title="PAD counted in the loss",
        subject=SUBJECT,
        symptom="The loss depends on how much padding the batches hold, and the model spends its effort on the easiest "
        "token of all, PAD after EOS.",
        cure="Leave positions whose label is PAD out of the sum and out of the count.",
        source="course projects that forget ignore_index",
        caught_by=("loss.pad_ignored",),
        edits=(Edit(FORWARD, "real = labels != PAD", "real = torch.ones_like(labels, dtype=torch.bool)"),),
    ),
    Bug(
        number=33,
        key="loss-not-divided",
        title="Sum over the tokens never divided by their number",
        subject=SUBJECT,
        symptom="The loss grows with the batch size, and so do the gradients: every batch size needs another "
        "learning rate, or clipping hides it all.",
        cure="Divide the sum by the number of labels, once, just before backward.",
        source="tutorial code and course projects",
        caught_by=("loss.batching",),
        edits=(
            Edit(UPDATE, "(loss / labels).backward()", "loss.backward()"),
            Edit("training.loss:label_smoothed_loss", "return loss / count", "return loss"),
        ),
    ),
    Bug(
        number=34,
        key="mean-of-batch-means",
        title="Mean of batch means: short batches weigh more",
        subject=SUBJECT,
        symptom="The validation loss changes with the batch size, although the model and the sentences are the same.",
        cure="Add up sums and counts over all batches, and divide once at the end.",
        source="evaluation loops of tutorials, and the gradient accumulation of widely used training libraries",
        caught_by=("validation.perplexity",),
        edits=(
            Edit(
                MEASURE_ALL,
                "sums += measure(model, batch, precision=precision)[1]",
                "figures = measure(model, batch, precision=precision)[1]\n        sums += figures / figures[LABELS]",
            ),
        ),
    ),
    Bug(
        number=35,
        key="smoothing-on-pad",
        title="Label smoothing gives PAD a share",
        subject=SUBJECT,
        symptom="The model keeps some probability for saying PAD; and where PAD is ruled out with a logit of -inf, "
        "the loss is infinite or NaN.",
        cure="Spread the smoothing over the classes that are words; give PAD exactly nothing.",
        source="issue trackers of translation toolkits and of an annotated paper",
        caught_by=("loss.smoothing_pad",),
        edits=(
            Edit(FORWARD, "(logp[:, PAD] - logp.sum(dim=-1))", "-logp.sum(dim=-1)"),
            Edit(FORWARD, "            difference[:, PAD] += even\n", ""),
        ),
    ),
    Bug(
        number=36,
        key="perplexity-of-smoothed-loss",
        title="Smoothed loss reported as perplexity",
        subject=SUBJECT,
        symptom="Perplexity never comes near 1, not even on ten sentences known by heart, and looks far worse than in "
        "papers.",
        cure="Take the exponential of the unsmoothed negative log-likelihood.",
        source="a toolkit for teaching, and course projects",
        caught_by=("validation.perplexity",),
        edits=(
            Edit("training.measure:measure", "smoothing: float = 0.0", "smoothing: float = 0.1"),
            Edit("training.measure:measure", "loss.detach(), nll, ", "loss.detach(), loss.detach(), "),
        ),
    ),
    Bug(
        number=37,
        key="backward-in-validation",
        title="backward() in validation as well",
        subject=SUBJECT,
        symptom="Validation takes three times as long and as much memory, and its gradients are added to the first "
        "update after it: the model learns from the sentences that should judge it.",
        cure="Validate under torch.no_grad(), without backward.",
        source="course projects that use one function for both loops",
        caught_by=("validation.trains_nothing",),
        edits=(
            Edit(MEASURE_ALL, "@torch.no_grad()\n", ""),
            Edit(
                MEASURE_ALL,
                "sums += measure(model, batch, precision=precision)[1]",
                "loss, figures = measure(model, batch, precision=precision)\n"
                "        loss.backward()\n        sums += figures",
            ),
        ),
    ),
    Bug(
        number=38,
        key="schedule-per-micro-batch",
        title="Schedule stepped for each micro-batch, optimizer for each update",
        subject=SUBJECT,
        symptom="With gradient accumulation over N batches, warm-up ends and decay begins N times too early; "
        "without it nothing is wrong.",
        cure="Count updates of the optimizer, and let the schedule read that number.",
        source="issue trackers of several training libraries",
        caught_by=("training.schedule_per_update",),
        edits=(Edit(UPDATE, "self.progress.updates += 1", "self.progress.updates += len(batches)"),),
    ),
    Bug(
        number=39,
        key="accumulation-not-divided",
        title="Accumulated gradients are a sum of batch means",
        subject=SUBJECT,
        symptom="Accumulating over N batches gives a gradient N times too long, in which a word of a short batch "
        "counts more than one of a long batch.",
        cure="Divide by the number of labels of all accumulated batches, which is known before the first backward.",
        source="training loops of course projects and, in its second half, of widely used libraries",
        caught_by=("training.accumulation",),
        edits=(Edit(UPDATE, "(loss / labels).backward()", "(loss / (batch.labels != PAD).sum()).backward()"),),
    ),
    Bug(
        number=40,
        key="schedule-starts-at-zero",
        title="Warm-up counts from 0: the first rate is 0, or a division by zero",
        subject=SUBJECT,
        symptom="The first update changes nothing, and of a warm-up of one update nothing is left; the paper's "
        "formula raises ZeroDivisionError.",
        cure="Count updates from 1, and refuse to answer for update 0.",
        source="tutorial code; the usual way out, a special case for step 0, hides it",
        caught_by=("schedule.first_rate",),
        edits=(
            Edit("training.schedule:noam_rate", "step * warmup**-1.5", "(step - 1) * warmup**-1.5"),
            Edit("training.schedule:inverse_sqrt_rate", "min(step / warmup", "min((step - 1) / warmup"),
            Edit("training.schedule:cosine_rate", "return peak * step / warmup", "return peak * (step - 1) / warmup"),
        ),
    ),
    Bug(
        number=41,
        key="gradients-not-cleared",
        title="Gradients never cleared",
        subject=SUBJECT,
        symptom="The loss falls for some updates and then wanders: every update repeats all that were before it.",
        cure="Call zero_grad() once for each update, before or after it.",
        source="first training loops, and forum questions",
        caught_by=("training.gradients_cleared",),
        edits=(Edit(UPDATE, "    self.optimizer.zero_grad()\n", ""),),
    ),
    Bug(
        number=42,
        key="last-weights-saved",
        title="The last weights saved as the best",
        subject=SUBJECT,
        symptom="The reported validation loss is that of the best epoch, but the saved model is the overfitted last "
        "one, and scores below it.",
        cure="Save when the validation loss is the lowest so far, and measure the saved file once more.",
        source="course projects that keep a reference to the weights, or save after the loop",
        caught_by=("training.best_kept",),
        edits=(Edit("training.trainer:Trainer.finish_epoch", "if progress.best is record:", "if progress.best:"),),
    ),
    Bug(
        number=43,
        key="train-mode-in-evaluation",
        title="Train mode left on during evaluation",
        subject=SUBJECT,
        symptom="Two evaluations of one model differ, and both are worse than the model: dropout is still at work.",
        cure="Call eval() before measuring and return to the old mode afterwards.",
        source="course projects and forum questions",
        caught_by=("validation.eval_mode",),
        edits=(Edit(MEASURE_ALL, "    model.eval()\n", ""),),
    ),
)
