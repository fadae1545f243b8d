"""Back-translation: pairs from sentences alone, and a training that reads them."""

import json
import shlex

import pytest
from nightly import some

from nmtcourse.main import main
from nmtcourse.recipes import backtranslation
from nmtcourse.recipes.backtranslation import Search, backtranslate
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import read_pairs
from nmtlib.inference.translator import Translator

GREEDY = Search()


@pytest.fixture(scope="module")
def translator():
    return Translator.load("toy-de-en")


@pytest.fixture(scope="module")
def sentences():
    return [pair.source for pair in load_corpus("toy-de-en").test[:30]]


def quiet(line):
    pass


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(backtranslation, "CHUNK", 8)


def test_the_machine_makes_the_source_and_the_target_stays(translator, sentences, tmp_path):
    out = tmp_path / "pairs.tsv"
    assert backtranslate(translator, sentences, out, report=quiet) == len(sentences)
    pairs = read_pairs([out])
    assert [pair.target for pair in pairs] == sentences
    assert [pair.source for pair in pairs] == translator.translate(sentences, beam=1)


def test_forwards_the_machine_makes_the_target(translator, sentences, tmp_path):
    out = tmp_path / "pairs.tsv"
    backtranslate(translator, sentences, out, Search(tag="FT", forward=True), report=quiet)
    pairs = read_pairs([out])
    assert [pair.source for pair in pairs] == [f"FT {sentence}" for sentence in sentences]
    assert [pair.target for pair in pairs] == translator.translate(sentences, beam=1)
    with pytest.raises(FileExistsError, match="another search"):
        backtranslate(translator, sentences, out, Search(tag="FT"), report=quiet)


@pytest.mark.parametrize("search", [GREEDY, Search(temperature=1.0, seed=4, tag="BT")])
@pytest.mark.parametrize("torn", some([b"", b"half a li"]))
def test_a_call_that_was_interrupted_goes_on(
    translator, sentences, tmp_path, small_chunks, search, torn
):
    whole, out = tmp_path / "whole.tsv", tmp_path / "pairs.tsv"
    backtranslate(translator, sentences, whole, search, report=quiet)

    def stop(line):
        with open(out, "ab") as file:
            file.write(torn)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backtranslate(translator, sentences, out, search, report=stop)
    assert json.loads((tmp_path / "pairs.tsv.json").read_text())["done"]["sentences"] == 8
    reports = []
    backtranslate(translator, sentences, out, search, report=reports.append)
    assert out.read_bytes() == whole.read_bytes() and len(reports) == 3
    assert backtranslate(translator, sentences, out, search, report=pytest.fail) == len(sentences)


def test_nothing_of_another_call_is_overwritten(translator, sentences, tmp_path):
    out = tmp_path / "pairs.tsv"
    backtranslate(translator, sentences[:3], out, report=quiet)
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match="another search; nothing is overwritten"):
        backtranslate(translator, sentences[:3], out, Search(beam=2), report=quiet)
    with pytest.raises(FileExistsError, match="another sentences"):
        backtranslate(translator, sentences[:2], out, report=quiet)
    with pytest.raises(FileExistsError, match="another model"):
        backtranslate(Translator.load("toy-en-zh"), sentences[:3], out, report=quiet)
    with pytest.raises(FileExistsError, match="begun with another model and precision"):
        other = Translator.load("toy-de-en")
        other.model.bfloat16()
        backtranslate(other, sentences[:3], out, report=quiet)
    assert out.read_bytes() == before
    own = tmp_path / "own.tsv"
    own.write_text("mine")
    with pytest.raises(FileExistsError, match=r"without own.tsv.json; nothing is overwritten"):
        backtranslate(translator, sentences[:3], own, report=quiet)
    assert own.read_text() == "mine"


def test_a_file_that_was_cut_off_is_not_filled_up(translator, sentences, tmp_path, small_chunks):
    out = tmp_path / "pairs.tsv"
    backtranslate(translator, sentences, out, report=quiet)
    out.write_bytes(cut := out.read_bytes()[:100])
    with pytest.raises(ValueError, match="has 100 bytes, but pairs.tsv.json tells of"):
        backtranslate(translator, sentences, out, report=quiet)
    assert out.read_bytes() == cut
    for notes in ("x", "[]", "{}", '{"done": {"bytes": 0}}'):
        (tmp_path / "pairs.tsv.json").write_text(notes)
        with pytest.raises(ValueError, match=r"pairs.tsv.json is damaged; remove it and"):
            backtranslate(translator, sentences, out, report=quiet)


def test_the_command_says_what_is_lost_and_what_it_cannot_use(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("text.txt", ["der Hund schläft .", "x" * 2_000])
    command = ["backtranslate", "toy-de-en", "--text", "text.txt", "--out"]
    assert main([*command, "the pairs.tsv"]) == 0
    said = capsys.readouterr().out
    assert "1 without a pair" in said
    assert shlex.split(said.rpartition("--set ")[2]) == ['recipe.synthetic=["the pairs.tsv"]']
    write("empty.txt", [])
    for given, expected in {
        ("text.txt", "pairs.tsv.gz"): "plain text file",
        ("text.txt", ""): "name of a file",
        ("empty.txt", "new.tsv"): "no sentences",
        ("nosuch.txt", "new.tsv"): "there is no file nosuch.txt",
    }.items():
        before = sorted(tmp_path.iterdir())
        text, out = given
        assert main(["backtranslate", "toy-de-en", "--text", text, "--out", out]) == 1
        assert expected in capsys.readouterr().err and sorted(tmp_path.iterdir()) == before


def test_what_is_drawn_varies_with_the_seed_and_is_tagged(translator, sentences, tmp_path):
    texts = []
    for number, seed in enumerate((1, 1, 2)):
        out, search = tmp_path / f"{number}.tsv", Search(temperature=2.0, seed=seed, tag="BT")
        backtranslate(translator, sentences, out, search, report=quiet)
        texts.append(out.read_text("utf-8"))
    assert texts[0] == texts[1] != texts[2]
    assert all(line.startswith("BT ") for line in texts[0].splitlines())


def test_what_the_model_cannot_read_and_a_word_without_end_make_no_pair(
    translator, sentences, tmp_path, monkeypatch
):
    most = translator.model.config.max_length
    given = ["", "der Hund schläft .", " ".join(["der"] * most), "x" * 2_000]
    assert backtranslate(translator, given, tmp_path / "one.tsv", report=quiet) == 1
    said = ["x" * 1_001, *sentences[1:3]]
    monkeypatch.setattr(Search, "translate", lambda *_, **__: said)
    out = tmp_path / "pairs.tsv"
    assert backtranslate(translator, sentences[:3], out, report=quiet) == 2
    assert [pair.source for pair in read_pairs([out])] == said[1:]


def test_a_search_that_makes_no_sense_is_refused(tmp_path, capsys):
    for options, message in (
        ({"temperature": 1e300}, r"from 0.001 to 1000, not 1e\+300"),
        ({"temperature": -1.0}, "0, for nothing drawn, or a number from 0.001 to 1000, not -1.0"),
        ({"temperature": float("nan")}, "temperature must be"),
        ({"temperature": 1.0, "beam": 7}, "needs no beam of 7"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"tag": "a b"}, "one word"),
    ):
        with pytest.raises(ValueError, match=message):
            Search(**options)
    (text := tmp_path / "text.txt").write_text("der Hund schläft .\n", "utf-8")
    for options in (["--beam", "0"], ["--beam", "1001"], ["--tag", "<BOS>"], ["--tag", "▁x"]):
        out = ["--out", str(tmp_path / "pairs.tsv"), *options]
        assert main(["backtranslate", "toy-de-en", "--text", str(text), *out]) == 1
        assert options[1] in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.nightly
def test_from_sentences_to_a_training_by_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = load_corpus("toy-de-en")
    write("text.txt", [pair.source for pair in corpus.train[:20]])
    assert main("backtranslate toy-de-en --text text.txt --out pairs.tsv".split()) == 0
    assert "20 pairs are in pairs.tsv" in capsys.readouterr().out
    for split, pairs in (("train", corpus.train[20:80]), ("validation", corpus.test[:9])):
        write(f"{split}.tsv", [f"{pair.target}\t{pair.source}" for pair in pairs])
    with open("pairs.tsv", "a", encoding="utf-8") as file:  # the machine met a sentence of ours
        file.write(f"anything\t{corpus.test[0].source}\n")
    write("own.toml", ['[corpus]\nsource_language="en"\ntarget_language="de"\ntrain=["train.tsv"]'])
    write("more.tsv", [f"{pair.target}\t{pair.source}" for pair in corpus.train[80:90]])
    files = 'recipe.synthetic=["pairs.tsv","more.tsv"]'
    recipe = ["recipe.name=course", files, "recipe.synthetic_ratio=0.5"]
    more = ['validation=["validation.tsv"]', *recipe]
    small = ["size=300", "d_model=16", "n_heads=2", "d_ff=16", "epochs=2"]
    sets = [part for value in (*more, *small) for part in ("--set", value)]
    assert main(["train", "own.toml", "--out", "run", *sets]) == 0
    said = capsys.readouterr().out
    assert "30 synthetic pairs, of which an epoch takes 0.5 for each real one" in said
    assert "30 synthetic pairs; 1 left out" in said
    (tmp_path / "more.tsv").unlink()
    assert main("evaluate run --split validation --beam 1".split()) == 0, (
        "it is scored without them"
    )
    write("more.tsv", ["die Katze\tthe cat"])
    write("pairs.tsv", ["der Hund\tthe dog"])
    assert main(["train", "--resume", "--out", "run"]) == 1
    assert "synthetic pairs changed since it was written" in capsys.readouterr().err


def write(name, lines):
    with open(name, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
