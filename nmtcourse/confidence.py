"""Is a model sure of its translation?  One rule, from its own numbers.

A model translates anything, and says of nothing that it is nonsense.  But it gives each token of
its translation a probability, and the perplexity of the translation sums them up: exp of the mean
of -log p, with EOS.  It is 1 where the model has no doubt, and rises where other tokens were nearly
as probable.

The limit is set on validation sentences, which the model was not trained on.  A translation that
comes near its reference (chrF of `GOOD` or more) is called good, and the limit is the perplexity
that `KEPT` of the good ones do not exceed.  A translation above it is doubtful.  So the rule warns
of at most 5 % of the good translations of such sentences, and of as many of the others as it can.
A model that translates nearly all of them well would doubt what is merely short or rare: no limit
is below `LEAST`, at which a token has a probability of 0.8.  Between `LEAST` and the limit are
good translations and others: there a milder line says that there may be a mistake.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from nmtlib.data.corpus import Corpus, Pair
from nmtlib.files import write_atomically
from nmtlib.inference.search import Hypothesis
from nmtlib.inference.translator import Translator
from nmtlib.run import Run, find_run

FILE = "confidence.json"
GOOD = 60.0  # chrF of a sentence, from 0 to 100
KEPT = 0.95  # of the good translations
LEAST = 1.25  # perplexity
MOST = 500  # validation sentences that are translated
FEWEST = 200  # validation sentences, without which there is no limit
FEWEST_GOOD = 20  # good translations, of which the limit is a quantile
WORD = re.compile(r"[^\W_]+")  # as in explorer/web/confidence.js


@dataclass(frozen=True)
class Confidence:
    """The limit of a model, and the words of its training text, the most frequent first.

    `validation` sentences were translated to set the limit, `good` of them well; `trained_on`
    sentences were read in training.
    """

    limit: float
    validation: int
    good: int
    trained_on: int
    words: str

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The place of each word of the training text, 1 for the most frequent one."""
        return {word: rank for rank, word in enumerate(self.words.split(" "), start=1)}

    def frequency(self, word: str) -> float:
        """1 for the most frequent word of the training text, 0 for the rarest and for a new one.

        In between it falls with the logarithm of the rank, as frequencies do (Zipf's law).
        """
        rank = self.ranks.get(word, len(self.ranks))
        return 1 - math.log(rank) / math.log(max(len(self.ranks), 2))

    def new_words(self, sentence: str) -> list[str]:
        """The words of a sentence that are not in the training text, each once."""
        return [word for word in dict.fromkeys(words(sentence)) if word not in self.ranks]

    def doubts(self, perplexity: float) -> bool:
        """Whether a translation of this perplexity is doubtful."""
        return perplexity > self.limit

    def hesitates(self, perplexity: float) -> bool:
        """Whether a translation of this perplexity may have a mistake, without being doubtful."""
        return LEAST < perplexity <= self.limit

    def remark(self, sentence: str, perplexity: float) -> str:
        """One line about a translation that is doubtful or may have a mistake; else ""."""
        if self.hesitates(perplexity):
            return (
                f"there may be a mistake in the translation of {sentence!r}: perplexity "
                f"{perplexity:.2f}; below {LEAST} the model is sure"
            )
        if not self.doubts(perplexity):
            return ""
        line = (
            f"the model is not sure of its translation of {sentence!r}: perplexity "
            f"{perplexity:.2f}, and at least {KEPT:.0%} of its good translations stay below "
            f"{self.limit:.2f}"
        )
        if new := self.new_words(sentence)[:4]:
            line += f"; not in its training text: {', '.join(new)}"
        return line


def words(sentence: str) -> list[str]:
    """The words of a sentence in lower case."""
    return WORD.findall(sentence.lower())


@dataclass(frozen=True)
class Judged:
    """A translation of a pair's source: how sure it is, and how near it comes to the reference."""

    pair: Pair
    translation: str
    perplexity: float
    chrf: float

    @property
    def good(self) -> bool:
        """Whether it comes near the reference."""
        return self.chrf >= GOOD


def judge(translator: Translator, pairs: Sequence[Pair]) -> list[Judged]:
    """Translate the sources of some pairs as the run does by default, and compare."""
    from sacrebleu.metrics import CHRF  # only now: translating alone needs none

    metric, target = CHRF(), translator.target
    found = translator.search([pair.source for pair in pairs])
    judged = []
    for pair, (hypothesis, *_) in zip(pairs, found, strict=True):
        translation = target.decode(hypothesis.ids)
        # The reference as the model could write it: with its case, its signs and its pieces.
        reference = target.decode(target.encode(pair.target))
        score = metric.sentence_score(translation, [reference]).score
        judged.append(Judged(pair, translation, perplexity_of(hypothesis), score))
    return judged


def perplexity_of(hypothesis: Hypothesis) -> float:
    """exp of the mean of -log p of the tokens of a translation, EOS included."""
    return math.exp(-hypothesis.log_prob / (len(hypothesis.ids) + 1))


def limit_of(judged: Iterable[Judged]) -> float:
    """The perplexity that `KEPT` of the good translations do not exceed."""
    order = sorted(each.perplexity for each in judged if each.good)
    return order[math.ceil(KEPT * len(order)) - 1]


def measure(translator: Translator, corpus: Corpus) -> tuple[Confidence, list[Judged]] | None:
    """The limit of a model, and the judged translations that it follows from.

    None where the validation set has fewer than `FEWEST` sentences, or the model translates fewer
    than `FEWEST_GOOD` of them well: then no limit can be set.
    """
    if len(corpus.validation) < FEWEST:
        return None
    most = translator.model.config.max_length - 1  # of tokens; a run trains without longer ones
    readable = (p for p in corpus.validation if len(translator.source.encode(p.source)) <= most)
    judged = judge(translator, [*islice(readable, MOST)])
    good = sum(each.good for each in judged)
    if good < FEWEST_GOOD:
        return None
    counts = Counter(word for pair in corpus.train for word in words(pair.source))
    order = sorted(counts, key=lambda word: (-counts[word], word))
    limit = max(LEAST, math.ceil(1e4 * limit_of(judged)) / 1e4)  # never below the quantile
    found = Confidence(limit, len(judged), good, len(corpus.train), " ".join(order))
    return found, judged


def learn(folder: Path, corpus: Corpus) -> Confidence | None:
    """Set the limit of the run that was trained on a corpus, and store it there.

    None, and nothing is stored, where `measure` gives none, or the training has not ended.
    """
    finished = Run(folder).model_file.is_file()
    found = measure(Translator.load(folder), corpus) if finished else None
    if found is None:
        return None
    store(folder, found[0])
    return found[0]


def store(folder: Path, confidence: Confidence) -> None:
    """Write it beside the weights of a run."""
    text = json.dumps(asdict(confidence), ensure_ascii=False)
    write_atomically(folder / FILE, text + "\n")


def to_dict(run: str | Path) -> dict[str, Any] | None:
    """The same in values that JSON holds, or None."""
    found = load(run)
    return asdict(found) | {"least": LEAST} if found else None


def load(run: str | Path) -> Confidence | None:
    """The limit of a run, or of a shipped model by its name; None where there is none."""
    file = find_run(run).folder / FILE
    return Confidence(**json.loads(file.read_text("utf-8"))) if file.is_file() else None
