import math
import random

import torch
from beam import translate
from bleu import get_bleu
from models.transformer import Transformer
from torch import nn


class Vocab:
    def __init__(self, sentences):
        self.itos = ["<unk>", "<pad>", "<sos>", "<eos>"] + sorted({w for s in sentences for w in s})
        self.stoi = {w: i for i, w in enumerate(self.itos)}


def make_batches(pairs, src_vocab, trg_vocab, size):
    batches = []
    for at in range(0, len(pairs), size):
        sides = []
        for n, vocab in enumerate((src_vocab, trg_vocab)):
            rows = [[vocab.stoi[w] for w in ["<sos>", *p[n], "<eos>"]] for p in pairs[at:at + size]]
            longest = max(map(len, rows))
            pad = vocab.stoi["<pad>"]
            sides.append(torch.tensor([r + [pad] * (longest - len(r)) for r in rows]))
        batches.append(sides)
    return batches


def train(model, batches, optimizer, criterion, clip):
    model.train()
    epoch_loss = 0
    for src, trg in batches:
        optimizer.zero_grad()
        output = model(src, trg[:, :-1])
        output_reshape = output.contiguous().view(-1, output.shape[-1])
        loss = criterion(output_reshape, trg[:, 1:].contiguous().view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        epoch_loss += loss.item()
    return epoch_loss / len(batches)


def evaluate(model, pairs, src_vocab, trg_vocab, batch_size=16):
    """The NLL per token, and the BLEU of the translations."""
    model.eval()
    criterion = nn.CrossEntropyLoss(ignore_index=model.trg_pad_idx, reduction="sum")
    total, tokens = 0.0, 0
    hypotheses, references = [], []
    with torch.no_grad():
        for src, trg in make_batches(pairs, src_vocab, trg_vocab, batch_size):
            output = model(src, trg[:, :-1])
            labels = trg[:, 1:].contiguous().view(-1)
            total += criterion(output.contiguous().view(-1, output.shape[-1]), labels).item()
            tokens += (labels != model.trg_pad_idx).sum().item()
    for src, trg in pairs:
        hypotheses.append(translate(model, src, src_vocab, trg_vocab))
        references.append(trg)
    return total / tokens, get_bleu(hypotheses, references)


def corpus(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        words = [f"s{rng.randrange(9)}" for _ in range(rng.randint(2, 8))]
        pairs.append((words, [f"t{(int(w[1]) + i) % 9}" for i, w in enumerate(words)]))
    return pairs


def run(total_epoch=4):
    torch.manual_seed(0)
    train_pairs, valid_pairs = corpus(300, 1), corpus(40, 2)
    src_vocab, trg_vocab = (Vocab([p[n] for p in train_pairs + valid_pairs]) for n in (0, 1))
    model = Transformer(1, 1, 2, len(src_vocab.itos), len(trg_vocab.itos), d_model=32, n_head=4,
                        max_len=64, ffn_hidden=64, n_layers=2, drop_prob=0.1, device="cpu")
    criterion = nn.CrossEntropyLoss(ignore_index=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=5e-4)
    for step in range(total_epoch):
        random.Random(step).shuffle(train_pairs)
        batches = make_batches(train_pairs, src_vocab, trg_vocab, 32)
        train_loss = train(model, batches, optimizer, criterion, 1.0)
        valid_loss, bleu = evaluate(model, valid_pairs, src_vocab, trg_vocab)
        print(f"Epoch {step}: train {train_loss:.3f}, val {valid_loss:.3f}, "
              f"PPL {math.exp(valid_loss):.3f}, BLEU {bleu:.3f}")
    return model, src_vocab, trg_vocab


if __name__ == "__main__":
    run()
