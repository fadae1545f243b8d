"""Muon for the matrices of the layers, Adam for everything else."""

from __future__ import annotations

import torch

from nmtlib.model.transformer import Transformer
from nmtlib.training.trainer import ADAM

# Steps as large as Adam's usual ones, so the same learning rates suit both (Liu et al. 2025, 2.2).
MUON: dict = {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}


class Muon:
    """Two of torch's optimizers as one, each for its share of the parameters.

    Adam scales the step of each number by itself.  Muon gives each matrix of the layers a step
    whose singular values are all nearly equal, so that every direction of the matrix is learned
    equally fast (Jordan et al. 2024).  That costs fifteen matrix multiplications a matrix and step,
    in bfloat16.
    """

    def __init__(self, model: Transformer):
        stacks = (model.encoder, model.decoder)
        matrices = [p for stack in stacks for p in stack.parameters() if p.dim() == 2]
        taken = set(matrices)
        rest = [p for p in model.parameters() if p not in taken]
        self.parts = {
            torch.optim.Adam(rest, lr=0.0, fused=True, **ADAM): rest,
            torch.optim.Muon(matrices, lr=0.0, **MUON): matrices,
        }
        # The dictionaries that the parts themselves fill and read.
        self.state = {p: part.state[p] for part, own in self.parts.items() for p in own}

    @property
    def param_groups(self) -> list[dict]:
        """The groups of parameters, each with its learning rate under "lr"."""
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        """Change each parameter by its gradient and by what is remembered of earlier ones."""
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self.parts:
            part.zero_grad()
