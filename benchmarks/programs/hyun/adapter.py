import beam
import train as their
from models.transformer import Transformer

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary

words = Vocabulary(13, pad=1, bos=2, eos=3, unk=0)


def make_model(s):
    sizes = s.source_vocab_size, s.target_vocab_size, s.d_model, s.n_heads, s.max_length
    return Transformer(1, 1, 2, *sizes, s.d_ff, s.n_layers, s.dropout, "cpu")


def translate(model, sentence, longest):
    return beam.translate(model, sentence, words, words, longest)


def evaluate(model, pairs):
    return their.evaluate(model, pairs, words, words, batch_size=3)


def make():
    ids = dict(pad=1, bos=2, eos=3, source_bos=True)
    parts = dict(translate=translate, evaluate=evaluate, run=their.run)
    return Adapter(make_model=make_model, **parts, **ids)
