import torch
from torch import nn

from models.layers import DecoderLayer, EncoderLayer, TransformerEmbedding


class Transformer(nn.Module):
    def __init__(self, src_pad_idx, trg_pad_idx, trg_sos_idx, enc_voc_size, dec_voc_size, d_model,
                 n_head, max_len, ffn_hidden, n_layers, drop_prob, device):
        super().__init__()
        self.src_pad_idx = src_pad_idx
        self.trg_pad_idx = trg_pad_idx
        self.trg_sos_idx = trg_sos_idx
        self.device = device
        self.enc_emb = TransformerEmbedding(enc_voc_size, d_model, max_len, drop_prob, device)
        self.dec_emb = TransformerEmbedding(dec_voc_size, d_model, max_len, drop_prob, device)
        args = d_model, ffn_hidden, n_head, drop_prob
        self.enc_layers = nn.ModuleList([EncoderLayer(*args) for _ in range(n_layers)])
        self.dec_layers = nn.ModuleList([DecoderLayer(*args) for _ in range(n_layers)])
        self.linear = nn.Linear(d_model, dec_voc_size)

    def forward(self, src, trg):
        src_mask = self.make_src_mask(src)
        return self.decode(trg, self.encode(src, src_mask), src_mask)

    def encode(self, src, src_mask):
        x = self.enc_emb(src)
        for layer in self.enc_layers:
            x = layer(x, src_mask)
        return x

    def decode(self, trg, enc_src, src_mask):
        x, trg_mask = self.dec_emb(trg), self.make_trg_mask(trg)
        for layer in self.dec_layers:
            x = layer(x, enc_src, trg_mask, src_mask)
        return self.linear(x)

    def make_src_mask(self, src):
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg):
        trg_pad_mask = (trg != self.trg_pad_idx).unsqueeze(1).unsqueeze(3)
        trg_len = trg.shape[1]
        sub = torch.tril(torch.ones(trg_len, trg_len)).type(torch.ByteTensor).to(self.device)
        return trg_pad_mask & sub
