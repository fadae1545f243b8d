"""The judge of notebook 12b."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nmtcourse.teaching.exercises import Wrong, call
from nmtcourse.teaching.language import say

Send = Callable[[int, int], None]


def judge_1(sum_on_a_line: Callable[[int, Send, Send], object], *, draw: Random) -> str:
    """Every device of a line has the sum of all, by messages between neighbours."""
    for n in range(1, 9):
        numbers = [draw.randint(1, 1000) for _ in range(n)]
        total, messages = sum(numbers), [0]

        def send(sender: int, receiver: int, values: list = numbers, count: list = messages) -> int:
            if not (0 <= min(sender, receiver) and max(sender, receiver) < len(values)):
                raise Wrong(say(f"{len(values)} devices have no link from {sender} to {receiver}"))
            if abs(sender - receiver) != 1:
                raise Wrong(say(f"no link goes from device {sender} to device {receiver}"))
            count[0] += 1
            return values[sender]

        def add(sender: int, receiver: int, values: list = numbers, send: Callable = send) -> None:
            values[receiver] += send(sender, receiver)

        def copy(sender: int, receiver: int, values: list = numbers, send: Callable = send) -> None:
            values[receiver] = send(sender, receiver)

        call(sum_on_a_line, n, add, copy)
        if numbers != [total] * n:
            raise Wrong(say(f"{n} devices: each should have {total}, but they have {numbers}"))
        if messages[0] > 2 * (n - 1):
            raise Wrong(say(f"{n} devices: {messages[0]} messages, but {2 * (n - 1)} are enough"))
    return "lines of 1 to 8 devices"
