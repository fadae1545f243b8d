"""The commands that read a run, and the files that each of them reads."""

from __future__ import annotations

from case import SENTENCE, Case
from damage import Change

COMMANDS = {
    "evaluate": ("evaluate", "run"),
    "translate": ("translate", "run", SENTENCE),
    "summary": ("summary", "run"),
    "export": ("export", "run", "--to", "safetensors", "--out", "exported"),
    "resume": ("train", "--resume", "--out", "half"),
    "resume a finished run": ("train", "--resume", "--out", "run"),
}
READ_BY_ALL = ("evaluate", "translate", "summary", "export", "resume")
READERS = {  # the commands that read each file
    "settings.json": ("resume",),  # weights hold their own
    "model.safetensors": ("evaluate", "translate", "summary", "export"),
    "state.safetensors": ("resume", "resume a finished run"),
    "best.safetensors": ("resume a finished run",),
    "epoch-001.safetensors": ("resume a finished run",),
    "history.csv": ("evaluate", "summary"),
}


def folder_of(command: str) -> str:
    """The run that a command reads."""
    return COMMANDS[command][-1] if command.startswith("resume") else "run"


def some(commands: tuple[str, ...], number: int, count: int = 2) -> tuple[str, ...]:
    """`count` of the commands, other ones for the next number: what one reads, all read alike."""
    start = number * count % len(commands)
    return (commands + commands)[start : start + min(count, len(commands))]


def damaged(file: str, how: str, change: Change, command: str, status=1, says="", makes=()) -> Case:
    """A command on a run of which one file has been changed."""
    name = f"{folder_of(command)}/{file}"
    damage = lambda folder: change(folder / name)  # noqa: E731
    return Case(
        "damaged runs",
        f"{file}: {how}",
        COMMANDS[command],
        says,
        status,
        damage=damage,
        makes=makes,
    )
