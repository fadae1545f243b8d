"""From public corpora or the reader's own text to batches of token ids.

- `corpus`: a sentence pair, a corpus in its splits, and the reader of text files.
- `corpora`: the corpora by name, to load, fetch and check.  Each is an object: `source` says what
  such an object must know and do, `published` and `iwslt` hold those that are downloaded.
- `download`: where downloads are kept, and how a file comes there whole or not at all.
- `tokenizers`, `subwords`: a sentence to tokens and back; `vocab`: tokens to ids and back.
- `codec`: both together, learnt from a corpus.
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
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import BPETokenizer, SpacyTokenizer, WhitespaceTokenizer
from nmtlib.data.vocab import Vocab
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "BPETokenizer",
    "Batch",
    "Codec",
    "Corpus",
    "Example",
    "Pair",
    "SpacyTokenizer",
    "Vocab",
    "WhitespaceTokenizer",
    "build_codecs",
    "collate",
    "make_example",
    "pad",
    "padding_waste",
    "plan_batches",
    "token_batches",
]
