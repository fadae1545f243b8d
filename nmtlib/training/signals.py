"""A clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signal(asked: threading.Event) -> Iterator[None]:
    """In this block the first Ctrl-C (or SIGTERM) sets the flag, the second interrupts at once."""

    def handle(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        asked.clear()
        for number, handler in old.items():
            if signal.getsignal(number) is handle:  # and not something that the block has set since
                signal.signal(number, handler)


def ignore_sigterm() -> None:
    """SIGTERM does nothing from now on, for a process that ends and has a last word to say."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
