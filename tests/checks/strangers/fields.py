"""A stranger in the style of old torchtext: fields, iterators, `translate_sentence`, PAD 1."""

import spacy_of_old
import torch
import torch.nn as nn
from torchtext_of_old.data import BucketIterator, Field

spacy_de = spacy_of_old.load("de")
SRC = Field(tokenize=spacy_de, init_token="<sos>", eos_token="<eos>", batch_first=True)
TRG = Field(tokenize=spacy_de, init_token="<sos>", eos_token="<eos>", batch_first=True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLIP = 1


class Attention(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.hid_dim, self.n_heads, self.head_dim = hid_dim, n_heads, hid_dim // n_heads
        self.fc_q, self.fc_k = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.fc_v, self.fc_o = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.dropout, self.scale = nn.Dropout(dropout), self.head_dim**0.5

    def forward(self, query, key, value, mask):
        batch_size = query.shape[0]
        q, k, v = self.fc_q(query), self.fc_k(key), self.fc_v(value)
        q, k, v = (
            x.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
            for x in (q, k, v)
        )
        energy = q @ k.permute(0, 1, 3, 2) / self.scale
        energy = energy.masked_fill(mask == 0, -1e10)
        x = self.dropout(energy.softmax(-1)) @ v
        return self.fc_o(x.permute(0, 2, 1, 3).reshape(batch_size, -1, self.hid_dim))


class Layer(nn.Module):
    def __init__(self, hid_dim, n_heads, pf_dim, dropout, cross):
        super().__init__()
        self.attention = Attention(hid_dim, n_heads, dropout)
        self.cross = Attention(hid_dim, n_heads, dropout) if cross else None
        self.ff = nn.Sequential(nn.Linear(hid_dim, pf_dim), nn.ReLU(), nn.Linear(pf_dim, hid_dim))
        self.norms = nn.ModuleList([nn.LayerNorm(hid_dim) for _ in range(2 + cross)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.norms[0](x + self.dropout(self.attention(x, x, x, mask)))
        if memory is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory, memory, memory_mask)))
        return self.norms[-1](x + self.dropout(self.ff(x)))


class Side(nn.Module):
    def __init__(self, vocab, hid_dim, n_layers, n_heads, pf_dim, dropout, device, cross):
        super().__init__()
        self.device, self.scale = device, hid_dim**0.5
        self.tok_embedding = nn.Embedding(vocab, hid_dim)
        self.pos_embedding, self.dropout = nn.Embedding(60, hid_dim), nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            [Layer(hid_dim, n_heads, pf_dim, dropout, cross) for _ in range(n_layers)]
        )

    def forward(self, ids, *masks_and_memory):
        pos = torch.arange(ids.shape[1]).to(self.device)
        x = self.dropout(self.tok_embedding(ids) * self.scale + self.pos_embedding(pos))
        for layer in self.layers:
            x = layer(x, *masks_and_memory)
        return x


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, fc_out, src_pad_idx, trg_pad_idx):
        super().__init__()
        self.encoder, self.decoder, self.fc_out = encoder, decoder, fc_out
        self.src_pad_idx, self.trg_pad_idx = src_pad_idx, trg_pad_idx

    def make_trg_mask(self, trg):
        pad = (trg != self.trg_pad_idx)[:, None, None]
        return pad & torch.ones(trg.shape[1], trg.shape[1]).tril().bool()

    def forward(self, src, trg):
        src_mask = (src != self.src_pad_idx)[:, None, None]
        memory = self.encoder(src, src_mask)
        return self.fc_out(self.decoder(trg, self.make_trg_mask(trg), memory, src_mask))


def train(model, iterator, optimizer, criterion, clip):
    model.train()
    epoch_loss = 0
    for batch in iterator:
        optimizer.zero_grad()
        output = model(batch.src, batch.trg[:, :-1])
        trg = batch.trg[:, 1:].contiguous().view(-1)
        loss = criterion(output.contiguous().view(-1, output.shape[-1]), trg)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        epoch_loss += loss.item()
    print("train loss", epoch_loss / len(iterator))
    return epoch_loss / len(iterator)


def evaluate(model, iterator, criterion):
    model.eval()
    epoch_loss, tokens = 0, 0
    with torch.no_grad():
        for batch in iterator:
            output = model(batch.src, batch.trg[:, :-1])
            trg = batch.trg[:, 1:].contiguous().view(-1)
            count = (trg != model.trg_pad_idx).sum().item()
            loss = criterion(output.contiguous().view(-1, output.shape[-1]), trg)
            epoch_loss, tokens = epoch_loss + loss.item() * count, tokens + count
    return epoch_loss / tokens


def translate_sentence(sentence, src_field, trg_field, model, device, max_len=50):
    model.eval()
    tokens = [token.lower() for token in sentence]
    tokens = [src_field.init_token] + tokens + [src_field.eos_token]
    src = torch.tensor([[src_field.vocab.stoi[token] for token in tokens]]).to(device)
    trg_indexes = [trg_field.vocab.stoi[trg_field.init_token]]
    for _ in range(max_len):
        with torch.no_grad():
            output = model(src, torch.tensor([trg_indexes]).to(device))
        pred_token = output.argmax(2)[:, -1].item()
        trg_indexes.append(pred_token)
        if pred_token == trg_field.vocab.stoi[trg_field.eos_token]:
            break
    return [trg_field.vocab.itos[i] for i in trg_indexes][1:]


train_iterator = BucketIterator.splits(SRC.build_vocab(min_freq=2), batch_size=128)
model = Seq2Seq(None, None, None, SRC.vocab.stoi["<pad>"], TRG.vocab.stoi["<pad>"]).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.0005)
for _ in range(10):
    train(model, train_iterator, optimizer, nn.CrossEntropyLoss(ignore_index=1), CLIP)
