"""Count what notebook 14 says about cmn-eng-simple: nmtcourse/teaching/recorded/cmn_facts.json.

    python benchmarks/cmn_facts.py          half a minute; it reads the corpus cmn-en-zh

Counts are stored, positions of test sentences, and the words of the published Chinese vocabulary;
the training data does not ship.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from shared import parser, write_result

from nmtcourse.teaching.chinese import FACTS, without_marks
from nmtcourse.teaching.slips import count_slips, measures
from nmtlib.data import corpora
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.subwords import JOIN_MARK
from nmtlib.inference import bleu_nltk
from nmtlib.machine import command_line

# Three groups of English sentences: a plain past, something done once, and all others.
PAST = re.compile(r"\b(did|was|were)\b")
DONE = re.compile(
    r"\b(went|bought|came|saw|gave|told|found|took|left|lost|ate|met|wrote|fell|broke|forgot"
    r"|spent|died|won|sold|began|sent|stole|caught)\b"
)
HELPED = re.compile(r"\b(have|has|'ve|'s|had|be|was|were|been|is|are|'d|get|did)\b")
PARTICLES = "了过着"
# Idioms and words of a culture, each with what we look for in the training data.
IDIOMS = {
    "he is drawing legs on a snake .": "legs on a snake",
    "she gave me a red envelope .": "red envelope",
    "we played mahjong all night .": "mahjong",
    "long time no see .": "long time no see",
    "he lost face .": "lost face",
    "it 's a piece of cake .": "it 's a piece of cake",
    "it is raining cats and dogs .": "cats and dogs",
    "they killed two birds with one stone .": "two birds with one stone",
    "i 'm feeling under the weather .": "under the weather",
    "he is under the weather .": "under the weather",
}


def share_unknown(sentences: Iterable[str], vocabulary: set[str]) -> float:
    """The share of the tokens that a vocabulary does not hold."""
    tokens = [token for sentence in sentences for token in sentence.split()]
    return sum(token not in vocabulary for token in tokens) / len(tokens)


def unknown(pairs: Sequence[Pair], english: set[str], chinese: set[str]) -> dict[str, float]:
    """The shares of unknown tokens, of English also with the marks stripped."""
    source, target = [p.source for p in pairs], [p.target for p in pairs]
    sayable = [all(word in chinese for word in text.split()) for text in target]
    return {
        "english": share_unknown(source, english),
        "english_without_marks": share_unknown(map(without_marks, source), english),
        "chinese": share_unknown(target, chinese),
        "sentences_with_unknown_chinese": 1 - sum(sayable) / len(pairs),
    }


def histogram(numbers: Iterable[int]) -> dict[int, int]:
    """How often each number occurs, in their order."""
    return dict(sorted(Counter(numbers).items()))


def lengths(pairs: Sequence[Pair]) -> dict[str, dict[int, int]]:
    """How many sentences have each length, counted in three ways."""
    joined = (pair.source.replace(f"{JOIN_MARK} ", "") for pair in pairs)
    return {
        "English words": histogram(len(text.split()) for text in joined),
        "Chinese words": histogram(len(pair.target.split()) for pair in pairs),
        "Chinese characters": histogram(len(pair.target.replace(" ", "")) for pair in pairs),
    }


def against(first: Sequence[str], second: Sequence[str], sources: Sequence[str]) -> dict[str, Any]:
    """How translations by people score when other translations by people are the references."""
    joined = [[text.replace(" ", "") for text in side] for side in (first, second)]
    lower = [[text.lower() for text in side] for side in (first, second)]  # as systems are scored
    words = [[text.split() for text in side] for side in lower]
    letters = [[list(text.replace(" ", "")) for text in side] for side in lower]
    return {
        "pairs": len(first),
        "identical": sum(a == b for a, b in zip(*joined, strict=True)),
        "bleu_nltk": bleu_nltk(*words),
        "bleu_characters": bleu_nltk(*letters),
        "slips": count_slips(list(zip(sources, first, second, strict=True))),
    }


def people(corpus: Corpus) -> dict[str, Any]:
    """People against people: English sentences that were translated twice.

    "twice" are those that stand twice in the training data, "leaked" those of the test set that
    also stand in it; the later translation is the reference.
    """
    known: dict[str, list[str]] = {}
    for pair in corpus.train:
        if pair.target not in (found := known.setdefault(pair.source, [])):
            found.append(pair.target)
    twice = {source: found for source, found in known.items() if len(found) > 1}
    leaked = [corpus.test[i] for i in sorted(corpus.leaked())]
    firsts = [known[pair.source][0] for pair in leaked]
    return {
        "twice": against(*([f[i] for f in twice.values()] for i in (0, 1)), list(twice)),
        "leaked": against(firsts, [p.target for p in leaked], [p.source for p in leaked]),
    }


def aspect(pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """The share of sentences with each particle, by what their English has: see `tense`."""
    groups: dict[str, list[str]] = {"past": [], "done": [], "other": []}
    for pair in pairs:
        groups[tense(pair.source)].append(pair.target)
    found = {}
    for name, texts in groups.items():
        shares = {p: sum(p in text for text in texts) / len(texts) for p in PARTICLES}
        found[name] = {"pairs": len(texts), **shares}
    return found


def tense(source: str) -> str:
    """Whether English has did, was or were (past); went, bought ... alone (done); or none (other).

    >>> tense("i was busy ."), tense("tom went home ."), tense("has tom lost it ?")
    ('past', 'done', 'other')
    """
    if PAST.search(source):
        return "past"
    return "done" if DONE.search(source) and not HELPED.search(source) else "other"


def reachable(pairs: Sequence[Pair], chinese: set[str]) -> float:
    """NLTK BLEU of the references themselves, where no unknown word can be said."""
    words = [pair.target.split() for pair in pairs]
    said = [[word if word in chinese else "<UNK>" for word in text] for text in words]
    return bleu_nltk(said, words)


def count(corpus: Corpus) -> dict[str, Any]:
    """All facts."""
    assert corpus.vocabularies  # the corpus is published with them
    english, chinese = map(set, corpus.vocabularies)
    train, test = corpus.train, corpus.test
    spoken = Counter(measure for pair in train for measure in measures(pair.target))
    return {
        "command": command_line(),
        "pairs": [len(train), len(corpus.validation), len(test)],
        "vocabularies": {"english": len(english), "chinese": len(chinese)},
        "chinese_vocabulary": " ".join(corpus.vocabularies[1]),
        "different_chinese_words": len({word for p in train for word in p.target.split()}),
        "different_characters": len({c for p in train for c in p.target.replace(" ", "")}),
        "unknown": {
            name: unknown(pairs, english, chinese)
            for name, pairs in {"train": train, "test": test}.items()
        },
        "reachable_bleu": reachable(test, chinese),
        "lengths": lengths(train),
        "leaked": sorted(corpus.leaked()),
        "people": people(corpus),
        "measures": dict(spoken.most_common()),
        "aspect": aspect(train),
        "idioms": {
            text: sum(phrase in pair.source for pair in train) for text, phrase in IDIOMS.items()
        },
    }


if __name__ == "__main__":
    parser(__doc__).parse_args()
    write_result(FACTS, count(corpora.load("cmn-en-zh")))
    print(f"{FACTS.name}: written")
