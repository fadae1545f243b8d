import math

import sacrebleu
import torch
from torch import nn


@torch.no_grad()
def perplexity(model, batches):
    model.eval()
    criterion = nn.CrossEntropyLoss(ignore_index=model.pad, reduction="none")
    total = count = 0.0
    for src, tgt in batches:
        blocked = (src == model.pad)[:, None, None]
        logits = model(src, tgt[:, :-1], blocked)
        losses = criterion(logits.transpose(1, 2), tgt[:, 1:])
        total += losses.sum().item()
        count += (tgt[:, 1:] != model.pad).sum().item()
    return math.exp(total / count)


def bleu(translator, pairs):
    hypotheses = [" ".join(translator.translate(src)) for src, _ in pairs]
    references = [" ".join(tgt) for _, tgt in pairs]
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
