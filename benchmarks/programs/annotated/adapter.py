import annotated as their
import torch

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary

words = Vocabulary(13, pad=2, bos=0, eos=1, unk=3)


def make_model(s):
    sizes = s.n_layers, s.d_model, s.d_ff, s.n_heads, s.dropout
    return their.make_model(s.source_vocab_size, s.target_vocab_size, *sizes)


def logits(model, source, target):
    batch = their.Batch(source, torch.nn.functional.pad(target, (0, 1), value=2))
    return model.generator.proj(model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask))


def translate(model, sentence, longest):
    return their.translate(model, sentence, words, words, longest)


def evaluate(model, pairs):
    return their.validate(model, pairs, words, words, batch_size=3)


def make():
    ids = dict(pad=2, bos=0, eos=1, source_bos=True)
    parts = dict(translate=translate, evaluate=evaluate, run=their.main)
    return Adapter(make_model=make_model, logits=logits, **parts, **ids)
