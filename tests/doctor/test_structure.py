"""Structure is kept, splits are compared, messages of programs and keys are found: new kinds."""

import csv
import random
import unicodedata

import pytest
from broken_corpora import Own, check, levels, nothing, row, run, toy

from nmtcourse.corpora import load_corpus
from nmtcourse.doctor.structure import Mender
from nmtcourse.doctor.texts import defects, mended
from nmtcourse.formats.languages import language_named, language_of_country
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import BPETokenizer, lower
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.settings import Settings

ZWSP = "\u200b"
KHMER = ["កសិករ", "ឃើញ", "ត្រី", "ចាស់", "សិស្ស", "មាន", "ធំ", "ទូក"]


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own").mkdir()
    return Own(tmp_path / "own", toy(train=400))


def cleaned(path, folder):
    """The pairs of each split of the cleaned copy."""
    check(path, "--fix", folder)
    return load_corpus(load_settings(folder / "own.toml").corpus)


def distinct(pairs):
    return len({pair.source for pair in pairs})


def test_a_tag_of_the_target_language_is_kept(own, tmp_path):
    for split in own.splits:
        for number in range(1, len(own.splits[split]) + 1):
            tag = ("<fr>", "<2de>", "[en]")[number % 3]
            own.change(split, 0, lambda text, tag=tag: f"{tag} {text}", number)
    status, text = check(own.write())
    assert status == 0 and nothing(text)
    assert "source: <2de> <fr> [en]" in row(text, "tags at the beginning of lines")
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    expected = [source for source, _ in own.splits["train"]]
    assert [pair.source for pair in corpus.train] == expected


def test_markup_at_the_beginning_is_still_markup():
    assert Mender.of([f"<b>text {n}</b>" for n in range(100)]).tags == frozenset()
    assert Mender.of([f"<a{n}> text" for n in range(100)]).tags == frozenset(), "no closed set"
    assert Mender.of([f"text {n}" for n in range(90)] + ["<b> x"] * 10).tags == frozenset()


def test_separators_of_words_are_kept_where_the_script_has_them(own, tmp_path):
    draw = random.Random(1)
    own.tags = ("de", "km")
    for split, pairs in own.splits.items():
        own.splits[split] = [(a, ZWSP.join(draw.choices(KHMER, k=5))) for a, _ in pairs]
    text = check(own.write())[1]
    assert "invisible characters" not in text and row(text, "U+200B between words")
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    assert all(ZWSP in pair.target for pair in corpus.train)
    assert mended(f"schön{ZWSP}er") == "schöner" and "invisible" in defects(f"schön{ZWSP}er")


def test_marks_of_a_dictionary_are_no_lost_placeholders(own):
    for number in range(1, 401):
        own.change("train", 0, lambda text, n=number: f"{text} {{{'mfn'[n % 3]}}}", number)
    text = check(own.write())[1]
    assert "placeholders" not in text and row(text, "marks of a dictionary").startswith("note")
    own.change("train", 0, lambda text: f"{text} %s", *range(1, 41))
    assert " 40 (10.0%)" in row(check(own.write())[1], "placeholders that one side lacks")


def test_entries_and_sentences_are_other_text(own):
    own.splits["train"] = [
        (" ".join(a.split()[:2]), " ".join(b.split()[:2])) for a, b in own.splits["train"]
    ]
    found = row(check(own.write())[1], "other text than train")
    assert "train is mostly entries" in found


def test_a_line_that_is_one_element_is_no_sentence(own, tmp_path):
    own.splits["train"][3] = ("<url>http://example.org</url>",) * 2
    own.splits["train"][4] = ("<title>Ein Vortrag</title>", "<title>A talk</title>")
    own.splits["train"][5] = ("<b>Ein Hund</b>", "<b>A dog</b>")
    assert " 2 (0.5%)" in row(check(own.write())[1], "a line that is markup")
    sources = [p.source for p in cleaned(own.folder / "own.toml", tmp_path / "clean").train]
    assert len(sources) == 398 and "Ein Hund" in sources and "Ein Vortrag" not in sources


PREPARED = {  # how train looks, what is said of test
    "lower-cased": (str.lower, "train is lower-cased"),
    "NFKC": (lambda text: text.translate({ord(c): ord(c) + 0xFEE0 for c in "aeinr"}), None),
    "without accents": (
        lambda text: unicodedata.normalize("NFD", text).encode("ascii", "ignore").decode(),
        "it has accents, and train has none",
    ),
    "close": (lambda text: text.replace(" .", ".").replace(" ,", ","), "it has spaces before"),
}


@pytest.mark.parametrize("how", PREPARED)
def test_the_change_that_makes_test_like_train_is_named(own, how):
    change, words = PREPARED[how]
    own.change("train", 0, change)
    text = check(own.write())[1]
    if words:
        assert words in row(text, "prepared otherwise than train")
    assert nothing(check(Own(own.folder, toy(train=400)).write())[1])


def test_the_cedilla_of_romanian_and_its_comma_are_twins(own):
    own.tags = ("ro", "en")
    own.change("train", 0, lambda text: text.replace("t", "ţ").replace("s", "ş"))
    for split in ("validation", "test"):
        own.change(split, 0, lambda text: text.replace("t", "ț").replace("s", "ș"))
    found = row(check(own.write())[1], "prepared otherwise")
    assert "ș" in found and "with a comma" in found and "sed" in found


def test_presentation_forms_become_letters(own, tmp_path):
    shaped = "\ufee3\ufeae\ufea3\ufe92\ufe8e"
    own.tags = ("de", "ar")
    own.change("train", 1, lambda text: f"{shaped} مرحبا", *range(1, 101))
    for split in own.splits:
        own.change(split, 1, lambda text: text if "م" in text else "مرحبا بكم جميعا")
    assert " 100 (25.0%)" in row(check(own.write())[1], "presentation forms")
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    assert corpus.train[0].target == "مرحبا مرحبا"
    assert mended("\ufd3e\u0627\ufd3f") == "\ufd3e\u0627\ufd3f", "these brackets are no letters"


def test_zawgyi_is_told_from_unicode():
    assert "zawgyi" in defects("ေက်ာင္းသား") and "zawgyi" in defects("လူ ေျပာ")
    for text in ("ကျောင်းသား ရေ", "မေမေ နေကောင်းလား", "သတ္တေ", "ခြေထောက် ကြေး"):
        assert defects(text) == frozenset(), text


def test_a_country_is_no_language(own, tmp_path):
    for code, language in [("cn", "zh"), ("jp", "ja"), ("ua", "uk"), ("cz", "cs"), ("gr", "el")]:
        assert language_of_country(code) == language
    assert language_of_country("de") == language_of_country("xx") == ""
    own.splits, own.tags = toy("toy-en-zh", train=400), ("en", "cn")
    found = row(check(own.write())[1], "a language tag")
    assert "'cn' is a country; its language is zh" in found
    check(own.folder / "own.toml", "--fix", tmp_path / "clean")
    assert 'target_language = "zh"' in (tmp_path / "clean" / "own.toml").read_text("utf-8")
    own.tags = ("en", "kr")  # Kanuri, which is written in other letters
    own.change("train", 1, lambda text: "학생이 책을 읽는다")
    assert "its language is ko" in check(own.write())[1]


def test_a_message_of_a_program_is_no_translation(own, tmp_path):
    own.change("train", 1, lambda text: "__NULL__", *range(3, 60, 4))
    own.change("train", 1, lambda text: "nan", *range(100, 112))
    own.change("test", 1, lambda text: "nan", 5, 6)
    text = check(own.write())[1]
    assert " 27 (6.8%)" in row(text, "a side that recurs") and "capitals" not in text
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    assert len(corpus.train) == 373 and len(corpus.test) == 98
    own.splits = toy(train=400)
    own.splits["train"] += [("danke", "thanks"), ("danke schön", "thanks")] * 20
    assert "a side that recurs" not in check(own.write())[1], "it means the same each time"
    own.change("train", 1, lambda text: "#N/A", 7, 8)
    assert " 2 (0.5%)" in row(check(own.write())[1], "a side that recurs"), "known, if rare"


@pytest.mark.slow
def test_lines_with_keys_are_joined_by_them(own, tmp_path):
    lines = [[f"GEN {n // 30 + 1}:{n % 30 + 1}\t{text}" for text in pair]
             for n, pair in enumerate(own.splits["train"])]  # fmt: skip
    own.splits["train"] = [(a, b) for a, b in lines]
    path = own.write()
    targets = [line[1] for n, line in enumerate(lines) if n % 40 != 7]
    (own.folder / "train.b").write_text("\n".join(targets) + "\n", "utf-8")
    status, text = check(path)
    assert status == 1 and " 390 (97.5%)" in row(text, "a key in front of the text")
    assert "shifted" not in text and " 10 (2.5%)" in row(text, "a line without a partner")
    pairs = cleaned(path, tmp_path / "clean").train
    sound = toy(train=400)["train"]
    assert [(p.source, p.target) for p in pairs] == [x for n, x in enumerate(sound) if n % 40 != 7]


def test_nul_bytes_are_counted_and_removed(own, tmp_path):
    own.change("train", 0, lambda text: "\0".join(text[:9]) + text[9:], *range(1, 31))
    status, text = check(own.write())
    assert status == 1 and " 30 (7.5%)" in row(text, "NUL bytes") and "line 1:" in text
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    assert [p.source for p in corpus.train] == [a for a, _ in toy(train=400)["train"]]


def test_copies_are_dropped_and_names_stay(own, tmp_path):
    own.change("train", 1, lambda text: own.splits["train"][0][0], 1)
    for number in range(1, 61):
        own.splits["train"][number - 1] = (own.splits["train"][number - 1][0],) * 2
    own.splits["train"][100] = ("Anna", "Anna")
    assert row(check(own.write())[1], "both sides are equal").startswith("warning")
    corpus = cleaned(own.folder / "own.toml", tmp_path / "clean")
    assert len(corpus.train) == 340 and Pair("Anna", "Anna") in corpus.train


@pytest.mark.slow
def test_the_level_follows_the_share(own):
    sound = list(own.splits["train"])
    for share, level in ((0.05, "note"), (0.2, "warning"), (0.6, "wrong")):
        own.splits["train"] = list(sound)
        lines = range(1, round(400 * share) + 1)
        own.change_both("train", lambda text: f"{text} " * 60, *lines)
        found = row(check(own.write())[1], "more than 200 words")
        assert found.startswith(level) and "training.max_length" in found


def test_sources_that_differ_in_numbers_are_near_leaks(own):
    own.splits["train"] = [(f"Datei {n} : {a}", f"file {n} : {b}")
                           for a, b in own.splits["train"][:40] for n in range(10)]  # fmt: skip
    own.splits["test"] = [(a.replace("Datei ", "Datei 9"), b) for a, b in own.splits["train"][::10]]
    text = check(own.write())[1]
    assert row(text, "sources that differ in their numbers").startswith("note")
    assert " 40" in row(text, "in train but for its numbers")


def test_direct_speech_and_one_abbreviation_are_usual():
    pairs = [Pair('"Is he right?" "I think so."', '"Hat er recht?" "Ja, doch."')] * 300
    pairs += [Pair(f"Who is number {n}, your DJ?", f"谁是你最喜爱的 DJ {n}?") for n in range(300)]
    from nmtcourse.doctor.diagnosis import diagnose
    from nmtcourse.doctor.opening import of_pairs

    kinds = {f.kind for f in diagnose("own", [of_pairs("train", pairs)], ("", "")).findings}
    assert not kinds & {"quoted", "capitals"}


HEADERS = [
    ["No.", "English", "Chinese (translation)", "Remarks"],
    ["No.", "en", "zh", "Remarks"],
    ["Nr.", "English", "Chinese", "x"],
    ["id", "Ausgangstext", "Zieltext", "Bemerkung"],
]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_is_told_from_the_column_below(tmp_path, header):
    pairs = toy("toy-en-zh", train=300)["train"]
    with open(tmp_path / "pairs.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *([n, a, b, ""] for n, (a, b) in enumerate(pairs))])
    languages = () if "English" in header or "en" in header else ("--languages", "en", "zh")
    status, text = run("data", "check", tmp_path / "pairs.csv", *languages)
    assert "(en-zh)" in text and "300 of 301 lines became pairs" in text
    named = ("--columns", *header[1:3])
    assert "300 of 301 lines" in run("data", "check", tmp_path / "pairs.csv", *named, *languages)[1]
    check(tmp_path / "pairs.csv", *named, "--fix", tmp_path / "clean", "--languages", "en", "zh")
    assert (tmp_path / "clean" / "train.en").read_text().startswith(pairs[0][0])


def test_columns_are_named_by_any_text_of_the_first_row(tmp_path):
    pairs = toy(train=300)["train"]
    rows = [["What I hear . ", "What I say ."], *pairs]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")
    arguments = ("--columns", "What I hear .", "What I say .", "--languages", "de", "en")
    text = run("data", "check", tmp_path / "pairs.tsv", *arguments)[1]
    assert " 1 (0.3%)" in row(text, "a header line")


def test_names_of_languages():
    assert [language_named(x) for x in ("Chinese (translation)", "Deutsch", "日本語", "No.")] == [
        "zh", "de", "ja", "",
    ]  # fmt: skip


def test_comments_above_a_table_are_skipped(tmp_path):
    rows = [f"{a}\t{b}\n" for a, b in toy(train=100)["train"]]
    text = "# DE-EN database\tcompiled by me\n# for personal use\n" + "".join(rows)
    (tmp_path / "dict.txt").write_text(text, "utf-8")
    text = run("data", "check", tmp_path / "dict.txt", "--languages", "de", "en")[1]
    assert "100 of 102 lines became pairs" in text


def test_turkish_has_two_letters_i():
    pairs = [Pair(f"It is here, I say {n}", f"İyi Işık IRMAK İstanbul {n}") for n in range(40)]
    corpus = Corpus("own", "en", "tr", train=pairs, validation=pairs[:5], test=pairs[:5])
    for joint in (True, False):
        codecs = build_codecs(corpus, "bpe", size=200, lowercase=True, joint=joint)
        assert codecs[0].decode(codecs[0].encode("I say It")) == "i say it"
        assert codecs[1].decode(codecs[1].encode("Işık İyi IRMAK")) == "ışık iyi ırmak"
        saved = BPETokenizer(codecs[1].tokenizer.model)
        assert saved.encode("Işık") == codecs[1].tokenizer.encode("Işık"), "as a run is read"
        assert not any("\u0307" in token for codec in codecs for token in codec.vocab.tokens)
    settings = Settings().changed(
        {"tokenizer": {"lowercase": True}, "model": {"d_model": 16, "n_heads": 2}}
    )
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    translator = Translator(Transformer(settings.model), *codecs, settings)
    translator.translate = lambda sources, **how: [lower(p.target, "tr") for p in corpus.test]
    assert evaluate(translator, corpus)[0].scores.bleu == pytest.approx(100)


def test_a_clean_copy_is_clean_and_keeps_its_sources(own, tmp_path):
    corpus = cleaned(own.write(), tmp_path / "clean")
    assert distinct(corpus.train) == len({source for source, _ in own.splits["train"]})
    assert levels(check(tmp_path / "clean" / "own.toml")[1]) == []


def test_one_chinese_sentence_for_many_english_ones_is_no_message():
    from nmtcourse.doctor.diagnosis import diagnose
    from nmtcourse.doctor.opening import of_pairs

    pairs = [
        Pair(f"They tell us about number {n}", f"他们告诉我们第{n}号的事情") for n in range(300)
    ]
    pairs += [Pair(f"What a day we had in {n}", "我们度过了美好的一天") for n in range(30)]
    kinds = {f.kind for f in diagnose("own", [of_pairs("train", pairs)], ("en", "zh")).findings}
    assert "message" not in kinds
