import translate as their

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary

words = Vocabulary(13, pad=1, bos=2, eos=3, unk=0)


def make_model(s):
    sizes = s.source_vocab_size, s.target_vocab_size, s.d_ff, s.dropout
    return their.Seq2SeqTransformer(s.n_layers, s.n_layers, s.d_model, s.n_heads, *sizes)


def logits(model, source, target):
    return their.forward_pass(model, source.t(), target.t()).transpose(0, 1)


def translate(model, sentence, longest):
    return their.translate(model, [sentence], words, words, longest)[0]


def evaluate(model, pairs):
    perplexity = their.evaluate(model, pairs, words, words, batch_size=3)
    return perplexity, their.bleu(model, pairs, words, words, batch_size=3)


def make():
    ids = dict(pad=1, bos=2, eos=3, source_bos=True)
    parts = dict(translate=translate, evaluate=evaluate, run=their.main)
    return Adapter(make_model=make_model, logits=logits, **parts, **ids)
