# ruff: noqa: F401
"""From public corpora or the reader's own text to batches of token ids.

- `corpus`: a sentence pair, and a corpus in its splits, from memory or from text files.
- `corpora`: the corpora by name, downloaded if need be; `bundled/` has the toys.
- `tokenizers`: a sentence to tokens and back.
- `codec`: tokens to ids and back, and a tokenizer with its vocabulary.
- `batching`: ids to padded batches of similar lengths.
"""

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
