# ruff: noqa: F401
"""From public corpora or your own text to batches of token ids."""

from nmtlib.data.batching import (
    Batch,
    Example,
    collate,
    make_example,
    pad,
    padding_waste,
    plan_batches,
    token_batches,
)
from nmtlib.data.codec import Codec, Vocab, build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import BPETokenizer, SpacyTokenizer, WhitespaceTokenizer
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK
