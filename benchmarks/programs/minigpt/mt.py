"""A pre-norm encoder-decoder in the style of small GPT repositories, with a key-value cache."""

import math
import random
from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class MTConfig:
    src_vocab_size: int = 64
    tgt_vocab_size: int = 64
    block_size: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.1
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.q = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.kv = nn.Linear(config.n_embd, 2 * config.n_embd, bias=False)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.dropout = config.dropout

    def heads(self, x):
        B, T, C = x.size()
        return x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

    def forward(self, x, memory=None, mask=None, cache=None):
        q = self.heads(self.q(x))
        k, v = map(self.heads, self.kv(x if memory is None else memory).chunk(2, dim=-1))
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        drop = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        return self.proj(y.transpose(1, 2).contiguous().view(x.shape))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.proj = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.proj(F.gelu(self.fc(x))))


class EncoderBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn, self.mlp = Attention(config), MLP(config)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask=mask)
        return x + self.mlp(self.ln_2(x))


class DecoderBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.ln_3 = nn.LayerNorm(config.n_embd)
        self.attn, self.cross, self.mlp = Attention(config), Attention(config), MLP(config)

    def forward(self, x, memory, mask, memory_mask, cache=None):
        x = x + self.attn(self.ln_1(x), mask=mask, cache=cache)
        x = x + self.cross(self.ln_2(x), memory, memory_mask)
        return x + self.mlp(self.ln_3(x))


class MT(nn.Module):
    def __init__(self, config: MTConfig):
        super().__init__()
        self.config = config
        self.src_wte = nn.Embedding(config.src_vocab_size, config.n_embd)
        self.tgt_wte = nn.Embedding(config.tgt_vocab_size, config.n_embd)
        self.src_wpe = nn.Embedding(config.block_size, config.n_embd)
        self.tgt_wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList([EncoderBlock(config) for _ in range(config.n_layer)])
        self.decoder = nn.ModuleList([DecoderBlock(config) for _ in range(config.n_layer)])
        self.ln_e, self.ln_f = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.tgt_vocab_size, bias=False)

    def encode(self, src):
        mask = (src != self.config.pad_id)[:, None, None, :]
        x = self.drop(self.src_wte(src) + self.src_wpe(torch.arange(src.size(1))))
        for block in self.encoder:
            x = block(x, mask)
        return self.ln_e(x), mask

    def decode(self, idx, memory, memory_mask, caches=None, past=0):
        T = idx.size(1)
        x = self.drop(self.tgt_wte(idx) + self.tgt_wpe(torch.arange(past, past + T)))
        mask = torch.ones(T, T, dtype=torch.bool).tril() if T > 1 else None
        for n, block in enumerate(self.decoder):
            x = block(x, memory, mask, memory_mask, caches[n] if caches is not None else None)
        return self.lm_head(self.ln_f(x))

    def forward(self, src, idx, targets=None):
        logits = self.decode(idx, *self.encode(src))
        if targets is None:
            return logits, None
        flat = logits.reshape(-1, logits.size(-1))
        return logits, F.cross_entropy(flat, targets.reshape(-1), ignore_index=self.config.pad_id)

    @torch.no_grad()
    def generate(self, src, max_new_tokens=40, beam=3, alpha=0.7):
        """Beam search of one sentence, src (1, S), with all beams in one batch."""
        cfg = self.config
        memory, memory_mask = self.encode(src)
        memory, memory_mask = memory.expand(beam, -1, -1), memory_mask.expand(beam, -1, -1, -1)
        caches = [{} for _ in self.decoder]
        ids = torch.full((beam, 1), cfg.bos_id)
        scores = torch.full((beam,), float("-inf"))
        scores[0] = 0.0
        done = []
        for step in range(max_new_tokens):
            logits = self.decode(ids[:, -1:], memory, memory_mask, caches, past=step)
            logp = F.log_softmax(logits[:, -1], dim=-1)
            total = scores[:, None] + logp
            top, flat = total.view(-1).topk(2 * beam)
            origin, word = flat // logp.size(1), flat % logp.size(1)
            keep = []
            for rank in range(2 * beam):
                if word[rank] == cfg.eos_id:
                    if rank < beam and top[rank] > float("-inf"):
                        hyp = ids[origin[rank], 1:].tolist()
                        done.append((top[rank].item() / (len(hyp) + 1) ** alpha, hyp))
                elif len(keep) < beam:
                    keep.append(rank)
            if len(done) >= beam:
                break
            origin, word, scores = origin[keep], word[keep], top[keep]
            ids = torch.cat([ids[origin], word[:, None]], dim=1)
            for cache in caches:
                cache["k"], cache["v"] = cache["k"][origin], cache["v"][origin]
        if not done:
            done = [(s.item(), row[1:].tolist()) for s, row in zip(scores, ids)]
        return max(done, key=lambda d: d[0])[1]


class Tokenizer:
    def __init__(self, sentences):
        self.itos = ["<pad>", "<s>", "</s>", "<unk>"] + sorted({w for s in sentences for w in s})
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def encode(self, words):
        return [self.stoi[w] for w in words]

    def decode(self, ids):
        return [self.itos[i] for i in ids]


def translate(model, words, src_tok, tgt_tok, max_new_tokens=40):
    model.eval()
    src = torch.tensor([src_tok.encode(words) + [model.config.eos_id]])
    return tgt_tok.decode(model.generate(src, max_new_tokens))


def get_batches(pairs, src_tok, tgt_tok, config, batch_size):
    for at in range(0, len(pairs), batch_size):
        x, y = [], []
        for src, tgt in pairs[at : at + batch_size]:
            x.append(torch.tensor(src_tok.encode(src) + [config.eos_id]))
            y.append(torch.tensor([config.bos_id] + tgt_tok.encode(tgt) + [config.eos_id]))
        x = nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=config.pad_id)
        y = nn.utils.rnn.pad_sequence(y, batch_first=True, padding_value=config.pad_id)
        yield x, y[:, :-1], y[:, 1:]


def bleu_score(hyps, refs):
    match, count, c, r = Counter(), Counter(), 0, 0
    for hyp, ref in zip(hyps, refs):
        c, r = c + len(hyp), r + len(ref)
        for n in range(1, 5):
            a = Counter(tuple(hyp[i : i + n]) for i in range(len(hyp) - n + 1))
            b = Counter(tuple(ref[i : i + n]) for i in range(len(ref) - n + 1))
            match[n] += sum(min(k, b[g]) for g, k in a.items())
            count[n] += sum(a.values())
    if not all(match[n] for n in range(1, 5)):
        return 0.0
    precision = sum(math.log(match[n] / count[n]) for n in range(1, 5)) / 4
    return math.exp(precision) * min(1.0, math.exp(1 - r / c))


@torch.no_grad()
def estimate(model, pairs, src_tok, tgt_tok, batch_size=16):
    """{'loss': nats per token, 'ppl': ..., 'bleu': from 0 to 1} of the pairs."""
    model.eval()
    nll, tokens = 0.0, 0
    for x, idx, targets in get_batches(pairs, src_tok, tgt_tok, model.config, batch_size):
        _, loss = model(x, idx, targets)
        n = (targets != model.config.pad_id).sum().item()
        nll, tokens = nll + loss.item() * n, tokens + n
    hyps = [translate(model, s, src_tok, tgt_tok) for s, _ in pairs]
    bleu = bleu_score(hyps, [t for _, t in pairs])
    return {"loss": nll / tokens, "ppl": math.exp(nll / tokens), "bleu": bleu}


def corpus(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        src = [f"x{rng.randrange(8)}" for _ in range(rng.randint(2, 8))]
        pairs.append((src, [f"y{w[1:]}" for w in src for _ in range(1 + (w == "x3"))]))
    return pairs


def main(epochs=4):
    torch.manual_seed(1337)
    train, valid = corpus(256, 5), corpus(30, 6)
    src_tok, tgt_tok = (Tokenizer([p[n] for p in train + valid]) for n in (0, 1))
    model = MT(MTConfig(len(src_tok.itos), len(tgt_tok.itos)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    for epoch in range(epochs):
        model.train()
        random.Random(epoch).shuffle(train)
        for x, idx, targets in get_batches(train, src_tok, tgt_tok, model.config, 32):
            _, loss = model(x, idx, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(epoch, estimate(model, valid, src_tok, tgt_tok))
    return model, src_tok, tgt_tok


if __name__ == "__main__":
    main()
