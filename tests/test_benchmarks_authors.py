"""The runs behind the three reports: the corpora that they read, and how they are scored."""

import json
from dataclasses import replace

import authors
import pytest
import torch

from nmtcourse.teaching import authors as recorded
from nmtlib import load
from nmtlib.data import Corpus, Pair, Vocab, WhitespaceTokenizer, collate
from nmtlib.data.codec import Codec
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.specials import UNK
from nmtlib.training.trainer import Trainer

TINY = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
PAIRS = [Pair(f"a{i % 7} b", f"x{i % 7} y") for i in range(40)]
CORPUS = Corpus("tiny", "de", "en", PAIRS, PAIRS[:7], PAIRS[:7])


def release(root, talks=("1", "2", "3", "4", "5", "6"), lose=""):
    """The ten XML files, one talk of one segment for each number, the same talks in each set."""
    (root / "iwslt" / "de-en").mkdir(parents=True)
    for place, name in enumerate(authors.TEST_SETS):
        for side in ("de", "en"):
            docs = []
            for talk in talks:
                number = talk if place == 0 else f"{place}{talk}"
                seg = "" if lose == f"{name}.{side}" else f'<seg id="1"> {side} {number} </seg>\n'
                docs.append(f'<doc docid="{number}" genre="x">\n{seg}</doc>\n')
            path = root / "iwslt" / "de-en" / f"IWSLT16.{name}.de-en.{side}.xml"
            path.write_text("<mteval>\n" + "".join(docs) + "</mteval>\n", "utf-8")


def settings_of(**training):
    given = {"epochs": 2, "max_tokens": 8, "warmup": 2, "average": 1} | training
    changes = {"model": TINY | {"tied": "target"}, "training": given}
    changes["corpus"] = {"name": "", "source_language": "de", "target_language": "en"}
    changes["tokenizer"] = {"kind": "whitespace", "joint": False}
    return load_settings("toy-de-en").changed(changes)


def codecs():
    tokens = [[t for p in PAIRS for t in getattr(p, s).split()] for s in ("source", "target")]
    return tuple(Codec(WhitespaceTokenizer(), Vocab.build([side])) for side in tokens)


def test_talks_are_never_on_both_sides(tmp_path):
    release(tmp_path)
    corpus = authors.talk_corpus(tmp_path)
    texts = [{pair.source for pair in corpus.split(s)} for s in ("train", "validation", "test")]
    assert [len(side) for side in texts] == [25, 3, 2]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(p.source.replace("de", "en") == p.target for p in corpus.train)


def test_a_talk_that_is_in_two_sets_counts_once(tmp_path):
    release(tmp_path, talks=("1", "1", "2"))
    corpus = authors.talk_corpus(tmp_path)
    assert sum(authors.sizes(corpus).values()) == 10


def test_a_talk_whose_sides_differ_is_refused(tmp_path):
    release(tmp_path, lose="TED.tst2010.en")
    with pytest.raises(ValueError, match=r"tst2010.*differs in"):
        authors.talk_corpus(tmp_path)


def test_long_pairs_are_left_out_on_either_side():
    long = " ".join(["w"] * (authors.LONGEST + 1))
    pairs = [Pair("a", "b"), Pair(long, "b"), Pair("a", long)]
    assert authors.short(replace(CORPUS, train=pairs)).train == pairs[:1]


def test_a_batch_holds_so_many_sentences_and_the_loss_is_one_of_tokens():
    made = codecs()
    settings = settings_of(max_tokens=16).with_vocabularies(*(len(c.vocab) for c in made))
    examples, _ = authors.encode_pairs(PAIRS, *made)
    torch.manual_seed(0)
    model = authors.Transformer(settings.model)
    counted = Trainer(model, authors.BySentences(examples), examples[:2], settings.training)
    plan = counted.loader.plan(1)
    assert sorted(map(len, plan)) == [8, 16, 16]
    batch = collate([examples[i] for i in plan[0]])
    assert counted.loader.labels([plan[0]]) == 0  # so that an update counts the labels itself
    assert counted.update([batch], 0).labels == batch.labels.ne(0).sum()


def test_parts_read_all_examples_before_they_begin_again():
    part = authors.parts_of(range(10), 4, seed=1)
    read = [*part(0), *part(1), *part(2)]
    assert sorted(read[:10]) == [*range(10)] and read[10:] == read[:2]
    assert part(1) == part(1) and read[:10] != [*range(10)]


def test_a_run_goes_on_where_it_was_and_refuses_other_settings(tmp_path, capsys):
    folder, made = tmp_path / "run", codecs()
    first = authors.fit(folder, settings_of(), made, CORPUS, part=24)
    assert len(first) == 2 and authors.fit(folder, settings_of(), made, CORPUS, part=24) == first
    assert "resuming after 2 epochs" in capsys.readouterr().out
    with pytest.raises(ValueError, match="other settings"):
        authors.fit(folder, settings_of(warmup=3), made, CORPUS)


def test_a_stopped_run_is_not_scored(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "stops_here", lambda self, totals: True)
    with pytest.raises(KeyboardInterrupt, match="stopped before its end"):
        authors.fit(tmp_path / "run", settings_of(), codecs(), CORPUS)


def test_sameness_counts_what_is_said_twice(tmp_path, monkeypatch):
    history = authors.fit(tmp_path / "run", settings_of(average=2), codecs(), CORPUS)
    said = ["x y", "x y", "x y", "z", "z", "y", "x"]
    monkeypatch.setattr(authors.Translator, "translate", lambda self, texts, beam: said)
    found = authors.sameness(tmp_path / "run", history[0], CORPUS)
    assert (found["different"], found["most_common"]) == (4, ["x y", 3])
    assert found["length_ratio"] == round(10 / 14, 3) and found["updates"] == history[0].updates


def test_a_model_may_generate_the_unknown_word():
    translator = load("toy-de-en")
    output = translator.quick_model.output
    with torch.no_grad():
        before = output.bias.clone()
        output.bias[UNK] += 1e4
    try:
        said = authors.greedy_with_unknown(translator, ["der Hund schläft ."])
        assert set(said[0].split()) == {recorded.UNKNOWN}
        assert recorded.UNKNOWN not in translator.translate(["der Hund schläft ."], beam=1)[0]
    finally:
        with torch.no_grad():
            output.bias.copy_(before)


def test_marks_are_stripped_from_the_source_alone():
    corpus = replace(CORPUS, train=[Pair("na@@ ils .", "x@@ y")], validation=[], test=[])
    assert authors.stripped(corpus).train == [Pair("na ils .", "x@@ y")]


def test_seeds_that_are_recorded_are_kept_and_other_settings_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(authors, "RECORDED", tmp_path)
    settings = settings_of()
    assert authors.earlier("marks", settings) == []
    authors.write("marks", settings=authors.asdict(settings), runs=[{"seed": 1}])
    assert authors.earlier("marks", settings) == [{"seed": 1}]
    made = json.loads((tmp_path / "marks.json").read_text("utf-8"))
    assert made["machine"]["torch"] == torch.__version__ and made["command"]
    with pytest.raises(ValueError, match="other settings"):
        authors.earlier("marks", settings_of(warmup=3))


def test_text_from_ids_and_the_error_of_a_difference():
    assert recorded.from_ids("a b c", {"a", "c"}) == "a <UNK> c"
    references = [f"the dog number {i} is here now ." for i in range(50)]
    worse = [text if i % 2 else "a b c d e" for i, text in enumerate(references)]
    assert recorded.score(references, references) == 1.0 > recorded.score(worse, references)
    assert recorded.paired_error(worse, worse, references) == 0.0
    assert 0 < recorded.paired_error(references, worse, references) < 0.2


def test_the_runs_folder_holds_all_that_a_translator_needs(tmp_path):
    authors.fit(tmp_path / "run", settings_of(), codecs(), CORPUS)
    assert Run(tmp_path / "run").model_file.is_file()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """All cases on a corpus of forty pairs, with a model of 16 numbers a word."""
    vocabularies = tuple(codec.vocab.tokens for codec in codecs())
    corpus = replace(CORPUS, vocabularies=vocabularies)
    for name in ("MARKS", "TALKS", "CLASSIC", "SIX", "LARGE"):
        given = getattr(authors, name)
        training = given["training"] | {"epochs": 2, "warmup": 2, "average": 2}
        monkeypatch.setitem(given, "training", training)
        monkeypatch.setitem(given, "model", given["model"] | TINY)
    monkeypatch.setitem(authors.CURE["tokenizer"], "size", 40)
    monkeypatch.setattr(authors, "PART", 20)
    for module in (authors, recorded):
        monkeypatch.setattr(module, "RECORDED", tmp_path / "recorded")
    monkeypatch.setattr(authors, "load", lambda name: corpus)
    monkeypatch.setattr(authors, "talk_corpus", lambda: corpus)

    def run(case, *seeds):
        authors.main([case, "--seeds", *map(str, seeds), "--out", str(tmp_path / "runs")])
        return json.loads((tmp_path / "recorded" / f"{case}.json").read_text("utf-8"))

    return run


def test_marks_are_scored_both_ways_and_a_second_seed_is_added(small):
    found = small("marks", 1)
    assert [run["loader"] for run in found["runs"]] == ["kept", "stripped"]
    assert {"words", "ids", "last_words", "words_no_unknown"} < found["runs"][0].keys()
    assert {"error_words", "error_ids"} < found["runs"][1].keys()
    assert {key: len(texts) for key, texts in found["outputs"].items()} == {
        "kept": 7,
        "stripped": 7,
    }
    again = small("marks", 1, 2)
    assert again["runs"][:2] == found["runs"] and again["outputs"] == found["outputs"]
    assert [run["seed"] for run in again["runs"]] == [1, 1, 2, 2]


def test_talks_have_four_sizes_and_a_cure(small):
    found = small("talks", 1)
    assert [run["case"] for run in found["runs"]] == ["16", "32", "64", "128", "cure"]
    updates = [run["history"][-1]["updates"] for run in found["runs"][:4]]
    assert updates == [6, 4, 2, 2]  # two epochs of forty pairs
    assert small("talks", 1)["runs"] == found["runs"]


def test_the_classic_recipe_is_varied_and_measured_after_each_part(small):
    found = small("classic", 1)
    assert [run["case"] for run in found["runs"]] == ["classic", "warm-up 200", "no smoothing"]
    for run in found["runs"]:
        first, last = run["points"]
        assert last["updates"] == 2 * first["updates"]
        assert all(1 <= found["different"] <= 7 for found in run["beam"])
    assert small("classic", 1)["runs"] == found["runs"]


def test_memory_grows_with_the_batch_and_padding_never_lowers_it(small):
    rows = small("memory", 1)["batches"]
    peaks = [row["peaks"]["largest"] for row in rows]
    assert peaks == sorted(peaks)
    assert all(row["peaks"]["padded to the corpus"] >= row["peaks"]["largest"] for row in rows)


def test_the_large_model_is_trained_and_its_best_and_last_weights_are_scored(small):
    (run,) = small("large", 1)["runs"]
    assert len(run["history"]) == 2 and {"words", "last_words"} < run.keys()


def test_the_large_model_has_the_sizes_of_the_paper():
    settings = load_settings("cmn-en-zh-original").changed(authors.LARGE, "large")
    settings = settings.with_vocabularies(3922, 3775)
    with torch.device("meta"):
        parameters = authors.Transformer(settings.model).parameters()
    assert sum(p.numel() for p in parameters) == 50_015_935


def test_the_speed_of_six_layers_is_counted_in_target_tokens_after_a_first_update(
    small, monkeypatch
):
    monkeypatch.setitem(authors.SIX["training"], "max_tokens", 10)  # four updates of 40 pairs
    clock = iter(range(100))
    monkeypatch.setattr(authors.time, "process_time", lambda: next(clock) * 1.0)
    found = small("speed", 1)
    timed = found["timed"]
    assert found["large"]["updates_per_epoch"] == 1  # of up to 64 sentences
    assert timed["cpu_seconds"] == [1.0] * 3  # between two looks at the clock
    assert timed["tokens_per_second"] == 10 * 3  # x, y and EOS of each pair
