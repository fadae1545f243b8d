"""The optimizers of a training: Adam for all parameters, or Muon for the matrices of the layers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from nmtlib.model.transformer import Transformer

ADAM: dict = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, 5.3
# Steps as large as Adam's usual ones, so the same learning rates suit both (Liu et al. 2025, 2.2).
MUON: dict = {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}
# What each method remembers of a parameter.
STATES = {"adam": ("step", "exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}


class Optimizer:
    """The step that a training makes: torch's optimizers, each for its share of the parameters.

    'adam' scales the step of each number by itself (Kingma and Ba 2015).  'muon' does so for
    embeddings, output, norms and biases only; to each matrix of the layers it gives a step whose
    singular values are all nearly equal, so that every direction of the matrix is learned equally
    fast (Jordan et al. 2024).  That costs fifteen matrix products a matrix and step, in bfloat16.
    """

    def __init__(self, name: str, model: Transformer):
        stacks = (model.encoder, model.decoder) if name == "muon" else ()
        matrices = [p for stack in stacks for p in stack.parameters() if p.dim() == 2]
        self.methods = dict.fromkeys(model.parameters(), "adam") | dict.fromkeys(matrices, "muon")
        rest = [parameter for parameter, method in self.methods.items() if method == "adam"]
        self.parts: dict[str, torch.optim.Optimizer] = {}
        self.parts["adam"] = torch.optim.Adam(rest, lr=0.0, fused=True, **ADAM)
        if matrices:
            self.parts["muon"] = torch.optim.Muon(matrices, lr=0.0, **MUON)

    @property
    def param_groups(self) -> list[dict]:
        """The groups of parameters, each with its learning rate under "lr"."""
        return [group for part in self.parts.values() for group in part.param_groups]

    def set_rate(self, rate: float) -> None:
        """Let the next steps have this learning rate."""
        for group in self.param_groups:
            group["lr"] = rate

    def step(self) -> None:
        """Change each parameter by its gradient and by what is remembered of earlier ones."""
        for part in self.parts.values():
            part.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self.parts.values():
            part.zero_grad()

    def state(self, parameter: Parameter) -> dict[str, Tensor]:
        """What is remembered of a parameter, by the names in `STATES`; nothing before a step."""
        return self.parts[self.methods[parameter]].state[parameter]
