"""The small trainings of notebooks 08 and 09: by recipe, measured on the way, and recorded.

`learn` is the plain loop of notebook 09.  What takes longer than a reader waits was trained once
by `benchmarks/course_runs.py`; `recorded` reads it, and a recipe trains the same anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmtcourse.teaching.records import Runs
from nmtlib.data.batching import Example, collate, token_batches
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.inference.metrics import bleu_sacre
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import label_smoothed_loss, measure_all
from nmtlib.training.schedule import inverse_sqrt_rate
from nmtlib.training.trainer import ADAM

RECORDED = Path(__file__).parent / "recorded" / "training.json"
SIZES: dict[str, Any] = {"d_model": 64, "n_heads": 4, "n_encoder_layers": 1, "d_ff": 256}
SIZES |= {"n_decoder_layers": 1, "norm": "pre", "max_length": 64}
SOME = 200  # sentences that are measured and translated
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Recipe:
    """All that a small training depends on; `every` so many updates it is measured."""

    pairs: int = 20_000
    updates: int = 600
    seed: int = 1
    rate: float = 4e-3
    warmup: int = 100
    max_tokens: int = 512
    smoothing: float = 0.1
    dropout: float = 0.1
    every: int = 50


class Point(NamedTuple):
    """What a model is worth after some updates, or passes over its data; all without dropout.

    `train_nll` is that of the first 200 training pairs, the others of the first 200 for validation.
    """

    updates: int
    epochs: float
    train_nll: float
    validation_nll: float
    accuracy: float
    bleu: float


class Worth(NamedTuple):
    """What a model is worth on some pairs: NLL in nats a token, accuracy, BLEU to 100."""

    nll: float
    accuracy: float
    bleu: float


@dataclass(frozen=True)
class Training:
    """A training that has ended: its recipe, what was measured on the way, and weights kept of it.

    `kept` holds, for each rule of choosing weights, what its choice is worth on 500 test sentences.
    """

    recipe: Recipe
    points: list[Point]
    kept: dict[str, Worth] = field(default_factory=dict)


def small_model(
    translator: Translator, *, seed: int = 1, dropout: float = 0.1, **sizes: Any
) -> Transformer:
    """An untrained model for the vocabularies of a translator, of one layer a side.

    `sizes` are those of `TransformerConfig` that shall be others.
    """
    torch.manual_seed(seed)
    sides = {"source": translator.source, "target": translator.target}
    sizes |= {f"{side}_vocab_size": len(codec.vocab) for side, codec in sides.items()}
    return Transformer(TransformerConfig(dropout=dropout, **SIZES | sizes))


class Loop:
    """The loop of the notebook, one update at a time, so that one can step in and look.

    `number` counts the updates done.  A deep copy goes on from the same place.
    """

    def __init__(self, model: Transformer, examples: Sequence[Example], recipe: Recipe):
        self.model, self.examples, self.recipe = model, examples, recipe
        self.optimizer = torch.optim.Adam(model.parameters(), fused=True, **ADAM)
        self.number, self.epoch, self.plan = 0, 0, self._batches(0)
        self.batches_per_epoch = len(self.plan)

    def _batches(self, epoch: int) -> list[list[int]]:
        seed = 1000 * self.recipe.seed + epoch
        return token_batches(self.examples, self.recipe.max_tokens, seed=seed)

    def step(self, *, clip: float = 1.0, scale: float = 1.0) -> float:
        """One update; returns the norm of the gradient before clipping.

        `scale` multiplies the loss, as a mistake would.
        """
        self.number += 1
        if not self.plan:
            self.epoch += 1
            self.plan = self._batches(self.epoch)
        batch = collate([self.examples[i] for i in self.plan.pop(0)])
        torch.manual_seed(100_000 * self.recipe.seed + self.number)  # of dropout
        logits = self.model.train()(batch.source, batch.decoder_input)  # (B, T, V)
        loss = scale * label_smoothed_loss(logits, batch.labels, self.recipe.smoothing)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        for group in self.optimizer.param_groups:
            group["lr"] = inverse_sqrt_rate(self.number, self.recipe.rate, self.recipe.warmup)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)


def encoded(translator: Translator, pairs: Sequence[Pair]) -> list[Example]:
    """Pairs as the ids that the models of a translator read and say."""
    return [translator.example(p.source, p.target) for p in pairs]


def bleu(model: Transformer, translator: Translator, pairs: Sequence[Pair]) -> float:
    """BLEU of a model's greedy translations with the codecs of a translator."""
    able = Translator(model, translator.source, translator.target)
    hypotheses = able.translate([p.source for p in pairs], beam=1)
    return bleu_sacre(hypotheses, [p.target for p in pairs], tokenize="none").score


def learn(
    recipe: Recipe, translator: Translator, corpus: Corpus, *, keep: bool = False
) -> Training:
    """Train a small model by a recipe on the first pairs of a corpus, and measure it on the way.

    The corpus is one that the translator has the vocabularies of.  With `keep`, weights are chosen
    by each rule of `choices`, and judged on the test split.
    """
    train = encoded(translator, corpus.train[: recipe.pairs])
    held_out = corpus.validation[:SOME]
    model = small_model(translator, seed=recipe.seed, dropout=recipe.dropout)
    loop, points, weights = Loop(model, train, recipe), [], []
    for number in range(1, recipe.updates + 1):
        loop.step()
        if number % recipe.every == 0:
            seen, epochs = measure_all(model, train[:SOME]), number / loop.batches_per_epoch
            scores = worth(model, translator, held_out)
            points.append(Point(number, epochs, seen.nll_per_token, *scores))
            weights.append({name: p.detach().clone() for name, p in model.named_parameters()})
    chosen_scores = {}
    for rule, chosen in choices(points, weights).items() if keep else ():
        model.load_state_dict(chosen, strict=False)  # positional tables are buffers, not weights
        chosen_scores[rule] = worth(model, translator, corpus.test[:500])
    return Training(recipe, points, chosen_scores)


def worth(model: Transformer, translator: Translator, pairs: Sequence[Pair]) -> Worth:
    """What a model is worth on some pairs."""
    sums = measure_all(model, encoded(translator, pairs))
    return Worth(sums.nll_per_token, sums.accuracy, bleu(model, translator, pairs))


def choices(points: Sequence[Point], weights: Sequence[Weights]) -> dict[str, Weights]:
    """The weights that one might keep of a training, each by a rule that needs no test data."""
    places = range(len(points))
    return {
        "lowest validation loss": weights[min(places, key=lambda i: points[i].validation_nll)],
        "best validation BLEU": weights[max(places, key=lambda i: points[i].bleu)],
        "last": weights[-1],
        "average of the last 5": average(weights[-5:]),
    }


def average(weights: Sequence[Weights]) -> Weights:
    """The mean of several weights, tensor by tensor.  Vaswani et al. 2017, 6.1."""
    return {name: torch.stack([one[name] for one in weights]).mean(dim=0) for name in weights[0]}


def recorded(seeds: int | None = None, **settings: float) -> Runs:
    """The recorded trainings whose recipes have these values, in the order of their seeds.

    `seeds` is how many of them; None takes all.  Raises ValueError where there is none.

    >>> [training.recipe.seed for training in recorded(pairs=200, smoothing=0.0, dropout=0.1)]
    [1, 2, 3]
    """
    runs = [from_json(training) for training in json.loads(RECORDED.read_text())["trainings"]]
    runs = [t for t in runs if asdict(t.recipe) | settings == asdict(t.recipe)]
    if not runs:
        raise ValueError(f"no training with {settings} is recorded in {RECORDED.name}")
    runs = sorted(runs, key=lambda training: training.recipe.seed)[:seeds]
    return Runs(runs, [training.recipe.seed for training in runs])


def to_json(training: Training) -> dict[str, Any]:
    """A training as JSON holds it, numbers to four decimals."""
    kept = {rule: [round(x, 4) for x in scores] for rule, scores in training.kept.items()}
    points = [[round(x, 4) for x in point] for point in training.points]
    return {"recipe": asdict(training.recipe), "points": points, "kept": kept}


def from_json(stored: dict[str, Any]) -> Training:
    """What `to_json` wrote."""
    kept = {rule: Worth(*scores) for rule, scores in stored["kept"].items()}
    return Training(Recipe(**stored["recipe"]), [Point(*p) for p in stored["points"]], kept)


def bleu_at(trainings: Sequence[Training], updates: int) -> list[float]:
    """Validation BLEU of each training after so many updates."""
    return [p.bleu for training in trainings for p in training.points if p.updates == updates]
