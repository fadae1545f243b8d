"""Settings of one experiment: corpus, tokenizer, model, training, decoding; read from a TOML
preset.
"""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, get_type_hints

from nmtlib.data.codec import KINDS
from nmtlib.model.transformer import TransformerConfig


@dataclass(frozen=True)
class CorpusSettings:
    """Either `name`, a corpus that nmtlib knows, or the reader's own files and their two languages.

    A split is [source file, target file], or [one TSV file] with `source TAB target` lines.
    `prepared` is a folder that `nmtlib data prepare` made of such a corpus; training then reads
    that and needs nothing else of it.
    """

    name: str = ""
    source_language: str = ""
    target_language: str = ""
    train: list = field(default_factory=list)
    validation: list = field(default_factory=list)
    test: list = field(default_factory=list)
    prepared: str = ""

    def __post_init__(self):
        _require(
            self.prepared == self.prepared.strip(),
            "prepared",
            "the path of a folder",
            self.prepared,
        )


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens: `kind` is 'whitespace', 'spacy', 'bpe', or 'given' (the corpus's own
    vocabularies).

    `target_kind` is that of the target side, '' for the same.  `size` bounds each vocabulary,
    `min_count` drops rarer words (not for 'bpe'), `joint` makes one for both sides.  `bpe_dropout`:
    share of the merges left out at random when the training sentences are cut, anew for each epoch
    (Provilkov et al. 2020).
    """

    kind: str = "bpe"
    target_kind: str = ""
    size: int = 8000
    min_count: int = 1
    joint: bool = False
    lowercase: bool = False
    bpe_dropout: float = 0.0

    def __post_init__(self):
        _require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        _require(
            self.target_kind in ("", *KINDS),
            "target_kind",
            f"one of {', '.join(KINDS)}",
            self.target_kind,
        )
        for name in ("size", "min_count"):
            _require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        _require(0 <= self.bpe_dropout < 1, "bpe_dropout", "in [0, 1)", self.bpe_dropout)


@dataclass(frozen=True)
class ModelSettings:
    """`TransformerConfig` without the vocabulary sizes, which the data decides."""

    d_model: int = 256
    n_heads: int = 4
    n_encoder_layers: int = 3
    n_decoder_layers: int = 3
    d_ff: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_length: int = 256
    norm: str = "pre"
    positions: str = "sinusoidal"
    tied: str = "none"
    embedding_start: str = "xavier"

    def config(self, source_vocab_size: int, target_vocab_size: int) -> TransformerConfig:
        """The complete configuration; raises ValueError where the values do not fit together."""
        return TransformerConfig(source_vocab_size, target_vocab_size, **asdict(self))


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained.  Batch size in tokens, padding included; lengths in tokens; rates per
    update.

    `schedule` is 'noam' (`learning_rate` is then its factor), 'inverse-sqrt' or 'cosine' (it is the
    peak). `accumulate` batches make one update.  `r_drop`: weight of agreement between two passes
    of each batch with different dropout, 0 = one pass (Liang et al. 2021).  `average`: how many
    last epochs to average at the end. `patience`: epochs without a better validation loss before
    training stops, 0 = never. `save_updates`: also save within an epoch, every so many updates, 0 =
    no. `precision` is 'auto', 'fp32' or 'bf16'; `device` 'auto', 'cpu' or 'cuda'.
    `checkpoint_activations` saves memory: backward computes the inside of each layer a second time.
    """

    seed: int = 1
    epochs: int = 10
    max_tokens: int = 4096
    max_length: int = 200
    accumulate: int = 1
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup: int = 400
    smoothing: float = 0.1
    r_drop: float = 0.0
    clip: float = 1.0
    average: int = 5
    patience: int = 0
    save_updates: int = 0
    precision: str = "auto"
    device: str = "auto"
    checkpoint_activations: bool = False

    def __post_init__(self):
        for name in ("epochs", "max_tokens", "max_length", "accumulate", "warmup", "average"):
            _require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("patience", "save_updates"):
            _require(getattr(self, name) >= 0, name, "0 or more", getattr(self, name))
        for name in ("learning_rate", "clip"):
            _require(getattr(self, name) > 0, name, "greater than 0", getattr(self, name))
        _require(0 <= self.smoothing < 1, "smoothing", "in [0, 1)", self.smoothing)
        _require(0 <= self.r_drop < math.inf, "r_drop", "a finite number, 0 or more", self.r_drop)
        for name, known in (
            ("schedule", ("noam", "inverse-sqrt", "cosine")),
            ("precision", ("auto", "fp32", "bf16")),
        ):
            _require(
                getattr(self, name) in known,
                name,
                f"one of {', '.join(known)}",
                getattr(self, name),
            )


@dataclass(frozen=True)
class DecodingSettings:
    """Defaults of translation: beam size, exponent of the length penalty (0 = none), tokens in one
    batch.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_tokens: int = 4096

    def __post_init__(self):
        for name in ("beam", "max_tokens"):
            _require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        _require(
            math.isfinite(self.length_penalty),
            "length_penalty",
            "a finite number",
            self.length_penalty,
        )


@dataclass(frozen=True)
class Settings:
    """All settings of one experiment, by section."""

    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)

    @classmethod
    def from_dict(cls, sections: dict[str, dict[str, Any]], *, where: str = "settings") -> Settings:
        """Checked settings from nested dictionaries.  Raises ValueError naming an unknown key or
        wrong type.
        """
        settings = cls()
        if not isinstance(sections, dict):
            raise ValueError(f"{where}: expected sections, not {type(sections).__name__}")
        known = [section.name for section in fields(cls)]
        for section, values in sections.items():
            if not isinstance(values, dict):
                raise ValueError(
                    f"{where}: {section!r} must be a section [{section}] of key = value lines"
                )
            if section not in known:
                raise ValueError(
                    f"{where}: unknown section {section!r}; the sections are {', '.join(known)}"
                )
            for key, value in values.items():
                settings = settings.with_value(f"{section}.{key}", value, where=where)
        return settings

    @classmethod
    def load(cls, path: Path) -> Settings:
        """The settings in a JSON file that `to_json` wrote.  Raises ValueError naming a damaged
        file.
        """
        try:
            sections = json.loads(path.read_text("utf-8"))
        except ValueError as error:  # no JSON, or no UTF-8
            raise ValueError(f"{path} is damaged: {error}") from None
        return cls.from_dict(sections, where=str(path))

    def with_value(self, key: str, value: Any, *, where: str = "--set") -> Settings:
        """A copy with one value changed; `key` is 'section.name', or a name that only one section
        has.
        """
        section, name = _find(key, where)
        old = getattr(self, section)
        kind = get_type_hints(type(old))[name]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(
                f"{where}: {section}.{name} is a {kind.__name__}, but {value!r} is a {type(value).__name__}"
            )
        if kind is list and not all(isinstance(item, str) for item in value):
            raise ValueError(f"{where}: {section}.{name} is a list of strings, not {value!r}")
        try:
            return replace(self, **{section: replace(old, **{name: value})})
        except ValueError as error:
            raise ValueError(f"{where}: {section}.{error}") from None

    def with_assignments(self, assignments: Iterable[str]) -> Settings:
        """A copy changed by 'key=value' strings, as given to --set; values are written as in TOML."""
        settings = self
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals:
                raise ValueError(f"--set expects key=value, not {assignment!r}")
            settings = settings.with_value(key.strip(), _parse(text.strip()))
        return settings

    def to_json(self) -> str:
        """The settings as indented JSON; `Settings.from_dict(json.loads(...))` reads them back."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


def presets() -> list[str]:
    """Names of the presets that come with nmtlib."""
    return sorted(
        p.name.removesuffix(".toml")
        for p in resources.files("nmtlib.presets").iterdir()
        if p.name.endswith(".toml")
    )


def load_settings(preset: str) -> Settings:
    """Settings of a preset by name, or of the reader's own TOML file by path.

    Paths in a TOML file are relative to that file.
    Raises ValueError for an unknown name, FileNotFoundError for a missing file.
    """
    if not preset.endswith(".toml"):
        if preset not in presets():
            raise ValueError(
                f"unknown preset {preset!r}{_hint(preset, presets())}; the presets are {', '.join(presets())}, "
                f"or give the path of a .toml file"
            )
        text, folder = (resources.files("nmtlib.presets") / f"{preset}.toml").read_bytes(), Path()
    else:
        path = Path(preset)
        if not path.is_file():
            raise FileNotFoundError(f"no such preset file: {path}")
        text, folder = path.read_bytes(), path.parent
    try:
        settings = Settings.from_dict(tomllib.loads(text.decode("utf-8-sig")), where=preset)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{preset} is not valid TOML in UTF-8: {error}") from None
    files = {
        s: [str((folder / f).resolve()) for f in getattr(settings.corpus, s)]
        for s in ("train", "validation", "test")
    }
    if settings.corpus.prepared:
        files["prepared"] = str((folder / settings.corpus.prepared).resolve())
    return replace(settings, corpus=replace(settings.corpus, **files))


def _find(key: str, where: str) -> tuple[str, str]:
    """Section and name of a key given with or without its section."""
    known = {
        section.name: [f.name for f in fields(section.default_factory)]
        for section in fields(Settings)
    }
    section, dot, name = key.rpartition(".")
    found = [s for s, names in known.items() if name in names and (not dot or s == section)]
    if len(found) == 1:
        return found[0], name
    if found:
        raise ValueError(
            f"{where}: {key!r} stands in several sections; write "
            + " or ".join(f"{s}.{name}" for s in found)
        )
    everything = [f"{s}.{n}" for s, names in known.items() for n in names]
    close = difflib.get_close_matches(name, {n for names in known.values() for n in names}, n=1)
    near = (
        [k for k in everything if k.endswith(f".{name}")]
        or difflib.get_close_matches(key, everything, n=1)
        or [k for k in everything if k.rpartition(".")[2] in close]
    )
    raise ValueError(
        f"{where}: unknown key {key!r}; "
        + (f"did you mean {near[0]}?" if near else f"the keys are {', '.join(everything)}")
    )


def _parse(text: str) -> Any:
    """A TOML value; a bare word is taken as a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _hint(given: str, known: list[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _require(holds: bool, name: str, expected: str, given: Any) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, not {given!r}")
