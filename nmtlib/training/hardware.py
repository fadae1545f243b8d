"""What a run computes on: device, precision, and the processes that train together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from nmtlib.errors import require


def environment_number(name: str, default: float, kind: type = int) -> Any:
    """The number in an environment variable.  Raises ValueError naming it where it is none."""
    text = os.environ.get(name, default)
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} (in the environment) must be a number, not {text!r}") from None


def choose_device(name: str = "auto") -> torch.device:
    """The named device, cpu or cuda; 'auto' is the GPU where there is one.

    Under torchrun each process of a machine gets its own GPU.  Raises ValueError for a device that
    is absent or of another kind (not all have float64, in which totals are kept).
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"device {name!r} cannot be used here: nmtlib runs on cpu and cuda")
        if device.type == "cuda" and environment_number("WORLD_SIZE", 1) > 1:
            device = torch.device("cuda", environment_number("LOCAL_RANK", 0))
            torch.cuda.set_device(device)  # before anything is made on another process's GPU
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from None
    return device


def choose_precision(device: torch.device, name: str = "auto") -> torch.dtype:
    """The type of large matrix multiplications; weights, sums and the optimizer stay in float32.

    'auto' is bfloat16 where the hardware is faster in it: recent GPUs and some CPUs.
    """
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    gpu = device.type == "cuda"
    fast = torch.cuda.is_bf16_supported(including_emulation=False) if gpu else has_quick_bfloat16()
    return torch.bfloat16 if fast else torch.float32


# The limits of oneDNN, which multiplies in bfloat16 on a CPU, that leave out such instructions.
LIMITS_WITHOUT_BFLOAT16 = (
    "SSE41 AVX AVX2 AVX2_VNNI AVX2_VNNI_2 AVX512_CORE AVX512_CORE_VNNI".split()
)


def has_quick_bfloat16() -> bool:
    """Whether the CPU multiplies in bfloat16 with instructions that are quicker than float32's.

    Decided by the kind of processor, never by a trial, which the load of the machine can turn.
    The environment variable ONEDNN_MAX_CPU_ISA, which limits the instructions, can say no.
    """
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in LIMITS_WITHOUT_BFLOAT16:
        return False
    # An Intel Xeon whose AMX is hidden, as in some virtual machines, still has AVX-512 BF16 and
    # takes twice as long with it; AMD's takes half the time.  Older torch does not tell: float32.
    has: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    amd = "AMD" in has.get("cpu_name", "")
    return bool(has.get("amx_bf16") or (amd and has.get("avx512_bf16")))


Value = TypeVar("Value")


class LostProcess(ConnectionError):
    """A process has ended or does not answer; the others cannot continue."""


class Processes:
    """The processes that train together: `rank` is the number of this one, `count` of all.

    Started with `torchrun --nproc-per-node=N -m nmtlib train ...` they find each other; otherwise
    there is one, and every method is a no-op.  Collective operations raise LostProcess if another
    process has ended or takes longer than NMTLIB_TIMEOUT seconds (environment, default 600).
    """

    def __init__(self, device: torch.device):
        self.rank = environment_number("RANK", 0)
        self.count = environment_number("WORLD_SIZE", 1)
        require(0 <= self.rank < self.count, "RANK", f"below WORLD_SIZE ({self.count})", self.rank)
        self.device, self.lost = device, False
        if self.count > 1 and not dist.is_initialized():
            # What is exchanged besides gradients stays on the CPU: no GPU waits for it.
            backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
            seconds = environment_number("NMTLIB_TIMEOUT", 600, float)
            require(0 < seconds < 1e9, "NMTLIB_TIMEOUT", "a number of seconds", seconds)
            self.collective(dist.init_process_group, backend, timeout=timedelta(seconds=seconds))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def shard(self, items: Any) -> Any:
        """Every `count`-th item: the part of this process."""
        return items[self.rank :: self.count]

    def any_of(self, *flags: bool) -> list[bool]:
        """Whether each flag is set in any process; all of them get the same answer."""
        if self.count == 1:
            return [*flags]
        return [bool(count) for count in self.all_reduce(torch.tensor(flags, dtype=torch.float))]

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.count > 1:
            self.collective(dist.all_reduce, values)
        return values

    def broadcast(self, value: Value) -> Value:
        """Rank 0's value, in every process."""
        shared = [value]
        if self.count > 1:
            self.collective(dist.broadcast_object_list, shared)
        return shared[0]

    def wait(self) -> None:
        """Block until every process is here."""
        if self.count > 1:
            self.collective(dist.barrier)

    def collective(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Run an operation that all processes run at once.  Raises LostProcess if one is gone."""
        with self.exchange():
            operation(*arguments, **options)

    @contextmanager
    def exchange(self, is_lost: Callable[[Exception], bool] = bool) -> Iterator[None]:
        """A block in which processes wait for each other.  Raises LostProcess if one is gone.

        `is_lost` tells the errors of a lost process from others of the block; without it, all are.
        """
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # the backends raise nothing narrower
            if not is_lost(error):
                raise
            # torchrun ends this process, too, as soon as it sees that the other one has ended.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.lost = True
            raise LostProcess(
                f"another process has ended or does not answer ({str(error).splitlines()[0]}); "
                f"process {self.rank} cannot train without it"
            ) from error

    def close(self) -> None:
        """Leave the group; from one that has lost a process there is no orderly way out."""
        if self.count > 1 and dist.is_initialized() and not self.lost:
            dist.destroy_process_group()


def is_terminal(descriptor: int) -> bool:
    """Whether a file descriptor is open and a terminal."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


@contextmanager
def stop_on_signal(asked: threading.Event) -> Iterator[None]:
    """In this block the first Ctrl-C sets the flag, the second interrupts at once.

    SIGTERM does the same, and so does SIGHUP, which a terminal sends when it is closed, except
    where it is ignored (nohup).
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup and signal.getsignal(hangup) != signal.SIG_IGN:
        numbers.append(hangup)
    terminals = [descriptor for descriptor in (1, 2) if is_terminal(descriptor)]

    def handle(number: int, frame: object) -> None:
        if number == hangup:  # what is written to a closed terminal raises, before the save
            for descriptor in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    old = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        asked.clear()
        for number, handler in old.items():
            if signal.getsignal(number) is handle:  # and not something that the block has set since
                signal.signal(number, handler)
