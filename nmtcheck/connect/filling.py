"""Fill the arguments of a model's class by their names."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import itertools
import re
import tomllib
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin

import torch

from nmtcheck.adapter import Sizes
from nmtcheck.connect.standins import Vocabulary

NAMES = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
CONFIGURATION = "configuration"


def meaning(name: str) -> str:
    """The size or id that an argument of this name means, 'configuration', or '' if unknown."""
    plain = name.lower().replace("_", "")
    for long, short in NAMES["short"].items():
        plain = re.sub(long, short, plain)
    if re.fullmatch(NAMES["configurations"]["names"], plain):
        return CONFIGURATION
    fields = NAMES["fields"].items()
    return next((field for field, names in fields if re.fullmatch(names, plain)), "")


def fillable(factory: Callable[..., Any]) -> dict[str, str]:
    """The arguments of a factory whose meaning is known: argument -> size or id."""
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = {p.name: meaning(p.name) for p in parameters(factory) if p.kind in kinds}
    return {name: field for name, field in named.items() if field}


def parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a callable; none for one without a signature, from C."""
    try:
        return list(inspect.signature(factory).parameters.values())
    except ValueError:
        return []


class Id(int):
    """An id, and a method that returns it."""

    def __call__(self) -> int:
        return int(self)


class Words(Vocabulary, int):
    """The size of a vocabulary and the vocabulary itself: factories take one or the other.

    It answers with an id what is called `pad`, `pad_id`, `eos_index` or the like.
    """

    vocab = property(lambda self: self)

    def __new__(cls, size: int, **ids: int) -> Words:
        return int.__new__(cls, size)

    def __init__(self, size: int, **ids: int):
        super().__init__(size, **ids)
        self.ids = ids

    def __getattr__(self, name: str) -> Id:
        if not name.startswith("_") and (field := meaning(name)) in vars(self).get("ids", {}):
            return Id(self.ids[field])
        raise AttributeError(f"a vocabulary of the checks has no {name!r}")


def special_constants(names: dict[str, Any]) -> dict[str, int]:
    """The ids of PAD, BOS and EOS that a file names, such as PAD_IDX = 1; none if two disagree."""
    found: dict[str, set[int]] = {}
    for name, value in names.items():
        field = meaning(name)
        if field in ("pad", "bos", "eos") and type(value) is int and name.upper() == name:
            found.setdefault(field, set()).add(value)
    if any(len(values) > 1 for values in found.values()) or "pad" not in found:
        return {}
    ids = {field: values.pop() for field, values in found.items()}
    all_differ = len({*ids.values()}) == len(ids)
    return ids if all_differ else {}


def values_of(sizes: Sizes, ids: dict[str, int]) -> dict[str, Any]:
    """Field -> value for models of these sizes."""
    values: dict[str, Any] = {**vars(sizes)}
    values |= {k: v for k, v in ids.items() if k in NAMES["fields"]}
    known = {name: ids[name] for name in ("pad", "bos", "eos") if name in ids}
    unknown = next(i for i in (3, 0, 1, 2) if i not in known.values())
    for side in ("source_vocab_size", "target_vocab_size"):
        values[side] = Words(values[side], **known, unk=unknown)
    values["both_vocab_size"] = values["target_vocab_size"]
    values["device"] = torch.device("cpu")
    return values | {"d_head": sizes.d_model // sizes.n_heads}


class Configuration(dict):
    """An object or table that answers with the size its name asks for, in sections or not."""

    def __init__(self, values: dict[str, Any], name: str):
        super().__init__()
        self.__dict__.update(_values=values, _name=name)

    def __missing__(self, key: str) -> Any:
        if re.fullmatch(NAMES["configurations"]["sections"], str(key).lower().replace("_", "")):
            return self
        if (field := meaning(str(key))) in self._values:
            return self._values[field]
        if re.fullmatch("(use|with|is)?_?(bias|tie|tied|norm_first|pre_?norm|share).*", str(key)):
            return False
        raise AttributeError(f"{self._name}.{key} is asked for, and no value is known for it")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or meaning(str(key)) in self._values

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default


def fill_configuration(given: Any, values: dict[str, Any]) -> Any:
    """A configuration of the reader's own, with our sizes in the place of its own."""
    if isinstance(given, type):  # a class whose attributes are the sizes
        made: Any = type(given.__name__, (given,), {})
        table = {name: own for name, own in vars(given).items() if name[0] != "_"}
    else:
        made = copy.deepcopy(given)
        table = dict(made if isinstance(made, dict) else vars(made))
    for name, own in table.items():
        field = meaning(name)
        if isinstance(own, dict) or dataclasses.is_dataclass(own):
            value = fill_configuration(own, values)
        elif field in values and isinstance(own, int | float | str | torch.device | None):
            value = type(own)(values[field]) if isinstance(own, int | float) else values[field]
        else:
            continue
        if isinstance(made, dict):
            made[name] = value
        elif isinstance(made, type):
            setattr(made, name, value)
        else:
            object.__setattr__(made, name, value)
    return made


KINDS = {bool: False, float: "dropout", str: "relu", "bool": False, "float": "dropout"}
TRIED = (None, False, 2, 0.1, "relu")  # for an argument of which nothing is known
PART = "a part"  # the meaning of an argument that is a module of the same file


UNKNOWN = object()


def value_of_type(annotation: Any, names: dict[str, Any]) -> Any:
    """A value of an annotated type, or `UNKNOWN`: the first of a Literal or an Enum.

    `names` are those of the file, in which an annotation that is a text is looked up.
    """
    if isinstance(annotation, str):
        if annotation in KINDS:
            return KINDS[annotation]
        try:
            annotation = eval(annotation, dict(names))
        except Exception:  # it may name what is imported for types alone
            return UNKNOWN
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(iter(annotation))
    if type(None) in get_args(annotation):
        return None
    try:
        return KINDS.get(annotation, UNKNOWN)
    except TypeError:  # an annotation that cannot be a key
        return UNKNOWN


def part_of(parameter: inspect.Parameter, names: dict[str, Any]) -> type | None:
    """The class of a module that an argument is, told by its type or by its name."""
    kind = names.get(str(parameter.annotation), parameter.annotation)
    if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module):
        plain = parameter.name.lower().replace("_", "")
        same = [c for n, c in names.items() if n.lower() == plain and isinstance(c, type)]
        kind = same[0] if same else None
    fits = kind is not None and issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module
    return kind if fits else None


def guess_meanings(
    factory: Callable[..., Any], names: dict[str, Any], depth: int = 0
) -> dict[str, str]:
    """The arguments of a factory for which a value is known: argument -> its meaning.

    The meaning is told by the name; of an argument without a default also by its type, or by a
    class of the same file, all of whose arguments are known, too.
    """
    meant = fillable(factory)
    for p in parameters(factory):
        several = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if p.name in meant or p.default is not p.empty or several:
            continue
        part = part_of(p, names)
        if part is not None and depth < 4:
            inner = guess_meanings(part, names, depth + 1)
            needed = {q.name for q in parameters(part) if q.default is q.empty}
            meant |= {p.name: PART} if needed <= inner.keys() else {}
        elif value_of_type(p.annotation, names) is not UNKNOWN:
            meant[p.name] = "by its type"
    return meant


def values_by_trying(
    factory: Callable[..., Any], unknown: list[str], ids: dict[str, int], names: dict[str, Any]
) -> dict[str, Any] | None:
    """Values of arguments that no name or type tells, with which a model can be made.

    None where there are more than three of them, or no value does.
    """
    if len(unknown) > 3:
        return None
    for values in itertools.product(TRIED, repeat=len(unknown)):
        tried = dict(zip(unknown, values, strict=True))
        with contextlib.suppress(Exception):  # it is somebody else's code
            if isinstance(fill_arguments(factory, ids, names, tried)(Sizes()), torch.nn.Module):
                return tried
    return None


def fill_arguments(
    factory: Callable[..., Any],
    ids: dict[str, int],
    names: dict[str, Any],
    tried: dict[str, Any] | None = None,
) -> Callable[[Sizes], Any]:
    """A factory of sizes that fills the arguments of the given one; `names` are its file's.

    `tried` are the values of arguments that no name or type tells.
    """
    meant = guess_meanings(factory, names)
    own = {p.name: p for p in parameters(factory)}

    def value(name: str, field: str, values: dict[str, Any], sizes: Sizes) -> Any:
        if field == PART:
            return fill_arguments(part_of(own[name], names), ids, names)(sizes)
        if field == "by its type":
            guess = value_of_type(own[name].annotation, names)
            return values.get(guess, guess) if isinstance(guess, str) else guess
        if field == "both_vocab_size" or field.endswith("vocab_size"):
            encoder = getattr(factory, "__name__", "").lower().startswith("enc")
            return values["source_vocab_size" if encoder and field[0] == "b" else field]
        if field != CONFIGURATION:
            return values[field]
        default, kind = own[name].default, own[name].annotation
        if default is not inspect.Parameter.empty:
            plain = default is None or isinstance(default, int | str)
            return default if plain else fill_configuration(default, values)
        kind = kind if isinstance(kind, type) else inspect.Parameter.empty
        if kind in (dict, inspect.Parameter.empty):
            kind = configuration_of(factory, names) or kind
        if kind not in (dict, inspect.Parameter.empty):
            needed = {p.name for p in parameters(kind) if p.default is p.empty}
            known = {n: values[f] for n, f in fillable(kind).items() if f in values}
            if needed <= known.keys():
                return kind(**known)
        return Configuration(values, name)

    def make(sizes: Sizes) -> Any:
        values = values_of(sizes, ids)
        known = {n: value(n, field, values, sizes) for n, field in meant.items()}
        return factory(**known, **(tried or {}))

    return make


def configuration_of(factory: Callable[..., Any], names: dict[str, Any]) -> type | None:
    """The only dataclass of the reader's file that is a configuration with names that it reads."""
    code = getattr(factory.__init__ if isinstance(factory, type) else factory, "__code__", None)
    read = {*code.co_names} if code else set[str]()
    found = {
        id(kind): kind
        for name, kind in names.items()
        if isinstance(kind, type)
        and dataclasses.is_dataclass(kind)
        and re.search("conf|cfg|arg|param|setting", name.lower())
        if read & {field.name for field in dataclasses.fields(kind)}
    }
    return next(iter(found.values())) if len(found) == 1 else None


def follows_sizes(factory: Callable[..., Any], make: Callable[[Sizes], Any]) -> bool:
    """Whether a filled factory makes models of the vocabulary and with the dropout asked for."""
    try:
        model = make(Sizes(target_vocab_size=29, dropout=0.3))
        shapes = {size for parameter in model.parameters() for size in parameter.shape}
        rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    except Exception:  # the first call of the factory tells what is wrong
        return False
    return 29 in shapes and ("dropout" in fillable(factory).values() or 0.3 in rates)


def on_the_cpu(names: dict[str, Any]) -> None:
    """Put the names of a GPU that is not there, such as `DEVICE = "cuda"`, back to the CPU."""
    for name, value in list(names.items() if not torch.cuda.is_available() else ()):
        if isinstance(value, str | torch.device) and re.fullmatch(r"cuda(:\d+)?", str(value)):
            names[name] = type(value)("cpu")
        elif isinstance(value, dict) and not name.startswith("__"):
            on_the_cpu(value)
        elif isinstance(value, SimpleNamespace) or hasattr(type(value), "__dataclass_fields__"):
            on_the_cpu(vars(value))
