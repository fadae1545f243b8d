"""One model in several processes: how torch's own engine exchanges their gradients.

What shards a model is imported where it is used: it takes as long to load as half of torch, and
few runs shard.  Elsewhere what is sharded is known by the methods that only it has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from nmtlib.model.transformer import Transformer
from nmtlib.training.hardware import Processes


class Replicas(DistributedDataParallel):
    """The model, equal in every process; its backward pass averages the gradients.

    It is called as the model is, and has its attributes, so that a loss need not know of it.
    """

    def __init__(self, model: nn.Module, processes: Processes):
        devices = None if processes.device.type == "cpu" else [processes.device]
        # Our buffers are tables that are computed alike everywhere.  Gradients that live in the
        # messages themselves are not copied into them.
        super().__init__(
            model, device_ids=devices, forward_sync_buffers=False, gradient_as_bucket_view=True
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


def shard_layers(model: Transformer, processes: Processes) -> None:
    """Leave each process its part of every weight, gradient and moment (Rajbhandari et al. 2020).

    A layer's weights are gathered when it is called and let go afterwards, in both passes.  The
    model stays a `Transformer` whose parameters say the whole shapes.  It can only be called in all
    processes at once, and not step by step.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # The loss reads the logits and changes nothing in place, which this warns of.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    with processes.exchange():
        mesh = init_device_mesh(processes.device.type, (processes.count,))
        for layer in (*model.encoder, *model.decoder):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)  # embeddings, closing norms and output


def is_sharded(owner: Any) -> bool:
    """Whether this is a model that was sharded, or one process's part of a tensor."""
    return hasattr(owner, "unshard") or hasattr(owner, "full_tensor")


def gather_tensor(tensor: Any) -> Tensor:
    """The whole of a tensor, of which this process may have a part; all processes call this."""
    if is_sharded(tensor):
        return tensor.full_tensor()
    return tensor


def part_like(target: Any, source: Tensor) -> Tensor:
    """Of a whole tensor what belongs in `target`: all of it, or where that is sharded its part."""
    if not is_sharded(target):
        return source
    from torch.distributed.tensor import distribute_tensor

    mesh, source = target.device_mesh, source.to(target.device)
    # Each process has read the file itself, so none waits for another.
    return distribute_tensor(source, mesh, target.placements, src_data_rank=None)


def release_weights(model: Any) -> None:
    """Leave each process its part again; what is in no layer stays whole for a backward pass."""
    if is_sharded(model):
        model.reshard()


def gather_model(model: Transformer, processes: Processes) -> Transformer | None:
    """A sharded model as one whole, on the CPU, in process 0; None in the others, which help."""
    from torch.distributed.checkpoint import state_dict as gathering

    with processes.exchange():
        options = gathering.StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = gathering.get_model_state_dict(model, options=options)
    if not processes.is_main:
        return None
    whole = Transformer(model.config, model.attention).to(next(model.parameters()).dtype)
    whole.load_state_dict(weights)
    return whole.train(model.training)


def gather_moments(model: Transformer, optimizer: Any, processes: Processes) -> dict[str, Tensor]:
    """The tensors of a sharded optimizer's state as `checkpoint.moments_of` names them, whole."""
    from torch.distributed.checkpoint import state_dict as gathering

    with processes.exchange():
        options = gathering.StateDictOptions(full_state_dict=True, cpu_offload=True)
        found: Any = gathering.get_optimizer_state_dict(model, optimizer, options=options)
    return {
        f"optimizer.{key}.{name}": value
        for name, state in found.get("state", {}).items()
        for key, value in state.items()
    }


def make_engine(model: nn.Module, processes: Processes) -> nn.Module:
    """What computes the loss of a `Trainer`: the model, in several processes its `Replicas`.

    A model whose layers are sharded exchanges gradients by itself.
    """
    if processes.count == 1 or is_sharded(model):
        return model
    with processes.exchange():  # of all weights: those of process 0 become everyone's
        return Replicas(model, processes)


@contextmanager
def backward_pass(engine: Any, processes: Processes, last: bool) -> Iterator[None]:
    """A block with a forward and a backward pass; after the `last` one gradients are exchanged.

    Before it they are only added up here: one message an update, however many batches it has.
    Raises LostProcess where another process has ended.
    """
    if processes.count == 1:
        yield
        return
    quiet: Any = nullcontext()
    if is_sharded(engine):
        engine.set_requires_gradient_sync(last)
    elif not last:
        quiet = engine.no_sync()
    with processes.exchange(is_of_messages), quiet:
        yield


def is_of_messages(error: Exception) -> bool:
    """Whether an error of a backward pass is of the exchange, not of the model or the loss.

    NCCL's errors have a class; those of gloo, for CPUs, name the file of gloo that raised them.
    """
    return isinstance(error, dist.DistError) or "gloo" in str(error)
