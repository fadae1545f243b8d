"""Score a model on one split of a corpus, and record everything that the score depends on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from nmtlib.data.batching import fits
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.subwords import without_marks
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.inference.metrics import BleuTokenize, bleu_nltk, bleu_sacre, chrf
from nmtlib.machine import command_line, describe_machine
from nmtlib.training.loss import Totals, measure_all

if TYPE_CHECKING:
    from nmtlib.inference.translator import Translator

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

    `scores_without_leaked` leaves out the pairs whose source is in the training data.  `perplexity`
    and `token_accuracy` are teacher-forced, on the reference; `seconds` is the time of translating.
    `more` holds the `notes` of the model, if it has any, and the results of further scorers.
    """

    corpus: str
    split: str
    beam: int
    length_penalty: float
    scores: Scores
    leaked_sources: int
    scores_without_leaked: Scores | None
    perplexity: float
    token_accuracy: float
    seconds: float
    sentences_per_second: float
    parameters: int
    command: str
    machine: dict[str, Any]
    too_long: int
    more: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON-able dictionaries; the entries of `more` are at the top."""
        found = asdict(self)
        return found | found.pop("more")

    def lines(self) -> list[str]:
        """The evaluation for people."""
        s, clean = self.scores, self.scores_without_leaked
        search = "greedy search" if self.beam == 1 else f"beam {self.beam}"
        lines = [
            f"{self.corpus} {self.split}: {s.sentences} sentences, {search}, {self.seconds:.1f} s "
            f"({self.sentences_per_second:.0f} sentences/s)",
            f"  BLEU {s.bleu:.2f} ({s.signature})",
            f"  NLTK corpus BLEU {s.bleu_nltk:.4f}   chrF {s.chrf:.2f}   "
            f"perplexity {self.perplexity:.2f}   token accuracy {self.token_accuracy:.3f}",
        ]
        if self.more:
            shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in self.more.items()}
            lines.append("  " + "   ".join(f"{name} {value}" for name, value in shown.items()))
        if clean:
            lines.append(
                f"  without the {self.leaked_sources} pairs whose source is in the training data: "
                f"BLEU {clean.bleu:.2f}   NLTK corpus BLEU {clean.bleu_nltk:.4f}"
            )
        elif self.leaked_sources:
            lines.append("  every source is in the training data: this is a score of memory")
        if self.too_long:
            lines.append(
                f"  {self.too_long} of the sentences have more tokens than the model reads: an "
                "empty translation each"
            )
        return lines


def measure_readable(translator: Translator, pairs: Sequence[Pair]) -> tuple[Totals, list[str]]:
    """The totals over the pairs that the model can read, and the sources, '' where too long."""
    longest = translator.model.config.max_length
    examples = [translator.example(pair.source, pair.target) for pair in pairs]
    if not (readable := [example for example in examples if fits(example, longest)]):
        raise ValueError(
            f"all {len(pairs)} pairs have more than {longest} tokens, which is all that the model "
            "reads; there is nothing to score"
        )
    kept = zip(examples, pairs, strict=True)
    sources = [pair.source if len(example.source) <= longest else "" for example, pair in kept]
    return measure_all(translator.model, readable), sources


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str = "test",
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
    scorers: Sequence[Scorer] = (),
) -> tuple[Evaluation, list[str]]:
    """Translate a split and score it; returns the evaluation and the translations.

    Sources longer than the model reads get an empty translation.  `scorers` make further entries.
    Raises ValueError for a split that the corpus does not have, or a corpus of other languages.
    """
    require_languages(translator, corpus)
    pairs, how = corpus.split(split), translator.decoding(beam, length_penalty)
    totals, sources = measure_readable(translator, pairs)
    started = time.perf_counter()
    hypotheses = translator.translate(sources, beam=how.beam, length_penalty=how.length_penalty)
    seconds = time.perf_counter() - started
    more, references = dict(getattr(translator.model, "notes", {})), [p.target for p in pairs]
    for scorer in scorers:
        more |= scorer(hypotheses, references)
    evaluation = Evaluation(
        corpus=corpus.name,
        split=split,
        beam=how.beam,
        length_penalty=how.length_penalty,
        **score_with_and_without_leaks(translator, corpus, split, hypotheses),
        perplexity=totals.perplexity,
        token_accuracy=totals.accuracy,
        seconds=seconds,
        sentences_per_second=len(pairs) / seconds,
        parameters=sum(translator.model.parameter_table().values()),
        command=command_line(),
        machine=describe_machine(translator.device),
        too_long=sources.count(""),
        more=more,
    )
    return evaluation, hypotheses


def require_languages(translator: Translator, corpus: Corpus) -> None:
    """Raise ValueError unless the corpus has the model's languages, if its settings name any."""
    wanted = translator.settings.corpus.languages
    given = (corpus.source_language, corpus.target_language)
    if any(wanted) and wanted != given:
        raise ValueError(
            f"the model translates {'-'.join(wanted)}, but the pairs of {corpus.name} are "
            f"{'-'.join(given)}; score it on a corpus of its own languages"
        )


def score_with_and_without_leaks(
    translator: Translator, corpus: Corpus, split: str, hypotheses: list[str]
) -> dict[str, Any]:
    """The three fields of an `Evaluation` about the quality of the translations."""
    pairs, leaked = corpus.split(split), corpus.leaked(split)
    how = bleu_tokenizer(translator, corpus), translator.settings.tokenizer.lowercase

    def score_rows(rows: Sequence[int]) -> Scores:
        return score([hypotheses[i] for i in rows], [pairs[i] for i in rows], *how)

    fresh = [i for i in range(len(pairs)) if i not in leaked]
    return {
        "scores": score_rows(range(len(pairs))),
        "leaked_sources": len(leaked),
        "scores_without_leaked": score_rows(fresh) if leaked and fresh else None,
    }


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
