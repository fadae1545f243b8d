import torch
from model.embedding import Embedding
from model.layers import Layer, Norm
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab_size, dim, heads, layers, hidden, dropout, norm):
        super().__init__()
        self.embed = Embedding(vocab_size, dim, dropout)
        self.layers = nn.ModuleList(
            [Layer(dim, heads, hidden, dropout, norm, cross=True) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(dim) if norm is Norm.PRE else nn.Identity()
        self.fc = nn.Linear(dim, vocab_size)

    def forward(self, tgt, memory, src_blocked):
        t = tgt.size(1)
        future = torch.ones(t, t, dtype=torch.bool, device=tgt.device).triu(1)
        x = self.embed(tgt)
        for layer in self.layers:
            x = layer(x, future, memory, src_blocked)
        return self.fc(self.norm(x))
