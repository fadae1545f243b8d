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
        self.failed = False

    def do(self, work: Callable[[], object]) -> None:
        """Do some work after all that was asked for before; nothing more once a piece failed."""
        if self.background:
            self.jobs.append(self.thread.submit(self._unless_failed, work))
        else:
            work()

    def _unless_failed(self, work: Callable[[], object]) -> None:
        if self.failed:
            return
        try:
            work()
        except BaseException:
            self.failed = True
            raise

    def wait(self) -> None:
        """Return when everything is done; raises what one of the pieces of work raised."""
        while self.jobs:
            self.jobs.pop(0).result()
