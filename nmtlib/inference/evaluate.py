"""Score a trained run on one split of a corpus, and record everything that the score depends on."""

from __future__ import annotations

import platform
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.inference.metrics import BleuTokenize, bleu_nltk, bleu_sacre, chrf
from nmtlib.inference.translator import Translator
from nmtlib.training.loss import perplexity
from nmtlib.training.measure import CORRECT, LABELS, NLL, measure_all


@dataclass(frozen=True)
class Scores:
    """Quality on some sentence pairs.  BLEU (with sacreBLEU's signature) and chrF run to 100,
    `bleu_nltk` to 1.

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
    """Scores of one split, those without the pairs whose source was in the training data, and the
    circumstances.

    `perplexity` and `token_accuracy` are teacher-forced, on the reference; `seconds` is the time of
    translating.
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

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON-able dictionaries."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The evaluation for people."""
        s, search = self.scores, "greedy search" if self.beam == 1 else f"beam {self.beam}"
        lines = [
            f"{self.corpus} {self.split}: {s.sentences} sentences, {search}, {self.seconds:.1f} s "
            f"({self.sentences_per_second:.0f} sentences/s)",
            f"  BLEU {s.bleu:.2f} ({s.signature})",
            f"  NLTK corpus BLEU {s.bleu_nltk:.4f}   chrF {s.chrf:.2f}   perplexity {self.perplexity:.2f}   "
            f"token accuracy {self.token_accuracy:.3f}",
        ]
        if self.scores_without_leaked:
            clean = self.scores_without_leaked
            lines.append(
                f"  without the {self.leaked_sources} pairs whose source stands in the training data: "
                f"BLEU {clean.bleu:.2f}   NLTK corpus BLEU {clean.bleu_nltk:.4f}"
            )
        elif self.leaked_sources:
            lines.append(
                "  the source of every pair stands in the training data: this is a score of memory"
            )
        return lines


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str = "test",
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
) -> tuple[Evaluation, list[str]]:
    """Translate a split and score it; returns the evaluation and the translations.

    Raises ValueError for a split that the corpus does not have.
    """
    pairs, decoding = corpus.split(split), translator.settings.decoding
    sums = measure_all(translator.model, [translator.example(p.source, p.target) for p in pairs])
    beam = decoding.beam if beam is None else beam
    length_penalty = decoding.length_penalty if length_penalty is None else length_penalty
    started = time.perf_counter()
    sources = [p.source for p in pairs]
    hypotheses = translator.translate(sources, beam=beam, length_penalty=length_penalty)
    seconds = time.perf_counter() - started

    lowercase, tokenize = (
        translator.settings.tokenizer.lowercase,
        bleu_tokenizer(translator, corpus),
    )
    leaked = corpus.leaked(split)
    fresh = [i for i in range(len(pairs)) if i not in leaked]

    def score_rows(rows: Sequence[int]) -> Scores:
        return score(
            [hypotheses[i] for i in rows],
            [pairs[i] for i in rows],
            tokenize=tokenize,
            lowercase=lowercase,
        )

    device = next(translator.model.parameters()).device
    evaluation = Evaluation(
        corpus=corpus.name,
        split=split,
        beam=beam,
        length_penalty=length_penalty,
        scores=score_rows(range(len(pairs))),
        leaked_sources=len(leaked),
        scores_without_leaked=score_rows(fresh) if leaked and fresh else None,
        perplexity=perplexity(float(sums[NLL]), int(sums[LABELS])),
        token_accuracy=float(sums[CORRECT] / sums[LABELS]),
        seconds=seconds,
        sentences_per_second=len(pairs) / seconds,
        parameters=sum(translator.model.parameter_table().values()),
        command=command_line(),
        machine=describe_machine(device),
    )
    return evaluation, hypotheses


def bleu_tokenizer(translator: Translator, corpus: Corpus) -> BleuTokenize:
    """How sacreBLEU shall cut the words: Chinese by characters, text whose tokens stand apart not
    at all.
    """
    if corpus.target_language == "zh":
        return "zh"
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
    characters = chrf(hypotheses, references)
    words = bleu_nltk([h.split() for h in hypotheses], [r.split() for r in references])
    return Scores(
        len(pairs), bleu.score, bleu.signature, words, characters.score, characters.signature
    )


def command_line() -> str:
    """The command that is running, without the paths of this machine."""
    program, *arguments = sys.argv
    path = Path(program)
    name = (
        path.parent.name if path.name == "__main__.py" else path.name
    )  # python -m nmtlib runs nmtlib/__main__.py
    shown = (re.sub(r"""(?<![\w.])/[^\s"'=]*/""", "", argument) for argument in arguments)
    return shlex.join([name, *shown])


def _processor() -> str:
    """The name of the processor where Linux tells it, otherwise its kind."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe_machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Device, processor, threads and library versions: what a timing depends on."""
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{
            package: version(package)
            for package in ("nmtlib", "torch", "tokenizers", "sacrebleu", "nltk")
        },
    }
