"""All settings of one experiment, by section; from a TOML preset, a JSON file or Python."""

from __future__ import annotations

import json
import reprlib
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import from_json

from nmtlib.errors import did_you_mean
from nmtlib.model.config import TransformerConfig

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
    `checkpoint_activations`: save memory, and compute the inside of layers twice.  `shard`: of
    several processes each holds its part of every weight and moment.  `init_from`: the run to
    fine-tune, its folder or name.
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
    shard: bool = False
    init_from: str = ""


@dataclass(frozen=True, config=FROZEN)
class DecodingSettings:
    """Defaults of translation: beam size, exponent of the length penalty, tokens in one batch."""

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    length_penalty: Annotated[float, Field(ge=-10, le=10)] = 1.0
    max_tokens: Count = 4096


@dataclass(frozen=True, config=FROZEN)
class Settings:
    """All settings of one experiment, by section.

    The vocabulary sizes of `model` are 0 until the vocabularies are made.  `recipe` is the
    section that the command of the course makes a `Recipe` of; `nmtlib.train` alone refuses it.
    """

    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: TransformerConfig = TransformerConfig()
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingSettings = DecodingSettings()
    recipe: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Settings:
        """The settings in a file that `to_json` made.  Raises ValueError for a damaged one."""
        try:
            sections = from_json(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        return cls().changed(sections, where=str(path))

    def changed(self, sections: Any, where: str = "settings") -> Settings:
        """A copy with other values, all of them checked at once, since they may need each other.

        Every value gets in here, from a preset, a run, the command line or a program:

            Settings().changed({"training": {"epochs": 3}, "model": {"dropout": 0.2}})

        Raises ValueError naming an unknown key, a value of the wrong type or one out of range.
        """
        merged = asdict(self)
        if not isinstance(sections, dict):
            raise ValueError(f"{where}: expected sections, not {type(sections).__name__}")
        for section, values in sections.items():
            if not isinstance(values, dict):
                raise ValueError(f"{where}: {section!r} must be a section of key = value lines")
            if section not in merged:
                hint = f"{did_you_mean(section, merged)}; there are {', '.join(merged)}"
                raise ValueError(f"{where}: unknown section {section!r}{hint}")
            for name in values:
                find_key(f"{section}.{name}", where)
            merged[section] |= values
        try:  # as JSON: in Python, strict would ask for the classes of the sections
            text = json.dumps(merged, default=lambda x: x.item() if hasattr(x, "item") else str(x))
            return TypeAdapter(Settings).validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(f"{where}: {explain(error)}") from None

    def with_assignments(self, assignments: Iterable[str]) -> Settings:
        """A copy changed by 'key=value' strings, as given to --set; values are written as in TOML.

        Relative paths start from the folder that the program runs in.
        """
        sections: dict[str, dict[str, Any]] = {}
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals:
                raise ValueError(f"--set expects key=value, not {assignment!r}")
            section, name = find_key(key.strip(), "--set")
            sections.setdefault(section, {})[name] = parse_value(text.strip())
        return self.changed(sections, "--set").located(Path())

    def located(self, folder: Path) -> Settings:
        """A copy whose relative paths start from `folder`, absolute: they hold wherever it is read.

        A run or an option of a recipe may also be a name: it is a path where `folder` holds it.
        """

        def locate(value: Any) -> Any:
            if isinstance(value, list):
                return [locate(item) for item in value]
            there = isinstance(value, str) and value and folder / value
            is_path = there and (there.is_file() or (there / "settings.json").is_file())
            return str(there.resolve()) if there and is_path else value

        files: dict[str, Any] = {}
        for split in FILES:
            paths = (folder / path for path in getattr(self.corpus, split))
            files[split] = [str(path.resolve()) for path in paths]
        return replace(
            self,
            corpus=replace(self.corpus, **files),
            training=replace(self.training, init_from=locate(self.training.init_from)),
            recipe={key: locate(value) for key, value in self.recipe.items()},
        )

    def with_vocabularies(self, source: int, target: int) -> Settings:
        """A copy whose model has vocabularies of these sizes.

        Raises ValueError where the settings ask for others, or where two are to share one table.
        """
        if self.model.tied == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tied='all' shares one table between both languages, so it needs one "
                "vocabulary: set tokenizer.joint=true, or model.tied=target"
            )
        for side, size in (("source", source), ("target", target)):
            if (stated := getattr(self.model, f"{side}_vocab_size")) not in (0, size):
                raise ValueError(
                    f"model.{side}_vocab_size is {stated}, but the data makes a {side} vocabulary "
                    f"of {size}; leave it out: the data decides"
                )
        model = replace(self.model, source_vocab_size=source, target_vocab_size=target)
        return replace(self, model=model)

    def identity(self) -> dict[str, Any]:
        """What makes another run of it, by key: all but device, decoding and places of files."""
        corpus = CorpusSettings(self.corpus.name, *self.corpus.languages)
        model = replace(self.model, source_vocab_size=0, target_vocab_size=0)  # the codecs decide
        training = replace(self.training, device="auto")
        sections = asdict(replace(self, corpus=corpus, model=model, training=training))
        del sections["decoding"]
        return {
            f"{section}.{name}": value
            for section, values in sections.items()
            for name, value in values.items()
        }

    def to_json(self) -> str:
        """The settings as indented JSON, for `load`."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


SECTIONS: dict[str, Any] = {f.name: type(f.default) for f in fields(Settings) if f.name != "recipe"}


def explain(error: ValidationError) -> str:
    """The first thing that pydantic found wrong, in one line: the key, what it expects, the value.

    >>> try: TrainingSettings(epochs=0)
    ... except ValidationError as error: print(explain(error))
    epochs should be greater than or equal to 1, not 0
    """
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "value_error":  # what a class itself raises begins with the key
        return f"{key}.{first['ctx']['error']}".lstrip(".")
    suffix = "" if first["type"].startswith("missing") else f", not {reprlib.repr(first['input'])}"
    return f"{key} {first['msg'].removeprefix('Input ')}{suffix}"


def find_key(key: str, where: str) -> tuple[str, str]:
    """Section and name of a key that is given with or without its section.

    Raises ValueError, with the closest key, for one that no section has.
    """
    section, _, name = key.partition(".")
    if section == "recipe" and name:  # its keys are its own
        return section, name
    known = [f"{section}.{f.name}" for section, kind in SECTIONS.items() for f in fields(kind)]
    bare = {k.partition(".")[2]: k for k in known}
    same_name = [k for k in known if k.endswith("." + key.rpartition(".")[2])]
    matches = [k for k in same_name if k == key or "." not in key]
    if len(matches) > 1:
        choice = " or ".join(matches)
        raise ValueError(f"{where}: {key!r} is a key of several sections; write {choice}")
    if not matches:
        near = same_name or get_close_matches(key, known) or get_close_matches(key, bare)
        advice = f"did you mean {bare.get(near[0], near[0])}?" if near else f"there are {known}"
        raise ValueError(f"{where}: unknown key {reprlib.repr(key)}; {advice}")
    section, _, name = matches[0].partition(".")
    return section, name


def parse_value(text: str) -> Any:
    """A TOML value; a bare word, and whatever else is not one value, is taken as a string."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, thousands of digits, nested without end
        return text
    return table["value"] if len(table) == 1 else text
