"""A trained run, ready to translate sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor
from tqdm import tqdm

from nmtlib.arguments import PathLike, checked
from nmtlib.data.batching import Example, collate, make_example, pad
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import split_words
from nmtlib.data.tokenizers import SPACE_MARK
from nmtlib.inference.search import Hypothesis, beam_search
from nmtlib.model.attention import AttentionClass, MultiHeadAttention, record_attention
from nmtlib.model.transformer import Transformer
from nmtlib.run import find_weights
from nmtlib.settings import DecodingSettings, Settings, explain
from nmtlib.specials import EOS, SPECIALS, UNK
from nmtlib.training.checkpoint import read_checkpoint, rebuild_model
from nmtlib.training.hardware import choose_device


@dataclass(frozen=True)
class AttentionMap:
    """How much each target token attends to each source token, in every layer and head.

    `weights` is (layers, H, T, S), each row of it sums to 1; `source` names the S tokens that are
    read, `target` the T tokens that are generated, both with EOS.
    """

    weights: Tensor
    source: list[str]
    target: list[str]


class Translator:
    """Text in, text out: the model of a run with both its codecs.

    `model` is the model as it was trained, in evaluation mode; `notes` are facts about it that an
    evaluation records.

    >>> Translator.load("toy-de-en").translate(["der Hund schläft ."])
    ['the dog sleeps .']
    """

    def __init__(
        self,
        model: Transformer,
        source: Codec,
        target: Codec,
        settings: Settings | None = None,
        notes: Mapping[str, Any] | None = None,
    ):
        self.model, self.source, self.target = model.eval(), source, target
        self.settings, self.notes = settings or Settings(), dict(notes or {})

    @classmethod
    @checked(run=PathLike, checkpoint=str, device=str | None)
    def load(
        cls,
        run: str | Path,
        *,
        checkpoint: str = "",
        device: str | None = None,
        attention: AttentionClass = MultiHeadAttention,
    ) -> Translator:
        """Load a run folder, one of its files, or a shipped model by its name ("toy-de-en").

        Such a file (`model.safetensors`) may be copied, renamed and moved: all is in it.
        `checkpoint`, such as "epoch-003", defaults to the weights chosen at the end of training,
        until then the best epoch's, and `device` to that of the run if it is there.  `attention` is
        the class that the run was trained with.  Raises FileNotFoundError for a missing run or
        checkpoint, ValueError for a damaged one.
        """
        saved = read_checkpoint(find_weights(run, checkpoint))
        about = saved.described()
        trained_on = about.settings.training.device
        if trained_on.startswith("cuda") and not torch.cuda.is_available():
            trained_on = "cpu"  # a run is also used on other machines
        model = rebuild_model(saved, attention).to(choose_device(device or trained_on))
        return cls(model, about.source, about.target, about.settings)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def translate(self, sentences: Sequence[str], **options: Any) -> list[str]:
        """The best translation of each sentence, in order; an empty one of an empty sentence.

        `options` are those of `search`.  Raises ValueError for a string in place of a list, or a
        sentence longer than the position table.
        """
        return [self.target.decode(best[0].ids) for best in self.search(sentences, **options)]

    def n_best(
        self, sentences: Sequence[str], n: int = 5, *, beam: int | None = None, **options: Any
    ) -> list[list[tuple[str, float]]]:
        """The `n` best translations of each sentence with their scores, best first.

        The beam defaults to the run's, or to `n` if that is more; `options` are those of `search`.
        """
        beam = max(n, self.settings.decoding.beam) if beam is None else beam
        hypotheses = self.search(sentences, n_best=n, beam=beam, **options)
        return [[(self.target.decode(h.ids), h.score) for h in best] for best in hypotheses]

    @torch.no_grad()
    def attention(self, sentence: str, translation: str | None = None) -> AttentionMap:
        """The cross-attention while the model reads a sentence and predicts its translation.

        `translation` is the model's own unless given.  Raises ValueError for an empty sentence,
        or for an attention that records no weights.
        """
        if not sentence.strip():
            raise ValueError("an empty sentence has no tokens to attend to; give a sentence")
        translation = self.translate([sentence])[0] if translation is None else translation
        batch = collate([self.example(sentence, translation)]).to(self.device)
        with record_attention(self.model) as maps:
            self.model(batch.source, batch.decoder_input)
        if not all(maps.values()):
            raise ValueError(
                f"{self.model.attention.__name__} records no weights: its weighted_values does not "
                "call that of MultiHeadAttention"
            )
        weights = [calls[0] for name, calls in maps.items() if name.endswith("cross_attention")]
        source = self.source.vocab.decode(batch.source[0].tolist())
        target = self.target.vocab.decode(batch.labels[0].tolist())
        return AttentionMap(torch.cat(weights).cpu(), source, target)  # of (1, H, T, S) a layer

    def search(
        self,
        sentences: Sequence[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
        patience: float = 1.0,
        max_length: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each sentence, best first; beam 1 is greedy search.

        The run's settings are the defaults, `patience` is that of `beam_search`.  Sentences are
        translated in batches of similar lengths and a limited number of tokens; the result is in
        the order given.
        """
        decoding, encoded = self.decoding(beam, length_penalty), self._read_all(sentences)
        options: dict[str, Any] = {"length_penalty": decoding.length_penalty, "n_best": n_best}
        options |= {"patience": patience, "max_length": max_length}
        results = [[Hypothesis([], 0.0, 0.0)]] * len(encoded)
        batches = self.batches(encoded, max(decoding.max_tokens // decoding.beam, 1))
        for rows in tqdm(batches, "translating", unit="batch", leave=False, delay=2, disable=None):
            source = pad([[*encoded[i], EOS] for i in rows]).to(self.device)  # (B, S)
            batch = beam_search(self.model, source, decoding.beam, **options)
            for i, n_best_of_row in zip(rows, batch, strict=True):
                results[i] = n_best_of_row
        return results

    def decoding(self, beam: int | None, length_penalty: float | None) -> DecodingSettings:
        """The run's decoding settings, changed by what is given.  Raises ValueError."""
        changes: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty}
        try:
            return replace(
                self.settings.decoding, **{k: v for k, v in changes.items() if v is not None}
            )
        except ValidationError as error:
            raise ValueError(explain(error)) from None

    def read(self, sentence: str) -> list[int]:
        """Ids of a sentence, without EOS.  Raises ValueError if the model cannot read it."""
        ids, most = self.source.encode(sentence), self.model.config.max_length - 1
        if len(ids) > most:
            raise ValueError(
                f"{len(ids)} tokens, but this model reads at most {most}; split {sentence[:50]!r}…"
            )
        return ids

    def _read_all(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of the sentences; an error names the number of the sentence."""
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise ValueError(f"expected a list of sentences, [sentence], not {sentences!r:.60}")
        encoded = []
        for number, sentence in enumerate(sentences, start=1):
            if not isinstance(sentence, str):
                raise ValueError(f"sentence {number} is {sentence!r}; expected a string")
            try:
                encoded.append(self.read(sentence))
            except ValueError as error:
                raise ValueError(f"sentence {number}: {error}") from None
        return encoded

    @staticmethod
    def batches(encoded: list[list[int]], max_tokens: int) -> list[list[int]]:
        """Numbers of the non-empty sentences, longest first, in batches of `max_tokens` at most."""
        batches: list[list[int]] = []
        rows = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: -len(encoded[i]))
        while rows:
            # All are padded to the first, the longest, and its EOS.
            size = max(max_tokens // (len(encoded[rows[0]]) + 1), 1)
            batches.append(rows[:size])
            rows = rows[size:]
        return batches

    def unknown(self, sentence: str) -> list[str]:
        """The tokens, or words around unknown characters, that the source vocabulary lacks.

        >>> Translator.load("toy-de-en").unknown("der Hund programmiert .")
        ['programmiert']
        """
        tokens = self.source.tokenizer.encode(sentence)
        names = [token for token in tokens if self.source.vocab.encode([token]) == [UNK]]
        if SPECIALS[UNK] in names:
            names = [word for word in split_words(sentence) if UNK in self.source.encode(word)]
        return list(dict.fromkeys(name.removeprefix(SPACE_MARK) for name in names))

    def example(self, source: str, target: str) -> Example:
        """A pair as the ids that the model was trained on."""
        return make_example(self.source.encode(source), self.target.encode(target))


load = Translator.load
