"""The order of the lines: sound corpora in every order give no alarm, shifts in real text do."""

import os
import random
import re

import doctor_alarms
import pytest
from broken_corpora import toy
from nightly import some

from nmtcourse.doctor.diagnosis import diagnose
from nmtcourse.doctor.opening import of_pairs
from nmtcourse.doctor.together import CHANCE, SURE, association
from nmtlib.data.corpora import cache_folder, load_corpus
from nmtlib.data.corpus import Pair

AT_EACH_COMMIT = ("by source length", "by target length", "by source alphabet", "reversed")
PAIRS = 3_000


@pytest.mark.parametrize(
    "name, order",
    some(
        ((name, order) for order in doctor_alarms.ORDERS for name in ("toy-de-en", "toy-en-zh")),
        by=lambda case: case[1] if case[1] in AT_EACH_COMMIT else "others",
    ),
)
def test_a_bundled_corpus_gives_no_alarm_in_any_order(name, order):
    corpus = load_corpus(name)
    tags = corpus.source_language, corpus.target_language
    alarms = doctor_alarms.look_at(corpus.train[:PAIRS], doctor_alarms.ORDERS[order], tags)
    assert alarms == []


@pytest.mark.nightly
def test_no_corpus_at_hand_gives_an_alarm_in_any_order():
    for name, tags, pairs in doctor_alarms.corpora():
        for order, arrange in doctor_alarms.ORDERS.items():
            assert doctor_alarms.look_at(pairs, arrange, tags) == [], (name, order)


def order_findings(pairs, tags=("de", "en")):
    findings = diagnose("own", [of_pairs("train", pairs)], tags).findings
    return [f for f in findings if f.kind in ("shifted", "unrelated")]


def test_a_corpus_that_was_alphabetical_by_line_alone_is_still_wrong():
    """Both sides sorted, each by itself: neighbours are alike, and no pair is right."""
    sources, targets = zip(*toy(train=1_000)["train"], strict=True)
    pairs = [Pair(a, b) for a, b in zip(sorted(sources), sorted(targets), strict=True)]
    (finding,) = order_findings(pairs)
    assert finding.level == "wrong" and "so are the words" in finding.what


def test_lists_of_words_without_likeness_get_no_verdict():
    """Aligned lexica, whose lengths tell nothing: no finding, since the words go together."""
    draw = random.Random(1)
    syllables = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]
    words = [
        ["".join(draw.sample(syllables, draw.randint(1, 3))) for _ in range(60)] for _ in range(2)
    ]
    numbers = [draw.sample(range(60), 2) for _ in range(800)]
    pairs = [Pair(*(" ".join(side[n] for n in two) for side in words)) for two in numbers]
    assert order_findings(pairs, ("", "")) == []
    # Words that never come twice tell nothing either: a note, and never "wrong".
    once = [[f"{draw.choice(syllables)}{n}{side}" for n in range(800)] for side in "xy"]
    names = [Pair(re.sub(r"\d", "q", a), b[::-1]) for a, b in zip(*once, strict=True)]
    assert all(finding.level == "note" for finding in order_findings(names, ("", "")))


def test_words_of_partners_meet_more_often_than_by_chance():
    for name in ("toy-de-en", "toy-en-zh"):
        sources, targets = zip(*toy(name, train=400)["train"], strict=True)
        assert association(sources, targets) > SURE
        assert association(sources, (*targets[1:], targets[0])) < CHANCE
    assert association(sources[:10], targets[:10]) is None, "too few words recur"


@pytest.mark.nightly
def test_the_shift_in_a_published_file_is_found():
    talks = cache_folder() / "iwslt" / "de-en"
    files = [talks / f"IWSLT16.TEDX.dev2012.de-en.{side}.xml" for side in ("de", "en")]
    if not os.environ.get("NMTLIB_DATA") or not all(file.is_file() for file in files):
        pytest.skip("NMTLIB_DATA does not hold IWSLT16.TEDX.dev2012")
    sides = [doctor_alarms.SEGMENT.findall(file.read_text("utf-8")) for file in files]
    (finding,) = order_findings([Pair(a.strip(), b.strip()) for a, b in zip(*sides, strict=True)])
    assert finding.level == "wrong" and "from about line 909 on, to about line 978" in finding.what
