"""The recipe of the course's records: R-Drop, teachers, Muon, synthetic pairs, compiled models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from torch import Tensor

from nmtcourse.corpora import READERS, load_corpus
from nmtcourse.recipes.losses import disagreement, distance_to_teacher
from nmtcourse.recipes.mixing import in_both_directions, mixed_by_epoch, with_synthetic
from nmtcourse.recipes.muon import Muon
from nmtcourse.recipes.recorded import FewShapes, RecordedUpdate
from nmtcourse.recipes.teachers import load_teachers
from nmtlib import experiment
from nmtlib.data.batching import Batch, Example
from nmtlib.data.codec import encode_pairs
from nmtlib.data.corpus import Corpus, read_pairs
from nmtlib.errors import did_you_mean
from nmtlib.experiment import Material, digest_of
from nmtlib.model.embeddings import GENERATOR
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.run import Run, find_weights
from nmtlib.settings import FROZEN, Settings, TrainingSettings, explain
from nmtlib.specials import PAD
from nmtlib.training.checkpoint import describe_file
from nmtlib.training.history import EpochRecord
from nmtlib.training.loss import Totals, losses
from nmtlib.training.trainer import Recipe

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Ratio = Annotated[float, Field(gt=0, le=1000)]
Place = Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]  # a file, or a run's name


@dataclass(frozen=True, config=FROZEN)
class CourseRecipe:
    """The section [recipe] of the settings: additions to a run, each of them off unless it is set.

    `r_drop`: weight of agreement between two passes of each batch with different dropout (Liang et
    al. 2021).  `teachers` are runs of the same vocabularies: for each batch one of them is asked,
    with dropout, as without it a teacher is far more confident about what it was trained on; the
    share `teacher_weight` of the loss compares with its prediction, the rest with the labels (Kim
    and Rush 2016, 3.1).  `optimizer` is 'adam', or 'muon' for the matrices of the layers (fewer
    updates, each more expensive).  `synthetic` TSV files hold more pairs to train on, such as
    `nmtlib backtranslate` writes, `synthetic_ratio` for one real pair in each epoch, which takes
    others than the one before.  `both_directions` trains each real pair also the other way round.
    `recorded` updates are, on a GPU, CUDA graphs of batches of few shapes, replayed; `compile` is
    'layers' to compile layers and loss, which takes a minute before the first update.
    """

    r_drop: Weight = 0.0
    teachers: list[Place] = field(default_factory=list)
    teacher_weight: Share = 0.5
    optimizer: Literal["adam", "muon"] = "adam"
    synthetic: list[Place] = field(default_factory=list)
    synthetic_ratio: Ratio = 1.0
    both_directions: bool = False
    recorded: bool = False
    compile: Literal["no", "layers"] = "no"

    def change(self, corpus: Corpus, settings: Settings) -> Corpus:
        """The corpus with synthetic pairs, and with each pair turned round, where asked for."""
        if self.synthetic:
            files = (read_pairs([file], readers=READERS) for file in self.synthetic)
            more = chain.from_iterable(files)
            corpus = with_synthetic(corpus, more)
        if not self.both_directions:
            return corpus
        if "given" in (settings.tokenizer.kind, settings.tokenizer.target_kind):
            raise ValueError(
                "recipe.both_directions: the vocabularies that a corpus is published with are of "
                "one language each; set tokenizer.kind=bpe, and no target_kind"
            )
        start = settings.training.init_from
        if start and not (settings.tokenizer.joint or starts_both_ways(start)):
            raise ValueError(
                f"training.init_from: {start} has a vocabulary of each language, and reads one "
                "only; recipe.both_directions needs a run with tokenizer.joint=true"
            )
        return in_both_directions(corpus)

    def make(self, settings: Settings, material: Material) -> Recipe:
        """How the `Trainer` trains with what is set."""
        if self.recorded and self.optimizer != "adam":
            raise ValueError("recipe.recorded needs optimizer = 'adam': muon cannot be recorded")
        recipe, identity = Recipe(), {}
        teachers: list[Transformer] = []
        if self.teachers:
            teachers, identity["teachers"] = load_teachers(
                self.teachers, settings, material.codecs, self.both_directions
            )
        if self.r_drop or teachers or self.recorded or self.compile != "no":
            recipe = replace(recipe, loss=(loss := RecipeLoss(self, teachers)))
        if self.optimizer == "muon":
            recipe = replace(recipe, optimizer=Muon)
        if material.corpus.synthetic:
            mixed, identity["synthetic pairs"] = self.mix(settings, material)
            recipe = replace(recipe, examples=mixed)
        if self.recorded:
            update = RecordedUpdate(loss.draw_teacher)
            recipe = replace(recipe, loader=FewShapes, update=update)
        return replace(recipe, identity=identity)

    def mix(
        self, settings: Settings, material: Material
    ) -> tuple[Callable[[int], Sequence[Example]], str]:
        """What an epoch takes of real and synthetic examples, and the SHA-256 of the latter."""
        training, ratio = material.training, self.synthetic_ratio
        longest = min(settings.training.max_length, settings.model.max_length)
        synthetic, too_long = encode_pairs(material.corpus.synthetic, *material.codecs, longest)
        if not round(ratio * len(training)) or not synthetic:
            raise ValueError(
                f"recipe.synthetic: an epoch would take none of {len(synthetic):,} synthetic pairs "
                f"(synthetic_ratio {ratio:g} of {len(training):,} real ones); give others, raise "
                "the ratio, or leave them out"
            )
        material.report(
            f"{len(synthetic):,} synthetic pairs, of which an epoch takes {ratio:g} for each real "
            f"one; left out as too long: {too_long}"
        )
        mixed = mixed_by_epoch(training, synthetic, ratio, seed=settings.training.seed)
        return mixed, digest_of(synthetic)


def train(
    folder: str | Path,
    settings: Settings | str | Path | None = None,
    *,
    corpus: Corpus | None = None,
    **how: Any,
) -> list[EpochRecord]:
    """Train as `nmtlib.train` does, with the corpora of the course and the section [recipe]."""
    settings = load_settings(settings) if isinstance(settings, str | Path) else settings
    known = settings or Run(folder).settings()
    course = read_recipe(known.recipe)
    corpus = course.change(corpus or load_corpus(known.corpus), known)
    make_recipe = partial(course.make, known)
    return experiment.train(folder, settings, corpus=corpus, recipe=make_recipe, **how)


def read_recipe(section: Mapping[str, Any]) -> CourseRecipe:
    """The section [recipe] of settings, which may be empty.

    Raises ValueError for another name than 'course', or an option that is unknown or wrong.
    """
    options = dict(section)
    if options and (name := options.pop("name", "")) != "course":
        hint = did_you_mean(str(name), ["course"])
        raise ValueError(f"[recipe] has an unknown name {name!r}{hint}; there is course")
    known = [option.name for option in fields(CourseRecipe)]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"recipe.{name} is unknown{hint}; there are {', '.join(known)}")
    try:
        return TypeAdapter(CourseRecipe).validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        raise ValueError(f"recipe.{explain(error)}") from None


def starts_both_ways(start: str) -> bool:
    """Whether the run that another one starts from reads both languages."""
    return reads_both(describe_file(find_weights(start)).settings)


def reads_both(settings: Settings) -> bool:
    """Whether a run was trained to translate both ways."""
    return bool(settings.recipe.get("both_directions"))


class RecipeLoss:
    """The loss of a `Trainer`: smoothed cross-entropy, with R-Drop and teachers where they are set.

    With R-Drop the batch passes twice, and what drives the two predictions apart is punished.  The
    loss is half of that in the paper (eq. 4), so that alpha changes nothing else: the mean of both
    cross-entropies + alpha / 2 of the `disagreement`.  The totals are means of both, too.
    """

    def __init__(self, recipe: CourseRecipe, teachers: Sequence[Transformer] = ()):
        self.recipe, self.teachers, self.number = recipe, list(teachers), 0
        self.losses = losses
        self.compiled: Transformer | None = None

    def __call__(
        self, model: Transformer, batch: Batch, settings: TrainingSettings
    ) -> tuple[Tensor, Totals]:
        """The summed loss of a batch, to be differentiated, and its totals, to be read."""
        alpha, share = self.recipe.r_drop, self.recipe.teacher_weight
        if self.recipe.compile == "layers" and self.compiled is not model:
            self.compile(model)
        if not self.recipe.recorded:  # a recording has drawn already
            self.draw_teacher()
        if alpha:
            batch = Batch(torch.cat([batch.source] * 2), torch.cat([batch.target] * 2))
        logits = model(batch.source, batch.decoder_input)  # (B, T, V)
        loss, nll, correct = self.losses(logits, batch.labels, settings.label_smoothing)
        labels = (batch.labels != PAD).sum()
        if self.teachers:
            taught = distance_to_teacher(logits, self.ask(batch), batch.labels)
            loss = (1 - share) * loss + share * taught
        if alpha:
            first, second = logits.chunk(2)
            loss = loss / 2 + alpha / 2 * disagreement(first, second, batch.labels.chunk(2)[0])
            nll, correct, labels = nll / 2, correct / 2, labels / 2
        return loss, Totals(*(each.detach().double() for each in (loss, nll, correct, labels)))

    def compile(self, model: Transformer) -> None:
        """Compile layers and loss for all shapes.

        One by one: a layer is compiled once for all of its kind, and a graph can record them.
        """
        for layer in (*model.encoder, *model.decoder):
            layer.compile(dynamic=True)
        self.losses, self.compiled = torch.compile(losses, dynamic=True), model

    def draw_teacher(self) -> int:
        """Choose one of the teachers for the next batch; returns its number.

        The trainer seeds torch's generator at each update, so a resumed run draws the same one.
        """
        if len(self.teachers) > 1:
            self.number = int(torch.randint(len(self.teachers), (), generator=GENERATOR.get()))
        return self.number

    @torch.no_grad()
    def ask(self, batch: Batch) -> Tensor:
        """The logits (B, T, V) of the drawn teacher, with dropout."""
        teacher = self.teachers[self.number].to(batch.source.device).train()
        return teacher(batch.source, batch.decoder_input)
