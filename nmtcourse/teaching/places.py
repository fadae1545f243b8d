"""Models for notebook 03: which word came just before, and accuracy at later positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.data.batching import Batch
from nmtlib.model.attention import padding_mask
from nmtlib.model.config import TransformerConfig
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.layers import EncoderLayer
from nmtlib.model.transformer import Transformer
from nmtlib.specials import PAD
from nmtlib.training.loss import losses

WORDS, SENTENCES, RATE = 20, 32, 3e-3


class WordBefore(nn.Module):
    """Words and positions through one encoder layer: (B, S) -> (B, S, V), which word came before.

    `table` (S, D) contains a fixed vector for each position.
    """

    def __init__(self, table: Tensor):
        super().__init__()
        sizes = {"d_model": table.size(1), "d_ff": 2 * table.size(1), "n_heads": 4}
        self.embedding = TokenEmbedding(WORDS, table.size(1))
        self.layer = EncoderLayer(TransformerConfig(dropout=0.0, norm="pre", **sizes))
        self.norm, self.output = nn.LayerNorm(table.size(1)), nn.Linear(table.size(1), WORDS)
        self.register_buffer("table", table.float())
        nn.init.normal_(self.embedding.weight, std=table.size(1) ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.layer(self.embedding(ids) + self.table)  # (B, S, D)
        return self.output(self.norm(x))  # (B, S, V)


def learn_word_before(table: Tensor, *, seed: int, updates: int = 200) -> list[float]:
    """Train a `WordBefore` on random sentences as long as the table; the share right, each update.

    Every batch is new, so the model cannot memorise it.
    """
    torch.manual_seed(seed)
    model, draw = WordBefore(table), torch.Generator().manual_seed(seed)
    optimizer, right = torch.optim.Adam(model.parameters(), RATE), []
    for _ in range(updates):
        ids = torch.randint(1, WORDS, (SENTENCES, len(table)), generator=draw)  # (B, S)
        logits, before = model(ids)[:, 1:], ids[:, :-1]  # (B, S - 1, V) and (B, S - 1)
        loss = F.cross_entropy(logits.flatten(0, 1), before.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right.append((logits.argmax(dim=-1) == before).float().mean().item())
    return right


@torch.no_grad()
def accuracy(model: Transformer, batch: Batch, start: int = 0) -> float:
    """Share of target words predicted correctly, given the reference so far.

    The source has the positions start, start + 1, ...
    """
    mask = padding_mask(batch.source, PAD)
    x = model.source_positions(model.source_embedding(batch.source), start=start)  # (B, S, D)
    for layer in model.encoder:
        x = layer(x, mask)
    logits = model.decode(batch.decoder_input, model.encoder_norm(x), mask)  # (B, T, V)
    *_, correct = losses(logits, batch.labels, 0.0)
    return float(correct / batch.labels.ne(PAD).sum())
