"""Name the known mistake that does what an answer does, from a table that was built once.

    python -m nmtcourse.homework.causes          # builds the table anew
    python -m nmtcourse.homework.causes 04.2     # the rows of one task

All students meet the same inputs, so each known mistake of a master is run on some of them when the
course is built, and so is the solution. What it shows there is its fingerprint: for each property
and input a code of what the check has seen, "" where it has only looked and found nothing wrong.
An answer is run on the same inputs once; neither mistakes nor the solution are run beside it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.inputs import HALVES, LONG, Draw
from nmtcourse.homework.laws import PLACE
from nmtcourse.homework.limits import Stopped, undisturbed
from nmtcourse.homework.task import Task
from nmtcourse.homework.trials import Answer, LiveAnswer, Observation
from nmtlib.files import write_atomically

TABLE = Path(__file__).parent / "masters" / "causes.json"
INPUTS = [number for number in range(200, 216) if number % 8 != LONG]  # none with large sizes
SECONDS = 3.0  # of processor time on one input, after which an answer is not run again
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")
FEW = 3  # wrong inputs that do not tell yet whether two answers do the same
SOLUTION = ""  # its name among the known mistakes
HANGS = "hangs"
Codes = list[str]


def fingerprint(answer: Answer) -> Codes:
    """What an answer does on all inputs of the table; from the first on which it hangs, "hangs"."""
    codes: Codes = []
    for prop in answer.task.properties:
        for number in INPUTS[: prop.draws]:  # few, if the check takes long
            if HANGS in codes:
                codes.append(HANGS)
                continue
            try:
                with answer.limited(SECONDS):
                    codes.append(code_of(*answer.run(prop).turn(Draw(number))))
            except Stopped:
                codes.append(HANGS)
    return codes


# A code has two parts: "3f2a91 1.234" is the checksum of all that must be the same to the letter,
# such as shapes, types, words and whole numbers, and a sum of all numbers that may be rounded.
def code_of(observations: list[Observation], raised: Finding | None) -> str:
    """What a check has seen of an answer on one input, as a short text; "" for nothing."""
    if raised is None and not observations:
        return ""
    words: list[str] = []
    numbers: list[float] = []
    if raised is not None:
        about = measured_alone(raised)
        words.append(NUMBER.sub("", about))
        numbers += [float(text) for text in NUMBER.findall(about)]
    for observation in observations:
        take_apart(observation.value, words, numbers)
    total = 0.0
    for place, number in enumerate(numbers):
        if math.isfinite(number):
            total += number * (1 + math.sin(place))
        else:
            words.append(str(number))
    return f"{zlib.crc32(' '.join(words).encode()):08x} {total:.4g}"


def take_apart(value: Any, words: list[str], numbers: list[float]) -> None:
    """Add what a value consists of to words and numbers."""
    if isinstance(value, Tensor):
        words.append(f"{tuple(value.shape)} {value.dtype}")
        if value.dtype in HALVES or value.is_meta:  # they round too much
            return
        x = value.detach().double().flatten()
        waves = 1 + torch.arange(len(x), dtype=torch.float64).sin()
        numbers.append(float(x.nan_to_num(0, 1, -1) @ waves))
        words.append(str(int(x.isfinite().sum())))
    elif isinstance(value, dict):
        for key, item in value.items():
            words.append(repr(key))
            take_apart(item, words, numbers)
    elif isinstance(value, list | tuple):
        words.append(str(len(value)))
        for item in value:
            take_apart(item, words, numbers)
    elif isinstance(value, float):
        numbers.append(value)
    else:
        words.append(repr(value)[:200])


def measured_alone(finding: Finding) -> str:
    """What was measured, without the arguments of the call and the line that raised an error."""
    return finding.measured.replace(finding.given, "", 1).partition(PLACE)[0]


def codes_agree(first: str, second: str) -> bool:
    """Whether two codes tell of the same, up to rounding."""
    words, _, number = first.partition(" ")
    other_words, _, other_number = second.partition(" ")
    if words != other_words:
        return False
    if not number or not other_number:
        return number == other_number
    return math.isclose(float(number), float(other_number), rel_tol=2e-3, abs_tol=2e-3)


def cause_of(task: Task, codes: Codes) -> str:
    """The one known mistake that agrees with an answer everywhere, or ''."""
    causes = []
    for cause, stored in table().get(task.id, {}).items():
        if len(stored) == len(codes) and all(map(codes_agree, stored, codes)):
            causes.append(cause)
    if SOLUTION in causes or len(causes) != 1:
        return ""
    return causes[0]


def behaviour(task: Task, codes: Codes) -> str:
    """A digest of what an answer does; '' if too little of it is wrong to tell answers by.

    Two answers that agree in it are wrong in the same way, however they are written.
    """
    right = table().get(task.id, {}).get(SOLUTION, [])
    wrong = [
        code for code, other in zip(codes, right, strict=False) if not codes_agree(code, other)
    ]
    if len(wrong) <= FEW or HANGS in codes:  # how far it came depends on the machine
        return ""
    coarse = []
    for code in codes:
        words, _, number = code.partition(" ")
        coarse.append(f"{words} {float(number):.2g}" if number else words)
    return hashlib.sha256(" ".join(coarse).encode()).hexdigest()[:16]


@cache
def table() -> dict[str, dict[str, Codes]]:
    """The fingerprints of the known mistakes, by task and by cause; none where it is missing."""
    if not TABLE.exists():
        return {}
    return json.loads(TABLE.read_text("utf-8"))


def build(task: Task) -> dict[str, Codes]:
    """The fingerprints of the known mistakes of a task."""
    with undisturbed():
        known = {SOLUTION: task.solution, **task.wrong}
        return {cause: fingerprint(LiveAnswer(task, answer)) for cause, answer in known.items()}


def main() -> None:
    """Build the table, or the rows of some tasks."""
    rows = dict(table())
    for assignment in assignments().values():
        for task in assignment.tasks.values():
            if not task.mistakes or (sys.argv[1:] and task.id not in sys.argv[1:]):
                continue
            rows[task.id] = build(task)
            lines = [f"{json.dumps(id)}: {json.dumps(rows[id])}" for id in sorted(rows)]
            write_atomically(TABLE, "{\n" + ",\n".join(lines) + "\n}\n")
            print(task.id, flush=True)


if __name__ == "__main__":
    main()
