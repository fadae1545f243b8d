"""The judge of notebook 03b; exercises 2 and 3 are questions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Set
from random import Random

import torch
from torch import nn

from nmtcourse.teaching.exercises import Wrong, call, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib.model.transformer import Transformer, TransformerConfig

READERS = ("query", "key", "value", "fc1")  # they read the stream and write into another space


def judge_1(left_alone: Callable[[nn.Module], Set[str]], *, draw: Random) -> str:
    """The names of the weights that stay as they are when the stream between layers is permuted."""
    for layers in (1, 2, 3):
        sizes = {"d_ff": 8 * layers, "n_encoder_layers": layers, "n_decoder_layers": 4 - layers}
        config = TransformerConfig(draw.randint(20, 30), 25, d_model=8, n_heads=2, **sizes)
        model, expected = Transformer(config), set()
        for name, parameter in model.named_parameters():
            inner = parameter.dim() == 1 and any(part in name for part in READERS)
            if inner or name == "output.bias":
                expected.add(name)
        before = copy.deepcopy(model.state_dict())
        names = call(left_alone, model)
        if any(not torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items()):
            raise Wrong(say("left_alone changes the weights of the model that it is given"))
        if not isinstance(names, Set):
            raise Wrong(say(f"left_alone should return a set, not {show(names)}"))
        require_equal("left_alone(model)", set(names), expected)
    return "3 models"
