"""Score a model on one split of a corpus."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

from nmtlib.arguments import checked, instance
from nmtlib.data.batching import fits
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import DOTTED, WhitespaceTokenizer, lower, without_marks
from nmtlib.files import write_atomically
from nmtlib.inference.metrics import BleuTokenize, bleu_nltk, bleu_sacre, chrf
from nmtlib.inference.translator import Translator
from nmtlib.training.loss import Totals, measure_all

WITHOUT_SPACES = ("ja", "ko", "th", "lo", "km", "my")  # Chinese has a tokenizer in sacreBLEU
Scorer = Callable[[Sequence[str], Sequence[str]], dict[str, Any]]  # of hypotheses and references


@dataclass(frozen=True)
class Scores:
    """Quality on some sentence pairs: BLEU and chrF are from 0 to 100, `bleu_nltk` from 0 to 1.

    `bleu_nltk` compares the words between spaces, so it is of use for tokenized corpora only.
    """

    sentences: int
    bleu: float
    signature: str
    bleu_nltk: float
    chrf: float
    chrf_signature: str


@dataclass(frozen=True)
class Evaluation:
    """The scores of one split, and their circumstances.

    `leaked_sources` counts the pairs whose source is in the training data: they measure memory.
    `perplexity` and `token_accuracy` are teacher-forced, on the reference; `seconds` is the time of
    translating.  `more` holds the `notes` of the translator and the results of further
    scorers.
    """

    corpus: str
    split: str
    beam: int
    length_penalty: float
    scores: Scores
    leaked_sources: int
    perplexity: float
    token_accuracy: float
    seconds: float
    parameters: int
    too_long: int
    more: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON-able dictionaries; the entries of `more` are at the top."""
        fields = asdict(self)
        return fields | fields.pop("more")

    def lines(self) -> list[str]:
        """The evaluation for people."""
        s, search = self.scores, "greedy search" if self.beam == 1 else f"beam {self.beam}"
        lines = [
            f"{self.corpus} {self.split}: {s.sentences} sentences, {search}, {self.seconds:.1f} s "
            f"({s.sentences / self.seconds:.0f} sentences/s)",
            f"  BLEU {s.bleu:.2f} ({s.signature})",
            f"  NLTK corpus BLEU {s.bleu_nltk:.4f}   chrF {s.chrf:.2f}   "
            f"perplexity {self.perplexity:.2f}   token accuracy {self.token_accuracy:.3f}",
        ]
        shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in self.more.items()}
        lines += ["  " + "   ".join(f"{name} {value}" for name, value in shown.items())] * bool(
            shown
        )
        if self.leaked_sources:
            lines.append(
                f"  {self.leaked_sources} of the sources are in the training data: on these this "
                "is a score of memory"
            )
        if self.too_long:
            lines.append(
                f"  {self.too_long} of the sentences have more tokens than the model reads: an "
                "empty translation each"
            )
        return lines


@checked(
    translator=instance("a Translator, as nmtlib.load returns", Translator),
    corpus=instance("a Corpus", Corpus, type(None)),
    split=str,
)
def evaluate(
    translator: Translator,
    corpus: Corpus | None = None,
    split: str = "test",
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
    scorers: Sequence[Scorer] = (),
) -> tuple[Evaluation, list[str]]:
    """Translate a split and score it; returns the evaluation and the translations.

    `corpus` is that of the run unless given.  Sources longer than the model reads get an empty
    translation.  `scorers` make further entries.
    Raises ValueError for a split that the corpus does not have, or a corpus of other languages.
    """
    corpus = corpus or load_corpus(translator.settings.corpus)
    require_languages(translator, corpus)
    pairs, how = corpus.split(split), translator.decoding(beam, length_penalty)
    totals, sources = measure_readable(translator, pairs)
    started = time.perf_counter()
    hypotheses = translator.translate(sources, beam=how.beam, length_penalty=how.length_penalty)
    seconds = time.perf_counter() - started
    more, cut = dict(translator.notes), translator.settings.tokenizer
    if cut.lowercase and corpus.target_language in DOTTED:  # sacreBLEU knows one i only
        pairs = [replace(p, target=lower(p.target, corpus.target_language)) for p in pairs]
    for scorer in scorers:
        more |= scorer(hypotheses, [pair.target for pair in pairs])
    evaluation = Evaluation(
        corpus=corpus.name,
        split=split,
        beam=how.beam,
        length_penalty=how.length_penalty,
        scores=score(hypotheses, pairs, bleu_tokenizer(translator, corpus), cut.lowercase),
        leaked_sources=len(corpus.leaked(split)),
        perplexity=totals.perplexity,
        token_accuracy=totals.accuracy,
        seconds=seconds,
        parameters=sum(translator.model.parameter_table().values()),
        too_long=sources.count(""),
        more=more,
    )
    return evaluation, hypotheses


def measure_readable(translator: Translator, pairs: Sequence[Pair]) -> tuple[Totals, list[str]]:
    """The totals over the pairs that the model can read, and the sources, '' where too long."""
    longest = translator.model.config.max_length
    examples = [translator.example(pair.source, pair.target) for pair in pairs]
    if not (readable := [example for example in examples if fits(example, longest)]):
        raise ValueError(
            f"all {len(pairs)} pairs have more than {longest} tokens, which is all that the model "
            "reads; there is nothing to score"
        )
    both = zip(examples, pairs, strict=True)
    sources = [pair.source if len(example.source) <= longest else "" for example, pair in both]
    return measure_all(translator.model, readable), sources


def require_languages(translator: Translator, corpus: Corpus) -> None:
    """Raise ValueError unless the corpus has the model's languages, if its settings name any."""
    expected = translator.settings.corpus.languages
    languages = (corpus.source_language, corpus.target_language)
    if any(expected) and expected != languages:
        raise ValueError(
            f"the model translates {'-'.join(expected)}, but the pairs of {corpus.name} are "
            f"{'-'.join(languages)}; score it on a corpus of its own languages"
        )


def bleu_tokenizer(translator: Translator, corpus: Corpus) -> BleuTokenize:
    """sacreBLEU's tokenizer for the target language; "none" for text in tokens."""
    language = corpus.target_language
    if language == "zh":
        return "zh"
    if language in WITHOUT_SPACES:
        return "char"
    return "none" if isinstance(translator.target.tokenizer, WhitespaceTokenizer) else "13a"


def score(
    hypotheses: Sequence[str],
    pairs: Sequence[Pair],
    tokenize: BleuTokenize = "13a",
    lowercase: bool = False,
) -> Scores:
    """All metrics of some translations against the targets of `pairs`, in one Unicode form."""
    hypotheses = [normalize("NFC", hypothesis) for hypothesis in hypotheses]
    references = [normalize("NFC", without_marks(p.target)) for p in pairs]
    if lowercase:
        hypotheses, references = [h.lower() for h in hypotheses], [r.lower() for r in references]
    bleu = bleu_sacre(hypotheses, references, tokenize=tokenize, lowercase=lowercase)
    characters = chrf(hypotheses, references, lowercase=lowercase)
    words = bleu_nltk([h.split() for h in hypotheses], [r.split() for r in references])
    return Scores(len(pairs), bleu.score, bleu.signature, words, *characters)


def write_samples(translator: Translator, path: Path, pairs: Sequence[Pair]) -> None:
    """Write the translations of those sentences that the model can read."""
    limit = translator.model.config.max_length
    pairs = [p for p in pairs if len(translator.source.encode(p.source)) < limit]
    hypotheses = translator.translate([p.source for p in pairs])
    write_atomically(path, "\n".join(format_samples(pairs, hypotheses)))


def format_samples(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> list[str]:
    """Source, translation and reference below each other, a blank line between sentences."""
    lines = []
    for pair, output in zip(pairs, hypotheses, strict=True):
        reference = "(the same)" if output == pair.target else pair.target
        lines += [f"source     {pair.source}", f"model      {output}"]
        lines += [f"reference  {reference}", ""]
    return lines
