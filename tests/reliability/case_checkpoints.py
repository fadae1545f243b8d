"""Weights and the state of a training that can be read, but are not what was written."""

from __future__ import annotations

import torch
from case import Case
from damage import (
    DEEP,
    Change,
    all_of,
    config,
    first,
    flip,
    headed,
    noted,
    nothing,
    progress,
    put,
    rewrite,
)
from readers import READERS, damaged, some

ALIEN_HEADER = (2**63).to_bytes(8, "little") + b"{}"
MODEL: dict[str, Change] = {
    "one bit other": flip,
    "a header longer than the file": put(ALIEN_HEADER),
    "a header nested without end": put(len(DEEP).to_bytes(8, "little") + DEEP),
    "no header": rewrite(lambda checkpoint: checkpoint.metadata.clear()),
    "no configuration": rewrite(lambda checkpoint: checkpoint.header.pop("config")),
    "an empty header": rewrite(lambda checkpoint: checkpoint.header.clear()),
    "a header that is a list": rewrite(lambda c: setattr(c, "header", [])),
    "a configuration that is null": headed(config=None),
    "a configuration that is a list": headed(config=[]),
    "a configuration that is a number": headed(config=7),
    "an empty configuration": headed(config={}),
    "an unknown key": config(loud=True),
    "another n_heads": config(n_heads=4),
    "another norm": config(norm="post"),
    "n_heads that does not divide d_model": config(n_heads=3),
    "no heads": config(n_heads=0),
    "heads in words": config(n_heads="2"),
    "half a head": config(n_heads=2.5),
    "null for d_model": config(d_model=None),
    "another d_model": config(d_model=32),
    "a d_model that no machine has": config(d_model=10**12),
    "layers that no machine has": config(n_encoder_layers=10**9),
    "another number of layers": config(n_decoder_layers=2),
    "another vocabulary size": config(source_vocab_size=7),
    "a negative vocabulary size": config(target_vocab_size=-7),
    "an unknown norm": config(norm="middle"),
    "dropout of 7": config(dropout=7),
    "NaN in a weight": first("encoder", lambda t: t.fill_(float("nan"))),
    "infinity in a weight": first("target_embedding", lambda t: t.fill_(float("inf"))),
    "a tensor less": first("model.", nothing),
    "no tensor": all_of("", nothing),
    "a tensor more": rewrite(lambda c: c.tensors.update({"model.more": torch.zeros(3)})),
    "a tensor of another shape": first("model.", lambda t: torch.zeros(t.shape[0], 3)),
    "a tensor turned round": first("weight", lambda t: t.t().contiguous()),
    "whole numbers": all_of("model.", lambda t: t.to(torch.int32)),
    "half precision": all_of("model.", lambda t: t.to(torch.float16)),
    "truth values": all_of("model.", lambda t: t > 0),
}
NOTES: dict[str, Change] = {
    "notes that are null": headed(notes=None),
    "notes that are a list": headed(notes=[]),
    "no notes": rewrite(lambda checkpoint: checkpoint.header.pop("notes")),
    "a loss in words": noted(validation_nll="low"),
    "a loss that is null": noted(validation_nll=None),
    "an endless loss": noted(validation_nll=1e9),
    "no number as loss": noted(validation_nll=float("nan")),
}
PROGRESS: dict[str, Change] = {
    "no progress": rewrite(lambda checkpoint: checkpoint.header["notes"].pop("progress")),
    "progress that is null": noted(progress=None),
    "progress that is a list": noted(progress=[]),
    "empty progress": noted(progress={}),
    "progress with an unknown key": progress(speed=7),
    "an epoch in words": progress(epoch="one"),
    "half an epoch": progress(epoch=1.5),
    "epochs below zero": progress(epoch=-1),
    "more epochs than are known": progress(epoch=2),
    "epochs that are null": progress(epoch=None),
    "batches below zero": progress(batches=-5),
    "batches beyond the epoch": progress(batches=10**6),
    "updates in words": progress(updates="ten"),
    "updates below zero": progress(updates=-10),
    "seconds that are null": progress(seconds=None),
    "seconds without end": progress(seconds=float("inf")),
    "sums that are too few": progress(totals=[0.0]),
    "sums in words": progress(totals=["a", "b", "c", "d"]),
    "sums that are null": progress(totals=None),
    "sums that are not numbers": progress(totals=[float("nan")] * 4),
    "a history that is null": progress(history=None),
    "a history of numbers": progress(history=[1, 2]),
    "an empty history": progress(history=[]),
    "a history with empty rows": progress(history=[{}]),
    "a history with unknown keys": rewrite(
        lambda c: c.header["notes"]["progress"]["history"][0].update(speed=7)
    ),
    "a history in words": rewrite(
        lambda c: c.header["notes"]["progress"]["history"][0].update(validation_nll="low")
    ),
}
ADAM: dict[str, Change] = {
    "no Adam state": all_of("optimizer.", nothing),
    "Adam state for a part": first("optimizer.exp_avg.", nothing),
    "no steps of Adam": all_of("optimizer.step.", nothing),
    "Adam state of another shape": first("optimizer.exp_avg.", lambda t: torch.zeros(3)),
    "Adam state of whole numbers": all_of("optimizer.exp_avg_sq.", lambda t: t.to(torch.int32)),
    "NaN in Adam state": first("optimizer.exp_avg.", lambda t: t.fill_(float("nan"))),
    "infinity in Adam state": first("optimizer.exp_avg_sq.", lambda t: t.fill_(float("inf"))),
    "negative squares in Adam state": first("optimizer.exp_avg_sq.", lambda t: t.fill_(-1.0)),
    "steps below zero": all_of("optimizer.step.", lambda t: t.fill_(-5.0)),
    "steps that are a table": all_of("optimizer.step.", lambda t: torch.zeros(2, 2)),
}


def checkpoints() -> list[Case]:
    """Weights and the state of a training that can be read, but are not what was written."""
    cases = []
    for number, (how, change) in enumerate(MODEL.items()):
        (command,) = some(READERS["model.safetensors"], number, 1)
        cases.append(damaged("model.safetensors", how, change, command))
        cases.append(damaged("last.safetensors", how, change, "resume"))
        if number % 2:
            cases.append(damaged("best.safetensors", how, change, "resume a finished run"))
        else:
            cases.append(damaged("epoch-001.safetensors", how, change, "resume a finished run"))
    for how, change in NOTES.items():
        cases.append(damaged("model.safetensors", how, change, "evaluate"))
        cases.append(damaged("best.safetensors", how, change, "resume a finished run"))
    for how, change in {**PROGRESS, **ADAM}.items():
        cases.append(damaged("last.safetensors", how, change, "resume"))
    return cases


CASES = checkpoints()
