import random

import torch


class Words:
    def __init__(self, sentences):
        self.itos = ["<pad>", "<bos>", "<eos>", "<unk>", *sorted({w for s in sentences for w in s})]
        self.stoi = {w: i for i, w in enumerate(self.itos)}


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([r + [0] * (longest - len(r)) for r in rows])


def batches(pairs, src_words, tgt_words, size):
    for at in range(0, len(pairs), size):
        some = pairs[at : at + size]
        src = [[src_words.stoi[w] for w in s] + [2] for s, _ in some]
        tgt = [[1] + [tgt_words.stoi[w] for w in t] + [2] for _, t in some]
        yield pad(src), pad(tgt)


def corpus(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        src = [rng.choice("red green blue black white".split()) for _ in range(rng.randint(2, 7))]
        pairs.append((src, [f"{w}e" if k % 2 else w for k, w in enumerate(src)]))
    return pairs
