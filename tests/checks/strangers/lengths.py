"""A stranger in the style of Dive into Deep Learning: masks are lengths, logits have a state."""

import math

import torch
from d2l_of_old import torch as d2l
from torch import nn


def masked_softmax(scores, valid_lens):
    if valid_lens is None:
        return scores.softmax(-1)
    if valid_lens.dim() == 1:
        valid_lens = valid_lens[:, None].expand(-1, scores.size(2))
    keys = torch.arange(scores.size(-1))
    hidden = keys[None, None] >= valid_lens[:, :, None]
    return scores.masked_fill(hidden[:, None], -1e6).softmax(-1)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(4)
        )

    def forward(self, queries, keys, values, valid_lens):
        q, k, v = (
            x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for x in (self.W_q(queries), self.W_k(keys), self.W_v(values))
        )
        weights = masked_softmax(q @ k.transpose(2, 3) / math.sqrt(q.size(-1)), valid_lens)
        return self.W_o((self.dropout(weights) @ v).transpose(1, 2).flatten(2))


class AddNorm(nn.Module):
    def __init__(self, norm_shape, dropout):
        super().__init__()
        self.dropout, self.ln = nn.Dropout(dropout), nn.LayerNorm(norm_shape)

    def forward(self, X, Y):
        return self.ln(self.dropout(Y) + X)


class Block(nn.Module):
    def __init__(self, num_hiddens, ffn_hiddens, num_heads, dropout, decoder):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout)
        self.cross = MultiHeadAttention(num_hiddens, num_heads, dropout) if decoder else None
        self.addnorms = nn.ModuleList(AddNorm(num_hiddens, dropout) for _ in range(2 + decoder))
        self.ffn = nn.Sequential(
            nn.Linear(num_hiddens, ffn_hiddens), nn.ReLU(), nn.Linear(ffn_hiddens, num_hiddens)
        )

    def forward(self, X, valid_lens, memory=None, memory_lens=None):
        X = self.addnorms[0](X, self.attention(X, X, X, valid_lens))
        if memory is not None:
            X = self.addnorms[1](X, self.cross(X, memory, memory, memory_lens))
        return self.addnorms[-1](X, self.ffn(X))


class Side(nn.Module):
    def __init__(self, vocab_size, num_hiddens, ffn_hiddens, num_heads, num_blks, dropout, dec):
        super().__init__()
        self.embedding, self.num_hiddens = nn.Embedding(vocab_size, num_hiddens), num_hiddens
        self.P, self.dropout = nn.Embedding(60, num_hiddens), nn.Dropout(dropout)
        self.blks = nn.ModuleList(
            Block(num_hiddens, ffn_hiddens, num_heads, dropout, dec) for _ in range(num_blks)
        )

    def embed(self, X):
        X = self.embedding(X) * math.sqrt(self.num_hiddens)
        return self.dropout(X + self.P(torch.arange(X.size(1))))


class Transformer(nn.Module):
    def __init__(self, src_size, tgt_size, num_hiddens, ffn_hiddens, num_heads, num_blks, dropout):
        super().__init__()
        options = (num_hiddens, ffn_hiddens, num_heads, num_blks, dropout)
        self.encoder, self.decoder = Side(src_size, *options, False), Side(tgt_size, *options, True)
        self.dense = nn.Linear(num_hiddens, tgt_size)

    def forward(self, enc_X, dec_X, enc_valid_lens):
        memory = self.encoder.embed(enc_X)
        for blk in self.encoder.blks:
            memory = blk(memory, enc_valid_lens)
        X = self.decoder.embed(dec_X)
        dec_valid_lens = torch.arange(1, X.size(1) + 1).repeat(X.size(0), 1)
        for blk in self.decoder.blks:
            X = blk(X, dec_valid_lens, memory, enc_valid_lens)
        return self.dense(X), [memory, enc_valid_lens]


data = d2l.MTFraEng(batch_size=128)
model = Transformer(len(data.src_vocab), len(data.tgt_vocab), 256, 64, 4, 2, 0.2)
d2l.Trainer(max_epochs=30, gradient_clip_val=1).fit(model, data)
