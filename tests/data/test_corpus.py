"""Reading parallel text: every line keeps its partner, or the file is refused."""

import gzip
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtlib.data.corpus import SPLITS, Corpus, Pair, read_pairs
from nmtlib.files import text_lines

# Characters at which str.splitlines would cut, but an editor or `wc -l` would not.
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c"
sentence = st.text(alphabet="aöüß你 " + SEPARATORS, min_size=1, max_size=9).filter(str.strip)
sentences = st.lists(sentence, min_size=1, max_size=6)
reusing_tmp_path = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_lines(path):
    return list(text_lines(path))


def from_files(source, target):
    return read_pairs([source, target])


def from_tsv(path):
    return read_pairs([path])


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@reusing_tmp_path
@given(sentences, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_lines_are_cut_at_line_feeds_only(tmp_path, lines, end, byte_order_mark, final_end):
    text = end.join(lines) + (end if final_end else "")
    path = write(tmp_path / "text", text, "utf-8-sig" if byte_order_mark else "utf-8")
    assert read_lines(path) == lines


@reusing_tmp_path
@given(sentences, st.randoms())
def test_from_files_keeps_the_pairing(tmp_path, lines, random):
    others = random.sample(lines, len(lines))
    source = write(tmp_path / "a", "\n".join(lines) + "\n")
    target = write(tmp_path / "b", "\r\n".join(others) + "\r\n", "utf-8-sig")
    both = zip(lines, others, strict=True)
    assert from_files(source, target) == [Pair(a.strip(), b.strip()) for a, b in both]


@reusing_tmp_path
@given(sentences)
def test_from_tsv_reads_what_from_files_reads(tmp_path, lines):
    source = write(tmp_path / "a", "\n".join(lines))
    target = write(tmp_path / "b", "\n".join(lines[::-1]))
    rows = "\n".join(f"{a}\t{b}" for a, b in zip(lines, lines[::-1], strict=True))
    assert from_tsv(write(tmp_path / "tsv", rows)) == from_files(source, target)


def test_compressed_files_read_as_the_plain_ones(tmp_path):
    text = b"ein hund\nzwei\n"
    (tmp_path / "a").write_bytes(text)
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    assert read_lines(tmp_path / "a.gz") == read_lines(tmp_path / "a")


def test_a_damaged_compressed_file_and_a_missing_one_are_refused(tmp_path):
    whole, path = gzip.compress(b"ein hund\n" * 50), tmp_path / "a.gz"
    for data in (whole[:-5], whole[:-8] + b"\0" * 4 + whole[-4:], b"<html>"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.gz: not a complete gzip file"):
            read_lines(path)
    for read in (read_lines, from_tsv, lambda path: from_files(path, path)):
        with pytest.raises(FileNotFoundError, match="nowhere.txt"):
            read(tmp_path / "nowhere.txt")


def test_different_line_counts_are_refused_with_the_shorter_file(tmp_path):
    long, short = write(tmp_path / "a", "1\n2\n3\n"), write(tmp_path / "b", "1\n2\n")
    for files in ((long, short), (short, long)):
        with pytest.raises(ValueError, match=f"line 3: {short} has ended, but the other"):
            from_files(*files)


def test_a_line_that_is_no_pair_is_refused_by_its_number(tmp_path):
    for empty, side in product(("", "\u3000", "\r"), (0, 1)):
        files = [write(tmp_path / "0", "1\n2\n3\n"), write(tmp_path / "1", "1\n2\n3\n")]
        write(files[side], f"1\n{empty}\n3\n")
        with pytest.raises(ValueError, match="line 2: an empty side"):
            from_files(*files)
    long = "z" * 1_001
    assert len(from_tsv(write(tmp_path / "tsv", f"a\t{long[1:]}"))) == 1
    for row, message in (
        ("\tx", "an empty side"),
        ("x\t ", "an empty side"),
        ("x", "expected source TAB target, found 1 column"),
        ("x\ty\t", "expected source TAB target, found 3 column"),
        (f"x {long}\ty", "1,001 characters without a space"),
        (f"x\t{long} y", "1,001 characters without a space"),
    ):
        with pytest.raises(ValueError, match=f"line 2: {message}"):
            from_tsv(write(tmp_path / "tsv", f"a\tb\n{row}\nc\td\n"))


def test_files_without_a_sentence_and_text_that_is_not_utf8_are_refused(tmp_path):
    path = tmp_path / "a.txt"
    for content in ("", "\n", "\ufeff"):
        write(path, content)
        for read in (from_tsv, lambda p: from_files(p, p)):
            with pytest.raises(ValueError, match="no sentences" if not content else "line 1"):
                read(path)
    for encoding in ("latin-1", "utf-16"):
        path.write_bytes(b"gut\n" + "schön\n".encode(encoding))
        with pytest.raises(ValueError, match=r"a\.txt, line 2: not valid UTF-8"):
            read_lines(path)


alignments = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique=True).map(
    lambda a: tuple(sorted(a))
)
pairs = st.builds(Pair, st.text("ab ", min_size=1), st.text("xy ", min_size=1), alignments)


@pytest.mark.slow
@given(st.lists(pairs, max_size=3), st.lists(pairs, min_size=1, max_size=3))
def test_reversing_swaps_both_sides_and_twice_is_the_corpus_again(train, test):
    corpus = Corpus("tiny-de-en", "de", "en", train=train, test=test, vocabularies=(["de"], ["en"]))
    turned = corpus.reversed()
    languages = turned.source_language, turned.target_language
    assert turned.name == "tiny-en-de" and languages == ("en", "de")
    assert turned.vocabularies == (["en"], ["de"])
    assert replace(corpus, vocabularies=None).reversed().vocabularies is None
    for one, other in zip(test, turned.test, strict=True):
        assert (one.source, one.target) == (other.target, other.source)
        assert set(one.alignment) == {(s, t) for t, s in other.alignment}
    again = turned.reversed()
    assert again.name == corpus.name and again.vocabularies == corpus.vocabularies
    splits = [list(again.split(split)) for split in SPLITS if getattr(corpus, split)]
    assert splits == [split for split in (train, test) if split]


def test_leaked_are_the_positions_whose_source_was_trained_on_whatever_the_target():
    train = [Pair("a", "x"), Pair("b", "y"), Pair("unseen", "z")]
    test = [Pair("c", "x"), Pair("a", "z"), Pair("b", "y"), Pair("a", "z")]
    corpus = Corpus("t-de-en", "de", "en", train=train, test=test, validation=[Pair("b", "u")])
    assert corpus.leaked() == {1, 2, 3} and corpus.leaked("validation") == {0}
    assert corpus.leaked("challenge") == set() == corpus.leaked("train")
    assert replace(corpus, train=[]).leaked() == set() == replace(corpus, test=[]).leaked()


ROWS = [("ein Hund ", " a dog"), Pair("eine Katze", "a cat", ((0, 0), (1, 1)))]


def test_a_corpus_of_pairs_in_memory():
    corpus = Corpus.from_pairs(iter(ROWS), [["ja", "yes"]], languages=("de", "en"))
    assert corpus.train == [Pair("ein Hund", "a dog"), ROWS[1]], "stripped, and alignments kept"
    assert corpus.validation == [Pair("ja", "yes")] and not corpus.test
    assert (corpus.source_language, corpus.target_language) == ("de", "en")
    assert Corpus.from_pairs(ROWS, ROWS, ROWS, languages=["de", "en"]).split("test")[1] == ROWS[1]
    assert corpus.reversed().train[0] == Pair("a dog", "ein Hund")


def test_pairs_in_memory_are_what_a_file_of_them_would_be(tmp_path):
    rows = [("ein\u2028Hund", "a dog"), (" zwei ", "two")]
    path = write(tmp_path / "tsv", "".join(f"{a}\t{b}\n" for a, b in rows))
    assert Corpus.from_pairs(rows, rows, languages=("de", "en")).train == from_tsv(path)


def test_what_is_no_pair_is_refused_by_number():
    def read(train):
        Corpus.from_pairs(train, ROWS, languages=("de", "en"))

    for row in ("ab", ("a", "b", "c"), ("a",), ("a", 3), ("a", None), None, {"a", "b"}):
        with pytest.raises(ValueError, match=r"train\[1\]: expected a Pair or \(source, target\)"):
            read([ROWS[0], row])
    # What shows nothing is empty: fillers, marks of direction and variation, accents, controls.
    for side in (" ", "\u3164", "\u2800", "\u202e", "\U000e0041", "\u0301", "\x07", "\u200b\u00a0"):
        with pytest.raises(ValueError, match=r"train\[1\]: an empty side"):
            read([ROWS[0], ("ein Hund", side)])
    with pytest.raises(ValueError, match=r"train\[1\]: 1,001 characters without a space"):
        read([ROWS[0], ("a", "z" * 1_001)])
    for rows in (None, 5, "text"):
        with pytest.raises(ValueError, match="train"):
            read(rows)


def test_splits_and_languages_are_checked():
    for train, validation, name in (([], ROWS, "train"), (ROWS, [], "validation")):
        with pytest.raises(ValueError, match=f"{name} is empty; expected at least one pair"):
            Corpus.from_pairs(train, validation, languages=("de", "en"))
    for languages in ("de", ("de",), ("de", "en", "zh"), {"de", "en"}, (1, 2), ("", ""), None):
        with pytest.raises(ValueError, match="languages are two"):
            Corpus.from_pairs(ROWS, ROWS, languages=languages)


def test_a_split_is_given_by_its_name_and_what_is_none_is_refused():
    corpus = Corpus("x-de-en", "de", "en", **{name: [Pair(name, "t")] for name in SPLITS})
    assert all(corpus.split(name)[0].source == name for name in SPLITS)
    some, none = replace(corpus, test=[], challenge=[]), Corpus("x-de-en", "de", "en")
    for which, name, message in (
        (corpus, "dev", "'dev'.*train, validation, test, challenge"),
        (some, "test", "no test split; it has train, validation"),
        (none, "test", "it has none"),
    ):
        with pytest.raises(ValueError, match=message):
            which.split(name)


def test_files_of_another_type_are_refused():
    for files in ([], None, "a.tsv", ["a", "b", "c"], [5]):
        with pytest.raises(ValueError, match="expected"):
            read_pairs(files)
