"""Guards while an answer runs: a time limit, no output, and what it may not change or call."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from nmtcourse.homework.compare import Finding


class Stopped(BaseException):
    """The answer has used up its time; a student's `except Exception` does not catch it."""


class Without(TorchFunctionMode):
    """While this mode is active, some functions of torch raise Finding."""

    def __init__(self, forbidden: tuple[str, ...]):
        super().__init__()
        self.forbidden = forbidden

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(called, "__name__", "").lstrip("_").removeprefix("special_")
        if name in self.forbidden:
            cause = "Write it with simpler operations; the task says which are allowed."
            raise Finding(f"torch's `{name}` was called", "an answer without it", cause)
        return called(*args, **(kwargs or {}))


@contextlib.contextmanager
def sealing(modules: tuple[str, ...]) -> Iterator[None]:
    """Raise Finding if a function of these modules, or of their submodules, is called."""
    inside = tuple(f"{module}." for module in modules)

    def look(frame: FrameType, event: str, arg: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and f"{module}.".startswith(inside) and not importing(frame):
            cause = "Write it yourself; the task says what is allowed."
            called = f"`{frame.f_code.co_name}` of {module.partition('.')[0]} was called"
            raise Finding(called, "an answer without it", cause)

    if not modules:
        yield
        return
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def importing(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module is being imported."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def unchanged(**given: Any) -> Iterator[None]:
    """Raise Finding if what a caller can see of these values is different afterwards."""
    before = {name: kept(value) for name, value in given.items()}
    yield
    for name, value in given.items():
        if not alike(before[name], kept(value)):
            cause = (
                "Operations such as `x -= 1`, `sort()` or `update` change what the caller holds."
            )
            raise Finding(f"`{name}` was changed", "unchanged inputs", cause)


@contextlib.contextmanager
def lending() -> Iterator[Callable[[Any], Any]]:
    """Lend functions out. Raise Finding if something that one of them returned was changed."""
    brought: list[tuple[Any, Any]] = []

    def lent(value: Any) -> Any:
        if isinstance(value, torch.nn.Module | type) or not callable(value):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if isinstance(result, torch.Tensor | list | dict | set | tuple):
                brought.append((result, kept(result)))
            return result

        return called

    yield lent
    if not all(alike(before, kept(result)) for result, before in brought):
        cause = "A result belongs to the function that returned it: work on a copy."
        raise Finding("what a given function returned was changed", "unchanged results", cause)


@contextlib.contextmanager
def unmoved(model: torch.nn.Module) -> Iterator[None]:
    """Raise Finding if a part of the model is in another mode afterwards, or trains otherwise."""

    def standing() -> list[tuple[str, bool]]:
        modes = [(name or "the model", part.training) for name, part in model.named_modules()]
        return modes + [(name, each.requires_grad) for name, each in model.named_parameters()]

    before, parts = standing(), len([*model.modules()])
    yield
    for place, ((name, was), (_, now)) in enumerate(zip(before, standing(), strict=False)):
        if was != now and place < parts:
            cause = "`train()` and `eval()` change a model that belongs to the caller."
            raise Finding(f"{name} is in training mode: {now}", f"{was}", cause)
        if was != now:
            raise Finding(f"{name} requires a gradient: {now}", f"{was}")


@contextlib.contextmanager
def replaced(path: str, value: Any) -> Iterator[None]:
    """While this lasts, a function such as "torch:save" is a different one."""
    module, _, name = path.partition(":")
    here = import_module(module)
    original = getattr(here, name)
    setattr(here, name, value)
    try:
        yield
    finally:
        setattr(here, name, original)


def settings() -> dict[str, Any]:
    """Settings of the process that a function has to leave as they are."""
    return {
        "torch's default type": torch.get_default_dtype(),
        "whether gradients are computed": torch.is_grad_enabled(),
        "the number of torch's threads": torch.get_num_threads(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "the recursion limit": sys.getrecursionlimit(),
    }


def chances() -> tuple:
    """The states of the global random generators."""
    numbers = np.random.get_state(legacy=False)
    return torch.get_rng_state(), random.getstate(), repr(numbers)


def kept(value: Any) -> Any:
    """A copy of what a caller can see of a value."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(), value.requires_grad
    if isinstance(value, dict):
        return [(key, kept(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [kept(each) for each in value]
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, torch.nn.Module):
        modes = [(module.training, len(module._forward_hooks)) for module in value.modules()]
        named = [*value.named_parameters(), *value.named_buffers()]
        return modes, [(name, kept(tensor)) for name, tensor in named]
    return value


def alike(one: Any, other: Any) -> bool:
    """Whether two copies show the same, bit by bit."""
    if isinstance(one, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return one is other or bool(one == other)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Stopped after some seconds of processor time, however busy the machine is.

    It needs a system with such a clock, and the main thread.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGPROF, stop)
    timer = signal.setitimer(signal.ITIMER_PROF, seconds, min(1.0, seconds / 4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """One thread, no output, no warnings, nothing on file descriptor 2; everything is restored.

    Gradients are on, and the default device is the CPU, even if a notebook has chosen otherwise. A
    grader that treats a warning as a failure must not see one.
    """
    state, threads, dtype = (
        torch.get_rng_state(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
    )
    torch.set_num_threads(1)
    with contextlib.suppress(AttributeError, ValueError):  # no stderr, or a closed one
        sys.stderr.flush()
    try:
        with warnings.catch_warnings(), silent(2), torch.device("cpu"), torch.enable_grad():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()):
                with contextlib.redirect_stderr(io.StringIO()):
                    yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_rng_state(state)


@contextlib.contextmanager
def silent(descriptor: int) -> Iterator[None]:
    """Nothing that is written to a file descriptor is shown; one that is closed stays so."""
    try:
        original = os.dup(descriptor)
    except OSError:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
        os.close(nowhere)
