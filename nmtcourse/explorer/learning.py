"""A small training at six of its moments, for the page to play.

python -m nmtcourse.explorer.learning     # writes learning-*.json, a minute of one core each
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nmtcourse.explorer.packing import pack_codec, pack_weights, pharaoh, rounded
from nmtlib.data.batching import Batch
from nmtlib.data.codec import build_codecs, encode_pairs
from nmtlib.data.corpora import load_corpus
from nmtlib.files import write_atomically
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.training.loss import Totals
from nmtlib.training.trainer import Recipe, Trainer, plain_update

MOMENTS = (0, 100, 200, 400, 800)  # updates; the last moment is the end
SMALLER = {  # than the preset: one moment takes 55 kB, and no dropout blurs what was learnt
    "model": {"d_model": 32, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1}
    | {"tied": "target", "dropout": 0.0},
    "training": {"max_tokens": 1024, "learning_rate": 4e-3, "precision": "fp32", "device": "cpu"},
}
BITS = 5  # of the fraction of a weight, which make its text a third shorter
EXAMPLES = 60  # test sentences that the page may offer


def learn(name: str) -> dict[str, Any]:
    """Train the preset, smaller; weights, validation loss and the moments, as JSON holds them."""
    settings = load_settings(name).changed(SMALLER)
    pairs = load_corpus(settings.corpus)
    codecs = build_codecs(pairs, **asdict(settings.tokenizer))
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    splits = [encode_pairs(split, *codecs)[0] for split in (pairs.train, pairs.validation)]
    torch.manual_seed(settings.training.seed)
    moments: list[dict[str, Any]] = []

    def keep_moment(trainer: Trainer, updates: int) -> None:
        loss = trainer.validate().nll_per_token
        packed = pack_weights(trainer.model, BITS)
        del packed["tensors"]  # the same each time
        moments.append({"updates": updates, "loss": round(loss, 3), **packed})

    def update(trainer: Trainer, batches: Sequence[Batch], labels: int) -> Totals:
        # Its number counts this update already; the weights are those before it.
        before = trainer.progress.updates - 1
        if before in MOMENTS:
            keep_moment(trainer, before)
        return plain_update(trainer, batches, labels)

    model = Transformer(settings.model)
    trainer = Trainer(model, splits[0], splits[1], settings.training, recipe=Recipe(update=update))
    trainer.fit()
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(rounded(weights, BITS))  # what is counted is what the page holds
    keep_moment(trainer, trainer.progress.updates)
    sources = [pair.source for pair in pairs.test]
    translated = Translator(model, *codecs, settings).translate(sources, beam=1)
    return {
        "name": name,
        "languages": list(settings.corpus.languages),
        "config": asdict(settings.model),
        "decoding": {"beam": 1, "lengthPenalty": 0},
        "toy": True,
        "source": pack_codec(codecs[0], []),
        "target": pack_codec(codecs[1], []),
        "examples": [[pair.source, pair.target, pharaoh(pair)] for pair in pairs.test[:EXAMPLES]],
        "right": sum(map(str.__eq__, translated, [pair.target for pair in pairs.test])),
        "tests": len(pairs.test),
        "tensors": [[name, list(value.shape)] for name, value in model.named_parameters()],
        "moments": moments,
    }


if __name__ == "__main__":
    for toy in ("toy-de-en", "toy-en-zh"):
        text = json.dumps(learn(toy), ensure_ascii=False, separators=(",", ":"))
        write_atomically(Path(__file__).with_name(f"learning-{toy[4:]}.json"), text + "\n")
