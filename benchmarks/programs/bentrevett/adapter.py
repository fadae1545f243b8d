import seq2seq as their
from torch import nn

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary

field = their.Field()
field.vocab = Vocabulary(13, pad=1, bos=2, eos=3, unk=0)


def make_model(s):
    sizes = s.d_model, s.n_layers, s.n_heads, s.d_ff, s.dropout
    return their.build(s.source_vocab_size, s.target_vocab_size, *sizes)


def translate(model, sentence, longest):
    return their.translate_sentence(sentence, field, field, model, "cpu", longest)[0]


def evaluate(model, pairs):
    batches = their.Iterator(pairs, field, field, 3)
    bleu = their.calculate_bleu(pairs, field, field, model, "cpu")
    return their.evaluate(model, batches, nn.CrossEntropyLoss(ignore_index=1)), bleu


def make():
    ids = dict(pad=1, bos=2, eos=3, source_bos=True)
    parts = dict(translate=translate, evaluate=evaluate, run=their.main)
    return Adapter(make_model=make_model, logits=lambda m, *x: m(*x)[0], **parts, **ids)
