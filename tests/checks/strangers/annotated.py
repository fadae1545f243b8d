"""A stranger in the style of the Annotated Transformer; its masks are made inside, PAD is 2."""

import copy
import math

import torch
import torch.nn as nn
import torchtext_of_old.datasets as datasets
from torch.nn.functional import log_softmax

print("reading the corpus ...")
BOS, EOS, PAD, UNK = 0, 1, 2, 3
train_set, valid_set = datasets.download("de-en")


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def subsequent_mask(size):
    return torch.ones(1, 1, size, size).tril() == 1


class Norm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a * (x - mean) / (std + self.eps) + self.b


class Attention(nn.Module):
    def __init__(self, h, d_model, dropout):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.linears, self.dropout = clones(nn.Linear(d_model, d_model), 4), nn.Dropout(dropout)

    def forward(self, query, key, value, mask):
        n = query.size(0)
        query, key, value = (
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.d_k)
        p_attn = self.dropout(scores.masked_fill(mask == 0, -1e9).softmax(-1))
        x = (p_attn @ value).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        return self.linears[-1](x)


class Block(nn.Module):
    def __init__(self, d_model, h, d_ff, dropout, sublayers):
        super().__init__()
        self.attns = clones(Attention(h, d_model, dropout), sublayers - 1)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms, self.dropout = clones(Norm(d_model), sublayers), nn.Dropout(dropout)

    def forward(self, x, mask, memory=None, src_mask=None):
        y = self.norms[0](x)
        x = x + self.dropout(self.attns[0](y, y, y, mask))
        if memory is not None:
            y = self.norms[1](x)
            x = x + self.dropout(self.attns[1](y, memory, memory, src_mask))
        return x + self.dropout(self.ff(self.norms[-1](x)))


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab, dropout, max_len=60):
        super().__init__()
        self.lut, self.d_model = nn.Embedding(vocab, d_model), d_model
        position = torch.arange(max_len)[:, None]
        div = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.lut(x) * math.sqrt(self.d_model) + self.pe[:, : x.size(1)])


class EncoderDecoder(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, N, d_model, d_ff, h, dropout):
        super().__init__()
        self.encoder = clones(Block(d_model, h, d_ff, dropout, 2), N)
        self.decoder = clones(Block(d_model, h, d_ff, dropout, 3), N)
        self.norms = clones(Norm(d_model), 2)
        self.src_embed = Embeddings(d_model, src_vocab, dropout)
        self.tgt_embed = Embeddings(d_model, tgt_vocab, dropout)
        self.generator = nn.Linear(d_model, tgt_vocab)

    def encode(self, src, src_mask):
        x = self.src_embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.norms[0](x)

    def forward(self, src, tgt):
        src_mask = (src != PAD)[:, None, None]
        tgt_mask = (tgt != PAD)[:, None, None] & subsequent_mask(tgt.size(-1))
        memory, x = self.encode(src, src_mask), self.tgt_embed(tgt)
        for layer in self.decoder:
            x = layer(x, tgt_mask, memory, src_mask)
        return log_softmax(self.generator(self.norms[1](x)), dim=-1)


def make_model(src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1):
    model = EncoderDecoder(src_vocab, tgt_vocab, N, d_model, d_ff, h, dropout)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model


model = make_model(len(train_set.src), len(train_set.tgt))
for epoch in range(10):
    print("epoch", epoch, train_set.epoch(model))
