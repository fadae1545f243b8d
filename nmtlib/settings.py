"""Settings of one experiment: corpus, tokenizer, model, training, decoding; from a TOML preset."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from nmtlib import keys
from nmtlib.errors import did_you_mean
from nmtlib.model.transformer import TransformerConfig
from nmtlib.sections import CorpusSettings, DecodingSettings, TokenizerSettings, TrainingSettings

# What a preset starts from: a model that two CPU cores can train.
LAYERS: dict = {"n_encoder_layers": 3, "n_decoder_layers": 3}
SMALL = TransformerConfig(**LAYERS, d_model=256, n_heads=4, d_ff=1024, max_length=256, norm="pre")


@dataclass(frozen=True)
class Settings:
    """All settings of one experiment, by section.

    The vocabulary sizes of `model` are 0 until the vocabularies are made.
    """

    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: TransformerConfig = SMALL
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingSettings = DecodingSettings()

    @classmethod
    def from_dict(cls, sections: Any, *, where: str = "settings") -> Settings:
        """Checked settings from nested dictionaries; what they do not name keeps its default."""
        return cls().changed(sections, where)

    @classmethod
    def load(cls, path: Path) -> Settings:
        """The settings in a file that `to_json` made.  Raises ValueError for a damaged one."""
        try:
            sections = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested without end
            raise ValueError(f"{path} is damaged: {error}") from None
        return cls.from_dict(sections, where=str(path))

    def changed(self, sections: Any, where: str) -> Settings:
        """A copy with other values, all of a section at once, since they may need each other.

        Raises ValueError naming an unknown key, a value of the wrong type or one out of range.
        """
        if not isinstance(sections, dict):
            raise ValueError(f"{where}: expected sections, not {type(sections).__name__}")
        new = {}
        for section, values in sections.items():
            if not isinstance(values, dict):
                raise ValueError(f"{where}: {section!r} must be a section of key = value lines")
            if section not in SECTIONS:
                hint = did_you_mean(section, SECTIONS)
                raise ValueError(
                    f"{where}: unknown section {section!r}{hint}; there are {', '.join(SECTIONS)}"
                )
            kinds = get_type_hints(type(getattr(self, section)))
            typed = {}
            for name, value in values.items():
                keys.find(f"{section}.{name}", SECTIONS, where)
                typed[name] = keys.typed(value, kinds[name], f"{where}: {section}.{name}")
            try:
                new[section] = replace(getattr(self, section), **typed)
            except ValueError as error:
                raise ValueError(f"{where}: {section}.{error}") from None
        return replace(self, **new)

    def with_value(self, key: str, value: Any, *, where: str = "--set") -> Settings:
        """A copy with one value changed; `key` is 'section.name', or a name of one section only."""
        section, name = keys.find(key, SECTIONS, where)
        return self.changed({section: {name: value}}, where)

    def with_assignments(self, assignments: Iterable[str]) -> Settings:
        """A copy changed by 'key=value' strings, as given to --set; values are written as in TOML.

        Relative paths start from the folder that the program runs in.
        """
        sections: dict[str, dict[str, Any]] = {}
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals:
                raise ValueError(f"--set expects key=value, not {assignment!r}")
            section, name = keys.find(key.strip(), SECTIONS, "--set")
            sections.setdefault(section, {})[name] = keys.parse(text.strip())
        settings = self.changed(sections, "--set")
        training = settings.training.located(Path())
        return replace(settings, training=training, corpus=settings.corpus.located(Path()))

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
            given = getattr(self.model, f"{side}_vocab_size")
            if given not in (0, size):
                raise ValueError(
                    f"model.{side}_vocab_size is {given}, but the data makes a {side} vocabulary "
                    f"of {size}; leave it out: the data decides"
                )
        model = replace(self.model, source_vocab_size=source, target_vocab_size=target)
        return replace(self, model=model)

    def to_json(self) -> str:
        """The settings as indented JSON, for `load`."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


SECTIONS = get_type_hints(Settings)  # the class of each section
