"""Training speed of nmtlib's Transformer against torch.nn.Transformer: same size, same batches, one run.

    python benchmarks/train.py [--steps 8] [--threads 2] [--output FILE]

Steps of the four candidates (either model, float32 and bfloat16) are interleaved, so that a change of the
machine's speed meets all of them; what counts are the ratios of the medians.
torch's model is used as its documentation shows it, with F.cross_entropy and Adam.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import nmtlib  # noqa: F401  (before torch: it chooses how threads wait)
from nmtlib.data.batching import Batch
from nmtlib.data.vocab import PAD
from nmtlib.inference.evaluate import describe_machine
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.measure import measure

CONFIG = TransformerConfig(6000, 6000, d_model=256, n_heads=4, n_encoder_layers=3, n_decoder_layers=3, d_ff=1024,
                           dropout=0.1, norm="pre")  # fmt: skip


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and projection as in its tutorials."""

    def __init__(self, c: TransformerConfig):
        super().__init__()
        self.source = TokenEmbedding(c.source_vocab_size, c.d_model)
        self.target = TokenEmbedding(c.target_vocab_size, c.d_model)
        self.positions = Positions(c.d_model, c.max_length)
        self.body = nn.Transformer(c.d_model, c.n_heads, c.n_encoder_layers, c.n_decoder_layers, c.d_ff, c.dropout,
                                   batch_first=True, norm_first=c.norm == "pre")  # fmt: skip
        self.output = nn.Linear(c.d_model, c.target_vocab_size)

    def forward(self, source, target):
        out = self.body(
            self.positions(self.source(source)), self.positions(self.target(target)),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.size(1)), tgt_is_causal=True,
            src_key_padding_mask=source == PAD, memory_key_padding_mask=source == PAD,
        )  # fmt: skip
        return self.output(out)


def ours(precision: torch.dtype):
    """One step of nmtlib's training."""
    torch.manual_seed(0)
    model = Transformer(CONFIG).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> None:
        loss, _ = measure(model, batch, precision=precision, smoothing=0.1)
        (loss / batch.labels.ne(PAD).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def theirs(precision: torch.dtype):
    """One step of torch's Transformer."""
    torch.manual_seed(0)
    model = TorchTransformer(CONFIG).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            logits = model(batch.source, batch.decoder_input)
            loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def batches(count: int, max_tokens: int = 2048) -> list[Batch]:
    """Batches of captions' lengths, bucketed as in training: each of one length."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for length in torch.randint(10, 22, (count,), generator=generator).tolist():
        size = (max_tokens // length, length + 1)
        made.append(Batch(*(torch.randint(4, 6000, size, generator=generator) for _ in range(2))))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each candidate")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "train.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    candidates = {
        f"{name} {precision}": make(getattr(torch, precision))
        for name, make in (("nmtlib", ours), ("nn.Transformer", theirs))
        for precision in ("float32", "bfloat16")
    }
    speeds: dict[str, list[float]] = {name: [] for name in candidates}
    for number, batch in enumerate(batches(options.steps + 2)):
        for name, step in candidates.items():
            started = time.perf_counter()
            step(batch)
            if number >= 2:  # the first steps allocate
                speeds[name].append(batch.labels.numel() / (time.perf_counter() - started))
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    result = {
        "command": f"python benchmarks/train.py --steps {options.steps} --threads {options.threads}",
        "target_tokens_per_second": {name: round(median, 1) for name, median in medians.items()},
        "ratio_float32": round(medians["nmtlib float32"] / medians["nn.Transformer float32"], 2),
        "ratio_bfloat16": round(medians["nmtlib bfloat16"] / medians["nn.Transformer bfloat16"], 2),
        "ratio_as_used": round(medians["nmtlib bfloat16"] / medians["nn.Transformer float32"], 2),
        "machine": describe_machine(),
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
