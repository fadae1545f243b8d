# ruff: noqa: F401
"""From public corpora or the reader's own text to batches of token ids.

- `corpus`: a sentence pair, and a corpus in its splits, from memory or from text files.
- `corpora`: the corpora by name, to load, fetch and check; `source` downloads and checks what one
  needs, `iwslt` reads the one that is an archive, `bundled/` has those of the course.
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
from nmtlib.data.vocab import BOS, EOS, PAD, SPECIALS, UNK, Vocab
