"""nn.Transformer, time first, in the style of torch's tutorial; greedy translation in batches."""

import math
import random

import sacrebleu
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

UNK_IDX, PAD_IDX, BOS_IDX, EOS_IDX = 0, 1, 2, 3
DEVICE = torch.device("cpu")


class Vocab:
    def __init__(self, sentences):
        self.itos = ["<unk>", "<pad>", "<bos>", "<eos>", *sorted({w for s in sentences for w in s})]
        self.stoi = {w: i for i, w in enumerate(self.itos)}


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=500):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(-2))

    def forward(self, token_embedding):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, emb_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.emb_size = emb_size

    def forward(self, tokens):
        return self.embedding(tokens.long()) * math.sqrt(self.emb_size)


class Seq2SeqTransformer(nn.Module):
    def __init__(
        self,
        num_encoder_layers,
        num_decoder_layers,
        emb_size,
        nhead,
        src_vocab_size,
        tgt_vocab_size,
        dim_feedforward=512,
        dropout=0.1,
    ):
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=emb_size,
            nhead=nhead,
            num_encoder_layers=num_encoder_layers,
            num_decoder_layers=num_decoder_layers,
            dim_feedforward=dim_feedforward,
            dropout=dropout,
        )
        self.generator = nn.Linear(emb_size, tgt_vocab_size)
        self.src_tok_emb = TokenEmbedding(src_vocab_size, emb_size)
        self.tgt_tok_emb = TokenEmbedding(tgt_vocab_size, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size, dropout)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, mem_mask):
        outs = self.transformer(
            self.positional_encoding(self.src_tok_emb(src)),
            self.positional_encoding(self.tgt_tok_emb(trg)),
            src_mask,
            tgt_mask,
            None,
            src_padding_mask,
            tgt_padding_mask,
            mem_mask,
        )
        return self.generator(outs)

    def encode(self, src, src_padding_mask):
        embedded = self.positional_encoding(self.src_tok_emb(src))
        return self.transformer.encoder(embedded, src_key_padding_mask=src_padding_mask)

    def decode(self, tgt, memory, tgt_mask, memory_padding_mask):
        return self.transformer.decoder(
            self.positional_encoding(self.tgt_tok_emb(tgt)),
            memory,
            tgt_mask,
            memory_key_padding_mask=memory_padding_mask,
        )


def generate_square_subsequent_mask(sz):
    return torch.triu(torch.ones((sz, sz), device=DEVICE), diagonal=1) == 1


def create_mask(src, tgt):
    src_mask = torch.zeros((src.shape[0], src.shape[0]), device=DEVICE).type(torch.bool)
    tgt_mask = generate_square_subsequent_mask(tgt.shape[0])
    return src_mask, tgt_mask, (src == PAD_IDX).transpose(0, 1), (tgt == PAD_IDX).transpose(0, 1)


def forward_pass(model, src, tgt_input):
    src_mask, tgt_mask, src_padding_mask, tgt_padding_mask = create_mask(src, tgt_input)
    masks = src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, src_padding_mask
    return model(src, tgt_input, *masks)


def encode_words(vocab, words):
    return torch.tensor([BOS_IDX, *(vocab.stoi[w] for w in words), EOS_IDX])


def loader(pairs, src_vocab, tgt_vocab, batch_size):
    for at in range(0, len(pairs), batch_size):
        some = pairs[at : at + batch_size]
        src = pad_sequence([encode_words(src_vocab, s) for s, _ in some], padding_value=PAD_IDX)
        tgt = pad_sequence([encode_words(tgt_vocab, t) for _, t in some], padding_value=PAD_IDX)
        yield src, tgt


loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_IDX, label_smoothing=0.1)
nll_fn = nn.CrossEntropyLoss(ignore_index=PAD_IDX, reduction="sum")


def train_epoch(model, optimizer, batches):
    model.train()
    for src, tgt in batches:
        logits = forward_pass(model, src, tgt[:-1, :])
        optimizer.zero_grad()
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
        loss.backward()
        optimizer.step()


@torch.inference_mode()
def evaluate(model, pairs, src_vocab, tgt_vocab, batch_size=16):
    """Perplexity of the pairs."""
    model.eval()
    losses, tokens = 0.0, 0
    for src, tgt in loader(pairs, src_vocab, tgt_vocab, batch_size):
        logits = forward_pass(model, src, tgt[:-1, :])
        tgt_out = tgt[1:, :].reshape(-1)
        losses += nll_fn(logits.reshape(-1, logits.shape[-1]), tgt_out).item()
        tokens += (tgt_out != PAD_IDX).sum().item()
    return math.exp(losses / tokens)


@torch.inference_mode()
def greedy_decode(model, src, max_len):
    """Ids (B, T) of the translations of src (S, B); rows that ended are filled with PAD."""
    padding = (src == PAD_IDX).transpose(0, 1)
    memory = model.encode(src, padding)
    ys = torch.full((1, src.shape[1]), BOS_IDX)
    ended = torch.zeros(src.shape[1], dtype=torch.bool)
    for _ in range(max_len):
        out = model.decode(ys, memory, generate_square_subsequent_mask(ys.size(0)), padding)
        next_word = model.generator(out[-1]).argmax(dim=-1)
        next_word = next_word.masked_fill(ended, PAD_IDX)
        ended = ended | (next_word == EOS_IDX)
        ys = torch.cat([ys, next_word.unsqueeze(0)])
        if ended.all():
            break
    return ys[1:].t()


def translate(model, sentences, src_vocab, tgt_vocab, max_len=40):
    """Lists of words, for a list of lists of words."""
    model.eval()
    rows = [encode_words(src_vocab, s) for s in sentences]
    src = pad_sequence(rows, padding_value=PAD_IDX)
    output = []
    for ids in greedy_decode(model, src, max_len).tolist():
        words = []
        for i in ids:
            if i == EOS_IDX:
                break
            words.append(tgt_vocab.itos[i])
        output.append(words)
    return output


def bleu(model, pairs, src_vocab, tgt_vocab, batch_size=8):
    hypotheses, references = [], []
    for at in range(0, len(pairs), batch_size):
        some = pairs[at : at + batch_size]
        hypotheses += translate(model, [s for s, _ in some], src_vocab, tgt_vocab)
        references += [t for _, t in some]
    hypotheses, references = [" ".join(h) for h in hypotheses], [" ".join(r) for r in references]
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score


def corpus(n, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        src = [rng.choice(["ich", "du", "er", "wir", "gut", "alt", "neu"]) for _ in range(rng.randint(2, 8))]
        pairs.append((src, [w[::-1] for w in src] + (["end"] if len(src) > 4 else [])))
    return pairs


def main(epochs=4):
    torch.manual_seed(0)
    train_pairs, valid_pairs = corpus(256, 3), corpus(45, 4)
    src_vocab, tgt_vocab = (Vocab([p[n] for p in train_pairs]) for n in (0, 1))
    model = Seq2SeqTransformer(2, 2, 32, 4, len(src_vocab.itos), len(tgt_vocab.itos), 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, betas=(0.9, 0.98), eps=1e-9)
    for epoch in range(epochs):
        random.Random(epoch).shuffle(train_pairs)
        train_epoch(model, optimizer, loader(train_pairs, src_vocab, tgt_vocab, 32))
        print(epoch, "valid perplexity", evaluate(model, valid_pairs, src_vocab, tgt_vocab))
    print("BLEU", bleu(model, valid_pairs, src_vocab, tgt_vocab))
    return model, src_vocab, tgt_vocab


if __name__ == "__main__":
    main()
