"""A corpus of sixty pairs, and a preset that learns it in two epochs."""

import random
from itertools import product

GERMAN = (
    ["der hund", "die katze", "das kind", "die frau", "der mann"],
    ["läuft", "schläft", "singt", "liest"],
)
ENGLISH = (
    ["the dog", "the cat", "the child", "the woman", "the man"],
    ["runs", "sleeps", "sings", "reads"],
)
TIMES = [("heute", "today"), ("hier", "here"), ("nie", "never")]
PRESET = """
[corpus]
source_language = "de"
target_language = "en"
train = ["train.tsv"]
validation = ["validation.tsv"]
test = ["test.tsv"]

[tokenizer]
kind = "whitespace"

[model]
norm = "pre"
d_model = 16
n_heads = 2
n_encoder_layers = 1
n_decoder_layers = 1
d_ff = 32
max_length = 20

[training]
epochs = 2
max_tokens = 64
learning_rate = 5e-3
warmup = 5
average = 2
precision = "fp32"
device = "cpu"

[decoding]
beam = 2
"""


def sentence_pairs() -> list[tuple[str, str]]:
    """Sixty pairs, all different, in a fixed mixed order."""
    sides = [zip(*words, strict=True) for words in zip(GERMAN, ENGLISH, strict=True)]
    words = product(*sides, TIMES)
    rows = [tuple(f"{s[i]} {v[i]} {t[i]} ." for i in (0, 1)) for s, v, t in words]
    random.Random(0).shuffle(rows)
    return rows
