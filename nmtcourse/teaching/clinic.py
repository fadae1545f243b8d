"""The patients of the debugging clinic: which bugs they have, and how they are trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from tempfile import TemporaryDirectory

import torch
from torch.nn import functional as F

from nmtcheck.report.report import Report
from nmtcourse import bugs
from nmtcourse.teaching.language import mark, say
from nmtcourse.teaching.learning import Loop, Recipe, encoded, small_model
from nmtlib.data import corpora
from nmtlib.data.batching import Batch, Example, collate, token_batches
from nmtlib.data.corpus import Corpus
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.settings import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training.loss import measure_all
from nmtlib.training.trainer import Trainer

# The bugs of each patient, whose keys would spoil the guess; 0 and 5 are healthy, 6 has code.
PATIENTS = {
    0: [],
    1: ["causal-mask-training-only", "decoding-position-zero"],
    2: ["schedule-per-micro-batch"],
    3: ["mask-padded-queries"],
    4: ["layers-share-weights"],
    5: [],
    7: ["cross-attention-ignores-memory"],
    8: ["pairs-misaligned"],
}


def toy_examples(
    translator: Translator, train: int, held_out: int
) -> tuple[list[Example], list[Example], Corpus]:
    """The first training and validation pairs of the toy corpus as ids, and the corpus."""
    corpus = corpora.load_corpus("toy-de-en")
    pairs = corpus.train[:train], corpus.validation[:held_out]
    return encoded(translator, pairs[0]), encoded(translator, pairs[1]), corpus


@contextmanager
def patient(number: int) -> Iterator[None]:
    """Run a block with the bugs of a patient planted in the real code."""
    with ExitStack() as planted:
        for key in PATIENTS[number]:
            planted.enter_context(bugs.plant(key))
        yield


def show_cure(number: int) -> None:
    """Print the diffs that remove the bugs of a patient."""
    print("\n\n".join(cure(bugs.get(key).diff()) for key in PATIENTS[number]))


def show_findings(report: Report) -> None:
    """Print what each distinct finding of a report measured, and its likely cause."""
    for finding in report.findings:
        print(f"{finding.check.id}{mark(':')}{say(finding.measured)}\n    {say(finding.cause)}")


def cure(diff: str) -> str:
    """Invert the diff that plants a bug, so that it removes it.

    >>> print(cure("@@\\n-mask = causal\\n+mask = None\\n loss = f(mask)"))
    @@
    -mask = None
    +mask = causal
     loss = f(mask)
    """
    turned: list[str] = []
    for is_change, group in groupby(diff.splitlines(), _changes):
        lines = list(group)
        if is_change:
            ill = ["-" + line[1:] for line in lines if line.startswith("+")]
            lines = ill + ["+" + line[1:] for line in lines if line.startswith("-")]
        turned += lines
    return "\n".join(turned)


def _changes(line: str) -> bool:
    """Whether a line of a diff is one that goes or comes."""
    return line[:1] in ("-", "+") and line[:4] not in ("--- ", "+++ ")


def learn(
    translator: Translator,
    train: Sequence[Example],
    held_out: Sequence[Example],
    *,
    seed: int,
    updates: int = 150,
    every: int = 25,
) -> tuple[Translator, tuple[list[int], list[float]]]:
    """A small model after some updates, ready to translate, and its curve of validation losses.

    Neither dropout nor smoothing blurs the loss.  The curve is the update and the NLL in nats.
    """
    model = small_model(translator, seed=seed, dropout=0.0)
    loop = Loop(model, train, Recipe(updates=updates, seed=seed, smoothing=0.0, dropout=0.0))
    places, losses = [], []
    for update in range(1, updates + 1):
        loop.step()
        if update % every == 0:
            places.append(update)
            losses.append(measure_all(model, held_out).nll_per_token)
    return Translator(model.eval(), translator.source, translator.target), (places, losses)


def learn_both_ways(
    translator: Translator, batches: Sequence[Sequence[Example]], seed: int
) -> dict[str, list[float]]:
    """The losses of the updates on whole batches and on batches in four parts, and both rates."""
    whole, rates = learn_in_parts(translator, batches, 1, seed=seed)
    parts, other_rates = learn_in_parts(translator, batches, 4, seed=seed)
    return {"whole": whole, "four parts": parts, "rates": rates, "rates in parts": other_rates}


def learn_in_parts(
    translator: Translator, batches: Sequence[Sequence[Example]], parts: int, *, seed: int
) -> tuple[list[float], list[float]]:
    """Loss (nats) and learning rate of each update of a small model, one update for a batch.

    Each batch comes in so many parts, whose gradients are accumulated.
    """
    settings = TrainingSettings(
        learning_rate=4e-3,
        warmup=30,
        label_smoothing=0.0,
        schedule="inverse-sqrt",
        precision="fp32",  # the same on every processor
        device="cpu",
    )
    model, losses, rates = small_model(translator, seed=seed, dropout=0.0), [], []
    with TemporaryDirectory() as folder:
        data = batches[0], batches[0]  # not read: each update is given its sentences
        trainer = Trainer(model.train(), *data, settings, folder, report=lambda line: None)
        for batch in batches:
            micro_batches = [collate(batch[part::parts]) for part in range(parts)]
            losses.append(trainer.update(micro_batches).nll_per_token)
            rates.append(trainer.optimizer.param_groups[0]["lr"])
    return losses, rates


def by_length(examples: Sequence[Example], fewest: int = 15) -> dict[int, Batch]:
    """One batch for each length of the target, EOS included, that `fewest` examples have."""
    groups: dict[int, list[Example]] = {}
    for example in examples:
        groups.setdefault(len(example.target) - 1, []).append(example)
    return {n: collate(rows) for n, rows in sorted(groups.items()) if len(rows) >= fewest}


def mismatched(
    examples: Sequence[Example], max_tokens: int
) -> tuple[list[tuple[list[int], list[int]]], int]:
    """The rows of batches that are not a pair of the examples, and the number of all rows."""
    pairs = {(tuple(e.source), tuple(e.target)) for e in examples}
    wrong, count = [], 0
    for rows in token_batches(examples, max_tokens):
        batch = collate([examples[i] for i in rows])
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
            source, target = ([i for i in side if i != PAD] for side in (source, target))
            count += 1
            if (tuple(source), tuple(target)) not in pairs:
                wrong.append((source, target))
    return wrong, count


@torch.no_grad()
def validation_epoch(model: Transformer, batches: Sequence[Batch]) -> float:
    """The loss of some batches as a patient of the clinic reports it."""
    total = 0.0
    for batch in batches:
        logits = model.eval()(batch.source, batch.decoder_input)  # (B, T, V)
        flat = logits.flatten(0, 1), batch.labels.flatten()
        total += float(F.cross_entropy(*flat, ignore_index=PAD, reduction="sum"))
    return total / sum(len(batch.source) for batch in batches)
