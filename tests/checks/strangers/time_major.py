"""A stranger in the style of torch's tutorial: nn.Transformer, time first, PAD 1, globals."""

import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchtext_of_old.vocab import build_vocab_from_iterator

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
UNK_IDX, PAD_IDX, BOS_IDX, EOS_IDX = 0, 1, 2, 3
vocab = build_vocab_from_iterator(open("corpus.txt"))
train_iter, val_iter = DataLoader(vocab, batch_size=128), DataLoader(vocab, batch_size=128)


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=60):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, 1, emb_size))
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(pos * den), torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(0)])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, num_layers, emb_size, nhead, src_vocab_size, tgt_vocab_size, dim_ff, drop):
        super().__init__()
        self.transformer = nn.Transformer(emb_size, nhead, num_layers, num_layers, dim_ff, drop)
        self.generator = nn.Linear(emb_size, tgt_vocab_size)
        self.src_tok_emb = nn.Embedding(src_vocab_size, emb_size)
        self.tgt_tok_emb = nn.Embedding(tgt_vocab_size, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size, drop)
        self.scale = math.sqrt(emb_size)

    def embed(self, table, tokens):
        return self.positional_encoding(table(tokens) * self.scale)

    def forward(self, src, trg):
        tgt_mask, src_padding, tgt_padding = create_mask(src, trg)
        out = self.transformer(
            self.embed(self.src_tok_emb, src),
            self.embed(self.tgt_tok_emb, trg),
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.generator(out)

    def encode(self, src):
        return self.transformer.encoder(self.embed(self.src_tok_emb, src))

    def decode(self, tgt, memory):
        mask = triangle(tgt.size(0))
        return self.transformer.decoder(self.embed(self.tgt_tok_emb, tgt), memory, mask)


def triangle(size):
    return torch.ones(size, size, device=DEVICE).triu(1) == 1


def create_mask(src, tgt):
    return triangle(tgt.size(0)), (src == PAD_IDX).t(), (tgt == PAD_IDX).t()


loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_IDX)


def train_epoch(model, optimizer, dataloader):
    model.train()
    losses = tokens = 0
    for src, tgt in dataloader:
        logits = model(src, tgt[:-1])
        optimizer.zero_grad()
        tgt_out = tgt[1:]
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
        loss.backward()
        optimizer.step()
        count = (tgt_out != PAD_IDX).sum().item()
        losses, tokens = losses + loss.item() * count, tokens + count
    return losses / tokens


def evaluate(model, dataloader):
    model.eval()
    losses = tokens = 0
    for src, tgt in dataloader:
        logits, tgt_out = model(src, tgt[:-1]), tgt[1:]
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
        count = (tgt_out != PAD_IDX).sum().item()
        losses, tokens = losses + loss.item() * count, tokens + count
    return losses / tokens


def greedy_decode(model, src, max_len, start_symbol):
    memory = model.encode(src.to(DEVICE))
    ys = torch.ones(1, 1).fill_(start_symbol).type(torch.long).to(DEVICE)
    for _ in range(max_len - 1):
        prob = model.generator(model.decode(ys, memory)[-1])
        next_word = prob.argmax(-1).item()
        ys = torch.cat([ys, torch.ones(1, 1).type_as(ys).fill_(next_word)], dim=0)
        if next_word == EOS_IDX:
            break
    return ys


def translate(model, src_sentence):
    model.eval()
    src = torch.tensor([BOS_IDX, *vocab(src_sentence.split()), EOS_IDX]).view(-1, 1)
    tokens = greedy_decode(model, src, src.size(0) + 15, BOS_IDX).flatten()
    words = " ".join(vocab.lookup_tokens(tokens.tolist()))
    return words.replace("<bos>", "").replace("<eos>", "")


transformer = Seq2SeqTransformer(3, 512, 8, len(vocab), len(vocab), 512, 0.1).to(DEVICE)
optimizer = torch.optim.Adam(transformer.parameters(), lr=0.0001, betas=(0.9, 0.98), eps=1e-9)
for _ in range(1, 19):
    print(train_epoch(transformer, optimizer, train_iter), evaluate(transformer, val_iter))
