"""A Transformer in the style of the Annotated Transformer, in one file, with greedy decoding."""

import copy
import math
import random
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn

BOS, EOS, PAD, UNK = 0, 1, 2, 3


class Vocab:
    def __init__(self, sentences):
        words = sorted({w for s in sentences for w in s})
        self.itos = ["<s>", "</s>", "<blank>", "<unk>", *words]
        self.stoi = {w: i for i, w in enumerate(self.itos)}


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def subsequent_mask(size):
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


def attention(query, key, value, mask=None, dropout=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return p_attn @ value


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        n = query.size(0)
        query, key, value = [
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x = attention(query, key, value, mask, self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(self.w_1(x).relu()))


class Sublayer(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, d_model, dropout)
        self.ff = FeedForward(d_model, d_ff, dropout)
        self.sublayer = clones(Sublayer(d_model, dropout), 2)

    def forward(self, x, mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.ff)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, d_model, dropout)
        self.src_attn = MultiHeadedAttention(h, d_model, dropout)
        self.ff = FeedForward(d_model, d_ff, dropout)
        self.sublayer = clones(Sublayer(d_model, dropout), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        return self.sublayer[2](x, self.ff)


class Stack(nn.Module):
    def __init__(self, layer, N, d_model):
        super().__init__()
        self.layers, self.norm = clones(layer, N), nn.LayerNorm(d_model)

    def forward(self, x, *rest):
        for layer in self.layers:
            x = layer(x, *rest)
        return self.norm(x)


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab, dropout, max_len=500):
        super().__init__()
        self.lut, self.d_model = nn.Embedding(vocab, d_model), d_model
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.lut(x) * math.sqrt(self.d_model) + self.pe[:, : x.size(1)])


class Generator(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return F.log_softmax(self.proj(x), dim=-1)


class EncoderDecoder(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.src_embed, self.tgt_embed, self.generator = src_embed, tgt_embed, generator

    def forward(self, src, tgt, src_mask, tgt_mask):
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def encode(self, src, src_mask):
        return self.encoder(self.src_embed(src), src_mask)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)


def make_model(src_vocab, tgt_vocab, N=2, d_model=32, d_ff=64, h=4, dropout=0.1):
    model = EncoderDecoder(
        Stack(EncoderLayer(d_model, h, d_ff, dropout), N, d_model),
        Stack(DecoderLayer(d_model, h, d_ff, dropout), N, d_model),
        Embeddings(d_model, src_vocab, dropout),
        Embeddings(d_model, tgt_vocab, dropout),
        Generator(d_model, tgt_vocab),
    )
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model


class Batch:
    def __init__(self, src, tgt):
        self.src, self.src_mask = src, (src != PAD).unsqueeze(-2)
        self.tgt, self.tgt_y = tgt[:, :-1], tgt[:, 1:]
        pad = (self.tgt != PAD).unsqueeze(-2)
        self.tgt_mask = pad & subsequent_mask(self.tgt.size(-1))
        self.ntokens = (self.tgt_y != PAD).sum()


def batches(pairs, src_vocab, tgt_vocab, size):
    for at in range(0, len(pairs), size):
        rows = [
            [
                torch.tensor([BOS, *(v.stoi[w] for w in s), EOS])
                for v, s in zip((src_vocab, tgt_vocab), pair)
            ]
            for pair in pairs[at : at + size]
        ]
        sides = [
            nn.utils.rnn.pad_sequence([r[n] for r in rows], True, padding_value=PAD) for n in (0, 1)
        ]
        yield Batch(*sides)


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.size, self.smoothing = padding_idx, size, smoothing

    def forward(self, x, target):
        true_dist = torch.full_like(x, self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.unsqueeze(1), 1.0 - self.smoothing)
        true_dist[:, self.padding_idx] = 0
        true_dist[target == self.padding_idx] = 0
        return self.criterion(x, true_dist)


class LossCompute:
    def __init__(self, generator, criterion):
        self.generator, self.criterion = generator, criterion

    def __call__(self, x, y):
        x = self.generator(x)
        return self.criterion(x.reshape(-1, x.size(-1)), y.reshape(-1))


def run_epoch(data_iter, model, loss_compute, optimizer=None, scheduler=None):
    total_loss, total_tokens = 0.0, 0
    for batch in data_iter:
        out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        loss = loss_compute(out, batch.tgt_y)
        if optimizer is not None:
            (loss / batch.ntokens).backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        total_loss += loss.item()
        total_tokens += batch.ntokens.item()
    return total_loss / total_tokens


def greedy_decode(model, src, src_mask, max_len):
    memory = model.encode(src, src_mask)
    ys = torch.full((1, 1), BOS)
    for _ in range(max_len):
        out = model.decode(memory, src_mask, ys, subsequent_mask(ys.size(1)))
        prob = model.generator(out[:, -1])
        ys = torch.cat([ys, prob.argmax(-1, keepdim=True)], dim=1)
    return ys[0]


def translate(model, sentence, src_vocab, tgt_vocab, max_len=20):
    model.eval()
    src = torch.tensor([[BOS, *(src_vocab.stoi[w] for w in sentence), EOS]])
    with torch.no_grad():
        ids = greedy_decode(model, src, (src != PAD).unsqueeze(-2), max_len).tolist()[1:]
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return [tgt_vocab.itos[i] for i in ids]


def corpus_bleu(hypotheses, references, n=4):
    right, total, h_len, r_len = [0] * n, [0] * n, 0, 0
    for hyp, ref in zip(hypotheses, references):
        h_len, r_len = h_len + len(hyp), r_len + len(ref)
        for k in range(n):
            grams = Counter(tuple(hyp[i : i + k + 1]) for i in range(len(hyp) - k))
            seen = Counter(tuple(ref[i : i + k + 1]) for i in range(len(ref) - k))
            right[k] += sum((grams & seen).values())
            total[k] += sum(grams.values())
    if min(right) == 0:
        return 0.0
    logs = sum(math.log(r / t) for r, t in zip(right, total)) / n
    return 100 * math.exp(min(0, 1 - r_len / h_len) + logs)


def validate(model, pairs, src_vocab, tgt_vocab, batch_size=32):
    """The loss per token (NLL) of a split, its perplexity, and the BLEU of its translations."""
    criterion = LabelSmoothing(len(tgt_vocab.itos), PAD, 0.0)
    model.eval()
    with torch.no_grad():
        loss = run_epoch(
            batches(pairs, src_vocab, tgt_vocab, batch_size),
            model,
            LossCompute(model.generator, criterion),
        )
    hypotheses = [translate(model, s, src_vocab, tgt_vocab) for s, _ in pairs]
    bleu = corpus_bleu(hypotheses, [t for _, t in pairs])
    return loss, math.exp(loss), bleu


def corpus(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        words = [rng.choice("abcdefgh") for _ in range(rng.randint(2, 7))]
        yield words, [w.upper() + ("2" if i % 2 else "") for i, w in enumerate(words[::-1])]


def main(epochs=4):
    torch.manual_seed(1)
    train, valid = list(corpus(256, 0)), list(corpus(30, 1))
    src_vocab, tgt_vocab = (Vocab([p[n] for p in train + valid]) for n in (0, 1))
    model = make_model(len(src_vocab.itos), len(tgt_vocab.itos))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / 20, (20 / (s + 1)) ** 0.5)
    )
    smooth = LossCompute(model.generator, LabelSmoothing(len(tgt_vocab.itos), PAD, 0.1))
    for epoch in range(epochs):
        model.train()
        random.Random(epoch).shuffle(train)
        loss = run_epoch(batches(train, src_vocab, tgt_vocab, 32), model, smooth, optimizer, scheduler)
        print("epoch", epoch, "train", loss, "valid", validate(model, valid, src_vocab, tgt_vocab))
    return model, src_vocab, tgt_vocab


if __name__ == "__main__":
    main()
