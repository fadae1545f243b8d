from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Hypothesis:
    ids: list[int]
    logp: float = 0.0

    @property
    def score(self):
        return self.logp / ((5 + len(self.ids) - 1) / 6) ** 0.6


class Translator:
    """Beam search with the length penalty of Wu et al. (2016), one sentence at a time."""

    def __init__(self, model, src_words, tgt_words, beam=4, max_extra=50):
        self.model, self.beam, self.max_extra = model, beam, max_extra
        self.src_words, self.tgt_words = src_words, tgt_words
        self.bos, self.eos = 1, 2

    @torch.no_grad()
    def search(self, src, max_len):
        blocked = (src == self.model.pad)[:, None, None]
        memory = self.model.encode(src, blocked)
        live, finished = [Hypothesis([self.bos])], []
        for _ in range(max_len):
            new = []
            for hyp in live:
                logits = self.model.decoder(torch.tensor([hyp.ids]), memory, blocked)
                logp = logits[0, -1].log_softmax(-1)
                best = logp.topk(self.beam)
                for value, word in zip(best.values.tolist(), best.indices.tolist()):
                    new.append(Hypothesis([*hyp.ids, word], hyp.logp + value))
            new.sort(key=lambda h: -h.logp)
            new = new[: self.beam]
            finished += [h for h in new if h.ids[-1] == self.eos]
            live = [h for h in new if h.ids[-1] != self.eos]
            if not live or len(finished) >= self.beam:
                break
        best = max(finished or live, key=lambda h: h.score)
        return best.ids

    def translate(self, sentence, max_len=None):
        self.model.eval()
        ids = [self.src_words.stoi[w] for w in sentence] + [self.eos]
        ids = self.search(torch.tensor([ids]), max_len or len(ids) + self.max_extra)
        return [self.tgt_words.itos[i] for i in ids if i not in (self.bos, self.eos)]
