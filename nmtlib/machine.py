"""What ran, and on what: the command, and the machine that a timing depends on."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

# The folders of an absolute path: /home/me/, C:\Users\My Name\, \\server\share\.
FOLDERS = re.compile(r"""(?<![\w.])(?:/[^\s"'=]*/|(?:[A-Za-z]:|\\)[\\/][^"'=]*[\\/])""")
PACKAGES = ("nmtlib", "torch", "tokenizers", "sacrebleu", "nltk")


def command_line() -> str:
    """The command that is running, without the paths of this machine."""
    program, *arguments = sys.argv
    path = Path(program)
    # python -m nmtlib runs nmtlib/__main__.py
    name = path.parent.name if path.name == "__main__.py" else path.name
    shown = (FOLDERS.sub("", argument) for argument in arguments)
    return shlex.join([name, *shown])


def describe_machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Device, processor, threads and library versions: what a timing depends on."""
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def _processor() -> str:
    """The name of the processor where Linux tells it, otherwise its kind."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", info.read_text("utf-8") if info.is_file() else "")
    return named[1] if named else platform.machine()
