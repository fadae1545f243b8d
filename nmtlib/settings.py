"""All settings of one experiment, by section; from a TOML preset, a JSON file or Python."""

from __future__ import annotations

import json
import reprlib
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import from_json

from nmtlib.errors import did_you_mean
from nmtlib.model.config import TransformerConfig
from nmtlib.sections import (
    FILES,
    FROZEN,
    CorpusSettings,
    DecodingSettings,
    TokenizerSettings,
    TrainingSettings,
)


@dataclass(frozen=True, config=FROZEN)
class Settings:
    """All settings of one experiment, by section.

    The vocabulary sizes of `model` are 0 until the vocabularies are made.  `recipe` names what
    `nmtlib.experiment` asks for a loss or examples of its own; its other keys are that recipe's.
    """

    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: TransformerConfig = TransformerConfig()
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingSettings = DecodingSettings()
    recipe: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, sections: Any, *, where: str = "settings") -> Settings:
        """Checked settings from nested dictionaries; what they do not name keeps its default."""
        return cls().changed(sections, where)

    @classmethod
    def load(cls, path: Path) -> Settings:
        """The settings in a file that `to_json` made.  Raises ValueError for a damaged one."""
        try:
            sections = from_json(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        return cls.from_dict(sections, where=str(path))

    def changed(self, sections: Any, where: str = "settings") -> Settings:
        """A copy with other values, all of them checked at once, since they may need each other.

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
                find(f"{section}.{name}", where)
            merged[section] |= values
        try:  # as JSON: in Python, strict would ask for the classes of the sections
            return TypeAdapter(Settings).validate_json(json.dumps(merged, default=str), strict=True)
        except ValidationError as error:
            raise ValueError(f"{where}: {explain(error)}") from None

    def with_value(self, key: str, value: Any, *, where: str = "settings") -> Settings:
        """A copy with one value changed; `key` is 'section.name', or a name of one section only."""
        section, name = find(key, where)
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
            section, name = find(key.strip(), "--set")
            sections.setdefault(section, {})[name] = parse(text.strip())
        return self.changed(sections, "--set").located(Path())

    def located(self, folder: Path) -> Settings:
        """A copy whose relative paths start from `folder`, absolute: they hold wherever it is read.

        A run or an option of a recipe may also be a name: it is a path where `folder` holds it.
        """

        def place(value: Any) -> Any:
            if isinstance(value, list):
                return [place(item) for item in value]
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
            training=replace(self.training, init_from=place(self.training.init_from)),
            recipe={key: place(value) for key, value in self.recipe.items()},
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
            if (given := getattr(self.model, f"{side}_vocab_size")) not in (0, size):
                raise ValueError(
                    f"model.{side}_vocab_size is {given}, but the data makes a {side} vocabulary "
                    f"of {size}; leave it out: the data decides"
                )
        model = replace(self.model, source_vocab_size=source, target_vocab_size=target)
        return replace(self, model=model)

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
    given = "" if first["type"].startswith("missing") else f", not {reprlib.repr(first['input'])}"
    return f"{key} {first['msg'].removeprefix('Input ')}{given}"


def find(key: str, where: str) -> tuple[str, str]:
    """Section and name of a key that is given with or without its section.

    Raises ValueError, with the closest key, for one that no section has.
    """
    section, _, name = key.partition(".")
    if section == "recipe" and name:  # its keys are its own
        return section, name
    known = [f"{section}.{f.name}" for section, kind in SECTIONS.items() for f in fields(kind)]
    bare = {k.partition(".")[2]: k for k in known}
    same_name = [k for k in known if k.endswith("." + key.rpartition(".")[2])]
    found = [k for k in same_name if k == key or "." not in key]
    if len(found) > 1:
        choice = " or ".join(found)
        raise ValueError(f"{where}: {key!r} is a key of several sections; write {choice}")
    if not found:
        near = same_name or get_close_matches(key, known) or get_close_matches(key, bare)
        advice = f"did you mean {bare.get(near[0], near[0])}?" if near else f"there are {known}"
        raise ValueError(f"{where}: unknown key {reprlib.repr(key)}; {advice}")
    section, _, name = found[0].partition(".")
    return section, name


def parse(text: str) -> Any:
    """A TOML value; a bare word, and whatever else is not one value, is taken as a string."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, thousands of digits, nested without end
        return text
    return found["value"] if len(found) == 1 else text
