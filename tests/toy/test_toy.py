"""Is the grammar right, is the alignment gold, and do the splits keep their promises?"""

import gzip
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from itertools import permutations
from pathlib import Path

import pytest

from nmtcourse.toy import (
    HELD_OUT,
    LIMITS,
    RENDERERS,
    TOY_CORPORA,
    bundle,
    combinations,
    declension,
    english,
    german,
    load_toy,
    mandarin,
    translate,
)
from nmtcourse.toy.meaning import Comparison, Event, Location, Phrase, Sentence, State
from nmtcourse.toy.sampler import SHARES, Sampler
from nmtcourse.toy.splits import is_held_out
from nmtlib.data import corpora
from nmtlib.data.corpus import SPLITS

REVIEWED = Path(__file__).with_name("toy_reviewed.tsv")


def meanings(number: int, seed: int = 1) -> list[Sentence]:
    sampler = Sampler(random.Random(seed))
    return [sampler.sentence() for _ in range(number)]


def say(items) -> str:
    return " ".join(word for word, _ in items)


@pytest.fixture(scope="module")
def sampled() -> list[Sentence]:
    return meanings(20_000)


@pytest.fixture(scope="module", params=sorted(TOY_CORPORA))
def corpus(request):
    return load_toy(request.param)


# Nominative, accusative, dative of: masculine, feminine, neuter, plural.
PARADIGMS = {
    "the": """
        der kleine Hund, die kleine Katze, das kleine Pferd, die kleinen Hunde
        den kleinen Hund, die kleine Katze, das kleine Pferd, die kleinen Hunde
        dem kleinen Hund, der kleinen Katze, dem kleinen Pferd, den kleinen Hunden""",
    "this": """
        dieser kleine Hund, diese kleine Katze, dieses kleine Pferd, diese kleinen Hunde
        diesen kleinen Hund, diese kleine Katze, dieses kleine Pferd, diese kleinen Hunde
        diesem kleinen Hund, dieser kleinen Katze, diesem kleinen Pferd, diesen kleinen Hunden""",
    "a": """
        ein kleiner Hund, eine kleine Katze, ein kleines Pferd, -
        einen kleinen Hund, eine kleine Katze, ein kleines Pferd, -
        einem kleinen Hund, einer kleinen Katze, einem kleinen Pferd, -""",
    "no": """
        kein kleiner Hund, keine kleine Katze, kein kleines Pferd, keine kleinen Hunde
        keinen kleinen Hund, keine kleine Katze, kein kleines Pferd, keine kleinen Hunde
        keinem kleinen Hund, keiner kleinen Katze, keinem kleinen Pferd, keinen kleinen Hunden""",
    "our": """
        unser kleiner Hund, unsere kleine Katze, unser kleines Pferd, unsere kleinen Hunde
        unseren kleinen Hund, unsere kleine Katze, unser kleines Pferd, unsere kleinen Hunde
        unserem kleinen Hund, unserer kleinen Katze, unserem kleinen Pferd, unseren kleinen Hunden
    """,
    "": """
        kleiner Hund, kleine Katze, kleines Pferd, kleine Hunde
        kleinen Hund, kleine Katze, kleines Pferd, kleine Hunde
        kleinem Hund, kleiner Katze, kleinem Pferd, kleinen Hunden""",
    "two": """
        -, -, -, zwei kleine Hunde
        -, -, -, zwei kleine Hunde
        -, -, -, zwei kleinen Hunden""",
    "many": """
        -, -, -, viele kleine Hunde
        -, -, -, viele kleine Hunde
        -, -, -, vielen kleinen Hunden""",
}


def test_german_articles_and_adjective_endings():
    for determiner in PARADIGMS:
        rows = [line.strip().split(", ") for line in PARADIGMS[determiner].strip().splitlines()]
        negated = determiner == "no"
        for case, row in zip(declension.CASES, rows, strict=True):
            for noun, plural, expected in zip(
                ("dog", "cat", "horse", "dog"), (0, 0, 0, 1), row, strict=True
            ):
                if expected != "-":
                    word = "a" if negated and not plural else "" if negated else determiner
                    phrase = Phrase(noun, word, bool(plural), "small")
                    assert say(declension.noun_phrase(phrase, case, "subject", negated)) == expected


ANNA, HE, DOG = Phrase("Anna"), Phrase("he"), Phrase("dog", "the")
BOOK, A_BOOK, TIRED = Phrase("book", "the"), Phrase("book", "a"), State(Phrase("she"), "tired")


def event(verb, aspect, **more):
    return Event(more.pop("subject", ANNA), verb, aspect, **more)


# Each shows one thing that the course points out; the three sentences are in the file.
EXAMPLES = [
    Sentence(event("read", "now", object=BOOK)),
    Sentence(event("read", "now", object=BOOK, negated=True)),
    Sentence(event("buy", "past", object=A_BOOK, time="yesterday"), time_first=True),
    Sentence(event("buy", "past", object=A_BOOK, time="yesterday", negated=True)),
    Sentence(event("buy", "past", object=BOOK), question=True),
    Sentence(event("go", "past", subject=HE, place="school", time="today")),
    Sentence(event("shop", "plain", place="market", time="every_day")),
    Sentence(event("shop", "plain", place="market", time="often"), speaker=HE, attitude="say"),
    Sentence(event("football", "must", negated=True, time="today")),
    Sentence(event("football", "past", time="today"), speaker=HE, attitude="know_that"),
    Sentence(event("watch_tv", "plain", time="never")),
    Sentence(event("swim", "can")),
    Sentence(event("swim", "can", negated=True), reason=TIRED),
    Sentence(event("swim", "like", companion=DOG, place="lake")),
    Sentence(event("help", "past", object=HE, time="today", place="garden")),
    Sentence(event("fetch", "will", object=HE, time="tomorrow")),
    Sentence(event("call", "may", object=HE, negated=True)),
    Sentence(event("give", "past", recipient=HE, object=Phrase("apple", "a"))),
    Sentence(event("show", "past", recipient=HE, object=BOOK)),
    Sentence(event("have", "plain", object=Phrase("dog", "a"), negated=True)),
    Sentence(
        event("have", "plain", subject=Phrase("you"), object=Phrase("dog", "a")), question=True
    ),
    Sentence(event("look_for", "now", object=Phrase("what")), question=True),
    Sentence(
        event("open", "past", subject=Phrase("who"), object=Phrase("door", "the")), question=True
    ),
    Sentence(event("go", "want", place="where"), question=True),
    Sentence(event("work", "plain", place="where"), question=True),
    Sentence(
        event("buy", "want", object=Phrase("hat", "this")),
        reason=State(Phrase("hat", "it"), "cheap"),
    ),
    Sentence(State(Phrase("coffee", "my"), "cold", negated=True)),
    Sentence(State(ANNA, "sick", "yesterday", past=True)),
    Sentence(State(ANNA, "hungry"), question=True),
    Sentence(Comparison(DOG, "big", Phrase("cat", "my"), "more")),
    Sentence(Comparison(ANNA, "tall", Phrase("Tom"), "more")),
    Sentence(Comparison(BOOK, "interesting", Phrase("film", "the"), "as")),
    Sentence(Comparison(BOOK, "interesting", Phrase("film", "the"), "less")),
    Sentence(Location(Phrase("key", "two", True), "on_table", exists=True)),
    Sentence(
        Location(Phrase("dog", "a"), "garden", exists=True, negated=True),
        speaker=HE,
        attitude="think",
    ),
]


def test_examples():
    rows = REVIEWED.with_name("toy_examples.tsv").read_text("utf-8").splitlines()
    for sentence, row in zip(EXAMPLES, rows, strict=True):
        assert [say(render(sentence)) for render in RENDERERS.values()] == row.split("\t")


def finite(sentence: Sentence) -> int:
    """Where the finite verb of a German main clause stands."""
    clause, items = sentence.clause, german.render(sentence)
    if not isinstance(clause, Event):
        key = "copula"
    else:
        key = "verb" if clause.aspect in ("now", "plain", "like") else "aspect"
    return next(position for position, (_, keys) in enumerate(items) if key in keys)


@pytest.mark.slow
def test_german_verb_second_in_statements_first_in_questions(sampled):
    for sentence in sampled:
        if sentence.speaker:
            continue
        before = german.render(sentence)[: finite(sentence)]
        constituents = {re.match("[a-z]+", key)[0] for _, keys in before for key in keys}
        words = {"wer", "was", "wo", "wohin"}
        if sentence.question and before:
            assert len(before) == 1 and before[0][0] in words, say(before)
        else:
            assert len(constituents) == (0 if sentence.question else 1), say(before)


def test_english_agreement():
    for subject, be, verb in [
        ("I", "am", "read"),
        ("you", "are", "read"),
        ("he", "is", "reads"),
        ("she", "is", "reads"),
        ("we", "are", "read"),
        ("they", "are", "read"),
        ("Anna", "is", "reads"),
        ("who", "is", "reads"),
    ]:
        for aspect, words in (
            ("now", f"{be} reading"),
            ("plain", verb),
            ("like", "likes" if verb[-1] == "s" else "like"),
        ):
            said = say(english.render(Sentence(event("read", aspect, subject=Phrase(subject)))))
            assert said.startswith(f"{subject} {words} "), said


def test_english_a_or_an(sampled):
    text = " ".join(say(english.render(sentence)) for sentence in sampled)
    assert not re.findall(r"\ban [^aeio]\w*|\ba [aeio]\w*", text)


def test_mandarin_questions_end_in_ma_unless_they_hold_a_question_word(sampled):
    for sentence in sampled:
        words = say(mandarin.render(sentence)).split()
        asked = bool({"谁", "什么", "哪里"} & set(words))
        assert ("吗" in words) == (sentence.question and not asked), words
        assert (words[-1] == "？") == sentence.question


def test_each_sentence_has_one_meaning_in_every_direction(sampled):
    lines = {language: [say(render(s)) for s in sampled] for language, render in RENDERERS.items()}
    for source, target in permutations(lines, 2):
        translations = defaultdict(set)
        for left, right in zip(lines[source], lines[target], strict=True):
            translations[left].add(right)
        ambiguous = {left: right for left, right in translations.items() if len(right) > 1}
        assert not ambiguous, (source, target, list(ambiguous.items())[:3])


CONTENT = re.compile(
    r"(subject|object|recipient|companion|standard|verb|adjective|place\.noun|time\d)$|.*adjective$"
)


@pytest.mark.parametrize("source, target", TOY_CORPORA.values())
def test_alignment_is_in_range_and_reaches_every_content_word(sampled, source, target):
    for sentence in sampled[:5_000]:
        pair = translate(sentence, source, target)
        sides = pair.source.split(), pair.target.split()
        for side, items in enumerate((RENDERERS[source](sentence), RENDERERS[target](sentence))):
            linked = {link[side] for link in pair.alignment}
            assert linked <= set(range(len(sides[side])))
            for position, (word, keys) in enumerate(items):
                if any(
                    CONTENT.match(key.removeprefix("reason.").removeprefix("speaker."))
                    for key in keys
                ):
                    assert position in linked or word in ("on", "am"), (word, pair)
        assert list(pair.alignment) == sorted(set(pair.alignment))
        assert translate(sentence, target, source) == pair.reversed()


def test_alignment_links_the_right_words():
    sentence = Sentence(
        event("shop", "past", place="park", time="every_day", companion=Phrase("son", "my"))
    )
    pair = translate(sentence, "de", "en")
    left, right = pair.source.split(), pair.target.split()
    assert {f"{left[i]}-{right[j]}" for i, j in pair.alignment} == set(
        "Anna-Anna hat-shopped jeden-every Tag-day mit-with meinem-my Sohn-son im-in im-the "
        "Park-park eingekauft-shopped .-.".split()
    )


def text(corpus, side: str) -> dict[str, list[str]]:
    return {split: [getattr(pair, side) for pair in corpus.split(split)] for split in SPLITS}


@pytest.mark.slow
def test_the_bundled_files_are_what_their_script_writes(tmp_path):
    bundle.write(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written.keys() == {path.name for path in corpora.BUNDLED.iterdir()}
    for name, data in written.items():
        bundled = (corpora.BUNDLED / name).read_bytes()
        # Another zlib may pack the same text into other bytes.
        assert gzip.decompress(data) == gzip.decompress(bundled)
        assert data[4:8] == bundled[4:8] == bytes(4), "no time of writing"


def test_training_shows_every_word_and_no_sentence_stands_twice(corpus):
    for side in ("source", "target"):
        lines = text(corpus, side)
        every = [line for split in lines.values() for line in split]
        assert len(every) == len(set(every))
        words = {split: {word for line in lines[split] for word in line.split()} for split in lines}
        assert all(words[split] <= words["train"] for split in SPLITS[1:])
        assert 200 <= len(words["train"]) <= 450


@pytest.mark.nightly
def test_held_out_combinations_stand_in_the_challenge_alone(corpus):
    english_side = "source" if corpus.source_language == "en" else "target"
    meaning_of = {say(english.render(sentence)): sentence for sentence in meanings(40_000, seed=0)}
    lines = text(corpus, english_side)
    known = {
        split: [meaning_of[line] for line in lines[split] if line in meaning_of] for split in SPLITS
    }
    assert all(len(known[split]) > 900 for split in SPLITS)
    for split in SPLITS:
        assert {is_held_out(sentence) for sentence in known[split]} == {split == "challenge"}
    shown = {pair for sentence in known["train"] for pair in combinations(sentence)}
    for kind, pairs in HELD_OUT.items():
        assert not {(kind, pair) for pair in pairs} & shown
        for first, second in pairs:
            assert any(k == kind and pair[0] == first for k, pair in shown), first
            assert any(k == kind and pair[1] == second for k, pair in shown), second
    challenged = {pair for sentence in known["challenge"] for pair in combinations(sentence)}
    assert all((kind, pair) in challenged for kind, pairs in HELD_OUT.items() for pair in pairs)


def test_a_smaller_train_is_the_beginning_of_a_larger_one(corpus):
    small = load_toy(corpus.name, train=500)
    assert all(a == b for a, b in zip(small.train, corpus.train[:500], strict=True))
    assert all(small.split(split) == corpus.split(split) for split in SPLITS[1:])


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_corpus_in_every_process(corpus):
    sizes = {"train": 300, "validation": 50, "test": 50, "challenge": 50}
    written = ascii(load_toy(corpus.name, **sizes))
    code = f"from nmtcourse.toy import load_toy; print(ascii(load_toy({corpus.name!r}, **{sizes})))"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == written


def test_bad_input():
    for name, sizes, message in [
        ("toy-en-de", {}, "one of toy-de-en, toy-en-zh, not 'toy-en-de'"),
        ("toy-de-en", {"train": -1}, "train must be 0 pairs or more, not -1"),
        ("toy-en-zh", {"challenge": -3}, "challenge must be .*-3"),
        (
            "toy-de-en",
            {"train": LIMITS["train + validation + test"]},
            "at most 200000 pairs, not 202000",
        ),
        ("toy-de-en", {"train": 10**12}, "at most 200000"),
        ("toy-de-en", {"challenge": LIMITS["challenge"] + 1}, "at most 20000 pairs, not 20001"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_toy(name, **sizes)


def test_the_grammar_still_writes_the_sentences_that_a_person_has_read():
    """If a change of the grammar makes this fail: read all sixty new sentences, then store them."""
    lines = REVIEWED.read_text(encoding="utf-8").splitlines()
    written = [
        "\t".join(say(render(s)) for render in RENDERERS.values()) for s in meanings(60, seed=60)
    ]
    changed = [(new, old) for new, old in zip(written, lines, strict=True) if new != old]
    assert not changed, changed[:3]
    assert len(lines) == 60 and sum(SHARES.values()) == 100
