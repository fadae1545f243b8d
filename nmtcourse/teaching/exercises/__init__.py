"""The judge of the exercises at the end of a notebook.

    from nmtcourse.teaching import judge
    judge("01.1", share_of_unknown)      # the function itself, not a number that it gave

The judge calls the student's function on inputs that it draws, and compares what comes back with
what it works out itself.  It prints one line if all agree, and raises `Wrong` otherwise: what it
gave, what it expected, what came back.  After a try, `solution("01.1")` prints a right answer.

The judge of exercise K of notebook NN is the function `judge_K` in the module `nbNN` of this
package.  It takes the answers, then the keyword `draw`, a `random.Random`; torch's random numbers
are seeded too.  It calls an answer through `call`, compares through `agree`, or raises `Wrong`; it
returns a line that says what was tried.  A judge has two wrong answers or more in
tests/teaching/test_exercises.py, and a right one in answers.toml.
"""

from __future__ import annotations

import copy
import inspect
import math
import random
import re
import reprlib
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmtcourse.teaching.language import mark, say

COPIED = (list, dict, set, Tensor)
ANSWERS = Path(__file__).with_name("answers.toml")
tried: set[str] = set()  # exercises that were judged since Python started, right or wrong
LONGEST = 160  # letters of a value in a message; of a longer one the kind and the size are shown


class Shortened(reprlib.Repr):
    """Values in a message: at most eight items of a list, and four digits of a number."""

    def repr_float(self, value: float, level: int) -> str:
        """A number as a reader compares it."""
        return f"{value:.4g}"

    def repr_Tensor(self, value: Tensor, level: int) -> str:  # noqa: N802, named after the class
        """A tensor inside of a list."""
        return show(value)


_shorten = Shortened()
_shorten.maxstring = 90
_shorten.maxother = LONGEST
_shorten.maxlist = _shorten.maxset = _shorten.maxdict = _shorten.maxtuple = 8


class Wrong(AssertionError):
    """An answer to an exercise is not right; the message says for which input."""


def judge(number: str, *answers: Callable[..., Any], seed: int = 0) -> None:
    """Judge the functions that solve an exercise, such as "01.1", on inputs drawn from `seed`.

    The verdict does not depend on the seed: a right answer passes for each.  The state of torch's
    random numbers is left as it was.  Raises Wrong for a wrong answer, ValueError for an exercise
    that has no judge.
    """
    function = find_judge(number)
    for answer in answers:
        if not callable(answer):
            raise Wrong(
                say(f"exercise {number}: give the function itself, not its result {show(answer)}")
            )
    tried.add(number)  # a number in place of a function is no try
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            inputs = function(*answers, draw=random.Random(seed))
        except Wrong as verdict:
            help_line = say(f'solution("{number}") prints a right answer')
            raise Wrong(f"{verdict}{mark(';')}{help_line}") from verdict.__cause__
    print(say(f"exercise {number} is right: {say(inputs)}"))


def solution(number: str) -> None:
    """Print a right answer to an exercise that was judged since Python started.

    Raises ValueError before the first try, and for an exercise that has no judge.
    """
    names = ", ".join(name_answers(number))
    if number not in tried:
        raise ValueError(say(f'try it first: judge("{number}", {names})'))
    print(read_answer(number)["code"].strip())


def name_answers(number: str) -> list[str]:
    """The names of the functions that the answer to an exercise defines, as `judge` takes them."""
    parameters = inspect.signature(find_judge(number)).parameters.values()
    asked = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    return list(read_answer(number).get("give", asked))


def read_answer(number: str) -> dict[str, Any]:
    """The table of an exercise in answers.toml."""
    return dict(tomllib.loads(ANSWERS.read_text("utf-8"))[number])


def find_judge(number: str) -> Callable[..., str]:
    """The judge of an exercise, "NN.K".  Raises ValueError where there is none."""
    notebook, _, exercise = number.partition(".")
    module = f"{__name__}.nb{notebook}"
    function = None
    if notebook.isalnum() and find_spec(module) is not None:
        function = getattr(import_module(module), f"judge_{exercise}", None)
    if function is None:
        raise ValueError(f"no judge for the exercise {number!r}; give notebook and number, 01.1")
    return function


def call(answer: Callable[..., Any], *inputs: Any, untouched: bool = False) -> Any:
    """What an answer returns for some inputs; data are copied, so that it cannot change ours.

    Raises Wrong where it raises an error, and, if `untouched`, where it changes a list.
    """
    copies = [copy.deepcopy(value) if isinstance(value, COPIED) else value for value in inputs]
    try:
        given = answer(*copies)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise Wrong(tell(f"{name_call(answer, inputs)} raises {problem}")) from error
    if untouched and any(a != b for a, b in zip(copies, inputs, strict=True) if type(b) is list):
        raise Wrong(say(f"{name_call(answer, inputs)} changes a list that it was given"))
    return given


def agree(
    answer: Callable[..., Any],
    *inputs: Any,
    expected: Any,
    tolerance: float = 1e-4,
    why: str = "",
    untouched: bool = False,
) -> None:
    """Raise Wrong unless an answer returns what is expected; `why` is a hint.

    Numbers and tensors agree within the tolerance, relative to the expected one or absolute. If
    `untouched`, the answer may not change a list that it was given.
    """
    given = call(answer, *inputs, untouched=untouched)
    require_equal(name_call(answer, inputs), given, expected, tolerance, why)


def require_equal(
    what: str, given: Any, expected: Any, tolerance: float = 1e-4, why: str = ""
) -> None:
    """Raise Wrong unless what was given is what is expected; numbers may be a tensor or array."""
    if isinstance(expected, list) and hasattr(given, "tolist"):
        given = given.tolist()
    if not equal(given, expected, tolerance):
        hint = f"{mark('(')}{say(why)}{mark(')')}" if why else ""
        raise Wrong(tell(describe_difference(what, given, expected, tolerance)) + hint)


def describe_difference(what: str, given: Any, expected: Any, tolerance: float) -> str:
    """A sentence about where two values differ first; of short ones it shows the whole.

    `what` names the given value as code: a place in it is `what[2, 0]`.
    """
    if isinstance(expected, Tensor) and expected.numel() > 6 and isinstance(given, Tensor):
        if given.shape != expected.shape:
            return f"{what}.shape should be {tuple(expected.shape)}, but it is {tuple(given.shape)}"
        wrong = ~torch.isclose(
            given.detach().to(expected.dtype), expected, rtol=tolerance, atol=tolerance
        )
        place = wrong.nonzero()[0].tolist()
        name = f"{what}[{', '.join(map(str, place))}]"
        values = [show(value[tuple(place)].item()) for value in (expected, given.detach())]
        return f"{name} should be {values[0]}, but it is {values[1]}"
    is_long = False
    if isinstance(expected, list | tuple | set):
        is_long = len(expected) > 8 or len(_shorten.repr(expected)) > 60
    if is_long and isinstance(expected, set) and isinstance(given, set):
        if missing := sorted(expected - given, key=str):
            return f"{what} should contain {show(missing[0])}, but it does not"
        return f"{what} should not contain {show(sorted(given - expected, key=str)[0])}"
    if is_long and isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        if len(given) != len(expected):
            return f"len({what}) should be {len(expected)}, but it is {len(given)}"
        pairs = enumerate(zip(given, expected, strict=True))
        for i, (one, other) in pairs:
            if not equal(one, other, tolerance):
                return describe_difference(f"{what}[{i}]", one, other, tolerance)
    return f"{what} should be {show(expected)}, but it is {show(given)}"


def tell(text: str) -> str:
    """A text in the language of the notebook, without the spaces that English parts leave."""
    return re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", "", say(text))


def equal(given: Any, expected: Any, tolerance: float) -> bool:
    """Whether an answer is what is expected, in kind, shape and values."""
    if isinstance(expected, Tensor):
        if not isinstance(given, Tensor) or given.shape != expected.shape:
            return False
        near = {"rtol": tolerance, "atol": tolerance}
        return torch.allclose(given.detach().to(expected.dtype), expected, **near)
    if isinstance(expected, bool) or expected is None:
        return given is expected
    if isinstance(expected, int | float):
        if isinstance(given, Tensor | np.generic) and math.prod(given.shape) == 1:
            given = given.item()
        if isinstance(given, bool) or not isinstance(given, Real):  # a Fraction, too
            return False
        return abs(float(given) - expected) <= tolerance * max(1.0, abs(expected))  # nan: False
    if isinstance(expected, list | tuple):
        same = isinstance(given, list | tuple) and len(given) == len(expected)
        return same and all(
            equal(one, other, tolerance) for one, other in zip(given, expected, strict=True)
        )
    return bool(given == expected)


def name_call(answer: Callable[..., Any], inputs: Any) -> str:
    """A call as a student would write it, shortened."""
    name = getattr(answer, "__name__", type(answer).__name__)
    return f"{name}({', '.join(map(show, inputs))})"


def show(value: Any) -> str:
    """A value in at most a line; of a tensor with many numbers its shape, of long data the size."""
    if isinstance(value, Tensor):
        if value.numel() > 6:
            return f"tensor{tuple(value.shape)}"
        return " ".join(str(value.detach()).split())
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    if inspect.isfunction(value) or inspect.ismethod(value):
        return value.__name__
    if re.search(r" at 0x|=tensor\(", repr(value)):  # an object without a name, or a batch
        return type(value).__name__
    text = _shorten.repr(value)
    if isinstance(value, list | tuple | set | dict) and (len(text) > LONGEST or "..." in text):
        return f"{type(value).__name__}[{len(value)}]"
    return text
