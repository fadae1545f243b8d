"""Guards while an answer runs: a time limit, no output, and what it may not change or call."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from nmtcourse.homework.task import Finding


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
        name = getattr(called, "__name__", "")
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

    before = sys.getprofile()
    if modules:
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


class Careful:
    """A student's function that may not change its tensors or call what is forbidden."""

    def __init__(
        self, function: Callable, forbidden: tuple[str, ...] = (), sealed: tuple[str, ...] = ()
    ):
        self.function, self.mode, self.sealed = function, Without(forbidden), sealed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = named_tensors(self.function, args, kwargs)
        before = [tensor.detach().clone() for tensor in tensors.values()]
        with self.mode if self.mode.forbidden else contextlib.nullcontext(), sealing(self.sealed):
            result = self.function(*args, **kwargs)
        for old, (name, new) in zip(before, tensors.items(), strict=True):
            if not torch.equal(old, new.detach()) and not old.isnan().any():
                raise Finding(
                    f"`{name}` was changed in place",
                    "unchanged inputs",
                    "An in-place operation, such as `x -= 1` or `masked_fill_`, changes the "
                    "caller's tensor: write `x = x - 1`.",
                )
        return result


def named_tensors(function: Callable, args: tuple, kwargs: dict) -> dict[str, torch.Tensor]:
    """The tensors given to a function, also those in lists and dictionaries, by name."""
    names = [f"argument {n}" for n in range(len(args))]
    with contextlib.suppress(TypeError, ValueError):  # functions written in C may have no signature
        names = [*inspect.signature(function).parameters, *names]
    found: dict[str, Any] = {}
    for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict):
            found |= {f"{name}[{key!r}]": each for key, each in inner.items()}
        found[name] = value
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Stopped after some seconds, if the system has an alarm clock for this thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """One thread, no output, no warnings, nothing on file descriptor 2; everything is restored.

    Gradients are on even if a notebook has switched them off. A grader that treats a warning as a
    failure must not see one.
    """
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as nowhere, warnings.catch_warnings():
            os.dup2(nowhere.fileno(), 2)
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()):
                with contextlib.redirect_stderr(io.StringIO()), torch.enable_grad():
                    yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
