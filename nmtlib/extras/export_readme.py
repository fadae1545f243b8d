"""The README.md of an exported model: how to load it, in code that runs in the folder as it stands."""

from __future__ import annotations

import re

from nmtlib.data.vocab import BOS, EOS, PAD, SPECIALS, UNK
from nmtlib.model.transformer import Transformer

HEAD = f"""# A translation model, exported by nmtlib as {{format}}

`source.json` and `target.json` hold the tokenizer and the vocabulary of either side; `tokens[i]` has the id i.
Where there is a `source-tokenizer.json`, the library `tokenizers` reads it, without nmtlib.

Ids: {", ".join(f"{token} {number}" for number, token in enumerate(SPECIALS))}. The source is its tokens and {EOS}
(EOS); the target starts with {BOS} (BOS) and ends with {EOS}. {PAD} (PAD), {BOS} and {UNK} (UNK) are never said.

"""

CODECS = """\
from nmtlib.data.codec import Codec

source, target = Codec.load("source.json"), Codec.load("target.json")
sentence = "…"
"""

LOADING = {
    "safetensors": """```python
from safetensors import safe_open

with safe_open("model.safetensors", "pt") as file:
    weights = {name: file.get_tensor(name) for name in file.keys()}
```

""",
    "transformers": f"""Post-norm models are exported as Marian, pre-norm models as Pegasus. The dimensions of the
residual stream stand in another order than in nmtlib, sines before cosines; the logits are the same.

```python
import torch
from transformers import AutoModelForSeq2SeqLM

{CODECS}
model = AutoModelForSeq2SeqLM.from_pretrained(".").eval()
ids = torch.tensor([[*source.encode(sentence), {EOS}]])
said = model.generate(ids, attention_mask=(ids != {PAD}).long(), max_new_tokens=2 * ids.size(1) + 10)
print(target.decode(said[0].tolist()))
```

That the position tables are reported as missing is right: they are computed. `length_penalty` 0 ranks hypotheses as
nmtlib does with 0. Other values differ: here a log-probability is divided by length ** penalty, in nmtlib by
((5 + length) / 6) ** penalty.
""",
    "ctranslate2": f"""```python
import ctranslate2

{CODECS}
translator = ctranslate2.Translator(".")
found = translator.translate_batch(
    [source.tokenizer.encode(sentence)], beam_size=5, length_penalty=1e-6, min_decoding_length=0,
    max_decoding_length=MAX_LENGTH, suppress_sequences=[["{SPECIALS[PAD]}"], ["{SPECIALS[BOS]}"], ["{SPECIALS[UNK]}"]],
)
print(target.tokenizer.decode(found[0].hypotheses[0]))
```

Greedy search (`beam_size=1`) says what nmtlib's says. Beam search says what nmtlib's says with `length_penalty` 0,
if here it is so small that it ranks no hypothesis otherwise: with 0 itself CTranslate2 stops as soon as the best
hypothesis of a step ends. Other values differ: here a log-probability is divided by length ** penalty, in nmtlib by
((5 + length) / 6) ** penalty. The little probability of what is suppressed is here shared among the other words.
""",
    "onnx": f"""`model.onnx` maps `source` (B, S) and `target` (B, T), ids in int64 padded with {PAD}, to `logits`
(B, T, V), each row those of the token after it.

```python
import numpy
import onnxruntime

{CODECS}
session = onnxruntime.InferenceSession("model.onnx")
read, said = numpy.array([[*source.encode(sentence), {EOS}]]), numpy.array([[{BOS}]])
while said[0, -1] != {EOS} and said.shape[1] < 2 * read.shape[1] + 10:
    logits = session.run(["logits"], {{"source": read, "target": said}})[0][:, -1]
    logits[:, {[PAD, BOS, UNK]}] = -numpy.inf
    said = numpy.concatenate([said, logits.argmax(axis=-1)[:, None]], axis=1)
print(target.decode(said[0].tolist()))
```
""",
}
LOADING["marian"] = LOADING["pegasus"] = LOADING.pop("transformers")


def readme(to: str, model: Transformer) -> str:
    """The text for a model exported in the format `to`."""
    text = HEAD.format(format=to) + LOADING[to].replace("MAX_LENGTH", str(model.config.max_length))
    return text + describe_weights(model) if to == "safetensors" else text


def describe_weights(model: Transformer) -> str:
    """A table of the names and shapes of a model's tensors, the layers of one stack together, and
    how they are used.
    """
    c = model.config
    shapes = {
        re.sub(r"^(\w+)\.\d+\.", r"\1.N.", n): tuple(p.shape) for n, p in model.named_parameters()
    }
    table = "\n".join(f"| `{name}` | {shape} |" for name, shape in shapes.items())
    tied = {
        "none": "No tensor is tied to another.",
        "target": "`output.weight` is `target_embedding.weight`.",
        "all": "`source_embedding.weight` is also the target's embedding and `output.weight`.",
    }[c.tied]
    positions = (
        "`source_positions.table` and `target_positions.table`"
        if c.positions == "learned"
        else "sin and cos of position / 10000 ** (2i / d_model) in dimensions 2i and 2i + 1"
    )
    return f"""N numbers the layers of a stack from 0; a matrix (out, in) multiplies a column from the left. {tied}
Embeddings are multiplied by sqrt(d_model), then positions are added: {positions}.
{"x + sublayer(norm(x))" if c.norm == "pre" else "norm(x + sublayer(x))"} is each block, `residuals.i.norm` its norm, in
the order self-attention, cross-attention (decoder), feed-forward; the activation is ReLU, epsilon 1e-5. Sizes are in
`config.json`.

| tensor | shape |
|---|---|
{table}
"""
