from typing import Literal

from model.decoder import Decoder
from model.encoder import Encoder
from model.layers import Norm
from torch import nn


class Seq2Seq(nn.Module):
    def __init__(self, n_src: int, n_tgt: int, kind: Literal["small", "tiny"], norm: Norm,
                 dropout: float = 0.1, pad: int = 0):
        super().__init__()
        dim, layers = {"small": (64, 3), "tiny": (32, 2)}[kind]
        args = dim, 4, layers, 2 * dim, dropout, norm
        self.encoder, self.decoder = Encoder(n_src, *args), Decoder(n_tgt, *args)
        self.pad = pad

    def encode(self, src, src_blocked=None):
        return self.encoder(src, src_blocked)

    def forward(self, src, tgt, src_blocked=None):
        memory = self.encode(src, src_blocked)
        return self.decoder(tgt, memory, src_blocked)
