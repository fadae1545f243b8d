"""nmtlib's own parts, in the shapes that `Adapter` asks for; each looks up the real code when it is
called.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor, nn

from nmtlib.checks.adapter import Adapter, IdBatch, IdPair, Sizes
from nmtlib.data import batching, codec, corpus, tokenizers, vocab
from nmtlib.inference import evaluate, search, translator
from nmtlib.model import attention, embeddings, layers, masks, transformer
from nmtlib.settings import Settings, TokenizerSettings, TrainingSettings
from nmtlib.training import checkpoint, loss, schedule, trainer

# Few updates with a high rate; 'noam' so that `schedule` depends on nothing but the update and
# d_model.
TRAINING = TrainingSettings(
    schedule="noam", learning_rate=0.5, warmup=4, precision="fp32", device="cpu", average=1
)


class Parts:
    """Every method has the name and the shapes of one part of `Adapter`, and says nothing that is
    not nmtlib's own.
    """

    def __init__(self, norm: str, positions: str, tied: str):
        self.design = {"norm": norm, "positions": positions, "tied": tied}

    # Attention, embeddings, masks

    def attention(self, query, key, value, mask, dropout):
        return attention.scaled_dot_product_attention(
            query, key, value, mask, dropout_p=dropout, return_weights=True
        )

    def multi_head(self, d_model: int, n_heads: int) -> nn.Module:
        return attention.MultiHeadAttention(d_model, n_heads)

    def projections(self, module: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
        names = ("query", "key", "value", "output")
        return {name: (getattr(module, name).weight, getattr(module, name).bias) for name in names}

    def embedding(self, vocab_size: int, d_model: int) -> nn.Module:
        return embeddings.TokenEmbedding(vocab_size, d_model, vocab.PAD)

    def positions(self, d_model: int, max_length: int) -> nn.Module:
        return embeddings.Positions(d_model, max_length, self.design["positions"])

    def padding_mask(self, ids: Tensor) -> Tensor:
        return masks.padding_mask(ids)

    def causal_mask(self, length: int) -> Tensor:
        return masks.causal_mask(length)

    # The model

    def encoder_layer(self, sizes: Sizes) -> nn.Module:
        return layers.EncoderLayer(self.config(sizes))

    def make_model(self, sizes: Sizes) -> nn.Module:
        return transformer.Transformer(self.config(sizes))

    def config(self, sizes: Sizes) -> transformer.TransformerConfig:
        """The configuration of a model of these sizes."""
        values = asdict(sizes)
        n_layers = values.pop("n_layers")
        return transformer.TransformerConfig(
            **values,
            **self.design,
            n_encoder_layers=n_layers,
            n_decoder_layers=n_layers,
            attention_dropout=sizes.dropout,
        )

    def encode(self, model: nn.Module, source: Tensor) -> Tensor:
        return model.encode(source)

    def decode(self, model: nn.Module, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        return model.decode(target, memory, masks.padding_mask(source))

    def attention_maps(self, model: nn.Module, source: Tensor, target: Tensor) -> list[Tensor]:
        with attention.record_attention(model) as maps:
            model(source, target)
        names = [f"decoder.{number}.cross_attention" for number in range(len(model.decoder))]
        return [maps[name][0] for name in names]

    def tied(self) -> list[Tensor]:
        model = Parts(**self.design | {"tied": "all"}).make_model(Sizes())
        return [model.output.weight, model.target_embedding.weight, model.source_embedding.weight]

    def count_parameters(self, model: nn.Module) -> int:
        return sum(model.parameter_table().values())

    def reload(self, model: nn.Module) -> nn.Module:
        with TemporaryDirectory() as folder:
            checkpoint.save_checkpoint(Path(folder) / "model.safetensors", model)
            return checkpoint.load_model(Path(folder) / "model.safetensors")

    # Training

    def loss(self, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        return loss.label_smoothed_loss(logits, labels, smoothing)

    def schedule(self, update: int) -> float:
        return schedule.noam_rate(update, Sizes().d_model, TRAINING.warmup, TRAINING.learning_rate)

    def train(self, model: nn.Module, updates: list[list[list[IdPair]]], clip: float) -> None:
        with TemporaryDirectory() as folder:
            pairs = [pair for update in updates for micro_batch in update for pair in micro_batch]
            run = self.trainer(model, pairs, pairs, folder, clip=clip)
            model.train()
            for update in updates:
                run.update([batching.collate(examples(micro_batch)) for micro_batch in update])

    def validate(self, model: nn.Module, pairs: list[IdPair]) -> float:
        with TemporaryDirectory() as folder:
            # So few tokens that there are several batches.
            return self.trainer(model, pairs, pairs, folder, max_tokens=32).validate().perplexity

    def fit(
        self, model: nn.Module, train: list[IdPair], validation: list[IdPair], epochs: int
    ) -> tuple[nn.Module, list[float]]:
        with TemporaryDirectory() as folder:
            # Small batches, two of them for each update, so that one epoch makes several updates.
            history = self.trainer(
                model, train, validation, folder, epochs=epochs, max_tokens=32, accumulate=2
            ).fit()
            kept = checkpoint.load_model(Path(folder) / "model.safetensors")
        return kept, [record.validation_perplexity for record in history]

    def trainer(self, model, train, validation, folder, **settings) -> trainer.Trainer:
        """A `Trainer` that says nothing."""
        settings = TrainingSettings(**asdict(TRAINING) | settings)
        return trainer.Trainer(
            model, examples(train), examples(validation), settings, folder, report=lambda line: None
        )

    # Decoding

    def start(self, model: nn.Module, source: Tensor):
        return model.start(source)

    def step(self, model: nn.Module, tokens: Tensor, state):
        return model.step(tokens, state), state

    def select(self, state, rows: Tensor):
        state.select_hypotheses(rows)
        state.select_sentences(rows)
        return state

    def greedy(self, model: nn.Module, source: Tensor, max_length: int) -> list[list[int]]:
        return search.greedy_search(model, source, max_length=max_length)

    def beam(
        self, model: nn.Module, source: Tensor, beam: int, length_penalty: float, max_length: int
    ):
        found = search.beam_search(
            model, source, beam, n_best=beam, length_penalty=length_penalty, max_length=max_length
        )
        return [
            [(hypothesis.ids, hypothesis.score) for hypothesis in hypotheses]
            for hypotheses in found
        ]

    def hypotheses(
        self, model: nn.Module, source: Tensor, references: list[list[int]]
    ) -> list[str]:
        words = number_words(max(model.config.source_vocab_size, model.config.target_vocab_size))
        pairs = [
            corpus.Pair(
                words.decode([i for i in row if i not in (vocab.PAD, vocab.EOS)]),
                words.decode(reference),
            )
            for row, reference in zip(source.tolist(), references, strict=True)
        ]
        settings = Settings(tokenizer=TokenizerSettings(kind="whitespace"))
        reader = translator.Translator(model, words, words, settings)
        return evaluate.evaluate(reader, corpus.Corpus("words", "de", "en", test=pairs), beam=1)[1]

    def text(self, ids: list[int]) -> str:
        return number_words(max(ids) + 1).decode(ids)

    # Data and metrics

    def make_batch(self, pairs: list[IdPair]) -> IdBatch:
        batch = batching.collate(examples(pairs))
        return batch.source, batch.decoder_input, batch.labels

    def make_batches(self, pairs: list[IdPair], max_tokens: int) -> list[IdBatch]:
        every = examples(pairs)
        batches = [
            batching.collate([every[i] for i in rows])
            for rows in batching.token_batches(every, max_tokens)
        ]
        return [(batch.source, batch.decoder_input, batch.labels) for batch in batches]

    def vocabulary(
        self, train: list[str], validation: list[str], test: list[str]
    ) -> Collection[str]:
        splits = [
            [corpus.Pair(line, line) for line in lines] for lines in (train, validation, test)
        ]
        source, target = codec.build_codecs(
            corpus.Corpus("lines", "de", "en", *splits), "whitespace"
        )
        return {*source.vocab.tokens, *target.vocab.tokens}

    def encode_text(self, tokens: list[str], sentence: str) -> list[int]:
        published = corpus.Corpus("words", "de", "en", vocabularies=(tokens, tokens))
        return codec.build_codecs(published, "given")[0].encode(sentence)

    def bleu(self, hypotheses: list[str], references: list[str], language: str) -> float:
        pairs = [corpus.Pair("", reference) for reference in references]
        words = number_words(4)
        words.tokenizer = tokenizers.SpacyTokenizer(language)
        reader = translator.Translator(nn.Module(), words, words)
        tokenize = evaluate.bleu_tokenizer(reader, corpus.Corpus("lines", "de", language))
        return evaluate.score(hypotheses, pairs, tokenize=tokenize).bleu

    def word_bleu(self, hypotheses: list[str], references: list[str]) -> float:
        return evaluate.score(
            hypotheses, [corpus.Pair("", reference) for reference in references]
        ).bleu_nltk


def ours(norm: str = "pre", positions: str = "sinusoidal", tied: str = "none") -> Adapter:
    """The adapter of nmtlib itself; the design is named as in
    `nmtlib.model.transformer.TransformerConfig`.

    Each part is looked up in its module when it is called, so a change to a module is a change to
    what is checked.
    """
    parts = Parts(norm, positions, tied)
    names = {f.name for f in fields(Adapter)} & set(dir(parts))
    return Adapter(
        name="nmtlib",
        fixed_positions=positions == "sinusoidal",
        **{name: getattr(parts, name) for name in names},
    )


def examples(pairs: list[IdPair]) -> list[batching.Example]:
    """Pairs of word ids with their special ids."""
    return [batching.make_example(source, target) for source, target in pairs]


def number_words(size: int) -> codec.Codec:
    """A codec of `size` ids, whose words are called w4, w5, and so on."""
    words = [f"w{number}" for number in range(len(vocab.SPECIALS), size)]
    return codec.Codec(tokenizers.WhitespaceTokenizer(), vocab.Vocab([*vocab.SPECIALS, *words]))
