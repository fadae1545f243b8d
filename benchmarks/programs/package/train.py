import random

import torch
from data import Words, batches, corpus
from evaluate import bleu, perplexity
from model.layers import Norm
from model.model import Seq2Seq
from search.beam import Translator
from torch import nn


def main(epochs=4):
    torch.manual_seed(7)
    train, valid = corpus(256, 1), corpus(30, 2)
    src_words, tgt_words = (Words([p[n] for p in train]) for n in (0, 1))
    model = Seq2Seq(len(src_words.itos), len(tgt_words.itos), "tiny", Norm.PRE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    for epoch in range(epochs):
        model.train()
        random.Random(epoch).shuffle(train)
        for src, tgt in batches(train, src_words, tgt_words, 32):
            logits = model(src, tgt[:, :-1], (src == 0)[:, None, None])
            loss = criterion(logits.transpose(1, 2), tgt[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, "perplexity", perplexity(model, batches(valid, src_words, tgt_words, 16)))
    print("BLEU", bleu(Translator(model, src_words, tgt_words), valid))
    return model, src_words, tgt_words


if __name__ == "__main__":
    main()
