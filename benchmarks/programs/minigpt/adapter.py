import mt as their

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary


class Words(Vocabulary):
    def encode(self, words):
        return self(words)

    def decode(self, ids):
        return self.lookup_tokens(ids)


words = Words(13, pad=0, bos=1, eos=2, unk=3)


def make_model(s):
    sizes = s.max_length, s.n_layers, s.n_heads, s.d_model, s.dropout
    return their.MT(their.MTConfig(s.source_vocab_size, s.target_vocab_size, *sizes))


def translate(model, sentence, longest):
    return their.translate(model, sentence, words, words, longest)


def evaluate(model, pairs):
    return their.estimate(model, pairs, words, words, batch_size=3)


def make():
    parts = dict(translate=translate, evaluate=evaluate, run=their.main)
    ids = dict(pad=0, bos=1, eos=2)
    return Adapter(make_model=make_model, logits=lambda m, *x: m(*x)[0], **parts, **ids)
