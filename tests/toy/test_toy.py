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
from nmtcourse.toy.lexicon import NOUNS
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


# --- German ---

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


# Each line shows one thing that the course points out.
EXAMPLES = [
    (
        Sentence(event("read", "now", object=BOOK)),
        "Anna liest gerade das Buch .",
        "Anna is reading the book .",
        "安娜 正在 读 那 本 书 。",
    ),
    (
        Sentence(event("read", "now", object=BOOK, negated=True)),
        "Anna liest das Buch gerade nicht .",
        "Anna is not reading the book .",
        "安娜 没 在 读 那 本 书 。",
    ),
    (
        Sentence(event("buy", "past", object=A_BOOK, time="yesterday"), time_first=True),
        "gestern hat Anna ein Buch gekauft .",
        "yesterday Anna bought a book .",
        "昨天 安娜 买 了 一 本 书 。",
    ),
    (
        Sentence(event("buy", "past", object=A_BOOK, time="yesterday", negated=True)),
        "Anna hat gestern kein Buch gekauft .",
        "Anna did not buy a book yesterday .",
        "安娜 昨天 没 买 书 。",
    ),
    (
        Sentence(event("buy", "past", object=BOOK), question=True),
        "hat Anna das Buch gekauft ?",
        "did Anna buy the book ?",
        "安娜 买 那 本 书 了 吗 ？",
    ),
    (
        Sentence(event("go", "past", subject=HE, place="school", time="today")),
        "er ist heute in die Schule gegangen .",
        "he went to school today .",
        "他 今天 去 了 学校 。",
    ),
    (
        Sentence(event("shop", "plain", place="market", time="every_day")),
        "Anna kauft jeden Tag auf dem Markt ein .",
        "Anna shops at the market every day .",
        "安娜 每天 在 市场 里 购物 。",
    ),
    (
        Sentence(event("shop", "plain", place="market", time="often"), speaker=HE, attitude="say"),
        "er sagt , dass Anna oft auf dem Markt einkauft .",
        "he says that Anna often shops at the market .",
        "他 说 安娜 常常 在 市场 里 购物 。",
    ),
    (
        Sentence(event("football", "must", negated=True, time="today")),
        "Anna muss heute nicht Fußball spielen .",
        "Anna does not have to play football today .",
        "安娜 今天 不用 踢 足球 。",
    ),
    (
        Sentence(event("football", "past", time="today"), speaker=HE, attitude="know_that"),
        "er weiß , dass Anna heute Fußball gespielt hat .",
        "he knows that Anna played football today .",
        "他 知道 安娜 今天 踢 了 足球 。",
    ),
    (
        Sentence(event("watch_tv", "plain", time="never")),
        "Anna sieht nie fern .",
        "Anna never watches television .",
        "安娜 从不 看 电视 。",
    ),
    (Sentence(event("swim", "can")), "Anna kann schwimmen .", "Anna can swim .", "安娜 会 游泳 。"),
    (
        Sentence(event("swim", "can", negated=True), reason=TIRED),
        "Anna kann nicht schwimmen , weil sie müde ist .",
        "Anna cannot swim because she is tired .",
        "安娜 不 能 游泳 ， 因为 她 很 累 。",
    ),
    (
        Sentence(event("swim", "like", companion=DOG, place="lake")),
        "Anna schwimmt gern mit dem Hund im See .",
        "Anna likes to swim with the dog in the lake .",
        "安娜 喜欢 在 湖 里 和 那 只 狗 一起 游泳 。",
    ),
    (
        Sentence(event("help", "past", object=HE, time="today", place="garden")),
        "Anna hat ihm heute im Garten geholfen .",
        "Anna helped him in the garden today .",
        "安娜 今天 在 花园 里 帮助 了 他 。",
    ),
    (
        Sentence(event("fetch", "will", object=HE, time="tomorrow")),
        "Anna wird ihn morgen abholen .",
        "Anna will pick him up tomorrow .",
        "安娜 明天 会 接 他 。",
    ),
    (
        Sentence(event("call", "may", object=HE, negated=True)),
        "Anna darf ihn nicht anrufen .",
        "Anna may not call him .",
        "安娜 不 可以 给 他 打 电话 。",
    ),
    (
        Sentence(event("give", "past", recipient=HE, object=Phrase("apple", "a"))),
        "Anna hat ihm einen Apfel gegeben .",
        "Anna gave him an apple .",
        "安娜 给 了 他 一 个 苹果 。",
    ),
    (
        Sentence(event("show", "past", recipient=HE, object=BOOK)),
        "Anna hat ihm das Buch gezeigt .",
        "Anna showed him the book .",
        "安娜 给 他 看 了 那 本 书 。",
    ),
    (
        Sentence(event("have", "plain", object=Phrase("dog", "a"), negated=True)),
        "Anna hat keinen Hund .",
        "Anna does not have a dog .",
        "安娜 没有 狗 。",
    ),
    (
        Sentence(
            event("have", "plain", subject=Phrase("you"), object=Phrase("dog", "a")), question=True
        ),
        "hast du einen Hund ?",
        "do you have a dog ?",
        "你 有 狗 吗 ？",
    ),
    (
        Sentence(event("look_for", "now", object=Phrase("what")), question=True),
        "was sucht Anna gerade ?",
        "what is Anna looking for ?",
        "安娜 正在 找 什么 ？",
    ),
    (
        Sentence(
            event("open", "past", subject=Phrase("who"), object=Phrase("door", "the")),
            question=True,
        ),
        "wer hat die Tür aufgemacht ?",
        "who opened the door ?",
        "谁 打开 了 那 扇 门 ？",
    ),
    (
        Sentence(event("go", "want", place="where"), question=True),
        "wohin will Anna gehen ?",
        "where does Anna want to go ?",
        "安娜 想 去 哪里 ？",
    ),
    (
        Sentence(event("work", "plain", place="where"), question=True),
        "wo arbeitet Anna ?",
        "where does Anna work ?",
        "安娜 在 哪里 工作 ？",
    ),
    (
        Sentence(
            event("buy", "want", object=Phrase("hat", "this")),
            reason=State(Phrase("hat", "it"), "cheap"),
        ),
        "Anna will diesen Hut kaufen , weil er billig ist .",
        "Anna wants to buy this hat because it is cheap .",
        "安娜 想 买 这 顶 帽子 ， 因为 它 很 便宜 。",
    ),
    (
        Sentence(State(Phrase("coffee", "my"), "cold", negated=True)),
        "mein Kaffee ist nicht kalt .",
        "my coffee is not cold .",
        "我 的 咖啡 不 凉 。",
    ),
    (
        Sentence(State(ANNA, "sick", "yesterday", past=True)),
        "Anna war gestern krank .",
        "Anna was sick yesterday .",
        "安娜 昨天 生病 了 。",
    ),
    (
        Sentence(State(ANNA, "hungry"), question=True),
        "ist Anna hungrig ?",
        "is Anna hungry ?",
        "安娜 饿 吗 ？",
    ),
    (
        Sentence(Comparison(DOG, "big", Phrase("cat", "my"), "more")),
        "der Hund ist größer als meine Katze .",
        "the dog is bigger than my cat .",
        "那 只 狗 比 我 的 猫 大 。",
    ),
    (
        Sentence(Comparison(ANNA, "tall", Phrase("Tom"), "more")),
        "Anna ist größer als Tom .",
        "Anna is taller than Tom .",
        "安娜 比 汤姆 高 。",
    ),
    (
        Sentence(Comparison(BOOK, "interesting", Phrase("film", "the"), "as")),
        "das Buch ist so interessant wie der Film .",
        "the book is as interesting as the film .",
        "那 本 书 和 那 部 电影 一样 有趣 。",
    ),
    (
        Sentence(Comparison(BOOK, "interesting", Phrase("film", "the"), "less")),
        "das Buch ist nicht so interessant wie der Film .",
        "the book is not as interesting as the film .",
        "那 本 书 没有 那 部 电影 那么 有趣 。",
    ),
    (
        Sentence(Location(Phrase("key", "two", True), "on_table", exists=True)),
        "auf dem Tisch sind zwei Schlüssel .",
        "there are two keys on the table .",
        "桌子 上 有 两 把 钥匙 。",
    ),
    (
        Sentence(
            Location(Phrase("dog", "a"), "garden", exists=True, negated=True),
            speaker=HE,
            attitude="think",
        ),
        "er glaubt , dass im Garten kein Hund ist .",
        "he thinks that there is no dog in the garden .",
        "他 觉得 花园 里 没有 狗 。",
    ),
]


def test_examples():
    for sentence, de, en, zh in EXAMPLES:
        assert [say(render(sentence)) for render in RENDERERS.values()] == [de, en, zh]


def finite(sentence: Sentence) -> int:
    """Where the finite verb of a German main clause stands."""
    clause, items = sentence.clause, german.render(sentence)
    if not isinstance(clause, Event):
        key = "copula"
    else:
        key = "verb" if clause.aspect in ("now", "plain", "like") else "aspect"
    return next(position for position, (_, keys) in enumerate(items) if key in keys)


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


# --- English ---


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


# --- Mandarin ---

MEASURES = """
个 man woman child boy girl apple egg cake bag
位 teacher doctor neighbour
只 dog cat bird
匹 horse
头 cow
根 banana
本 book
份 newspaper
封 letter
张 photo table
部 film
辆 car bicycle
把 chair key
条 dress
件 coat shirt
顶 hat
块 watch
台 computer
朵 flower
座 house
扇 window door
"""


def test_mandarin_measure_words():
    expected = {
        noun: line.split()[0] for line in MEASURES.strip().splitlines() for noun in line.split()[1:]
    }
    assert {concept: noun.measure for concept, noun in NOUNS.items() if noun.measure} == expected
    for concept, measure in expected.items():
        word = NOUNS[concept].mandarin
        assert (
            say(mandarin.noun_phrase(Phrase(concept, "two", True), "object"))
            == f"两 {measure} {word}"
        )
        assert (
            say(mandarin.noun_phrase(Phrase(concept, "this"), "object")) == f"这 {measure} {word}"
        )


def test_mandarin_questions_end_in_ma_unless_they_hold_a_question_word(sampled):
    for sentence in sampled:
        words = say(mandarin.render(sentence)).split()
        asked = bool({"谁", "什么", "哪里"} & set(words))
        assert ("吗" in words) == (sentence.question and not asked), words
        assert (words[-1] == "？") == sentence.question


# --- one meaning, one sentence ---


def test_each_sentence_has_one_meaning_in_every_direction(sampled):
    lines = {language: [say(render(s)) for s in sampled] for language, render in RENDERERS.items()}
    for source, target in permutations(lines, 2):
        translations = defaultdict(set)
        for left, right in zip(lines[source], lines[target], strict=True):
            translations[left].add(right)
        ambiguous = {left: right for left, right in translations.items() if len(right) > 1}
        assert not ambiguous, (source, target, list(ambiguous.items())[:3])


def test_vocabularies_are_small(corpus):
    for side in ("source", "target"):
        words = {word for pair in corpus.train for word in getattr(pair, side).split()}
        assert 200 <= len(words) <= 450


# --- alignment ---

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


# --- splits ---


def text(corpus, side: str) -> dict[str, list[str]]:
    return {split: [getattr(pair, side) for pair in corpus.split(split)] for split in SPLITS}


def test_the_bundled_files_are_what_their_script_writes(tmp_path):
    bundle.write(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written.keys() == {path.name for path in corpora.BUNDLED.iterdir()}
    for name, data in written.items():
        bundled = (corpora.BUNDLED / name).read_bytes()
        # Another zlib may pack the same text into other bytes.
        assert gzip.decompress(data) == gzip.decompress(bundled)
        assert data[4:8] == bundled[4:8] == bytes(4), "no time of writing"


@pytest.mark.parametrize("side", ["source", "target"])
def test_no_sentence_stands_twice(corpus, side):
    lines = [line for split in text(corpus, side).values() for line in split]
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("side", ["source", "target"])
def test_training_shows_every_word(corpus, side):
    words = {
        split: {word for line in lines for word in line.split()}
        for split, lines in text(corpus, side).items()
    }
    for split in SPLITS[1:]:
        assert words[split] <= words["train"], words[split] - words["train"]


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
