"""Lines of Python that show a fault, to paste into a cell below the answer.

    m = EarlyStopping(1)
    m.update(2.0)
    m.update(2.0)  # False, expected True

They are written from the calls that a check has made, and each way of writing them is tried on the
answer first: only lines that give what was measured are shown. Arguments that cannot be written
down are drawn once more (`given`), and a fault that calls alone do not show is looked for once more
on its one input (`again`).
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
from torch import Tensor

from nmtcourse.homework.catalogue import find_task
from nmtcourse.homework.chinese import language_here, speaks
from nmtcourse.homework.compare import Finding, same, short
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import Call, Careful, Reached
from nmtcourse.homework.limits import Stopped, undisturbed, within
from nmtcourse.homework.task import Property, Task
from nmtcourse.homework.trials import (
    Answer,
    LiveAnswer,
    Shown,
    guard_answer,
    observe,
    try_answer,
)

LARGEST = 48  # numbers of a tensor that is written down
LONGEST = 72  # characters of a call in one line
MOST = 12  # calls that are written down
SECONDS = 2.0  # of processor time for lines
IMPORT = "from nmtcourse.homework import "
RESULT = re.compile(
    r"(?:(whether) )?(?:your result|result (\d+))(?: requires a gradient)?( of call.*)?"
)
ATTRIBUTE = re.compile(r"`(\w+)` (?:before any call|after call \d+)")


def write_lines(number: int, answer: Answer, finding: Finding, choices: list[int]) -> None:
    """Give a finding of the property with a number its lines."""
    task, shown = answer.task, finding.shown
    if task.uses or shown is None:
        return
    used = simplest(choices)
    with contextlib.suppress(Stopped), answer.limited(SECONDS):
        finding.lines = shortest_lines(number, answer, finding, used)
    if not finding.lines:
        finding.lines = once_more(task, number, used)


def shortest_lines(number: int, answer: Answer, finding: Finding, used: list[int]) -> list[str]:
    """The first way of writing the calls that gives what was measured; none if there is none."""
    task, shown = answer.task, finding.shown
    for turns, drawn in ((False, False), (False, True), (True, False)):
        calls = shown.calls
        if not turns and calls:  # those of the last object, in the last turn
            last = calls[-1]
            calls = [c for c in calls if c.turn == last.turn and c.owner is last.owner]
            if last.turn > 1 and drawn:
                continue
        lines = lines_of_calls(task, number, calls, used, finding, drawn)
        if lines and gives(lines, answer, finding):
            if is_seen(finding):
                return lines
            return [*lines, *once_more(task, number, used)]
    return []


def once_more(task: Task, number: int, used: list[int]) -> list[str]:
    """Lines that check a property on one input."""
    return [f"{IMPORT}again", f'again("{task.id}", {task.name}, {number}, {used})']


def is_seen(finding: Finding) -> bool:
    """Whether the value of the last line is what is wrong, not only what a check looks at."""
    shown = finding.shown
    return expression_of(shown) is not None or shown.calls[-1].raised != ""


def simplest(choices: list[int]) -> list[int]:
    """The choices without the zeros at their end, which a replay adds."""
    used = [*choices]
    while used and not used[-1]:
        used.pop()
    return used


def expression_of(shown: Shown) -> str | None:
    """What follows the last call, or its object, to give what was looked at; None for neither."""
    result = RESULT.fullmatch(shown.what)
    if result:
        place = "" if result[2] is None else f"[{int(result[2]) - 1}]"
        return place + (".requires_grad" if result[1] else "")
    attribute = ATTRIBUTE.fullmatch(shown.what)
    if attribute:
        return f"m.{attribute[1]}"
    return None


# The last line is the call itself, or an attribute of its object:
#
#     position_table(2, 4)[0, 1]  # 0.5, expected 1           what is wrong is a part of a result
#     m.best  # 0, expected 1                                 ... an attribute
#     leaks(logits, source, target, 6)  # [2, 1]              ... is said in words by the check
#     plan(lengths, 9)  # IndexError: list index ...          ... is an exception
def lines_of_calls(
    task: Task, number: int, calls: list[Call], choices: list[int], finding: Finding, drawn: bool
) -> list[str]:
    """The calls as lines; none where they cannot be written. `drawn` arguments are not literals."""
    if not calls or len(calls) > MOST:
        return []
    lines: list[str] = []
    state = None
    for call in calls:
        arguments = write_arguments(call, drawn)
        if arguments is None and not drawn:
            return []
        if arguments is None:
            turn = f", {call.place}" if call.place else ""
            arguments = [], [f'*given("{task.id}", {number}, {choices}{turn})']
        before, names = arguments
        lines += before
        if call.name == "call":
            lines.append(f"{task.name}({', '.join(names)})")
        elif call.name == "__init__":
            lines.append(f"m = {task.name}({', '.join(names)})")
        else:
            about = write_state(call, state)
            if about is None:
                return []
            lines += about
            state = call.state
            method = "" if call.name == "forward" else f".{call.name}"
            lines.append(f"m{method}({', '.join(names)})")
    if any("given(" in line for line in lines):
        lines.insert(0, f"{IMPORT}given")
    last = calls[-1]
    if last.raised:
        lines[-1] += f"  # {last.raised}"
        return lines
    expression = expression_of(finding.shown)
    if expression is not None and expression.startswith("m."):
        lines.append(f"{expression}{finding.path}  # {finding.part}, expected {finding.expected}")
    elif expression is not None:
        if finding.path.endswith("].shape") or finding.part:
            lines[-1] += (
                f"{expression}{finding.path}  # {finding.part}, expected {finding.expected}"
            )
    elif last.name != "__init__":
        lines[-1] += f"  # {short(last.value)}"
    return lines


def write_arguments(call: Call, drawn: bool) -> tuple[list[str], list[str]] | None:
    """Lines that define arguments, and the arguments of a call; None where some have no literal."""
    if drawn:
        return None
    texts = {name: literal(value) for name, value in call.arguments.items()}
    if None in texts.values():
        return None
    lines, names = [], []
    for name, text in texts.items():
        long = isinstance(call.arguments[name], Tensor) or len(text or "") > LONGEST // 2
        if long and name.isidentifier():
            lines.append(f"{name} = {text}")
            names.append(name)
        else:
            names.append(str(text))
    return lines, names


def write_state(call: Call, earlier: Any) -> list[str] | None:
    """Lines that give an object the weights and the mode that it had; None for large weights."""
    if call.state is None:
        return []
    tensors, training = call.state
    texts = {name: literal(tensor) for name, tensor in tensors.items()}
    if None in texts.values():
        return None
    lines = []
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    before = {} if earlier is None else earlier[0]
    if earlier is None and kinds - {torch.float32}:
        lines.append(f"m.to({kinds.pop()})")
    changed = any(
        name not in before or not torch.equal(tensor, before[name])
        for name, tensor in tensors.items()
    )
    if tensors and changed:
        inside = ", ".join(f"{name!r}: {text}" for name, text in texts.items())
        lines.append(f"m.load_state_dict({{{inside}}})")
    if training != (earlier is None or earlier[1]):
        lines.append(f"m.train({training})")
    return lines


def literal(value: Any) -> str | None:
    """A value as Python; None for one that has no short form."""
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return number(value)
    if isinstance(value, Tensor):
        return literal_tensor(value)
    if type(value) is dict:
        pairs = [(literal(key), literal(item)) for key, item in value.items()]
        if any(None in pair for pair in pairs):
            return None
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if type(value) not in (list, tuple, set):
        return None
    items = [literal(item) for item in value]
    if None in items or len(items) > 100:
        return None
    text = ", ".join(map(str, items))
    if type(value) is list:
        return f"[{text}]"
    if type(value) is tuple:
        return f"({text},)" if len(items) == 1 else f"({text})"
    return f"{{{text}}}" if items else "set()"


def literal_tensor(tensor: Tensor) -> str | None:
    """A small tensor as Python."""
    if tensor.numel() > LARGEST or tensor.is_meta or tensor.is_sparse:
        return None
    options = ""
    if tensor.dtype not in (torch.float32, torch.int64, torch.bool):
        options += f", dtype={tensor.dtype}"
    if tensor.requires_grad:
        options += ", requires_grad=True"
    if not tensor.numel():
        return f"torch.zeros({tuple(tensor.shape)}{options or ', dtype=' + str(tensor.dtype)})"
    return f"torch.tensor({numbers(tensor.detach())}{options})"


def numbers(tensor: Tensor) -> str:
    """The numbers of a tensor as nested lists, in as few digits as give them back."""
    if tensor.dim():
        return "[" + ", ".join(map(numbers, tensor)) + "]"
    if tensor.dtype == torch.float32:
        return number(float(tensor.numpy().astype(str)))
    value = tensor.item()
    return number(value) if isinstance(value, float) else repr(value)


def number(value: float) -> str:
    """A number as Python."""
    text = repr(value)
    return f"torch.{text}" if text in ("nan", "inf") else text.replace("-inf", "-torch.inf")


def gives(lines: list[str], answer: Answer, finding: Finding) -> bool:
    """Whether lines give what was measured."""
    call, shown = finding.shown.calls[-1], finding.shown
    base = expression_of(shown)
    expected = call.value if base is None else shown.value
    if finding.path and base is not None:  # compared as a whole: the path leads to a part of it
        code, _, about = lines[-1].partition("  # ")
        lines = [*lines[:-1], code.removesuffix(finding.path)]
    value, raised = answer.paste(lines)
    if raised or call.raised:
        return raised == call.raised
    try:
        same(value, expected, "the value")
    except Finding:
        return False
    return True


def given(id: str, number: int, choices: list[int], place: int = 0) -> list[Any]:
    """The arguments of a call that a check makes, by what its report says.

    The call is the one with that `place` among those of the property with a `number`, on the input
    of these choices. torch's generator is as it was. Raises ValueError for another call.
    """
    task = find_task(id)
    return arguments_of_call(task, task.solution, number, choices, place)


def arguments_of_call(
    task: Task, answer: Any, number: int, choices: list[int], place: int
) -> list[Any]:
    """The arguments of a call of an answer. Raises ValueError for another call."""
    prop = property_of(task, number)
    subject = guard_answer(task, answer)
    if not isinstance(subject, Careful):
        raise ValueError(f"no arguments of {task.id} can be drawn alone; use again")
    subject.wanted = place
    try:
        observe(prop, subject, Draw(0, choices))
    except Reached as reached:
        return reached.arguments
    raise ValueError(f"property {number} of {task.id} makes fewer than {place + 1} calls")


def again(id: str, answer: Any, number: int, choices: list[int]) -> None:
    """Check one property of an answer on one input, by what a report says; print the result."""
    task = find_task(id)
    live = LiveAnswer(task, answer)
    with undisturbed(), contextlib.suppress(Stopped), within(task.seconds):
        finding = try_answer(property_of(task, number), live, Draw(0, choices)).finding
    say = speaks(language_here(id[:2]))
    if finding is None:
        print(say("The property holds on this input."))
    else:
        print(f"{say(finding.measured)}  # {say('expected')} {say(finding.expected)}")


def property_of(task: Task, number: int) -> Property:
    """The property with a number. Raises ValueError if there is none."""
    if not 0 <= number < len(task.properties):
        raise ValueError(f"{task.id} has properties 0 to {len(task.properties) - 1}, not {number}")
    return task.properties[number]
