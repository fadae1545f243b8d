"""The sections of the settings but the model's: corpus, tokenizer, training, decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmtlib.data.codec import KINDS
from nmtlib.errors import require, require_at_least, require_one_of

SCHEDULES = ("noam", "inverse-sqrt", "cosine", "constant")
FILES = ("train", "validation", "test")  # the splits that a reader's own files can make


@dataclass(frozen=True)
class CorpusSettings:
    """Either `name`, a corpus that nmtlib knows, or one's own files and their two languages.

    A split is [source file, target file], or [one TSV file] with `source TAB target` lines.
    `synthetic` TSV files hold more pairs to train on, such as `nmtlib backtranslate` writes;
    `both_directions` trains each real pair also the other way round.
    """

    name: str = ""
    source_language: str = ""
    target_language: str = ""
    train: list = field(default_factory=list)
    validation: list = field(default_factory=list)
    test: list = field(default_factory=list)
    synthetic: list = field(default_factory=list)
    both_directions: bool = False

    def __post_init__(self) -> None:
        for key in ("name", "source_language", "target_language"):
            value = getattr(self, key)
            require(value == value.strip(), key, "without spaces around it", value)
        for split in (*FILES, "synthetic"):
            sound = all(path.strip() and "\0" not in path for path in getattr(self, split))
            require(sound, split, "a list of the paths of files", getattr(self, split))

    @property
    def languages(self) -> tuple[str, str]:
        """The language that is translated from, and the one that is translated into."""
        if not self.name:
            return self.source_language, self.target_language
        source, target = self.name.split("-")[-2:]
        return source, target

    def located(self, folder: Path) -> CorpusSettings:
        """The same with each relative path taken from `folder`: it holds wherever it is read."""
        found: dict = {
            part: [str((folder / path).resolve()) for path in getattr(self, part)]
            for part in (*FILES, "synthetic")
        }
        return replace(self, **found)

    def require_one_origin(self) -> None:
        """Raise ValueError where both a name and files are given: one would be ignored."""
        files = [split for split in FILES if getattr(self, split)]
        if self.name and files:
            given = f"names {self.name!r} and also gives files ({', '.join(files)})"
            advice = "keep one of the two: for your own files remove the name"
            raise ValueError(f"[corpus] {given}; {advice}")


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens: `kind` is 'whitespace', 'spacy', 'bpe' or 'given'.

    'given' takes the vocabularies that the corpus is published with.  `target_kind` is that of the
    target side, '' for the same.  `size` bounds each vocabulary, `min_count` drops rarer words (not
    for 'bpe'), `joint` makes one vocabulary for both sides.
    """

    kind: str = "bpe"
    target_kind: str = ""
    size: int = 8000
    min_count: int = 1
    joint: bool = False
    lowercase: bool = False

    def __post_init__(self) -> None:
        require_one_of("kind", KINDS, self.kind)
        require_one_of("target_kind", ("", *KINDS), self.target_kind)
        require_at_least(1, self, "size", "min_count")


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained.  Batch size in tokens, padding included; lengths in tokens.

    `schedule` is 'noam' (`learning_rate` is then its factor), 'inverse-sqrt' or 'cosine' (then it
    is the peak), or 'constant'; rates and `warmup` count updates.  `accumulate` batches make one
    update.  `optimizer` is 'adam', or 'muon' for the matrices of the layers (fewer updates, each
    dearer).  `r_drop`: weight of agreement between two passes of each batch with different dropout,
    0 = one pass (Liang et al. 2021).  `average`: how many last epochs to average at the end; `keep`
    is 'best', the epoch or average with the best validation loss, or 'average', even where its loss
    is worse (BLEU may still rise then).  `patience`: epochs without a better validation loss before
    training stops, 0 = never.  `save_updates`: also save within an epoch, every so many updates, 0
    = no.  `precision` is 'auto', 'fp32' or 'bf16'; `device` 'auto', 'cpu' or 'cuda'.  `compile` is
    'no', 'default' or, for a GPU, 'reduce-overhead' (with CUDA graphs): batches then have few
    shapes.  `synthetic_ratio`: synthetic pairs for one real pair in each epoch, which takes others
    than the one before.  `checkpoint_activations` saves memory: backward computes the inside of
    each layer a second time.  `start` is a run, by its folder or its name, whose vocabularies and
    weights the training begins with (fine-tuning).  `teachers` are runs of the same vocabularies:
    each update asks the next one, with dropout, as without it a teacher is far surer of what it was
    trained on.  The share `teacher_weight` of the loss compares with what it says, the rest with
    the labels (Kim and Rush 2016, 3.1).
    """

    seed: int = 1
    epochs: int = 10
    max_tokens: int = 4096
    max_length: int = 200
    accumulate: int = 1
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup: int = 400
    smoothing: float = 0.1
    r_drop: float = 0.0
    clip: float = 1.0
    average: int = 5
    keep: str = "best"
    patience: int = 0
    save_updates: int = 0
    precision: str = "auto"
    synthetic_ratio: float = 1.0
    device: str = "auto"
    compile: str = "no"
    checkpoint_activations: bool = False
    start: str = ""
    teachers: list = field(default_factory=list)
    teacher_weight: float = 0.5

    def __post_init__(self) -> None:
        counts = ("epochs", "max_tokens", "max_length", "accumulate", "warmup", "average")
        require_at_least(1, self, *counts)
        require_at_least(0, self, "patience", "save_updates")
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            require(0 < value < math.inf, name, "a finite number greater than 0", value)
        require(0 <= self.smoothing < 1, "smoothing", "in [0, 1)", self.smoothing)
        require(0 <= self.r_drop < math.inf, "r_drop", "a finite number, 0 or more", self.r_drop)
        listed = isinstance(self.teachers, list)
        named = listed and all(isinstance(run, str) and run.strip() for run in self.teachers)
        require(named, "teachers", "a list of runs, by their folders or names", self.teachers)
        share = self.teacher_weight
        require(0 < share <= 1, "teacher_weight", "greater than 0, at most 1", share)
        ratio = self.synthetic_ratio
        require(0 < ratio <= 1000, "synthetic_ratio", "greater than 0, at most 1000", ratio)
        require_one_of("optimizer", ("adam", "muon"), self.optimizer)
        require_one_of("schedule", SCHEDULES, self.schedule)
        require_one_of("keep", ("best", "average"), self.keep)
        require_one_of("precision", ("auto", "fp32", "bf16"), self.precision)
        require_one_of("compile", ("no", "default", "reduce-overhead"), self.compile)
        # The next batch of an update is recorded over the gradients of the one before.
        single = self.accumulate == 1 or self.compile != "reduce-overhead"
        require(single, "accumulate", "1 with compile = 'reduce-overhead'", self.accumulate)

    def located(self, folder: Path) -> TrainingSettings:
        """The same with runs that lie in `folder` given by absolute paths; others have a name."""

        def place(run: str) -> str:
            there = run and (folder / run / "settings.json").is_file()
            return str((folder / run).resolve()) if there else run

        return replace(self, start=place(self.start), teachers=[*map(place, self.teachers)])


@dataclass(frozen=True)
class DecodingSettings:
    """Defaults of translation: beam size, exponent of the length penalty, tokens in one batch."""

    beam: int = 5
    length_penalty: float = 1.0
    max_tokens: int = 4096

    def __post_init__(self) -> None:
        require_at_least(1, self, "max_tokens")
        require(1 <= self.beam <= 1000, "beam", "from 1 to 1000", self.beam)
        sane = abs(self.length_penalty) <= 10  # also false for what is no number
        require(sane, "length_penalty", "a number from -10 to 10", self.length_penalty)
