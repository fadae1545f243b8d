import data
import evaluate as scores
import train
from model.layers import Norm
from model.model import Seq2Seq
from search.beam import Translator

from nmtcheck import Adapter
from nmtcheck.connect.standins import Vocabulary

words = Vocabulary(13, pad=0, bos=1, eos=2, unk=3)


def make_model(s):
    return Seq2Seq(s.source_vocab_size, s.target_vocab_size, "tiny", Norm.PRE, s.dropout)


def translate(model, sentence, longest):
    return Translator(model, words, words).translate(sentence, longest)


def evaluate(model, pairs):
    perplexity = scores.perplexity(model, data.batches(pairs, words, words, 3))
    return perplexity, scores.bleu(Translator(model, words, words), pairs)


def make():
    parts = dict(translate=translate, evaluate=evaluate, run=train.main)
    logits = lambda m, source, target: m(source, target, (source == 0)[:, None, None])
    return Adapter(make_model=make_model, logits=logits, pad=0, bos=1, eos=2, **parts)
