"""`nmtlib data check` on a corpus of the toy grammar that is broken in one way."""

import random
import unicodedata

import pytest
from broken_corpora import Own, check, levels, nothing, row, run, toy

from nmtcourse.doctor.diagnosis import of_corpus
from nmtlib.data.corpora import load


@pytest.fixture
def own(tmp_path):
    return Own(tmp_path)


def test_a_sound_corpus_has_no_problem(own):
    status, text = check(own.write())
    assert status == 0 and nothing(text) and "train: 1,600 of 1,600 pairs would be left" in text
    assert row(text, "few pairs").startswith("note")
    assert "characters, target / source" in text, "lengths by percentiles"


@pytest.mark.parametrize("name", ["toy-de-en", "toy-en-zh"])
def test_the_bundled_corpora_have_no_problem(name):
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


def test_a_training_refuses_all_blanks_in_one_message(own):
    own.change("train", 1, lambda text: "", *range(3, 163, 4))
    status, text = run("train", own.write(), "--out", own.folder / "run")
    assert status == 1 and "line 3: an empty side" in text
    assert "39 other lines are refused as well: 7, 11, " in text and "data check" in text


def test_invisible_characters_alone_are_an_empty_side_for_a_training_too(own):
    own.change("train", 0, lambda text: "\u200b", 5)
    status, text = run("train", own.write(), "--out", own.folder / "run")
    assert status == 1 and "line 5: an empty side" in text


@pytest.mark.parametrize("split", ["validation", "test"])
def test_sides_exchanged_in_one_split_are_named(own, split):
    own.splits[split] = [(target, source) for source, target in own.splits[split]]
    status, text = check(own.write())
    assert status == 1 and levels(text) == ["wrong"]
    assert "source and target look exchanged" in row(text, split)


def test_without_tags_train_tells_which_way_round_the_others_are(own):
    own.tags = ("q1", "q2")  # no languages: their frequent words are unknown
    own.splits["validation"] = [(b, a) for a, b in own.splits["validation"]]
    status, text = check(own.write())
    assert "its words are those of the other side of train" in row(text, "exchanged")


def test_chinese_on_the_wrong_side_is_told_by_its_letters(tmp_path):
    status, text = check(Own(tmp_path, toy("toy-en-zh"), ("zh-CN", "en")).write())
    assert status == 1 and "its letters are those of en-zh-CN" in row(text, "exchanged")


def test_equal_sides_are_named(own):
    own.splits["train"] = [(source, source) for source, _ in own.splits["train"]]
    status, text = check(own.write())
    assert status == 1 and row(text, "both sides are equal").startswith("wrong")


def test_another_script_than_that_of_the_tag_is_wrong(own):
    own.tags = ("de", "ru")
    status, text = check(own.write())
    assert status == 1 and row(text, "another script").startswith("wrong")
    assert "0% of the letters of the target are in the script of 'ru'" in text


def test_full_width_letters_are_named(own):
    own.change("train", 0, lambda text: text.replace("a", "ａ"), *range(1, 301))
    status, text = check(own.write())
    assert status == 0 and row(text, "full-width").startswith("warning")


def test_one_file_given_twice_is_named(own):
    own.write()
    status, text = run("data", "check", own.folder / "train.a", own.folder / "train.a")
    assert status == 1 and "one file given twice" in text


def shift(pairs, lines, first):
    """Lines more on the target's side (negative: the source's) from a line on."""
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    side, text = (targets, "the cat sleeps .") if lines > 0 else (sources, "die Katze schläft .")
    side[first:first] = [text] * abs(lines)
    return list(zip(sources, targets, strict=False))


@pytest.mark.parametrize(
    ("lines", "first"), [(1, 0), (1, 400), (-1, 900), (3, 200), (-7, 1200), (20, 800), (1, 1500)]
)
@pytest.mark.parametrize("name", ["toy-de-en", "toy-en-zh"])
def test_shifted_lines_are_found_where_they_begin(tmp_path, name, lines, first):
    splits = toy(name)
    splits["train"] = shift(splits["train"], lines, first)
    tags = tuple(name.split("-")[1:])
    status, text = check(Own(tmp_path, splits, tags).write())
    found = row(text, "lines are shifted")
    late = "target" if lines > 0 else "source"
    assert status == 1 and f"the {late} is {abs(lines)} line" in found
    if first:
        near = int(found.split("from about line ")[1].split()[0].replace(",", ""))
        assert abs(near - first) <= 25
    else:
        assert "from the first line on" in found


def test_a_shift_that_ends_is_told_with_both_ends(own):
    pairs = own.splits["train"]
    middle = shift(pairs[500:900], 1, 0)
    own.splits["train"] = pairs[:500] + middle + pairs[900:]
    status, text = check(own.write())
    assert "from about line 5" in text and "to about line 9" in text and status == 1


@pytest.mark.parametrize("first", [0, 1000])
def test_shuffled_lines_belong_to_no_partner(own, first):
    pairs = own.splits["train"]
    rest = [target for _, target in pairs[first:]]
    random.Random(1).shuffle(rest)
    shuffled = [(source, target) for (source, _), target in zip(pairs[first:], rest, strict=True)]
    own.splits["train"] = pairs[:first] + shuffled
    status, text = check(own.write())
    assert status == 1 and row(text, "sides do not belong together").startswith("wrong")
    assert not first or "lines 1,00" in text or "lines 99" in text


def test_a_list_sorted_by_length_is_not_taken_for_shifted(own):
    own.splits["train"].sort(key=lambda pair: len(pair[0]))
    assert nothing(check(own.write())[1])


def test_a_test_set_in_train_is_counted_exactly_and_loosely(own):
    test = own.splits["test"]
    own.splits["train"] += [(a, b) for a, b in test[:20]]
    own.splits["train"] += [(a.upper().replace(" .", "!"), b) for a, b in test[20:50]]
    status, text = check(own.write())
    assert status == 0 and "20 (20.0%)" in row(text, "the source is also in train")
    assert "30 (30.0%)" in row(text, "but for case, spaces, punctuation")
    assert "train: 1,600 of 1,650 pairs would be left" in text


def test_a_validation_set_from_train_is_wrong(own):
    own.splits["validation"] = own.splits["train"][:100]
    status, text = check(own.write())
    assert status == 1 and row(text, "the source is also in train").startswith("wrong")


def test_duplicates_and_shared_sources_are_counted(own):
    own.splits["train"] += own.splits["train"][:40]
    own.splits["train"] += [(source, "another one .") for source, _ in own.splits["train"][:10]]
    own.splits["test"] = own.splits["validation"][:20] + own.splits["test"]
    text = check(own.write())[1]
    assert "40 are copies of an earlier pair" in text
    assert " 10 (" in row(text, "one source with several targets")
    assert " 20 (" in row(text, "validation and test share sources")


TEXTS = {
    "NFD": ("Unicode that is not in form NFC", lambda t: unicodedata.normalize("NFD", t)),
    "invisible": ("invisible characters", lambda t: t.replace(" ", " \u200b", 1)),
    "entities": ("HTML entities", lambda t: t.replace("ä", "&auml;").replace("ü", "&uuml;")),
    "tags": ("markup", lambda t: f"<b>{t}</b>"),
    "misread": ("once read as another encoding", lambda t: t.encode().decode("latin-1")),
    "CR": ("line breaks or control characters", lambda t: t.replace(" ", "\r", 1)),
    "@@": ("subword marks", lambda t: t.replace("ein", "e@@ in").replace("der", "d@@ er")),
    "▁": ("subword marks", lambda t: "".join(f" ▁{word}" for word in t.split()).strip()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_are_broken_are_named_with_examples(own, name):
    words, how = TEXTS[name]
    own.change_both("test", how)
    found = row(check(own.write())[1], words)
    assert found.startswith("warning") and found.count("line ") >= 3 and "--fix" in found


def test_what_is_rare_is_a_note(own):
    own.change("train", 0, lambda text: f"\u200b{text}", 7, 8)
    status, text = check(own.write())
    assert row(text, "invisible").startswith("note") and nothing(text)
    assert "\\u200b" in row(text, "invisible"), "what cannot be seen is escaped"


def test_a_byte_order_mark_in_the_middle_tells_that_files_were_joined(own):
    own.change_both("train", lambda text: f"\ufeff{text}", 500)
    found = row(check(own.write())[1], "a byte order mark inside a file")
    assert found.startswith("warning") and "line 500" in found


@pytest.mark.parametrize("word", ["<BOS>", "x" * 1001])
def test_what_training_refuses_is_wrong(own, word):
    own.change("train", 0, lambda text: f"{text} {word}", 11)
    status, text = check(own.write())
    assert status == 1 and levels(text) == ["wrong"] and "line 11" in text


def test_pairs_the_other_way_round_and_untranslated_ones_are_counted(own):
    train = own.splits["train"]
    own.splits["train"] = [(b, a) for a, b in train[:100]] + train[100:]
    own.splits["train"] += [(a, a) for a, _ in train[:50]]
    text = check(own.write())[1]
    count = int(row(text, "pairs the other way round").split()[2])
    assert 50 <= count <= 100
    assert " 50 (" in row(text, "both sides are equal")


def test_a_side_in_the_other_language_is_wrong(own):
    rows = own.splits["train"]
    own.splits["train"] = [(a, b) for (a, _), (b, _) in zip(rows, rows[1:] + rows[:1], strict=True)]
    status, text = check(own.write())
    assert status == 1 and "the target has the frequent words of 'de', not of 'en'" in text


@pytest.mark.parametrize("tag", ["german", "q1", "sourc"])
def test_an_unknown_language_tag_is_named(own, tag):
    own.tags = (tag, "en")
    assert f"source_language = '{tag}'" in row(check(own.write())[1], "a language tag")


@pytest.mark.parametrize("tags", [("de-AT", "en_GB"), ("deu", "eng"), ("ger", "en-US")])
def test_tags_of_regions_and_of_three_letters_are_known(own, tags):
    own.tags = tags
    assert nothing(check(own.write())[1])


def test_another_language_than_the_tag_is_noticed(own):
    own.tags = ("fr", "en")
    assert "hardly has a frequent word of 'fr'" in check(own.write())[1]


def test_short_references_have_no_bleu(own):
    own.splits["test"] = [(a, " ".join(b.split()[:2])) for a, b in own.splits["test"]]
    assert "BLEU is 0 by definition" in check(own.write())[1]


def test_references_without_spaces_are_noticed(tmp_path):
    splits = {
        name: [(a, b.replace(" ", "")) for a, b in pairs]
        for name, pairs in toy("toy-en-zh").items()
    }
    text = check(Own(tmp_path, splits, ("en", "q2")).write())[1]
    assert "references hardly have spaces" in text
    assert nothing(check(Own(tmp_path, splits, ("en", "zh-Hans")).write())[1])


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


def test_new_characters_of_a_held_out_split_are_listed(own):
    own.change("test", 0, lambda text: text.replace("e", "é"))
    found = row(check(own.write())[1], "characters that train never shows")
    assert found.startswith("warning") and "1 in the source: é" in found


def test_mixed_forms_of_chinese_are_counted(tmp_path):
    splits = toy("toy-en-zh")
    splits["train"] = [
        (a, b.replace("们", "們").replace("书", "書")) for a, b in splits["train"][:800]
    ]
    splits["train"] += toy("toy-en-zh")["train"][800:]
    assert "traditional and simplified" in check(Own(tmp_path, splits, ("en", "zh")).write())[1]


def test_without_validation_training_would_fail(own):
    del own.splits["validation"]
    status, text = check(own.write())
    assert status == 1 and "--split" in row(text, "no validation")


def test_two_files_tell_their_languages_by_their_endings(own):
    own.write()
    for end, tag in (("a", "de"), ("b", "en")):
        (own.folder / f"train.{end}").rename(own.folder / f"train.{tag}")
    status, text = run("data", "check", own.folder / "train.de", own.folder / "train.en")
    assert status == 0 and "(de-en): train 1,600 pairs" in text


def test_a_picture_is_drawn_and_never_over_a_folder(own):
    picture = own.folder / "corpus.png"
    status, text = check(own.write(), "--plot", picture)
    assert status == 0 and picture.read_bytes().startswith(b"\x89PNG") and str(picture) in text
    assert check(own.write(), "--plot", own.folder)[0] == 1
    status, text = check(own.write(), "--plot", own.folder / "corpus.xyz")
    assert status == 1 and ".png or .svg" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["data", "check"], "own.toml"),
        (["data", "check", "nonsense"], "unknown corpus"),
        (["data", "check", "toy-de-em"], "did you mean toy-de-en"),
        (["data", "check", "none.de", "none.en"], "none.de: no such file"),
        (["data", "check", "toy-de-en", "--split", "5"], "--fix"),
        (["data", "check", "toy-de-en", "--encoding", "nonsense"], "--encoding 'nonsense'"),
        (["data", "list", "--fix", "x"], "data check"),
    ],
)
def test_bad_arguments_are_explained(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = run(*arguments)
    assert status == 1 and says in text and len(text.strip().splitlines()) == 1


def test_the_same_corpus_has_the_same_diagnosis_in_memory():
    found = of_corpus(load("toy-de-en"))
    assert found.ok and found.worse() == [] and len(found.surveys["train"]) == 20_000


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


@pytest.mark.parametrize("name", STRANGERS)
def test_what_learners_bring_is_noticed(own, name):
    how, words = STRANGERS[name]
    rows = enumerate(own.splits["train"][:400], start=1)
    own.splits["train"] = [how(n, a, b) for n, (a, b) in rows]
    assert row(check(own.write())[1], words).startswith(("warning", "wrong"))


def test_sorted_and_reversed_sides_belong_to_no_partner(own):
    pairs = own.splits["train"]
    for order in (sorted, lambda side: side[::-1]):
        targets = order([target for _, target in pairs])
        own.splits["train"] = [(a, t) for (a, _), t in zip(pairs, targets, strict=True)]
        assert row(check(own.write())[1], "do not belong together").startswith("wrong")


def test_two_lost_lines_are_told_with_the_stretch_between_them(own):
    pairs = own.splits["train"]
    sources = [a for n, (a, _) in enumerate(pairs) if n != 300]
    targets = [b for n, (_, b) in enumerate(pairs) if n != 900]
    own.splits["train"] = list(zip(sources, targets, strict=True))
    found = row(check(own.write())[1], "lines are shifted")
    assert "from about line 30" in found and "the target is 1 line late" in found
