"""What each trick of the training step is worth: the step with one thing done otherwise.

    python benchmarks/step.py [--steps 8] [--threads 2] [--output FILE]

The variants' steps are interleaved on the same batches; a ratio above 1 says how much slower the
step is with that one change, and below 1 that the change would be a gain.  NOTES.md says what was
kept, and why.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from shared import timing_parser, write_result  # before torch, as it imports nmtlib first

# isort: split
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from train import batches

from nmtcourse.recipes.losses import losses_in_blocks
from nmtlib.data.batching import Batch
from nmtlib.model import attention, embeddings
from nmtlib.model.attention import MultiHeadAttention
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import PAD
from nmtlib.training import loss as measuring
from nmtlib.training.hardware import describe_machine

CONFIG = TransformerConfig(
    6000,
    6000,
    d_model=256,
    n_heads=4,
    n_encoder_layers=3,
    n_decoder_layers=3,
    d_ff=1024,
    dropout=0.3,
    norm="post",
    tied="all",
)


def bool_dropout(x: Tensor, p: float) -> Tensor:
    """Cheap random numbers, but the mask stays bool."""
    dropped = round(p * 256)
    numbers = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    kept = (numbers.view(torch.uint8)[: x.numel()] >= dropped).view(x.shape)
    return x * kept * (256 / (256 - dropped))


def whole_loss(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """The loss as torch has it: tables of probabilities for all positions at once."""
    logits, labels = logits.flatten(0, -2), labels.flatten()
    options = {"ignore_index": PAD, "reduction": "sum"}
    loss = F.cross_entropy(logits, labels, label_smoothing=smoothing, **options)
    with torch.no_grad():
        nll, correct = (
            F.cross_entropy(logits, labels, **options),
            (logits.argmax(-1) == labels)[labels != PAD].sum(),
        )
    return loss, nll, correct


FUSED = attention.F.scaled_dot_product_attention


def fused_attention(query, key, value, mask=None, *, dropout_p=0.0, return_weights=False):
    """Torch's fused kernel also while training."""
    return FUSED(query, key, value, attn_mask=mask, dropout_p=dropout_p)


def merged(
    self: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Queries, keys and values by one product where they come from one place."""
    if query is not key:
        return self.attend(query, *self.project(key, value), mask)
    parts = self.query, self.key, self.value
    weight, bias = torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])
    q, k, v = (self.split(x) for x in F.linear(query, weight, bias).chunk(3, dim=-1))
    return self.output(self.weighted_values(q, k, v, mask).transpose(1, 2).flatten(2))


@contextmanager
def nothing() -> Iterator[None]:
    """The step as it is."""
    yield


VARIANTS: dict[str, Callable] = {
    "as it is": nothing,
    "float32": nothing,
    "torch's Adam, not fused": nothing,
    "torch's dropout": lambda: mock.patch.object(embeddings, "dropout", F.dropout),
    "dropout masks in bool": lambda: mock.patch.object(embeddings, "dropout", bool_dropout),
    "torch's cross-entropy": lambda: mock.patch.object(measuring, "losses", whole_loss),
    "the loss in blocks, its gradient by hand": lambda: mock.patch.object(
        measuring, "losses", losses_in_blocks
    ),
    "fused attention kernel": lambda: mock.patch.object(
        attention, "scaled_dot_product_attention", fused_attention
    ),
    "merged query, key, value": lambda: mock.patch.object(MultiHeadAttention, "forward", merged),
}


def make_step(name: str) -> Callable[[Batch], None]:
    """One update with the variant `name`."""
    torch.manual_seed(0)
    model = Transformer(CONFIG).train()
    optimizer = torch.optim.Adam(
        model.parameters(), 1e-3, betas=(0.9, 0.98), eps=1e-9, fused="Adam" not in name
    )
    precision = torch.float32 if name == "float32" else torch.bfloat16

    def step(batch: Batch) -> None:
        with VARIANTS[name]():
            with measuring.autocast(torch.device("cpu"), precision):
                loss, _ = measuring.compute_loss(model, batch, 0.1)
            (loss / batch.labels.ne(PAD).sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return step


def main() -> None:
    parser = timing_parser(__doc__, "step")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each variant")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    steps, seconds = {name: make_step(name) for name in VARIANTS}, {name: [] for name in VARIANTS}
    for number, batch in enumerate(batches(options.steps + 2)):
        for name, step in steps.items():
            started = time.perf_counter()
            step(batch)
            if number >= 2:  # the first steps allocate
                seconds[name].append(time.perf_counter() - started)
    ours = seconds["as it is"]
    result = {
        "command": f"python benchmarks/step.py --steps {options.steps} --threads {options.threads}",
        "times_as_long": {
            name: round(statistics.median(a / b for a, b in zip(values, ours, strict=True)), 2)
            for name, values in seconds.items()
        },
        "seconds_a_step": round(statistics.median(ours), 3),
        "machine": describe_machine(),
    }
    write_result(options.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
