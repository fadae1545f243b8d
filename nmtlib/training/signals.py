"""A clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C (or SIGTERM) into a flag that the loop looks at; the second interrupts
    at once.
    """
    asked = threading.Event()

    def handle(number, frame):
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may set handlers
        return
    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in old.items():
            if signal.getsignal(number) is handle:  # and not something that the block has set since
                signal.signal(number, handler)


def ignore_sigterm() -> None:
    """From now on SIGTERM does nothing, also after `stop_on_signal`: for a process that ends and
    has a last word.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
