"""Arguments of public functions are checked at the door, with the words that settings have."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from nmtlib.settings import explain

Function = TypeVar("Function", bound=Callable[..., Any])


def instance(what: str, *types: Any) -> Any:
    """The kind of an argument that is of one of some types, `what` says of which."""

    def require(value: Any) -> Any:
        if not isinstance(value, types) or value == "":
            raise ValueError(f"should be {what}, not {reprlib.repr(value)}")
        return value

    return Annotated[Any, AfterValidator(require)]


def _ids(ids: Any) -> Any:
    import torch  # whoever searches has imported it; the command line must be quick

    expected = "should be a tensor of ids (sentences, tokens) of torch.int64"
    if not isinstance(ids, torch.Tensor):
        raise ValueError(f"{expected}, not {reprlib.repr(ids)}")
    if ids.dim() != 2 or ids.dtype != torch.int64:
        raise ValueError(f"{expected}, not {tuple(ids.shape)} of {ids.dtype}")
    return ids


PathLike = instance("the name of a file or folder, as str or Path", str, Path)
Beam = Annotated[int, Field(ge=1, le=1000)]
Ids = Annotated[Any, AfterValidator(_ids)]


def checked(**kinds: Any) -> Callable[[Function], Function]:
    """A decorator: arguments of these names are of these types and in these ranges.

    A float may be given as an int, nothing else is converted.  Raises ValueError in one line.

    >>> @checked(beam=Beam)
    ... def search(beam=5):
    ...     return beam
    >>> try: search(beam=0)
    ... except ValueError as error: print(error)
    beam should be greater than or equal to 1, not 0
    """
    config = ConfigDict(strict=True)
    adapters = {name: TypeAdapter(kind, config=config) for name, kind in kinds.items()}

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            given = signature.bind(*arguments, **options).arguments
            for name, adapter in adapters.items():
                if name in given:
                    require_valid(name, adapter, given[name])
            return function(*arguments, **options)

        return run  # type: ignore[return-value]

    return decorate


def require_valid(name: str, adapter: TypeAdapter, value: Any) -> None:
    """Raise ValueError, which begins with the name, for a value that an adapter refuses."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{name} {explain(error).strip(' .')}") from None
