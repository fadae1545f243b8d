"""A trained run, ready to translate sentences."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from nmtlib.data.batching import Example, make_example, pad
from nmtlib.data.codec import Codec
from nmtlib.data.vocab import EOS
from nmtlib.inference.kernels import bfloat16_linears
from nmtlib.inference.search import Hypothesis, beam_search
from nmtlib.model.transformer import Transformer
from nmtlib.settings import DecodingSettings, Settings
from nmtlib.training.checkpoint import load_model
from nmtlib.training.hardware import choose_device

PRECISIONS = ("fp32", "bf16")


def weights_file(run: Path) -> Path:
    """The weights to translate with: those chosen at the end of the training, until then the best
    epoch's.

    Raises FileNotFoundError before the first epoch has ended.
    """
    for name in ("model.safetensors", "best.safetensors"):
        if (run / name).is_file():
            return run / name
    raise FileNotFoundError(
        f"{run} holds no weights yet: its first epoch has not ended; continue with: nmtlib train --resume --out {run}"
    )


class Translator:
    """Text in, text out: the model of a run with both its codecs.

    >>> Translator.load("runs/toy-de-en").translate(["der Hund schläft ."])  # doctest: +SKIP
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
        if precision not in PRECISIONS:
            raise ValueError(f"precision is one of {', '.join(PRECISIONS)}, not {precision!r}")
        self.model, self.source, self.target = model.eval(), source, target
        self.settings = settings or Settings()
        self.precision = precision

    @classmethod
    def load(
        cls, run: str | Path, *, device: str | None = None, precision: str = "fp32"
    ) -> Translator:
        """Load a run folder.  Raises FileNotFoundError where it is none, ValueError where it is
        damaged.

        While a training is still going on, its best epoch so far is taken.  `device` defaults to
        that of the run. `precision` "bf16" lets a CPU multiply in bfloat16: quicker where it does
        so natively, with now and then another word in a translation.
        """
        run = Path(run)
        if not (run / "settings.json").is_file():
            raise FileNotFoundError(
                f"{run} is not a run folder (it has no settings.json); train one with: nmtlib train PRESET --out {run}"
            )
        settings = Settings.load(run / "settings.json")
        model = load_model(weights_file(run)).to(choose_device(device or settings.training.device))
        source, target = Codec.load(run / "source.json"), Codec.load(run / "target.json")
        sizes = (model.config.source_vocab_size, model.config.target_vocab_size)
        if sizes != (len(source.vocab), len(target.vocab)):
            raise ValueError(
                f"{run}: the model was trained with vocabularies of {sizes[0]} and {sizes[1]} entries, but "
                f"source.json and target.json hold {len(source.vocab)} and {len(target.vocab)}"
            )
        return cls(model, source, target, settings, precision=precision)

    def translate(self, sentences: Sequence[str], **options) -> list[str]:
        """The best translation of each sentence, in order; an empty sentence has an empty
        translation.

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
        if isinstance(sentences, str):
            raise ValueError(
                "translate takes a list of sentences, not one string; write [sentence]"
            )
        given = {"beam": beam, "length_penalty": length_penalty}
        decoding: DecodingSettings = replace(
            self.settings.decoding,
            **{name: value for name, value in given.items() if value is not None},
        )
        beam, length_penalty = decoding.beam, decoding.length_penalty
        encoded = [self.source.encode(sentence) for sentence in sentences]
        limit = self.model.config.max_length
        for number, ids in enumerate(encoded):
            if len(ids) + 1 > limit:
                raise ValueError(
                    f"sentence {number + 1} has {len(ids)} tokens, but this model reads at most {limit - 1}; "
                    f"split it: {sentences[number][:50]!r}…"
                )
        results: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)]] * len(sentences)
        with bfloat16_linears(self.model) if self.precision == "bf16" else nullcontext():
            for rows in self.batches(encoded, max(decoding.max_tokens // beam, 1)):
                source = pad([[*encoded[i], EOS] for i in rows]).to(
                    next(self.model.parameters()).device
                )
                found = beam_search(
                    self.model,
                    source,
                    beam,
                    n_best=n_best,
                    length_penalty=length_penalty,
                    max_length=max_length,
                )
                for i, hypotheses in zip(rows, found, strict=True):
                    results[i] = hypotheses
        return results

    def batches(self, encoded: list[list[int]], max_tokens: int) -> list[list[int]]:
        """Numbers of the non-empty sentences, longest first, in batches of at most `max_tokens`
        positions.
        """
        batches: list[list[int]] = []
        for i in sorted(
            (i for i, ids in enumerate(encoded) if ids), key=lambda i: -len(encoded[i])
        ):
            if (
                not batches
                or (len(batches[-1]) + 1) * (len(encoded[batches[-1][0]]) + 1) > max_tokens
            ):
                batches.append([])
            batches[-1].append(i)
        return batches

    def example(self, source: str, target: str) -> Example:
        """A pair as the ids that the model was trained on."""
        return make_example(self.source.encode(source), self.target.encode(target))
