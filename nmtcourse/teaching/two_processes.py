"""Train a small model for a few updates, in one process or in several, and print its losses.

    python -m nmtcourse.teaching.two_processes
    torchrun --standalone --nproc-per-node=2 -m nmtcourse.teaching.two_processes

The last line that the first process prints is JSON: the loss of each update over all processes,
and how far the weights of the processes have drifted apart.  They train twice; the second time
nobody exchanges the gradients, which is the bug to watch.
"""

from __future__ import annotations

import json

import torch

from nmtcourse import toy
from nmtcourse.teaching.course import load_toy
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.hardware import Processes
from nmtlib.training.trainer import Trainer

PAIRS = 160
SIZES = {"d_model": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 64}
# No dropout: each process drops other values, as it must, and the curves would be alike, not equal.
MODEL = TransformerConfig(447, 355, **SIZES, dropout=0.0, norm="pre", embedding_init="normal")
SETTINGS = TrainingSettings(
    max_tokens=256, warmup=4, learning_rate=3e-3, precision="fp32", device="cpu"
)


def losses_of_updates(processes: Processes, apart: bool = False) -> dict[str, list[float] | float]:
    """The loss of each update of one epoch, and the drift between the weights of the processes."""
    translator, corpus = load_toy("de-en"), toy.load_toy("toy-de-en", train=PAIRS, challenge=0)
    examples = [translator.example(pair.source, pair.target) for pair in corpus.train]
    torch.manual_seed(0)  # the same weights in every process
    trainer = Trainer(Transformer(MODEL), examples, examples, SETTINGS, processes=processes)
    if apart:  # the model computes its gradients itself, and what would exchange them is not asked
        vars(trainer)["engine"] = trainer.model
    loader, curve = trainer.loader, []
    for rows in loader.plan(seed=1):
        # The labels are those of all processes.
        totals = trainer.update(loader.load([rows]), loader.labels([rows]))
        curve.append(trainer.all_reduce(totals).loss_per_token)
    return {"losses": curve, "drift": drift(trainer.model, processes)}


def drift(model: torch.nn.Module, processes: Processes) -> float:
    """The largest distance of any weight from its mean over the processes."""
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    mean = processes.all_reduce(weights.clone()) / processes.count
    largest = (weights - mean).abs().max()
    every = torch.zeros(processes.count)
    every[processes.rank] = largest
    return float(processes.all_reduce(every).max())


def main() -> None:
    """Train as it should be and with the bug, and let the first process print."""
    torch.set_num_threads(1)
    processes = Processes(torch.device("cpu"))
    results = {
        name: losses_of_updates(processes, apart)
        for name, apart in (("summed", False), ("apart", True))
    }
    if processes.is_main:
        print(json.dumps(results))
    processes.close()


if __name__ == "__main__":
    main()
