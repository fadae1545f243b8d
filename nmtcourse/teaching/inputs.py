"""What a function of a notebook depends on, as text: its code, and every value that it reads.

Two runs of a page have the same text where the same experiment runs, on any machine: no text has
an address or the order of a set, or depends on the order in which a page defined its names.  What
no text can stand for, such as a model that was trained on the page, is named as unknown: its
weights differ between processors.

    from nmtcourse.teaching.inputs import read_inputs

    WORDS = 24
    def learn(seed): return seed * WORDS

    read_inputs(learn).data  # {"WORDS": "24"}
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import sys
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from textwrap import dedent
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmtlib.data.codec import Vocab
from nmtlib.inference.translator import Translator
from nmtlib.run import SHIPPED, Run
from nmtlib.training.checkpoint import describe_run

OURS = ("nmtlib", "nmtcheck", "nmtcourse")  # their modules hold data that a page could change
ATOMS = {type(None), bool, int, float, complex, str, bytes}  # `repr` says all about them
NAMED = (torch.dtype, torch.device, torch.Size, range, slice)  # and about these
LONGEST = 300  # characters of a text; a longer one is replaced by its digest
MANY = 20  # a longer list is read column by column, which is a hundred times as fast
CACHED = type(functools.cache(lambda: None))
# What every class has, or what only repeats its fields, which are read by themselves.
BOOKKEEPING = set(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __parameters__ "
    "__orig_bases__ __match_args__ __firstlineno__ __static_attributes__ __annotate_func__ "
    "__annotations_cache__ __dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl "
    "__slots__".split()
)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a function depends on.

    `code` has the texts of the functions of its page by their names, `data` a text for each value
    that they read, `unknown` the kind of each value that no text can stand for, and `caches` the
    functions among them that remember results.
    """

    code: dict[str, str]
    data: dict[str, str]
    unknown: dict[str, str]
    caches: dict[str, Any]


class UnknownKind(TypeError):
    """A value that no text can stand for; its message is the kind."""


def read_inputs(function: Any) -> Inputs:
    """The code of a function and of all functions of its page that it needs, and their data.

    A page is the notebook or module that the function was defined in.  Functions, classes and
    modules of installed packages are data, known by their names alone; those of ours in whose
    place a page or a planted bug put others are data, too.
    """
    page = getattr(undecorated(function), "__globals__", {"__name__": ""})
    reader = InputReader(page)
    reader.identify_as(getattr(function, "__qualname__", "function"), function)
    for name, replaced in replaced_functions(page):
        reader.data[f"{name}, replaced"] = text_of(replaced) or "by what has no text"
    return Inputs(reader.code, reader.data, reader.unknown, reader.caches)


def identify(value: Any) -> str:
    """A text for a value that belongs to no page: the same for the same value, on any machine.

    Raises UnknownKind where there is none.

    >>> identify({"b": (1, 2.5), "a": None})
    "{'b': (1, 2.5), 'a': None}"
    """
    return InputReader({"__name__": ""}).identify(value)


def undecorated(function: Any) -> Any:
    """A function without `functools.cache` and what other packages wrapped around it.

    The decorators are lines of its text, so they are not lost.
    """
    while isinstance(function, CACHED) or "__wrapped__" in getattr(function, "__dict__", {}):
        wrapped = function.__wrapped__
        if getattr(function, "__globals__", None) is getattr(wrapped, "__globals__", 0):
            break  # a wrapper that the page defines is code of the page
        function = wrapped
    return function


class InputReader:
    """Read a page from one of its functions on, each function once."""

    def __init__(self, page: dict[str, Any]):
        self.page = page
        self.code: dict[str, str] = {}
        self.data: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self.caches: dict[str, Any] = {}
        self.names: dict[int, str] = {}  # of the functions and classes that were read, by id

    def identify_as(self, name: str, value: Any) -> None:
        """Note the text of a value, or that it is of an unknown kind, under a name."""
        try:
            text = self.identify(value)
        except UnknownKind as error:
            self.unknown[name] = str(error)
        except RecursionError:
            self.unknown[name] = "which contains itself"
        else:
            if text != f"function {name}":  # its code says so
                self.data[name] = text

    def identify(self, value: Any) -> str:
        """A text for a value.  Raises UnknownKind where there is none."""
        text = self._describe(value)
        if len(text) <= LONGEST:
            return text
        return f"{len(text):,} characters, sha256 {digest(text.encode('utf-8', 'surrogatepass'))}"

    def _describe(self, value: Any) -> str:
        kind = type(value)
        if kind in ATOMS or isinstance(value, NAMED):
            return repr(value)
        if isinstance(value, enum.Enum):
            return f"{self.identify(kind)}.{value.name}"
        if kind in (list, tuple) or _is_named_tuple(kind):
            return self._describe_sequence(value)
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted(map(self.identify, value)))})"
        if kind in (dict, OrderedDict, Counter, defaultdict, types.MappingProxyType):
            return self._describe_mapping(value)
        if kind in (Tensor, nn.Parameter) or isinstance(value, np.ndarray | np.generic):
            return _describe_array(value)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, functools.partial):
            return f"partial {self.identify((value.func, value.args, value.keywords))}"
        if isinstance(value, types.MethodType):
            return f"method {self.identify((value.__func__, value.__self__))}"
        if isinstance(value, property):
            return f"property {self.identify((value.fget, value.fset, value.fdel))}"
        if isinstance(value, staticmethod | classmethod):
            return f"{kind.__name__} {self.identify(value.__func__)}"
        if isinstance(value, type):
            return self._describe_class(value)
        if callable(value) and hasattr(value, "__qualname__"):
            return self._describe_function(value)
        return self._describe_object(value)

    # Collections

    def _describe_sequence(self, values: Sequence[Any]) -> str:
        """Items one after the other; of many items of one kind, the first parts, the second, ..."""
        kind, kinds = type(values), set(map(type, values))
        name = "" if kind in (list, tuple) else kind.__name__
        if kinds <= ATOMS:
            items = repr([*values])[1:-1]
        elif len(values) <= MANY or len(kinds) > 1:
            items = ", ".join(map(self.identify, values))
        else:
            items = self._describe_columns(values)
        return f"[{items}]" if kind is list else f"{name}({items})"

    def _describe_columns(self, values: Sequence[Any]) -> str:
        """Many items of one kind."""
        item = type(values[0])
        if item in (list, tuple) or _is_named_tuple(item):
            lengths, flat = list(map(len, values)), list(chain.from_iterable(values))
            return f"{item.__name__} of lengths {self.identify(lengths)}: {self.identify(flat)}"
        if dataclasses.is_dataclass(item) and not hasattr(values[0], "__dict__"):
            columns = []
            for field in dataclasses.fields(item):
                column = self.identify(list(map(attrgetter(field.name), values)))
                columns.append(f"{field.name}={column}")
            return f"{self.identify(item)} of {', '.join(columns)}"
        return ", ".join(map(self.identify, values))

    def _describe_mapping(self, values: Mapping[Any, Any]) -> str:
        """Keys and values in their order, which a loop over them follows."""
        kind = type(values)
        items = ", ".join(f"{self.identify(k)}: {self.identify(v)}" for k, v in values.items())
        factory = ""
        if isinstance(values, defaultdict):
            factory = f" of {self.identify(values.default_factory)}"
        return f"{'' if kind is dict else kind.__name__}{factory}{{{items}}}"

    # Objects

    def _describe_object(self, value: Any) -> str:
        """Objects of few kinds: those that a page reads and whose state is all in their fields."""
        if isinstance(value, Translator):
            return _describe_translator(value)
        if type(value) is Vocab:
            return f"Vocab{self.identify(value.tokens)}"
        if not dataclasses.is_dataclass(value):
            raise UnknownKind(kind_of(value))
        fields = {field.name: field for field in dataclasses.fields(value)}
        for name in sorted(getattr(value, "__dict__", {}).keys() - fields.keys()):
            if not isinstance(getattr(type(value), name, None), functools.cached_property):
                raise UnknownKind(f"{kind_of(value)} with an attribute {name!r} that is no field")
        parts = []
        for name, field in fields.items():
            if not field.compare:  # two values that differ in it alone are equal
                continue
            text = self.identify(getattr(value, name))
            if text != self._default(field):  # a field that is added later changes no text
                parts.append(f"{name}={text}")
        return f"{self.identify(type(value))}({', '.join(parts)})"

    def _default(self, field: dataclasses.Field) -> str | None:
        """The text of a field's default; None where it has no default."""
        if field.default is not dataclasses.MISSING:
            return self.identify(field.default)
        if field.default_factory is not dataclasses.MISSING:
            return self.identify(field.default_factory())
        return None

    # Functions and classes

    def _describe_function(self, function: Any) -> str:
        plain = undecorated(function)
        if not isinstance(plain, types.FunctionType) or plain.__globals__ is not self.page:
            return f"function {_installed_name(function)}"
        name = self._name(plain)
        if isinstance(function, CACHED):
            self.caches[name] = function
        return f"function {name}"

    def _describe_class(self, kind: type) -> str:
        if kind.__module__ != self.page["__name__"]:
            return f"class {_installed_name(kind)}"
        return f"class {self._name(kind)}"

    def _name(self, definition: Any) -> str:
        """The name of a function or class of the page, which is read if it was not yet."""
        if id(definition) not in self.names:
            name, number = definition.__qualname__, 1
            while name in self.names.values():  # two functions of one name
                number += 1
                name = f"{definition.__qualname__} {number}"
            self.names[id(definition)] = name
            if isinstance(definition, type):
                self._read_class(name, definition)
            else:
                self._read_function(name, definition)
        return self.names[id(definition)]

    def _read_function(self, name: str, function: types.FunctionType) -> None:
        """Its text, what it reads of the page, and what it was given when it was defined."""
        text = text_of(function)
        if text is None:
            self.unknown[name] = "a function whose text is not known"
            return
        self.code[name] = text
        for global_name in sorted({*globals_read(function.__code__), *decorators(text)}):
            if global_name in self.page:
                self.identify_as(global_name, self.page[global_name])
                self._read_attributes(global_name, function.__code__)
        defaults = (function.__defaults__ or (), function.__kwdefaults__ or {})
        if any(defaults):
            self.identify_as(f"{name}, defaults", defaults)
        for variable, value in variables_around(function):
            self.identify_as(f"{name}, {variable}", value)
        if attributes := {n: a for n, a in vars(function).items() if n != "__wrapped__"}:
            self.identify_as(f"{name}, attributes", attributes)

    def _read_attributes(self, name: str, code: types.CodeType) -> None:
        """What a function reads of a module of ours, such as `learning.SIZES`."""
        module = self.page[name]
        if not isinstance(module, types.ModuleType) or module.__name__.split(".")[0] not in OURS:
            return
        for path in sorted(attributes_read(code, name)):
            value, full_name = module, name
            for attribute in path:
                if not isinstance(value, types.ModuleType) or not hasattr(value, attribute):
                    break
                value, full_name = getattr(value, attribute), f"{full_name}.{attribute}"
            if full_name != name:
                self.identify_as(full_name, value)

    def _read_class(self, name: str, kind: type) -> None:
        """Its bases, its methods, and its other attributes."""
        self.identify_as(f"{name}, bases", kind.__bases__)
        for attribute, value in sorted(vars(kind).items()):
            if attribute not in BOOKKEEPING and not _is_generated(value):
                self.identify_as(f"{name}.{attribute}", value)
        if dataclasses.is_dataclass(kind):
            for field in dataclasses.fields(kind):
                options = (str(field.type), self._default(field), field.init, field.compare)
                self.identify_as(f"{name}.{field.name}, field", options)


def text_of(function: types.FunctionType) -> str | None:
    """The text of a function by itself; None where it is not known, or is half a statement."""
    try:
        text = dedent(inspect.getsource(function.__code__)).strip()
        ast.parse(text)
    except (OSError, SyntaxError, TypeError):
        return None
    return text


def replaced_functions(page: dict[str, Any]) -> Iterator[tuple[str, types.FunctionType]]:
    """Functions and methods of our packages whose code is that of a page, or not from a file."""
    for module_name, module in sorted(sys.modules.items()):
        if module_name.split(".")[0] not in OURS:
            continue
        owners = [(module_name, module)]
        for name, value in sorted(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module_name:
                owners.append((f"{module_name}.{name}", value))
        for owner_name, owner in owners:
            for name, value in sorted(vars(owner).items()):
                function = function_in(value)
                if function is not None and is_replaced(function, page):
                    yield f"{owner_name}.{name}", function


def function_in(value: Any) -> types.FunctionType | None:
    """The function behind a method or property, or a decorated one; None for all else."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, types.FunctionType | CACHED):
        value = undecorated(value)
    return value if isinstance(value, types.FunctionType) else None


def is_replaced(function: types.FunctionType, page: dict[str, Any]) -> bool:
    """Whether a function of one of our packages was put there by a page, or is a planted bug."""
    if function.__globals__ is page:
        return page["__name__"].split(".")[0] not in OURS
    file = function.__code__.co_filename
    ours = function.__module__.split(".")[0] in OURS
    return ours and file.startswith("<") and file != "<string>"  # where a dataclass writes methods


def variables_around(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function reads of the function that it was defined in."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        if name == "__class__":  # of a method that calls super()
            continue
        try:
            value = cell.cell_contents
        except ValueError:  # not yet filled
            continue
        yield name, value


def globals_read(code: types.CodeType) -> Iterator[str]:
    """The names that a function, and the functions inside it, look up outside of themselves."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from globals_read(constant)


def attributes_read(code: types.CodeType, name: str) -> set[tuple[str, ...]]:
    """The attributes of a global that are read: `learning.SIZES` gives ("SIZES",)."""
    paths: set[tuple[str, ...]] = set()
    path: tuple[str, ...] | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL" and instruction.argval == name:
            path = ()
        elif path is not None and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path = (*path, instruction.argval)
            paths.add(path)
        elif instruction.opname != "CACHE":
            path = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            paths |= attributes_read(constant, name)
    longer = {path[:-1] for path in paths}
    return paths - longer


def decorators(text: str) -> Iterator[str]:
    """The names in the decorators of a function."""
    for node in ast.parse(text).body:
        for decorator in getattr(node, "decorator_list", ()):
            yield from (name.id for name in ast.walk(decorator) if isinstance(name, ast.Name))


def kind_of(value: Any) -> str:
    """What a value is, in words that end a sentence "it reads ..., which is ..."."""
    if isinstance(value, nn.Module):
        return f"a model ({type(value).__name__}), whose weights differ between processors"
    return f"of type {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def digest(data: bytes) -> str:
    """A short SHA-256: 64 bits."""
    return hashlib.sha256(data).hexdigest()[:16]


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_generated(value: Any) -> bool:
    """Whether a method has no text because a dataclass made it of its fields."""
    if not isinstance(value, types.FunctionType):
        return False
    return inspect.unwrap(value).__code__.co_filename == "<string>"


def _describe_array(value: Any) -> str:
    """Kind, shape and a digest of the numbers of a tensor or array."""
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise UnknownKind("a tensor that is trained")
        try:
            numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        except RuntimeError as error:
            raise UnknownKind(f"a tensor of layout {value.layout}") from error
        return f"tensor {value.dtype} {[*value.shape]} {digest(numbers.tobytes())}"
    array = np.ascontiguousarray(value)
    if array.dtype.hasobject:
        raise UnknownKind("an array of objects")
    return f"array {array.dtype} {[*np.shape(value)]} {digest(array.tobytes())}"


def _describe_translator(translator: Translator) -> str:
    """A translator that comes with the package, whole and as it was; others were trained."""
    for folder in sorted(path.parent for path in SHIPPED.glob("*/settings.json")):
        about = describe_run(Run(folder))
        if (about.source, about.target) == (translator.source, translator.target):
            shipped, weights = _shipped(folder.name)
            if translator.settings == shipped and weights_digest(translator.model) == weights:
                return f"translator {folder.name}, weights {weights}"
    raise UnknownKind("a translator whose model was trained here")


@functools.cache
def _shipped(name: str) -> tuple[Any, str]:
    """The settings of a translator that comes with the package, and a digest of its weights."""
    translator = Translator.load(SHIPPED / name, device="cpu")
    return translator.settings, weights_digest(translator.model)


def weights_digest(model: nn.Module) -> str:
    """A digest of all numbers of a model, buffers included."""
    return digest("".join(_describe_array(t) for t in model.state_dict().values()).encode())


def _installed_name(definition: Any) -> str:
    """The package and the name of a function or class that is found there.

    The module inside the package does not count: what moves between modules is the same.  Raises
    UnknownKind for what is not found by its name, or only on a page.
    """
    owner = getattr(definition, "__self__", None)
    if isinstance(definition, types.BuiltinFunctionType) and (
        owner is None or isinstance(owner, types.ModuleType | type)
    ):
        return f"{getattr(owner, '__name__', 'built-in')}.{definition.__qualname__}"
    value: Any = sys.modules.get(definition.__module__ or "")
    for part in definition.__qualname__.split("."):
        value = getattr(value, part, None)
    value = getattr(value, "__func__", value)  # of a class method
    if value is not definition or definition.__module__ == "__main__":
        raise UnknownKind(f"{definition.__qualname__}, which {definition.__module__} does not have")
    return f"{definition.__module__.split('.')[0]}.{definition.__qualname__}"
