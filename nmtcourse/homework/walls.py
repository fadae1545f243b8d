"""Walls around a process: Linux's Landlock, which needs no rights and cannot be taken down again.

A process behind them, and all that it starts, cannot read the files of some folder, nor send
signals to processes outside, nor look into these. Where the kernel has no Landlock (before 5.13) or
forbids it, nothing happens: `hide` says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on all machines
READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
SIGNALS = 1 << 1  # a scope, from the sixth version on
BENEATH, VERSION, NO_NEW_PRIVILEGES = 1, 1, 38


class Rules(ctypes.Structure):
    """What is not allowed without a rule: access to files, the network, and what is outside."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scoped")]


class Rule(ctypes.Structure):
    """What is allowed below an open folder."""

    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("place", ctypes.c_int32)]


def hide(folder: Path) -> bool:
    """Keep this process, with a single thread, from reading files in a folder; whether it does."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE, None, ctypes.c_size_t(0), VERSION)
    if version < 1:
        return False
    # The structure has grown: an older kernel refuses fields that it does not know.
    rules = Rules(READ_FILE | READ_FOLDER, 0, 0)
    size = 8  # bytes
    if version >= 4:
        size = 16
    if version >= 6:
        size = ctypes.sizeof(rules)
        rules.scoped = SIGNALS
    number = libc.syscall(CREATE, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if number < 0:
        return False
    try:
        # A rule allows all that is below a folder, so each folder beside the way has one.
        inside = [*folder.resolve().parents]
        allow(libc, number, Path("/"), READ_FOLDER)
        for above, way in zip(inside, [folder.resolve(), *inside], strict=False):
            for place in above.iterdir():
                if place != way:
                    allow(libc, number, place, READ_FILE)
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return libc.syscall(RESTRICT, number, 0) == 0
    finally:
        os.close(number)


def allow(libc: ctypes.CDLL, rules: int, place: Path, access: int) -> None:
    """Allow access to what is below a place; one that cannot be opened needs no rule."""
    with contextlib.suppress(OSError):
        # A link may lead into what is hidden; where it leads otherwise has a rule of its own.
        opened = os.open(place, os.O_PATH | os.O_NOFOLLOW)
        try:
            rule = Rule(access, opened)
            libc.syscall(ADD, rules, BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(opened)
