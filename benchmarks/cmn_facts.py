"""Count what notebook 14 says about cmn-eng-simple: nmtcourse/teaching/recorded/cmn_facts.json.

    python benchmarks/cmn_facts.py          half a minute; it reads the corpus cmn-en-zh

Counts are stored, positions of test sentences, and the words of the published Chinese vocabulary;
the training data does not ship.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from shared import parser, write_result

from nmtcourse.teaching.chinese import FACTS
from nmtcourse.teaching.slips import count_slips, measures
from nmtlib.data import corpora
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.inference import bleu_nltk
from nmtlib.training.hardware import command_line

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


def count(corpus: Corpus) -> dict[str, Any]:
    """All facts."""
    assert corpus.vocabularies  # the corpus is published with them
    english, chinese = corpus.vocabularies
    train = corpus.train
    words = [word for pair in train for word in pair.target.split()]
    spoken = Counter(measure for pair in train for measure in measures(pair.target))
    return {
        "command": command_line(),
        "pairs": [len(train), len(corpus.validation), len(corpus.test)],
        "vocabularies": {"english": len(english), "chinese": len(chinese)},
        "chinese_vocabulary": " ".join(chinese),
        "chinese_words": {"all": len(words), "different": len(set(words))},
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
