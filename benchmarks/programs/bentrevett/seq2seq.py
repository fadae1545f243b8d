"""Attention is all you need, in the style of a notebook with fields and iterators."""

import math
import random

import torch
import torch.nn as nn
from nltk.translate.bleu_score import corpus_bleu

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Vocab:
    def __init__(self, sentences):
        self.itos = ["<unk>", "<pad>", "<sos>", "<eos>"] + sorted({w for s in sentences for w in s})
        self.stoi = {w: i for i, w in enumerate(self.itos)}


class Field:
    init_token, eos_token, pad_token = "<sos>", "<eos>", "<pad>"

    def build_vocab(self, sentences):
        self.vocab = Vocab(sentences)

    def process(self, sentences):
        rows = [[self.init_token, *s, self.eos_token] for s in sentences]
        longest = max(len(r) for r in rows)
        rows = [r + [self.pad_token] * (longest - len(r)) for r in rows]
        return torch.tensor([[self.vocab.stoi[w] for w in r] for r in rows], device=device)


class Iterator:
    def __init__(self, data, src_field, trg_field, batch_size):
        self.data, self.fields, self.size = data, (src_field, trg_field), batch_size

    def __len__(self):
        return math.ceil(len(self.data) / self.size)

    def __iter__(self):
        for at in range(0, len(self.data), self.size):
            some = self.data[at : at + self.size]
            yield tuple(f.process([p[n] for p in some]) for n, f in enumerate(self.fields))


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.hid_dim, self.n_heads, self.head_dim = hid_dim, n_heads, hid_dim // n_heads
        self.fc_q, self.fc_k = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.fc_v, self.fc_o = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = torch.sqrt(torch.FloatTensor([self.head_dim])).to(device)

    def forward(self, query, key, value, mask=None):
        batch_size = query.shape[0]
        Q, K, V = self.fc_q(query), self.fc_k(key), self.fc_v(value)
        Q = Q.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = K.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = V.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.dropout(attention), V).permute(0, 2, 1, 3).contiguous()
        return self.fc_o(x.view(batch_size, -1, self.hid_dim)), attention


class PositionwiseFeedforwardLayer(nn.Module):
    def __init__(self, hid_dim, pf_dim, dropout):
        super().__init__()
        self.fc_1, self.fc_2 = nn.Linear(hid_dim, pf_dim), nn.Linear(pf_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc_2(self.dropout(torch.relu(self.fc_1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, pf_dim, dropout):
        super().__init__()
        self.self_attn_layer_norm, self.ff_layer_norm = nn.LayerNorm(hid_dim), nn.LayerNorm(hid_dim)
        self.self_attention = MultiHeadAttentionLayer(hid_dim, n_heads, dropout)
        self.positionwise_feedforward = PositionwiseFeedforwardLayer(hid_dim, pf_dim, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, src_mask):
        _src, _ = self.self_attention(src, src, src, src_mask)
        src = self.self_attn_layer_norm(src + self.dropout(_src))
        return self.ff_layer_norm(src + self.dropout(self.positionwise_feedforward(src)))


class DecoderLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, pf_dim, dropout):
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(hid_dim)
        self.enc_attn_layer_norm = nn.LayerNorm(hid_dim)
        self.ff_layer_norm = nn.LayerNorm(hid_dim)
        self.self_attention = MultiHeadAttentionLayer(hid_dim, n_heads, dropout)
        self.encoder_attention = MultiHeadAttentionLayer(hid_dim, n_heads, dropout)
        self.positionwise_feedforward = PositionwiseFeedforwardLayer(hid_dim, pf_dim, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, trg, enc_src, trg_mask, src_mask):
        _trg, _ = self.self_attention(trg, trg, trg, trg_mask)
        trg = self.self_attn_layer_norm(trg + self.dropout(_trg))
        _trg, attention = self.encoder_attention(trg, enc_src, enc_src, src_mask)
        trg = self.enc_attn_layer_norm(trg + self.dropout(_trg))
        trg = self.ff_layer_norm(trg + self.dropout(self.positionwise_feedforward(trg)))
        return trg, attention


class Encoder(nn.Module):
    def __init__(self, input_dim, hid_dim, n_layers, n_heads, pf_dim, dropout, max_length=100):
        super().__init__()
        self.tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.layers = nn.ModuleList(
            [EncoderLayer(hid_dim, n_heads, pf_dim, dropout) for _ in range(n_layers)]
        )
        self.dropout = nn.Dropout(dropout)
        self.scale = torch.sqrt(torch.FloatTensor([hid_dim])).to(device)

    def forward(self, src, src_mask):
        batch_size, src_len = src.shape
        pos = torch.arange(0, src_len).unsqueeze(0).repeat(batch_size, 1).to(device)
        src = self.dropout(self.tok_embedding(src) * self.scale + self.pos_embedding(pos))
        for layer in self.layers:
            src = layer(src, src_mask)
        return src


class Decoder(nn.Module):
    def __init__(self, output_dim, hid_dim, n_layers, n_heads, pf_dim, dropout, max_length=100):
        super().__init__()
        self.tok_embedding = nn.Embedding(output_dim, hid_dim)
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.layers = nn.ModuleList(
            [DecoderLayer(hid_dim, n_heads, pf_dim, dropout) for _ in range(n_layers)]
        )
        self.fc_out = nn.Linear(hid_dim, output_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = torch.sqrt(torch.FloatTensor([hid_dim])).to(device)

    def forward(self, trg, enc_src, trg_mask, src_mask):
        batch_size, trg_len = trg.shape
        pos = torch.arange(0, trg_len).unsqueeze(0).repeat(batch_size, 1).to(device)
        trg = self.dropout(self.tok_embedding(trg) * self.scale + self.pos_embedding(pos))
        for layer in self.layers:
            trg, attention = layer(trg, enc_src, trg_mask, src_mask)
        return self.fc_out(trg), attention


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, src_pad_idx, trg_pad_idx, device):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.src_pad_idx, self.trg_pad_idx, self.device = src_pad_idx, trg_pad_idx, device

    def make_src_mask(self, src):
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg):
        trg_pad_mask = (trg != self.trg_pad_idx).unsqueeze(1).unsqueeze(2)
        trg_len = trg.shape[1]
        trg_sub_mask = torch.tril(torch.ones((trg_len, trg_len), device=self.device)).bool()
        return trg_pad_mask & trg_sub_mask

    def forward(self, src, trg):
        src_mask, trg_mask = self.make_src_mask(src), self.make_trg_mask(trg)
        return self.decoder(trg, self.encoder(src, src_mask), trg_mask, src_mask)


def train(model, iterator, optimizer, criterion, clip):
    model.train()
    epoch_loss = 0
    for src, trg in iterator:
        optimizer.zero_grad()
        output, _ = model(src, trg[:, :-1])
        output = output.contiguous().view(-1, output.shape[-1])
        loss = criterion(output, trg[:, 1:].contiguous().view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        epoch_loss += loss.item()
    return epoch_loss / len(iterator)


def evaluate(model, iterator, criterion):
    model.eval()
    epoch_loss, n_tokens = 0, 0
    with torch.no_grad():
        for src, trg in iterator:
            output, _ = model(src, trg[:, :-1])
            output = output.contiguous().view(-1, output.shape[-1])
            trg = trg[:, 1:].contiguous().view(-1)
            count = (trg != model.trg_pad_idx).sum().item()
            epoch_loss += criterion(output, trg).item() * count
            n_tokens += count
    return epoch_loss / n_tokens


def translate_sentence(sentence, src_field, trg_field, model, device, max_len=50):
    model.eval()
    tokens = [src_field.init_token] + [token.lower() for token in sentence] + [src_field.eos_token]
    src_indexes = [src_field.vocab.stoi[token] for token in tokens]
    src_tensor = torch.LongTensor(src_indexes).unsqueeze(0).to(device)
    src_mask = model.make_src_mask(src_tensor)
    with torch.no_grad():
        enc_src = model.encoder(src_tensor, src_mask)
    trg_indexes = [trg_field.vocab.stoi[trg_field.init_token]]
    for i in range(max_len):
        trg_tensor = torch.LongTensor(trg_indexes).unsqueeze(0).to(device)
        trg_mask = model.make_trg_mask(trg_tensor)
        with torch.no_grad():
            output, attention = model.decoder(trg_tensor, enc_src, trg_mask, src_mask)
        pred_token = output.argmax(2)[:, -1].item()
        if pred_token == trg_field.vocab.stoi[trg_field.eos_token]:
            break
        trg_indexes.append(pred_token)
    trg_tokens = [trg_field.vocab.itos[i] for i in trg_indexes]
    return trg_tokens[1:], attention


def calculate_bleu(data, src_field, trg_field, model, device, max_len=50):
    trgs, pred_trgs = [], []
    for src, trg in data:
        pred_trg, _ = translate_sentence(src, src_field, trg_field, model, device, max_len)
        pred_trgs.append(pred_trg)
        trgs.append([trg])
    return corpus_bleu(trgs, pred_trgs)


def build(input_dim, output_dim, hid_dim=32, layers=2, heads=4, pf_dim=64, dropout=0.1):
    enc = Encoder(input_dim, hid_dim, layers, heads, pf_dim, dropout)
    dec = Decoder(output_dim, hid_dim, layers, heads, pf_dim, dropout)
    return Seq2Seq(enc, dec, 1, 1, device).to(device)


def corpus(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        words = [rng.choice("one two three four five six".split()) for _ in range(rng.randint(2, 7))]
        pairs.append((words, [w[:2] for w in sorted(words)] + ["."]))
    return pairs


def main(n_epochs=4):
    torch.manual_seed(1234)
    train_data, valid_data, test_data = corpus(256, 0), corpus(37, 1), corpus(20, 2)
    SRC, TRG = Field(), Field()
    SRC.build_vocab([s for s, _ in train_data])
    TRG.build_vocab([t for _, t in train_data])
    model = build(len(SRC.vocab.itos), len(TRG.vocab.itos))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    criterion = nn.CrossEntropyLoss(ignore_index=TRG.vocab.stoi["<pad>"])
    valid_iterator = Iterator(valid_data, SRC, TRG, 16)
    for epoch in range(n_epochs):
        random.Random(epoch).shuffle(train_data)
        train_loss = train(model, Iterator(train_data, SRC, TRG, 32), optimizer, criterion, 1)
        valid_loss = evaluate(model, valid_iterator, criterion)
        print(f"{epoch}: {train_loss:.3f} | {valid_loss:.3f} | {math.exp(valid_loss):7.3f}")
    bleu = calculate_bleu(test_data, SRC, TRG, model, device)
    print(f"BLEU score = {bleu * 100:.2f}")
    return model, SRC, TRG


if __name__ == "__main__":
    main()
