"""nmtlib itself as an adapter, with the same six parts as anybody's."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.connect.standins import Batch
from nmtlib import experiment, specials
from nmtlib.data import batching, codec, corpus, tokenizers
from nmtlib.inference import evaluate, translator
from nmtlib.model import transformer
from nmtlib.settings import Settings, TokenizerSettings, TrainingSettings
from nmtlib.training import trainer

BEAM = 3
LENGTH_PENALTY = 1.0
WORDS = Settings(tokenizer=TokenizerSettings(kind="whitespace"))
# A run of few updates, two batches in each, whose rates rise and then fall.
TRAINING = TrainingSettings(
    schedule="noam",
    learning_rate=0.5,
    warmup=8,
    epochs=4,
    max_tokens=64,
    accumulate=2,
    average=1,
    precision="fp32",
    device="cpu",
)


class Parts:
    """The parts of `Adapter`, each a method of its name: nmtlib's own code.

    Functions are called through their modules, so that a change to a module, such as a planted bug,
    is a change to what is checked.
    """

    def __init__(self, **design: str):
        self.design = design

    def make_model(self, sizes: Sizes) -> transformer.Transformer:
        """A model of these sizes."""
        return transformer.Transformer(self.config(sizes))

    def config(self, sizes: Sizes) -> transformer.TransformerConfig:
        """The configuration of a model of these sizes."""
        values = asdict(sizes) | self.design | {"attention_dropout": sizes.dropout}
        depths = dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), values.pop("n_layers"))
        return transformer.TransformerConfig(**values, **depths)

    def epoch(self, model: nn.Module, batches: list[Batch], training: bool) -> float:
        """The mean loss over some batches, nats a token; with `training`, after each an update."""
        tables = [[[i[i != specials.PAD].tolist() for i in ids] for ids in b] for b in batches]
        examples = [
            batching.Example(*pair) for batch in tables for pair in zip(*batch, strict=True)
        ]
        run = trainer.Trainer(model, examples, examples, replace(TRAINING, accumulate=1))
        if not training:
            return run.validate().nll_per_token
        model.train()
        totals = [run.update([batching.Batch(*batch)]) for batch in batches]
        return sum(each.loss_per_token for each in totals) / len(totals)

    def translate(self, model: nn.Module, words: list[str], longest: int) -> list[str]:
        """The words of the best translation of some words."""
        numbers = number_words(100)
        reader = translator.Translator(model, numbers, numbers, WORDS)
        options = {"beam": BEAM, "length_penalty": LENGTH_PENALTY, "max_length": longest}
        return reader.translate([" ".join(words)], **options)[0].split()

    def evaluate(
        self, model: transformer.Transformer, pairs: list[tuple[list[str], list[str]]]
    ) -> dict[str, float]:
        """The perplexity and both BLEU scores that an evaluation reports."""
        words = number_words(max(model.config.source_vocab_size, model.config.target_vocab_size))
        test = [corpus.Pair(" ".join(source), " ".join(target)) for source, target in pairs]
        reader = translator.Translator(model, words, words, WORDS)
        data = corpus.Corpus("words", "de", "en", test=test)
        report = evaluate.evaluate(reader, data, beam=BEAM, length_penalty=LENGTH_PENALTY)[0]
        scores = {"bleu": report.scores.bleu, "bleu_nltk": report.scores.bleu_nltk}
        return {"perplexity": report.perplexity, **scores}

    def run(self) -> tuple[Callable[[list[str]], list[str]], list[str]]:
        """A training from text to a saved model; how that translates, and some sentences."""
        data = small_corpus()
        joint = self.design["tied"] == "all"  # one table, so one vocabulary
        words = TokenizerSettings(kind="whitespace", joint=joint)
        model = self.config(Sizes(0, 0, dropout=0.1))
        settings = Settings(tokenizer=words, model=model, training=TRAINING)
        with TemporaryDirectory() as folder:
            experiment.train(Path(folder) / "run", settings, corpus=data, report=lambda line: None)
            trained = translator.load(Path(folder) / "run")
        return trained.translate, [pair.source for pair in data.test]


def ours(
    norm: str = "pre", positions: str = "sinusoidal", tied: str = "none", **beginnings: str
) -> Adapter:
    """The adapter of nmtlib itself; the design is named as in `TransformerConfig`."""
    parts = Parts(norm=norm, positions=positions, tied=tied, **beginnings)
    return Adapter(
        name="nmtlib",
        pad=specials.PAD,
        bos=specials.BOS,
        eos=specials.EOS,
        source_eos=True,
        fixed_positions=positions != "learned",
        make_model=parts.make_model,
        epoch=parts.epoch,
        translate=parts.translate,
        evaluate=parts.evaluate,
        run=parts.run,
    )


def small_corpus() -> corpus.Corpus:
    """Sentences of one to six number words, said backwards."""
    draw, rows = random.Random(0), dict[tuple[str, ...], None]()
    while len(rows) < 160:
        rows[tuple(f"w{draw.randrange(20)}" for _ in range(draw.randint(1, 6)))] = None
    pairs = [corpus.Pair(" ".join(row), " ".join(reversed(row))) for row in rows]
    return corpus.Corpus("numbers", "de", "en", pairs[:120], pairs[120:140], pairs[140:])


def number_words(size: int) -> codec.Codec:
    """A codec of `size` ids, whose words are called w4, w5, and so on."""
    words = [f"w{number}" for number in range(len(specials.SPECIALS), size)]
    return codec.Codec(tokenizers.WhitespaceTokenizer(), codec.Vocab([*specials.SPECIALS, *words]))
