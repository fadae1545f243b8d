"""`nmtlib data check` on a corpus of the toy grammar that is broken in one way."""

import random
from copy import deepcopy

import pytest
from broken_corpora import Own, check, levels, nothing, row, run, toy


@pytest.fixture
def own(tmp_path):
    return Own(tmp_path)


def test_a_sound_corpus_has_no_problem(own):
    status, text = check(own.write())
    assert status == 0 and nothing(text) and "train: 1,600 of 1,600 pairs would be left" in text
    assert row(text, "few pairs").startswith("note")
    assert "characters, target / source" in text, "lengths by percentiles"


@pytest.mark.nightly
def test_the_bundled_corpora_have_no_problem():
    for name in ("toy-de-en", "toy-en-zh"):
        status, text = run("data", "check", name)
        assert status == 0 and nothing(text)


def test_all_blanks_are_counted_at_once_with_their_lines(own):
    own.change("train", 1, lambda text: "", *range(3, 83, 4))
    own.change("train", 0, lambda text: "\u200b ", *range(200, 300, 5))
    status, text = check(own.write())
    found = row(text, "an empty side")
    assert status == 1 and found.startswith("wrong") and "40 (2.5%)" in found
    assert [f"line {n}:" in found for n in (3, 7, 11)] == [True] * 3
    assert "train: 1,560 of 1,600 pairs would be left" in text


def test_sides_exchanged_in_one_split_are_named(own):
    own.splits["test"] = [(target, source) for source, target in own.splits["test"]]
    status, text = check(own.write())
    assert status == 1 and levels(text) == ["wrong"]
    assert "source and target look exchanged" in row(text, "test")
    own.splits |= {name: [(b, a) for a, b in own.splits[name]] for name in ("train", "validation")}
    assert levels(check(own.write())[1]) == ["wrong"] * 3, (
        "all are the other way round than the tags"
    )


def shift(pairs, lines, first):
    """Lines more on the target's side (negative: the source's) from a line on."""
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    side, text = (targets, "the cat sleeps .") if lines > 0 else (sources, "die Katze schläft .")
    side[first:first] = [text] * abs(lines)
    return list(zip(sources, targets, strict=False))


SHIFTS = [
    ("toy-de-en", 1, 400),
    ("toy-en-zh", -7, 1200),
    ("toy-de-en", 1, 0),
    ("toy-en-zh", 20, 800),
]


@pytest.mark.slow
def test_shifted_lines_are_found_where_they_begin(tmp_path):
    for name, lines, first in SHIFTS:
        splits = toy(name)
        splits["train"] = shift(splits["train"], lines, first)
        status, text = check(Own(tmp_path, splits, tuple(name.split("-")[1:])).write())
        found = row(text, "lines are shifted")
        late = "target" if lines > 0 else "source"
        assert status == 1 and f"the {late} is {abs(lines)} line" in found
        if first:
            near = int(found.split("from about line ")[1].split()[0].replace(",", ""))
            assert abs(near - first) <= 25
        else:
            assert "from the first line on" in found


def test_shuffled_lines_belong_to_no_partner(own):
    pairs = own.splits["train"]
    for first in (1000, 0):
        sources, targets = zip(*pairs[first:], strict=True)
        shuffled = random.Random(1).sample(targets, len(targets))
        own.splits["train"] = pairs[:first] + list(zip(sources, shuffled, strict=True))
        status, text = check(own.write())
        assert status == 1 and row(text, "sides do not belong together").startswith("wrong")
        assert not first or "lines 1,00" in text or "lines 99" in text


def test_a_test_set_in_train_is_counted_exactly_and_loosely(own):
    test = own.splits["test"]
    own.splits["train"] += [(a, b) for a, b in test[:20]]
    own.splits["train"] += [(a.upper().replace(" .", "!"), b) for a, b in test[20:50]]
    status, text = check(own.write())
    assert status == 0 and "20 (20.0%)" in row(text, "the source is also in train")
    assert "30 (30.0%)" in row(text, "but for case, spaces, punctuation")
    assert "train: 1,600 of 1,650 pairs would be left" in text


def test_what_training_refuses_is_wrong(own):
    own.change("train", 0, lambda text: f"{text} <BOS>", 11)
    own.change("train", 0, lambda text: f"{text} {'x' * 1001}", 12)
    status, text = check(own.write())
    assert status == 1 and levels(text) == ["wrong"] * 2 and "line 11" in text and "line 12" in text


def test_an_unknown_language_tag_is_named(own):
    own.tags = ("german", "en")
    assert "source_language = 'german'" in row(check(own.write())[1], "a language tag")


def test_numbers_sentences_and_lengths_are_counted(own):
    own.change("train", 0, lambda text: f"{text} 12 34", 1, 2)
    own.change("train", 1, lambda text: f"{text} 12 35", 1, 2)
    own.change("train", 1, lambda text: f"{text} And this . And that .", 3, 4, 5)
    own.change("train", 1, lambda text: f"{text} " * 8, 6)
    own.change("train", 1, lambda text: f"{text} " * 60, 7)
    text = check(own.write())[1]
    assert " 2 (" in row(text, "numbers that do not match")
    assert " 3 (" in row(text, "several sentences in one line")
    assert "line 6:" in row(text, "far longer than the other")
    assert "line 7:" in row(text, "more than 200 words")


def test_a_picture_is_drawn_and_never_over_a_folder(own):
    picture = own.folder / "corpus.png"
    status, text = check(own.write(), "--plot", picture)
    assert status == 0 and picture.read_bytes().startswith(b"\x89PNG") and str(picture) in text
    assert check(own.write(), "--plot", own.folder)[0] == 1
    status, text = check(own.write(), "--plot", own.folder / "corpus.xyz")
    assert status == 1 and ".png or .svg" in text


def test_bad_arguments_are_explained(tmp_path, monkeypatch):
    for arguments, says in [
        (["data", "check"], "own.toml"),
        (["data", "check", "nonsense"], "unknown corpus"),
        (["data", "check", "toy-de-em"], "did you mean toy-de-en"),
        (["data", "check", "none.de", "none.en"], "none.de: no such file"),
        (["data", "check", "toy-de-en", "--split", "5"], "--fix"),
        (["data", "check", "toy-de-en", "--encoding", "nonsense"], "--encoding 'nonsense'"),
        (["data", "list", "--fix", "x"], "data check"),
    ]:
        monkeypatch.chdir(tmp_path)
        status, text = run(*arguments)
        assert status == 1 and says in text and len(text.strip().splitlines()) == 1


STRANGERS = {  # corpora that learners bring: how each pair looks, and what is said
    "numbered": (lambda n, a, b: (f"{n}. {a}", b), "begin with their own number"),
    "numbered from 0": (lambda n, a, b: (f"{n - 1} {a}", f"{n - 1} {b}"), "their own number"),
    "quoted": (lambda n, a, b: (f'"{a}"', f'"{b}"'), "lines in quotation marks"),
    "capitals": (lambda n, a, b: (a.upper(), b.upper()), "all in capitals"),
    "escaped": (lambda n, a, b: (a.replace("e", "\\u0065"), b), "HTML entities"),
    "letters": (lambda n, a, b: (" ".join(a), b), "hardly has a frequent word of 'de'"),
    "typed symbols": (lambda n, a, b: (f"<s> {a} </s>", b), "markup"),
    "blank lines": (lambda n, a, b: (a, b) if n % 2 else ("", ""), "an empty side"),
    "numbers as text": (lambda n, a, b: (f"{len(a)} 7", f"{len(b)} 9"), "'de'"),
    "one word": (lambda n, a, b: (a.split()[0], b.split()[0]), "the same pair again"),
    "mostly copies": (lambda n, a, b: (a, a) if n % 4 else (a, b), "both sides are equal"),
}


@pytest.mark.slow
def test_what_learners_bring_is_noticed(own):
    sound = deepcopy(own.splits)
    for how, words in STRANGERS.values():
        own.splits = deepcopy(sound)
        rows = enumerate(own.splits["train"][:400], start=1)
        own.splits["train"] = [how(n, a, b) for n, (a, b) in rows]
        assert row(check(own.write())[1], words).startswith(("warning", "wrong"))
