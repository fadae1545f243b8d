"""A trained run, ready to translate sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.batching import Example, make_example, pad
from nmtlib.data.codec import Codec
from nmtlib.data.tokenizers import SPACE_MARK
from nmtlib.errors import did_you_mean
from nmtlib.inference.kernels import convert
from nmtlib.inference.search import Hypothesis, beam_search
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.sections import DecodingSettings
from nmtlib.settings import Settings
from nmtlib.specials import EOS, SPECIALS, UNK
from nmtlib.training.checkpoint import (
    load_weights,
    read_checkpoint,
    require_config,
    require_identity,
)
from nmtlib.training.hardware import choose_device

SHIPPED = Path(__file__).parents[1] / "trained"  # the runs that come with the package
RUNS = Path("runs")  # where `nmtlib train` puts others


class Translator:
    """Text in, text out: the model of a run with both its codecs.

    `model` is the model as it was trained.  A search runs a copy of it, made once, which is quicker
    on a CPU: see `nmtlib.inference.kernels.convert`.  So a translator is made anew for a model that
    was moved to another device or type.

    >>> Translator.load("toy-de-en").translate(["der Hund schläft ."])
    ['the dog sleeps .']
    """

    def __init__(
        self,
        model: Transformer,
        source: Codec,
        target: Codec,
        settings: Settings | None = None,
        *,
        precision: str = "fp32",
    ):
        self.model, self.source, self.target = model.eval(), source, target
        self.quick_model, self.precision = convert(model, precision), precision
        self.settings = settings or Settings()

    @classmethod
    def load(
        cls, run: str | Path, *, device: str | None = None, precision: str = "fp32"
    ) -> Translator:
        """Load a run folder, or by its name a model that comes with the package ("toy-de-en").

        While a training is still going on, its best epoch so far is taken.  `device` defaults to
        that of the run, or to the CPU where there is no GPU.  `precision` "bf16" lets a CPU
        multiply in bfloat16: quicker where it does so natively, with now and then another word in a
        translation.  Raises FileNotFoundError where there is no run, ValueError where it is
        damaged.
        """
        folder = find_run(run)
        settings, (source, target) = folder.settings(), folder.codecs()
        trained_on = settings.training.device
        if trained_on.startswith("cuda") and not torch.cuda.is_available():
            trained_on = "cpu"  # a run is used on other machines, too
        place = choose_device(device or trained_on)
        weights = folder.weights_file()
        config, tensors, notes = read_checkpoint(weights)
        sizes = (config.source_vocab_size, config.target_vocab_size)
        if sizes != (len(source.vocab), len(target.vocab)):
            raise ValueError(
                f"{run}: the model was trained with vocabularies of {sizes[0]} and {sizes[1]} "
                f"entries, but the run's codecs hold {len(source.vocab)} and {len(target.vocab)}"
            )
        require_config(weights, config, settings.with_vocabularies(*sizes).model)
        require_identity(weights, notes, folder.codec_digests())
        model = Transformer(config).to(place)
        load_weights(model, tensors, where=weights)
        return cls(model, source, target, settings, precision=precision)

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return next(self.model.parameters()).device

    def translate(self, sentences: Sequence[str], **options: Any) -> list[str]:
        """The best translation of each sentence, in order; an empty one has an empty translation.

        `options` are those of `search`.  Raises ValueError for one string in place of a list, or a
        sentence longer than the model's position table.
        """
        return [self.target.decode(best[0].ids) for best in self.search(sentences, **options)]

    def search(
        self,
        sentences: Sequence[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
        max_length: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each sentence, best first; beam 1 is greedy search.

        What is not given is taken from the run's settings.  Sentences are sorted by length and
        translated in batches of a limited number of tokens; the result is in the order given.
        """
        decoding = self.decoding(beam, length_penalty)
        options = {"length_penalty": decoding.length_penalty, "max_length": max_length}
        encoded = self._encode(sentences)
        results = [[Hypothesis([], 0.0, 0.0)]] * len(encoded)
        for rows in self.batches(encoded, max(decoding.max_tokens // decoding.beam, 1)):
            source = pad([[*encoded[i], EOS] for i in rows]).to(self.device)  # (B, S)
            found = beam_search(self.quick_model, source, decoding.beam, n_best=n_best, **options)
            for i, hypotheses in zip(rows, found, strict=True):
                results[i] = hypotheses
        return results

    def decoding(self, beam: int | None, length_penalty: float | None) -> DecodingSettings:
        """How to search: as the run's settings say, but for what is given."""
        given: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty}
        given = {name: value for name, value in given.items() if value is not None}
        return replace(self.settings.decoding, **given)

    def read(self, sentence: str) -> list[int]:
        """Ids of a sentence, without EOS.  Raises ValueError where the model cannot read it."""
        ids, most = self.source.encode(sentence), self.model.config.max_length - 1
        if len(ids) > most:
            raise ValueError(
                f"{len(ids)} tokens, but this model reads at most {most}; "
                f"split it: {sentence[:50]!r}…"
            )
        return ids

    def _encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of the sentences.  Raises ValueError that names the one that cannot be read."""
        if isinstance(sentences, str):
            raise ValueError("translate takes a list of sentences, not one string: [sentence]")
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
        """What the source vocabulary does not know of a sentence, each once, in order.

        That is tokens; but of byte-pair pieces, which only lack characters, the words around them.

        >>> Translator.load("toy-de-en").unknown("der Hund programmiert .")
        ['programmiert']
        """
        tokens = self.source.tokenizer.encode(sentence)
        names = [token for token in tokens if self.source.vocab.encode([token]) == [UNK]]
        if SPECIALS[UNK] in names:
            names = [word for word in sentence.split() if UNK in self.source.encode(word)]
        return list(dict.fromkeys(name.removeprefix(SPACE_MARK) for name in names))

    def example(self, source: str, target: str) -> Example:
        """A pair as the ids that the model was trained on."""
        return make_example(self.source.encode(source), self.target.encode(target))


def named_runs() -> dict[str, Run]:
    """The runs that have a name: those shipped with the package, and those trained in `RUNS`.

    One of these whose name a shipped one has is named by its path.
    """
    found: dict[str, Run] = {}
    for home in (SHIPPED, RUNS):
        for path in sorted(home.glob("*/settings.json")):
            name, run = path.parent.name, Run(path.parent)
            found[str(run.folder) if name in found else name] = run
    return found


def find_run(run: str | Path) -> Run:
    """The run in a folder, or that of a name; a shipped one goes before one trained here."""
    if not isinstance(run, str | Path):
        raise TypeError(f"a run is given by its folder or its name, not by {run!r}")
    folder, named = Run(run), named_runs()
    # A folder of the name of a model may hold anything, such as what was exported.
    if folder.folder.exists() and (folder.settings_file.is_file() or str(run) not in named):
        return folder
    if str(run) in named:
        return named[str(run)]
    raise FileNotFoundError(
        f"{run} is not a run folder{did_you_mean(str(run), named)}; train one with: nmtlib train "
        f"PRESET --out {run}; or take one of these: {', '.join(named)}"
    )


load = Translator.load
