import math

import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, vocab_size, dim, dropout, max_len=256):
        super().__init__()
        self.token, self.dim = nn.Embedding(vocab_size, dim, padding_idx=0), dim
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
        table = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        self.register_buffer("table", table, persistent=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, ids):
        return self.drop(self.token(ids) * math.sqrt(self.dim) + self.table[: ids.size(1)])
