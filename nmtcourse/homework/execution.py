"""Run cells in a separate process, within limits; continue without a cell that ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nmtcourse.homework.grading import assignments

MEMORY = 8  # GiB of address space; torch alone takes about three
GRACE = 10  # seconds within which an interrupted cell must end
STUCK = "could not be stopped"
ENDED = "ended the process, so the others were run without it"
DIED = "ended the process, perhaps for lack of memory, so the others were run without it"


class Loss(NamedTuple):
    """A cell that ended the process, and how."""

    cell: Any
    why: str


def execute_all(cells: list[Any], folder: Path, seconds: Callable[[Any], float]) -> list[Loss]:
    """Run cells, again without each one that ended the process; returns those."""
    lost: list[Loss] = []
    while loss := execute(cells, folder, seconds):
        left = [cell for cell in cells if cell is not loss.cell]
        if len(left) == len(cells):
            raise RuntimeError("the process ended before the first cell")
        lost.append(loss)
        cells = left
    return lost


def execute(cells: list[Any], folder: Path, seconds: Callable[[Any], float]) -> Loss | None:
    """Run cells in a process that starts in this folder; outputs stay in the cells.

    Returns the cell that ended the process early, if any.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import DeadKernelError

    opening = f"from nmtcourse.homework import execution\nexecution.prepare({MEMORY})"
    run = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(opening), *cells])
    run.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    watch = Watch(seconds, lambda: client.km.provisioner.process.kill())
    client: Any = NotebookClient(
        run,
        timeout_func=seconds,
        startup_timeout=300,  # a busy machine must not end the grading of a class
        interrupt_on_timeout=True,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
        on_cell_execute=watch.begin,
        on_cell_executed=watch.end,
    )
    try:
        client.execute()
    except Exception as error:  # of several kinds if the process is gone
        if watch.lost is None:
            if not isinstance(error, DeadKernelError) or watch.running is None:
                raise
            watch.lost = Loss(watch.running, DIED)
    finally:
        watch.timer.cancel()
    return watch.lost


class Watch:
    """Watch each cell from start to end, and kill the process if one cannot be stopped.

    After its `seconds` a cell is interrupted, but an `except` around everything can keep it
    running.
    """

    def __init__(self, seconds: Callable[[Any], float], kill: Callable[[], None]):
        self.seconds, self.kill = seconds, kill
        self.running: Any = None
        self.lost: Loss | None = None
        self.timer = threading.Timer(0, lambda: None)

    def begin(self, cell: Any, cell_index: int) -> None:
        """Start the clock of a cell."""
        self.running = cell
        self.timer = threading.Timer(self.seconds(cell) + GRACE, self.lose, [cell, STUCK])
        self.timer.start()

    def end(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        """Stop the clock; a cell that calls exit() ends the process only some time later."""
        self.timer.cancel()
        payload = execute_reply["content"].get("payload", [])
        if any(each.get("source") == "ask_exit" for each in payload):
            self.lose(cell, ENDED)

    def lose(self, cell: Any, why: str) -> None:
        """Kill the process, and record the responsible cell."""
        self.lost = Loss(cell, why)
        self.kill()


def prepare(gigabytes: float) -> None:
    """Prepare a kernel before a student's cells run, which may change settings of torch."""
    assignments()  # masters compute with gradients when they are imported
    limit_memory(gigabytes)


def limit_memory(gigabytes: float) -> None:
    """Limit the memory, where the system supports it; called in the kernel."""
    try:
        import resource
    except ImportError:  # Windows
        return
    size = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))
