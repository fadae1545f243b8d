"""nmtlib's own parts, with the signatures that `Adapter` expects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Hypothesis, IdBatch, IdPair, Sizes, Updates
from nmtcheck.connect.standins import Batch
from nmtlib import specials
from nmtlib.data import batching, codec, corpus, tokenizers
from nmtlib.inference import evaluate, search, translator
from nmtlib.model import attention, embeddings, transformer
from nmtlib.settings import Settings, TokenizerSettings, TrainingSettings
from nmtlib.training import checkpoint, loss, schedule, trainer

# Few updates with a high rate; 'noam' makes `schedule` depend on nothing but update and d_model.
TRAINING = TrainingSettings(
    schedule="noam", learning_rate=0.5, warmup=4, precision="fp32", device="cpu", average=1
)
WORDS = Settings(tokenizer=TokenizerSettings(kind="whitespace"))

# Parts that are one call.  As in `Parts`, each is looked up in its module when it is called, so a
# change to a module is a change to what is checked.
CALLS = {
    "attention": lambda query, key, value, mask, dropout: attention.scaled_dot_product_attention(
        query, key, value, mask, dropout_p=dropout, return_weights=True
    ),
    "multi_head": lambda d_model, n_heads: attention.MultiHeadAttention(d_model, n_heads),
    "embedding": lambda size, d_model: embeddings.TokenEmbedding(size, d_model, specials.PAD),
    "count_parameters": lambda model: sum(model.parameter_table().values()),
    "loss": lambda logits, labels, smoothing: loss.label_smoothed_loss(logits, labels, smoothing),
    "start": lambda model, source: model.start(source),
    "step": lambda model, tokens, state: (model.step(tokens, state), state),
    "greedy": lambda model, source, most: search.greedy_search(model, source, max_length=most),
    "word_bleu": lambda said, wanted: evaluate.score(said, targets(wanted)).bleu_nltk,
}


class Parts:
    """The other parts of `Adapter`, each a method of its name: nmtlib's own code."""

    def __init__(self, **design: str):
        self.design = design

    # The model and its parts

    def projections(self, module: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
        names = ("query", "key", "value", "output")
        return {name: (getattr(module, name).weight, getattr(module, name).bias) for name in names}

    def positions(self, d_model: int, max_length: int) -> nn.Module:
        return embeddings.Positions(d_model, max_length, self.design["positions"])

    def make_model(self, sizes: Sizes) -> transformer.Transformer:
        return transformer.Transformer(self.config(sizes))

    def config(self, sizes: Sizes) -> transformer.TransformerConfig:
        """The configuration of a model of these sizes."""
        values = asdict(sizes) | self.design | {"attention_dropout": sizes.dropout}
        depths = dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), values.pop("n_layers"))
        return transformer.TransformerConfig(**values, **depths)

    def attention_maps(self, model: nn.Module, source: Tensor, target: Tensor) -> list[Tensor]:
        """The weights (B, H, T, S) with which each decoder layer reads the source."""
        with attention.record_attention(model) as maps:
            model(source, target)
        names = [f"decoder.{number}.cross_attention" for number in range(len(model.decoder))]
        return [maps[name][0] for name in names]

    def tied(self) -> list[Tensor]:
        model = Parts(**self.design | {"tied": "all"}).make_model(Sizes())
        return [model.output.weight, model.target_embedding.weight, model.source_embedding.weight]

    def reload(self, model: nn.Module) -> nn.Module:
        """The model as it comes back from a checkpoint."""
        with TemporaryDirectory() as folder:
            checkpoint.save_checkpoint(Path(folder) / "model.safetensors", model)
            return checkpoint.load_model(Path(folder) / "model.safetensors")

    # Training

    def schedule(self, update: int) -> float:
        return schedule.noam_rate(update, Sizes().d_model, TRAINING.warmup, TRAINING.learning_rate)

    def train(self, model: nn.Module, updates: Updates, clip: float) -> None:
        """Make the updates, each of one or several micro-batches."""
        pairs = [pair for update in updates for micro_batch in update for pair in micro_batch]
        run = self.trainer(model, None, pairs, pairs, grad_clip=clip)
        model.train()
        for update in updates:
            run.update([collate(micro_batch) for micro_batch in update])

    def epoch(self, model: nn.Module, batches: list[Batch], training: bool) -> float:
        """The mean loss over some batches, nats a token; with `training`, after each an update."""
        tables = [[[i[i != specials.PAD].tolist() for i in ids] for ids in b] for b in batches]
        given = [batching.Example(*pair) for batch in tables for pair in zip(*batch, strict=True)]
        run = trainer.Trainer(model, given, given, replace(TRAINING, max_tokens=64))
        if not training:
            return run.validate().nll_per_token
        model.train()
        totals = [run.update([batching.Batch(*batch)]) for batch in batches]
        return sum(each.loss_per_token for each in totals) / len(totals)

    def validate(self, model: nn.Module, pairs: list[IdPair]) -> float:
        # The limit makes several batches.
        return self.trainer(model, None, pairs, pairs, max_tokens=32).validate().perplexity

    def fit(
        self, model: nn.Module, train: list[IdPair], validation: list[IdPair], epochs: int
    ) -> tuple[nn.Module, list[float]]:
        """The model that is kept after some epochs, and the validation perplexity of each."""
        # Small batches, two of them for each update, so that one epoch makes several updates.
        sizes = {"epochs": epochs, "max_tokens": 32, "accumulate": 2}
        with TemporaryDirectory() as folder:
            history = self.trainer(model, folder, train, validation, **sizes).fit()
            kept = checkpoint.load_model(Path(folder) / "model.safetensors")
        return kept, [record.validation_perplexity for record in history]

    def trainer(
        self, model: nn.Module, folder: str | None, *pairs: list[IdPair], **settings: float
    ) -> trainer.Trainer:
        """A `Trainer` that prints nothing; `pairs` are those to train and to validate with."""
        data, changed = map(examples, pairs), replace(TRAINING, **settings)
        return trainer.Trainer(model, *data, changed, folder, report=lambda line: None)

    # Decoding

    def beam(
        self, model: nn.Module, source: Tensor, beam: int, length_penalty: float, max_length: int
    ) -> list[list[Hypothesis]]:
        """All hypotheses of a beam for each source (B, S), best first."""
        found = search.beam_search(
            model, source, beam, n_best=beam, length_penalty=length_penalty, max_length=max_length
        )
        return [[(each.ids, each.score) for each in hypotheses] for hypotheses in found]

    def translate(self, model: nn.Module, words: list[str], longest: int) -> list[str]:
        """The words of the greedy translation of some words."""
        numbers = number_words(100)
        reader = translator.Translator(model, numbers, numbers, WORDS)
        return reader.translate([" ".join(words)], beam=1, max_length=longest)[0].split()

    def hypotheses(
        self, model: transformer.Transformer, source: Tensor, references: list[list[int]]
    ) -> list[str]:
        """What an evaluation scores for each source (B, S)."""
        words = number_words(max(model.config.source_vocab_size, model.config.target_vocab_size))
        sides = map(words.decode, source.tolist()), map(words.decode, references)
        pairs = [corpus.Pair(*pair) for pair in zip(*sides, strict=True)]
        reader = translator.Translator(model, words, words, WORDS)
        return evaluate.evaluate(reader, corpus.Corpus("words", "de", "en", test=pairs), beam=1)[1]

    def evaluate(
        self, model: transformer.Transformer, pairs: list[tuple[list[str], list[str]]]
    ) -> tuple[float, float]:
        """The perplexity and the BLEU that an evaluation reports."""
        words = number_words(max(model.config.source_vocab_size, model.config.target_vocab_size))
        test = [corpus.Pair(" ".join(source), " ".join(target)) for source, target in pairs]
        reader = translator.Translator(model, words, words, WORDS)
        found = evaluate.evaluate(reader, corpus.Corpus("words", "de", "en", test=test), beam=1)[0]
        return found.perplexity, found.scores.bleu

    # Data and metrics

    def make_batch(self, pairs: list[IdPair]) -> IdBatch:
        batch = collate(pairs)
        return batch.source, batch.decoder_input, batch.labels

    def make_batches(self, pairs: list[IdPair], max_tokens: int) -> list[IdBatch]:
        numbers = batching.token_batches(examples(pairs), max_tokens)
        return [self.make_batch([pairs[i] for i in rows]) for rows in numbers]

    def vocabulary(self, *splits: list[str]) -> Collection[str]:
        """All tokens that are learnt from a corpus of these splits."""
        pairs = [[corpus.Pair(line, line) for line in lines] for lines in splits]
        lines = corpus.Corpus("lines", "de", "en", *pairs)
        codecs = [c for kind in ("whitespace", "bpe") for c in codec.build_codecs(lines, kind)]
        return {token for side in codecs for token in side.vocab.tokens}

    def encode_text(self, tokens: list[str], sentence: str) -> list[int]:
        published = corpus.Corpus("words", "de", "en", vocabularies=(tokens, tokens))
        return codec.build_codecs(published, "given")[0].encode(sentence)

    def bleu(self, hypotheses: list[str], references: list[str], language: str) -> float:
        """Corpus BLEU, 0 to 100, of text in a language."""
        words = number_words(4)
        words.tokenizer = tokenizers.SpacyTokenizer(language)
        reader = translator.Translator(nn.Module(), words, words)
        tokenize = evaluate.bleu_tokenizer(reader, corpus.Corpus("lines", "de", language))
        return evaluate.score(hypotheses, targets(references), tokenize=tokenize).bleu

    def score(self, tokens: list[str], said: list[list[int]], references: list[str]) -> float:
        """Corpus BLEU, 0 to 100, of ids that a model said."""
        words = codec.Codec(tokenizers.WhitespaceTokenizer(), codec.Vocab(tokens))
        size = {"source_vocab_size": len(tokens), "target_vocab_size": len(tokens)}
        reader = translator.Translator(self.make_model(Sizes(**size)), words, words, WORDS)
        texts = [words.decode(ids) for ids in said]
        vars(reader)["translate"] = lambda sentences, **options: texts[: len(sentences)]
        pairs = corpus.Corpus("words", "de", "en", test=targets(references))
        return evaluate.evaluate(reader, pairs)[0].scores.bleu


def ours(
    norm: str = "pre", positions: str = "sinusoidal", tied: str = "none", **beginnings: str
) -> Adapter:
    """The adapter of nmtlib itself; the design is named as in `TransformerConfig`."""
    parts = Parts(norm=norm, positions=positions, tied=tied, **beginnings)
    own = {f.name: getattr(parts, f.name) for f in fields(Adapter) if hasattr(parts, f.name)}
    if positions == "rotary":  # nothing is added to the words, so there is no such part to check
        del own["positions"]
    ids = {"pad": specials.PAD, "bos": specials.BOS, "eos": specials.EOS}
    facts = {"fixed_positions": positions != "learned", "strict": True}
    return Adapter(name="nmtlib", **ids, **facts, **CALLS, **own)


def examples(pairs: list[IdPair]) -> list[batching.Example]:
    """Pairs of word ids with their special ids."""
    return [batching.make_example(source, target) for source, target in pairs]


def collate(pairs: list[IdPair]) -> batching.Batch:
    """Pairs of word ids as one padded batch."""
    return batching.collate(examples(pairs))


def targets(references: list[str]) -> list[corpus.Pair]:
    """References as pairs whose sources do not count."""
    return [corpus.Pair("", reference) for reference in references]


def number_words(size: int) -> codec.Codec:
    """A codec of `size` ids, whose words are called w4, w5, and so on."""
    words = [f"w{number}" for number in range(len(specials.SPECIALS), size)]
    return codec.Codec(tokenizers.WhitespaceTokenizer(), codec.Vocab([*specials.SPECIALS, *words]))
