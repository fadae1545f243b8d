from model.embedding import Embedding
from model.layers import Layer, Norm
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab_size, dim, heads, layers, hidden, dropout, norm):
        super().__init__()
        self.embed = Embedding(vocab_size, dim, dropout)
        self.layers = nn.ModuleList(
            [Layer(dim, heads, hidden, dropout, norm, cross=False) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(dim) if norm is Norm.PRE else nn.Identity()

    def forward(self, src, src_blocked):
        x = self.embed(src)
        for layer in self.layers:
            x = layer(x, src_blocked)
        return self.norm(x)
