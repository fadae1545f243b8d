"""Updates recorded once for each shape of batch: a GPU replays them without waiting for Python.

A small model computes faster than its kernels can be launched one by one.  A CUDA graph launches
all kernels of a batch at once, but only for tensors at the same addresses and of the same shapes:
batches get one shape for each width, and are copied into buffers that stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtlib.data.batching import Batch, BatchLoader, Example, plan_batches
from nmtlib.specials import BOS, EOS, PAD
from nmtlib.training.hardware import Processes
from nmtlib.training.loss import Totals, autocast
from nmtlib.training.trainer import Trainer


def round_up(lengths: np.ndarray) -> np.ndarray:
    """Lengths (N,) rounded up to one of few widths, at most a fourth wider and 4 at least."""
    step = np.maximum(4, 2 ** np.floor(np.log2(lengths)).astype(int) // 4)
    return -(-lengths // step) * step


class FewShapes(BatchLoader):
    """Batches with one shape for each width, gathered on the device from ids that stay there.

    Of width w, a batch has max_tokens // w rows, shared among the processes: source (B, w), target
    (B, w + 1).  Rows without a sentence read one token and have no label, so that no query is
    without a key and the loss is the same.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        max_tokens: int,
        device: torch.device,
        rank: int = 0,
        count: int = 1,
    ):
        super().__init__(examples, max_tokens, device, rank, count)
        needed = np.maximum(self.lengths[:, 0], self.lengths[:, 1] - 1)  # what the model reads
        self.widths = np.minimum(round_up(needed), needed.max())
        filler = Example([EOS], [BOS])  # its number is len(examples)
        self.ids, self.starts = [], []
        for side in (0, 1):
            rows = [*(example[side] for example in examples), filler[side]]
            flat = np.fromiter(chain.from_iterable(rows), np.int32)
            starts = [0, *accumulate(map(len, rows))]
            self.ids.append(torch.from_numpy(flat).to(device))
            self.starts.append(torch.tensor(starts, device=device))

    def plan(self, seed: int | None = None) -> list[np.ndarray]:
        """The row numbers of each batch of an epoch, sentences of one width together."""
        return plan_batches(np.stack([self.widths] * 2, axis=1), self.max_tokens, seed=seed)

    def load(self, batches: Sequence[np.ndarray]) -> list[Batch]:
        """This process's share of some batches; each process has the same shapes."""
        return [self.gather(numbers) for numbers in batches]

    def gather(self, numbers: np.ndarray) -> Batch:
        """The examples of some numbers, filled up to the shape of their width."""
        width = int(self.widths[numbers].max())
        share = numbers[self.rank :: self.count]
        rows = np.full(-(-(self.max_tokens // width) // self.count), len(self.examples))
        rows[: len(share)] = share
        index = torch.from_numpy(rows)  # (B,)
        if self.device.type == "cuda":  # a copy from pinned memory does not wait
            index = index.pin_memory()
        index = index.to(self.device, non_blocking=True)
        return Batch(self._side(0, index, width), self._side(1, index, width + 1))

    def _side(self, side: int, index: Tensor, width: int) -> Tensor:
        starts, flat = self.starts[side], self.ids[side]
        positions = starts[index, None] + torch.arange(width, device=flat.device)  # (B, width)
        padded = positions >= starts[index + 1, None]
        return flat[positions.clamp_(max=len(flat) - 1)].long().masked_fill_(padded, PAD)


class Recording(NamedTuple):
    """The buffers of a shape, and a call that reads them and adds to gradients and totals."""

    batch: Batch
    replay: Callable[[], Any]


def sum_gradients(processes: Processes, gradients: Sequence[Tensor]) -> None:
    """Give every process the sum of all gradients, in one message and in place.

    `DistributedDataParallel`, which exchanges them in a plain update, does so from hooks that
    Python runs during a backward pass.  A replay runs no Python, so its gradients would stay apart.
    """
    if processes.count == 1:
        return
    flat = processes.all_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
    sums = flat.split([gradient.numel() for gradient in gradients])
    for gradient, total in zip(gradients, sums, strict=True):
        gradient.copy_(total.view_as(gradient))


class RecordedUpdate:
    """The update of a `Trainer` by replays: one for each batch, one for the optimizer's step.

    Both add up in place, so accumulated batches, several processes and any loss work as in the
    plain update.  What a loss chooses on the host is chosen by `variant` before each replay, and
    each choice has its own recording.  On a CPU the same functions are called, not recorded.  The
    optimizer must be capturable, as Adam is.
    """

    def __init__(self, variant: Callable[[], int] = lambda: 0):
        self.variant = variant
        self.recordings: dict[tuple[int, ...], Recording] = {}
        self.step: Callable[[], Any] | None = None

    def __call__(self, trainer: Trainer, batches: Sequence[Batch], labels: int) -> Totals:
        """One update on batches of this process, of which `labels` are in all processes."""
        step = self.step or self.prepare(trainer)
        self.divisor.fill_(labels)
        for batch in batches:
            key = (*batch.source.shape, *batch.target.shape, self.variant())
            if key not in self.recordings:
                self.recordings[key] = self.record_batch(trainer, batch)
            recording = self.recordings[key]
            recording.batch.source.copy_(batch.source)
            recording.batch.target.copy_(batch.target)
            recording.replay()
        sum_gradients(trainer.processes, self.gradients)
        self.rate.fill_(trainer.learning_rate(trainer.progress.updates))
        step()
        totals = Totals(*self.totals.clone())
        self.totals.zero_()
        return totals

    def prepare(self, trainer: Trainer) -> Callable[[], Any]:
        """Make the buffers that live as long as the run, and record the optimizer's step."""
        device, optimizer = trainer.device, trainer.optimizer
        parameters = [*trainer.model.parameters()]
        cuda = device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if cuda else None
        self.divisor = torch.ones((), device=device)
        self.totals = torch.zeros(4, dtype=torch.float64, device=device)
        # A number would be recorded as it is now.  Adam on a GPU reads its rate as float32.
        self.rate = torch.zeros((), dtype=torch.float32 if cuda else torch.float64, device=device)
        for group in optimizer.param_groups:
            group["lr"], group["capturable"] = self.rate, cuda
        self.gradients = [torch.zeros_like(parameter) for parameter in parameters]
        for parameter, gradient in zip(parameters, self.gradients, strict=True):
            parameter.grad = gradient

        def step() -> None:
            torch.nn.utils.clip_grad_norm_(parameters, trainer.settings.grad_clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        saved = [value for p in parameters for value in optimizer.state[p].values()]
        self.step = self.record(step, device, [*parameters, *saved])
        for parameter in parameters if not saved else []:  # the rehearsal has made the state
            for value in optimizer.state[parameter].values():
                value.zero_()
        return self.step

    def record_batch(self, trainer: Trainer, batch: Batch) -> Recording:
        """Record the passes of a loss over buffers of the batch's shape."""
        buffers = Batch(batch.source.clone(), batch.target.clone())

        def passes() -> None:
            with autocast(trainer.device, trainer.precision):
                # Casts of the weights, if cached, would outlive the graph that made them.
                torch.set_autocast_cache_enabled(False)
                loss, totals = trainer.loss(trainer.model, buffers, trainer.settings)
            (loss / self.divisor).backward()
            self.totals.add_(torch.stack(totals))

        return Recording(
            buffers, self.record(passes, trainer.device, [*self.gradients, self.totals])
        )

    def record(
        self, function: Callable[[], None], device: torch.device, changed: Sequence[Tensor]
    ) -> Callable[[], Any]:
        """The replay of a function as one CUDA graph; on a CPU the function itself.

        Libraries set themselves up at the first calls, which cannot be recorded: the function is
        rehearsed, and the tensors that it has changed and the generators are put back.
        """
        if device.type != "cuda":
            return function
        before = [tensor.detach().clone() for tensor in changed]
        with torch.random.fork_rng(devices=[device]):
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(2):
                    function()
            torch.cuda.current_stream(device).wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                function()
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        return graph.replay
