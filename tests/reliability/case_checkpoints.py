"""Weights and the state of a training that can be read, but are not what was written.

Whatever changes a header or a tensor changes the SHA-256, so one change of each kind stands for
all; tests/training/test_state.py changes the SHA-256 too.
"""

from __future__ import annotations

import torch
from case import Case
from damage import DEEP, Change, flip, put, rewrite
from readers import READERS, damaged, some

ALIEN_HEADER = (2**63).to_bytes(8, "little") + b"{}"
WAYS: dict[str, Change] = {
    "one bit other": flip,
    "a header longer than the file": put(ALIEN_HEADER),
    "a header nested without end": put(len(DEEP).to_bytes(8, "little") + DEEP),
    "no header": rewrite(lambda c: c.metadata.clear()),
    "an empty header": rewrite(lambda c: c.header.clear()),
    "a header that is a list": rewrite(lambda c: setattr(c, "header", [])),
    "a configuration that is null": rewrite(lambda c: c.header.update(config=None)),
    "another n_heads": rewrite(lambda c: c.header["config"].update(n_heads=4)),
    "a file of an earlier version": rewrite(lambda c: c.header.update(notes={})),
    "a description that is a list": rewrite(lambda c: c.header.update(description=[])),
    "no description": rewrite(lambda c: c.header.update(description=None)),
    "no tensor": rewrite(lambda c: c.tensors.clear()),
    "a tensor more": rewrite(lambda c: c.tensors.update({"model.more": torch.zeros(3)})),
}
CASES: list[Case] = [
    damaged(file, how, change, command)
    for number, (how, change) in enumerate(WAYS.items())
    for file in ("model", "state", "best", "epoch-001")
    for file in [f"{file}.safetensors"]
    for command in some(READERS[file], number, 1)
]
