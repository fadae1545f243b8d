"""What a training writes, in order: at once, or behind the back of a GPU that goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Writer:
    """Does one piece of work after the other; in the `background`, in a thread of its own.

    What is killed meanwhile leaves what a killed training leaves: the files up to some moment.
    """

    def __init__(self, background: bool):
        self.background = background
        self.thread = ThreadPoolExecutor(1)  # starts with the first piece of work
        self.jobs: list[Future] = []

    def do(self, work: Callable[[], object]) -> None:
        """Do some work after all that was asked for before."""
        if self.background:
            self.jobs.append(self.thread.submit(work))
        else:
            work()

    def wait(self) -> None:
        """Return when everything is done; raises what one of the pieces of work raised."""
        while self.jobs:
            self.jobs.pop(0).result()
