"""A prepared corpus gives the examples of the corpus in memory, needs no memory for them, and is
never used by half.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nmtlib.data.batching import Example, lengths_of, plan_batches, token_batches
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import Corpus, Pair, TextPairs
from nmtlib.examples import encode_pairs, load_corpus
from nmtlib.experiment import train
from nmtlib.extras import preparing
from nmtlib.extras.prepared import PART, MappedExamples, Prepared, open_prepared
from nmtlib.extras.preparing import learn_codecs, prepare, prepare_corpus
from nmtlib.inference.translator import Translator, named_runs
from nmtlib.presets import load_settings
from nmtlib.run import MANIFEST, Run, newest_run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import read_history

pytest.importorskip("datasets")  # which writes and reads the Arrow files


def sentences(count: int, seed: int = 0) -> list[Pair]:
    """Pairs of 1 to 9 words; their English has the words of the German in reverse."""
    generator = random.Random(seed)
    rows = [[generator.randrange(30) for _ in range(generator.randint(1, 9))] for _ in range(count)]
    return [
        Pair(" ".join(f"wort{n}" for n in row), " ".join(f"word{n}" for n in reversed(row)))
        for row in rows
    ]


def write_files(folder: Path, count: int) -> list[str]:
    """A source and a target file."""
    pairs, paths = sentences(count), [str(folder / f"train{count}.{side}") for side in ("de", "en")]
    for path, side in zip(paths, ("source", "target"), strict=True):
        Path(path).write_text("".join(f"{getattr(p, side)}\n" for p in pairs), "utf-8")
    return paths


@pytest.fixture
def settings(tmp_path) -> Settings:
    """A corpus of own files and a tiny model."""
    for name, pairs in (
        ("valid", sentences(12, seed=1)),
        ("test", sentences(9, seed=2) + sentences(60)[4:7]),
    ):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{p.source}\t{p.target}\n" for p in pairs), "utf-8"
        )
    return Settings.from_dict(
        {
            "corpus": {
                "source_language": "de",
                "target_language": "en",
                "train": write_files(tmp_path, 60),
                "validation": [str(tmp_path / "valid.tsv")],
                "test": [str(tmp_path / "test.tsv")],
            },
            "tokenizer": {"kind": "bpe", "size": 80},
            "model": {
                "d_model": 16,
                "n_heads": 2,
                "n_encoder_layers": 1,
                "n_decoder_layers": 1,
                "d_ff": 32,
            },
            "training": {
                "epochs": 2,
                "max_tokens": 64,
                "max_length": 9,
                "warmup": 5,
                "precision": "fp32",
                "device": "cpu",
            },
        }
    )


@pytest.fixture
def folder(settings, tmp_path, monkeypatch) -> Path:
    """The same corpus, prepared in several shards."""
    monkeypatch.setattr(preparing, "BLOCK", 7)
    monkeypatch.setattr(preparing, "SHARD", 3)
    prepare_corpus(settings, tmp_path / "prepared", report=lambda line: None)
    return tmp_path / "prepared"


def using(settings: Settings, folder: Path) -> Settings:
    return settings.with_value("corpus.prepared", str(folder))


def quiet(line: str) -> None:
    """Report nothing."""


def test_synthetic_pairs_are_not_dropped_without_a_word(settings, tmp_path):
    pairs = tmp_path / "synthetic.tsv"
    pairs.write_text("wort1\tword1\n", "utf-8")
    mixed = settings.with_value("corpus.synthetic", [str(pairs)])
    with pytest.raises(ValueError, match="synthetic: each epoch takes other"):
        prepare_corpus(mixed, tmp_path / "prepared", report=quiet)
    assert not (tmp_path / "prepared").exists()


# The same examples, batches, losses and weights


def test_the_examples_are_those_of_the_corpus_in_memory(settings, folder):
    corpus = load_corpus(settings.corpus)
    source, target = build_codecs(corpus, "bpe", size=80)
    expected, _ = encode_pairs(corpus.train, source, target)
    opened = Prepared.open(folder)
    examples = opened.examples()
    assert [codec.to_json() for codec in opened.codecs()] == [source.to_json(), target.to_json()]
    assert list(examples) == expected and len(examples) == 60
    assert np.array_equal(examples.lengths, lengths_of(expected))
    assert all(type(i) is int for side in examples[0] for i in side)
    assert len(list((folder / "train").iterdir())) == 3, (
        "60 pairs in blocks of 7, three blocks in a shard"
    )
    assert opened.notes["source_tokens"] == sum(len(e.source) for e in expected)
    kept, left_out = encode_pairs(corpus.train, source, target, 7)
    assert list(examples.up_to(7)) == kept and 0 < left_out < 60
    assert list(examples.up_to(9).up_to(7)) == kept
    shutil.copytree(folder / "train" / "00000", folder / "train" / "00003")
    assert list(Prepared.open(folder).examples()) == expected, "what is not on the list is not read"


def test_batches_come_from_the_lengths_and_no_row_is_read(folder, monkeypatch):
    examples = Prepared.open(folder).examples()
    expected = {seed: token_batches(list(examples), 50, seed=seed) for seed in (None, 0, 3)}
    monkeypatch.setattr(
        MappedExamples, "__getitem__", lambda self, number: pytest.fail("a row was read")
    )
    for seed, batches in expected.items():
        assert token_batches(examples, 50, seed=seed) == batches
        assert [b.tolist() for b in plan_batches(examples.lengths, 50, seed=seed)] == batches


def test_training_from_it_has_the_same_losses_and_makes_the_same_weights(
    settings, folder, tmp_path
):
    memory = train(tmp_path / "memory", settings, report=quiet)
    lines = []
    mapped = train(tmp_path / "mapped", using(settings, folder), report=lines.append)
    for one, other in zip(memory, mapped, strict=True):
        same = {"seconds": 0.0, "tokens_per_second": 0.0}
        assert replace(one, **same) == replace(other, **same)
    for name in ("last", "best", "model"):
        first, second = (
            read_checkpoint(tmp_path / run / f"{name}.safetensors")[1]
            for run in ("memory", "mapped")
        )
        assert first.keys() == second.keys() and all(
            torch.equal(first[key], second[key]) for key in first
        )
    assert (tmp_path / "memory/samples.txt").read_text() == (
        tmp_path / "mapped/samples.txt"
    ).read_text()
    assert any("left out: " in line for line in lines), (
        "max_length leaves out what it leaves out in memory"
    )


def test_a_run_goes_on_with_the_folder_alone(settings, folder, tmp_path):
    """Files and working folder of the preparation may be gone."""
    whole = train(tmp_path / "whole", using(settings, folder), report=quiet)
    train(tmp_path / "run", using(settings, folder), minutes=1e-9, report=quiet)
    for path in tmp_path.glob("*.*"):
        path.unlink()
    resumed = train(tmp_path / "run", report=quiet)
    assert [r.validation_nll for r in resumed] == [r.validation_nll for r in whole]
    assert read_history(tmp_path / "run" / "history.csv")


@pytest.mark.parametrize("absolute", [True, False])
def test_the_folder_in_a_toml_file_is_relative_to_the_file(folder, tmp_path, absolute):
    (tmp_path / "own.toml").write_text(
        f'[corpus]\nprepared = "{folder if absolute else folder.name}"\n'
    )
    settings = load_settings(str(tmp_path / "own.toml"))
    assert Path(settings.corpus.prepared) == folder and load_corpus(settings.corpus).name == "own"
    with pytest.raises(ValueError, match="prepared must be without spaces"):
        settings.with_value("corpus.prepared", " ")


def test_the_other_splits_and_the_leaks_are_kept(settings, folder, tmp_path):
    whole, kept = load_corpus(settings.corpus), load_corpus(using(settings, folder).corpus)
    assert (kept.validation, kept.test, kept.name, kept.source_language) == (
        whole.validation,
        whole.test,
        whole.name,
        whole.source_language,
    )
    seen = {p.source for p in whole.train}
    leaked = {p.source for p in whole.test if p.source in seen}
    assert len(leaked) == 3
    assert {p.source for p in kept.train} == leaked and len(kept.train) == len(leaked)


def test_a_large_vocabulary_takes_four_bytes_an_id(tmp_path):
    tokens = ["<PAD>", "<BOS>", "<EOS>", "<UNK>", *(f"w{n}" for n in range(70_000))]
    corpus = Corpus(
        "many", "de", "en", [Pair("w69999 w1", "w65536")], vocabularies=(tokens, tokens)
    )
    codecs = build_codecs(corpus, "given")
    prepare(tmp_path / "p", corpus, codecs, Settings(), report=quiet)
    assert list(Prepared.open(tmp_path / "p").examples()) == [
        Example([70_003, 5, 2], [1, 65_540, 2])
    ]


# Text that is read line by line


def test_vocabularies_are_learnt_from_a_sample_at_even_distances(tmp_path):
    pairs = [Pair(f"a{n}", f"b{n}") for n in range(10)]
    source, target = learn_codecs(Corpus("own", "de", "en", pairs), 4, kind="whitespace")
    assert source.vocab.tokens[4:] == ["a0", "a3", "a6", "a9"] and target.vocab.tokens[4:] == [
        "b0",
        "b3",
        "b6",
        "b9",
    ]
    assert len(learn_codecs(Corpus("own", "de", "en", pairs), 10, kind="whitespace")[0].vocab) == 14
    with pytest.raises(ValueError, match="at least one pair, not 0"):
        learn_codecs(Corpus("own", "de", "en", pairs), 0, kind="whitespace")


# Memory


def peak_megabytes(work) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """Python's memory, Arrow's, and what training holds of a corpus: lengths (8 bytes a pair) and
    an order.
    """
    import pyarrow

    monkeypatch.setattr(preparing, "SHARD", 2)
    codecs = build_codecs(Corpus("own", "de", "en", sentences(50)), "whitespace")
    sizes = (2_000, 20_000)
    grown = {}
    for count in sizes:
        corpus = Corpus("own", "de", "en", TextPairs(write_files(tmp_path, count)), sentences(5))
        out = tmp_path / str(count)
        before, arrow = pyarrow.total_allocated_bytes(), []

        def note(line, before=before, arrow=arrow):
            arrow.append((pyarrow.total_allocated_bytes() - before) / 2**20)

        writing = peak_megabytes(
            lambda c=corpus, o=out, n=note: prepare(o, c, codecs, Settings(), report=n)
        )
        examples = []
        opening = peak_megabytes(lambda o=out, e=examples: e.append(Prepared.open(o).examples()))
        planning = peak_megabytes(lambda e=examples: plan_batches(e[0].lengths, 4096, seed=1))
        assert examples[0].rows.data.nbytes > 30 * count, "there is something that could be held"
        note("with all of it open")
        grown[count] = writing, opening, planning, max(arrow)
    small, large = (np.array(grown[count]) for count in sizes)
    pairs = (sizes[1] - sizes[0]) / 2**20
    writing, opening, planning, arrow = large - small
    assert writing < 0.3, grown
    assert opening < 40 * pairs, grown
    assert planning < 80 * pairs, grown
    assert arrow < 5 * pairs, grown


# Never half of a corpus, never another one


def test_a_killed_preparation_is_recognised(settings, tmp_path):
    program = (
        "import os, sys; from nmtlib.extras import preparing; "
        "from nmtlib.settings import Settings; preparing.BLOCK, preparing.SHARD = 5, 2; "
        "settings = Settings.from_dict(__import__('json').loads(sys.argv[1]));"
        "preparing.prepare_corpus(settings, sys.argv[2], "
        "report=lambda line: line.startswith('30 pairs') and os.kill(os.getpid(), 9))"
    )
    out = tmp_path / "half"
    subprocess.run(
        [sys.executable, "-c", program, settings.to_json(), str(out)], env={**os.environ}
    )
    assert (out / "train" / "00002").is_dir() and not (out / MANIFEST).exists()
    for use in (lambda: Prepared.open(out), lambda: prepare_corpus(settings, out, report=quiet)):
        with pytest.raises(
            ValueError, match="half is half written.* delete it and prepare the corpus again"
        ):
            use()
    with pytest.raises(ValueError, match="half written"):
        train(tmp_path / "run", using(settings, out), report=quiet)
    assert not (tmp_path / "run").exists()


def test_a_preparation_that_fails_leaves_nothing(settings, tmp_path):
    with open(settings.corpus.train[0], "a", encoding="utf-8") as file:
        file.write("one more\n")
    with pytest.raises(ValueError, match="line 61: .* has ended"):
        prepare_corpus(settings, tmp_path / "out", report=quiet)
    assert not (tmp_path / "out").exists()
    corpus = load_corpus(replace(settings.corpus, train=settings.corpus.validation))
    codecs = build_codecs(corpus, "whitespace")
    with pytest.raises(KeyboardInterrupt):
        prepare(
            tmp_path / "out",
            corpus,
            codecs,
            settings,
            report=lambda line: (_ for _ in ()).throw(KeyboardInterrupt),
        )
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(settings, folder, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    for taken in (tmp_path / "thesis", tmp_path / "thesis" / "chapter.txt", folder):
        with pytest.raises(FileExistsError, match="nothing is overwritten"):
            prepare_corpus(settings, taken, report=quiet)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "precious" and Prepared.open(folder)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def change_notes(folder: Path, change: Callable[[dict], object]) -> None:
    notes = json.loads((folder / MANIFEST).read_text("utf-8"))
    change(notes)
    (folder / MANIFEST).write_text(json.dumps(notes), "utf-8")


DAMAGE = {
    "a shard is gone": lambda folder: shutil.rmtree(folder / "train" / "00001"),
    "a shard is cut short": lambda folder: truncate(
        next((folder / "train" / "00002").glob("*.arrow"))
    ),
    "the manifest lists files without sums": lambda folder: change_notes(
        folder, lambda notes: notes.update(files=list(notes["files"]))
    ),
    "the manifest does not name the corpus": lambda folder: change_notes(
        folder, lambda notes: notes.pop("name")
    ),
    "the manifest is cut short": lambda folder: truncate(folder / MANIFEST),
    "a codec is gone": lambda folder: (folder / "target.json").unlink(),
    "sides are swapped": lambda folder: (folder / "target.json").write_bytes(
        (folder / "source.json").read_bytes()
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_refused(settings, folder, tmp_path, name):
    DAMAGE[name](folder)
    with pytest.raises(ValueError, match="is damaged.*prepare the corpus again"):
        train(tmp_path / "run", using(settings, folder), report=quiet)
    assert not (tmp_path / "run").exists(), "nothing stands in the way of the next try"


def test_a_codec_of_the_same_size_with_other_words_is_refused(folder):
    text = (folder / "source.json").read_text("utf-8")
    a, b = sorted(Codec.load(folder / "source.json").vocab.tokens)[5:7]
    data = json.loads(text)
    swap = {a: b, b: a}
    data["tokens"] = [swap.get(token, token) for token in data["tokens"]]
    (folder / "source.json").write_text(json.dumps(data, ensure_ascii=False), "utf-8")
    assert (folder / "source.json").stat().st_size == len(text.encode())
    with pytest.raises(ValueError, match="is damaged: 1 file.*source.json"):
        Prepared.open(folder)


def test_a_run_refuses_a_folder_with_another_vocabulary(settings, folder, tmp_path):
    train(tmp_path / "run", using(settings, folder), minutes=1e-9, report=quiet)
    other = settings.with_value("corpus.train", write_files(tmp_path, 50))
    shutil.rmtree(folder)
    prepare_corpus(other, folder, report=quiet)
    with pytest.raises(ValueError, match="another (source|target) vocabulary than this run"):
        train(tmp_path / "run", report=quiet)
    shutil.rmtree(folder)
    prepare_corpus(other, folder, codecs=tmp_path / "run", report=quiet)
    with pytest.raises(ValueError, match="corpus changed"):
        train(tmp_path / "run", report=quiet)
    shutil.rmtree(folder)
    prepare_corpus(settings, folder, codecs=tmp_path / "run", report=quiet)
    assert train(tmp_path / "run", report=quiet), "the same corpus, prepared anew, can be used"


@pytest.mark.parametrize(
    "key, value, word",
    [
        ("tokenizer.size", 81, "tokenizer"),
        ("lowercase", True, "tokenizer"),
        ("corpus.name", "toy-de-en", "name"),
        ("source_language", "fr", "source_language"),
    ],
)
def test_settings_that_speak_of_something_else_are_refused(
    settings, folder, tmp_path, key, value, word
):
    with pytest.raises(ValueError, match=word):
        open_prepared(using(settings, folder).with_value(key, value))
    if word == "tokenizer":
        with pytest.raises(ValueError, match=word):
            prepare_corpus(
                settings.with_value(key, value), tmp_path / "new", codecs=folder, report=quiet
            )


def test_settings_that_cannot_be_prepared_are_refused(settings, folder, tmp_path):
    with pytest.raises(ValueError, match="prepared already"):
        prepare_corpus(using(settings, folder), tmp_path / "new", report=quiet)
    with pytest.raises(ValueError, match="bpe_dropout"):
        prepare_corpus(settings.with_value("bpe_dropout", 0.1), tmp_path / "new", report=quiet)
    with pytest.raises(ValueError, match="both_directions: .* in one direction"):
        prepare_corpus(settings.with_value("both_directions", True), tmp_path / "new", report=quiet)
    with pytest.raises(FileNotFoundError, match="is not a prepared corpus"):
        Prepared.open(tmp_path)
    assert not (tmp_path / "new").exists()


def turned(settings: Settings) -> Settings:
    """The same corpus in the other direction."""
    files = {"train": settings.corpus.train[::-1], "source_language": "en", "target_language": "de"}
    return settings.changed({"corpus": files}, "test")


def test_the_vocabularies_of_another_direction_are_refused(settings, folder, tmp_path):
    with pytest.raises(ValueError, match="--codecs: .* translates de-en, but this corpus is en-de"):
        prepare_corpus(turned(settings), tmp_path / "new", codecs=folder, report=quiet)
    assert not (tmp_path / "new").exists()
    joint = settings.with_value("joint", True)
    prepare_corpus(joint, tmp_path / "joint", report=quiet)
    prepare_corpus(turned(joint), tmp_path / "new", codecs=tmp_path / "joint", report=quiet)


def test_the_vocabularies_of_a_run_with_bpe_dropout_can_be_taken(settings, folder, tmp_path):
    run = shutil.copytree(folder, tmp_path / "run")
    (run / MANIFEST).unlink()
    (run / "settings.json").write_text(settings.with_value("bpe_dropout", 0.1).to_json(), "utf-8")
    prepare_corpus(settings, tmp_path / "new", codecs=run, report=quiet)
    assert Run(tmp_path / "new").codec_digests() == Run(run).codec_digests()
    with pytest.raises(ValueError, match="another .tokenizer."):
        open_prepared(using(settings, folder).with_value("bpe_dropout", 0.1))


def test_a_prepared_corpus_is_no_run(settings, folder, tmp_path, monkeypatch):
    before = sorted(folder.rglob("*"))
    for use in (
        lambda: train(folder, report=quiet),
        lambda: Translator.load(folder),
        lambda: train(tmp_path / "x", settings.with_value("teachers", [str(folder)]), report=quiet),
    ):
        with pytest.raises(ValueError, match="holds a prepared corpus, not a run; train from it"):
            use()
    assert sorted(folder.rglob("*")) == before and not (tmp_path / "x").exists()
    monkeypatch.chdir(tmp_path)
    train(Path("runs/own"), settings, minutes=1e-9, report=quiet)
    shutil.copytree(folder, "runs/own-2")
    os.utime("runs/own-2/settings.json", (2e9, 2e9))  # later than the run
    assert newest_run(Path("runs/own")) == Path("runs/own")
    assert not any(name.endswith("own-2") for name in named_runs())


@pytest.mark.parametrize("place", ["link", "."])
def test_a_failure_in_a_folder_that_cannot_be_removed_is_told(
    settings, tmp_path, monkeypatch, place
):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home, target_is_directory=True)
    monkeypatch.chdir(home)
    with open(settings.corpus.train[0], "a", encoding="utf-8") as file:
        file.write("one more\n")
    out = tmp_path / "link" if place == "link" else Path(place)
    codecs = build_codecs(Corpus("own", "de", "en", sentences(50)), "whitespace")
    corpus = load_corpus(settings.corpus, streaming=True)
    with pytest.raises(ValueError, match="line 61: .* has ended"):
        prepare(out, corpus, codecs, settings, report=quiet)
    assert not list(home.iterdir())


# The library beneath


def test_without_the_library_it_says_how_to_get_it(settings, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if it were not installed
    for use in (
        lambda: train(tmp_path / "run", using(settings, folder), report=quiet),
        lambda: prepare_corpus(settings, tmp_path / "new", report=quiet),
    ):
        with pytest.raises(ModuleNotFoundError, match="pip install datasets"):
            use()
    assert not (tmp_path / "run").exists() and not (tmp_path / "new").exists()


def test_it_writes_nowhere_else_shows_no_bars_and_stays_offline(settings, tmp_path):
    program = (
        "import socket, sys, json; from nmtlib.extras import preparing\n"
        "from nmtlib.settings import Settings\n"
        "def no(*a, **k): raise SystemExit('it called home')\n"
        "socket.socket.connect = socket.getaddrinfo = no\n"
        "preparing.prepare_corpus(Settings.from_dict(json.loads(sys.argv[1])), sys.argv[2])\n"
        "from nmtlib.extras.prepared import Prepared\n"
        "print(len(Prepared.open(sys.argv[2]).examples()))"
    )
    home = tmp_path / "home"
    home.mkdir()
    places = {name: str(home) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "USERPROFILE")}
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("HF_")
    } | places
    done = subprocess.run(
        [sys.executable, "-c", program, settings.to_json(), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=home,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.splitlines()[-1] == "60" and not list(home.rglob("*"))
    assert not (tmp_path / "out" / PART).exists()


def test_one_changed_bit_in_a_shard_of_the_same_size_is_noticed(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    shard = next(copy.rglob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="not as they were written.*arrow"):
        Prepared.open(copy)
