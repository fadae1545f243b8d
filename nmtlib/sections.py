"""The sections of the settings except the model's: corpus, tokenizer, training, decoding."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

FROZEN = ConfigDict(extra="forbid", strict=True)
FILES = ("train", "validation", "test")  # the splits that a reader's own files can make
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^(\S(.*\S)?)?$")]  # without spaces around it
Schedule = Literal["noam", "inverse-sqrt", "cosine", "constant"]
Kind = Literal["whitespace", "spacy", "bpe", "given"]  # `_tokenizer` in data/codec.py makes each


def language_of(tag: str) -> str:
    """The language of a tag: 'zh' of 'zh-CN', 'zh_Hans' and 'cmn'; another text stays as it is."""
    import langcodes

    valid = langcodes.tag_is_valid(tag)
    return langcodes.standardize_tag(tag, macro=True).partition("-")[0] if valid else tag


@dataclass(frozen=True, config=FROZEN)
class CorpusSettings:
    """Either `name`, a corpus that nmtlib knows, or your own files and their two languages.

    A split is [source file, target file], or [one TSV file] with `source TAB target` lines.
    """

    name: Name = ""
    source_language: Name = ""
    target_language: Name = ""
    train: list[str] = field(default_factory=list)
    validation: list[str] = field(default_factory=list)
    test: list[str] = field(default_factory=list)

    @property
    def languages(self) -> tuple[str, str]:
        """The source language and the target language."""
        if not self.name:
            return language_of(self.source_language), language_of(self.target_language)
        return tuple(self.name.split("-")[-2:])  # type: ignore[return-value]

    def require_one_origin(self) -> None:
        """Raise ValueError where both a name and files are given: one would be ignored."""
        files = [split for split in FILES if getattr(self, split)]
        if self.name and files:
            raise ValueError(
                f"[corpus] names {self.name!r} and also gives files ({', '.join(files)}); keep one "
                "of the two: for your own files remove the name"
            )


@dataclass(frozen=True, config=FROZEN)
class TokenizerSettings:
    """How text becomes tokens.

    'given' takes the vocabularies that the corpus is published with.  `target_kind` is that of the
    target side, '' for the same.  `size` bounds each vocabulary, `min_count` drops rarer words (not
    for 'bpe'), `joint` makes one vocabulary for both sides.
    """

    kind: Kind = "bpe"
    target_kind: Literal["", Kind] = ""
    size: Count = 8000
    min_count: Count = 1
    joint: bool = False
    lowercase: bool = False


@dataclass(frozen=True, config=FROZEN)
class TrainingSettings:
    """How a model is trained.  Batch size in tokens, padding included; lengths in tokens.

    `learning_rate` is the peak, or for 'noam' the factor; rates and `warmup` count updates.
    `accumulate` batches make one update.  `average`: how many last epochs to average at the end;
    the files of older epochs are deleted.  `keep` is 'best', the epoch or average with the best
    validation loss, or 'average', even where its loss is worse (BLEU may still rise then).
    `patience`: epochs without a better validation loss before training stops, 0 = never.
    `save_updates`: also save every so many updates, 0 = no.  `device`: 'auto', 'cpu' or 'cuda'.
    `checkpoint_activations`: save memory, and compute the inside of layers twice.  `init_from`: the
    run to fine-tune, its folder or name.
    """

    seed: int = 1
    epochs: Count = 10
    max_tokens: Count = 4096
    max_length: Count = 200
    accumulate: Count = 1
    learning_rate: Positive = 1e-3
    schedule: Schedule = "cosine"
    warmup: Count = 400
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    grad_clip: Positive = 1.0
    average: Count = 5
    keep: Literal["best", "average"] = "best"
    patience: CountOrZero = 0
    save_updates: CountOrZero = 0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"
    checkpoint_activations: bool = False
    init_from: str = ""


@dataclass(frozen=True, config=FROZEN)
class DecodingSettings:
    """Defaults of translation: beam size, exponent of the length penalty, tokens in one batch."""

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    length_penalty: Annotated[float, Field(ge=-10, le=10)] = 1.0
    max_tokens: Count = 4096
