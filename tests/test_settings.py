"""Settings are checked where they are given: an error names the place, the key and the cure."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_on_disk import with_value

from nmtcourse import corpora
from nmtlib.model.transformer import TransformerConfig
from nmtlib.presets import load_settings, presets
from nmtlib.settings import SECTIONS, CorpusSettings, Settings

DEFAULT = Settings()


def test_a_preset_builds_a_valid_configuration():
    assert {"toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh"} <= {*presets()}
    for name in presets():
        settings = load_settings(name)
        assert settings.corpus.name in corpora.names()
        config = settings.with_vocabularies(5000, 5000).model
        assert isinstance(config, TransformerConfig)
        assert config == replace(settings.model, source_vocab_size=5000, target_vocab_size=5000)


PATHS = st.text(max_size=8).filter(lambda path: path.strip() and "\0" not in path)


@given(
    st.fixed_dictionaries(
        {
            "corpus.source_language": st.from_regex(r"([a-z]{2,8})?", fullmatch=True),
            "corpus.train": st.lists(PATHS, max_size=2),
            "tokenizer.joint": st.booleans(),
            "training.epochs": st.integers(1, 10**12),
            "training.learning_rate": st.floats(1e-12, 1e3),
            "training.schedule": st.sampled_from(["noam", "inverse-sqrt", "cosine", "constant"]),
            "decoding.length_penalty": st.floats(-2, 2),
        }
    )
)
def test_any_settings_survive_json(values):
    settings = DEFAULT
    for key, value in values.items():
        settings = with_value(settings, key, value)
    assert Settings().changed(json.loads(settings.to_json())) == settings


def test_every_field_can_be_set_and_only_that_one_changes():
    other = {int: 7, float: 0.25, bool: True, str: "something", list: ["a", "b"]}
    known = {"kind": "spacy", "target_kind": "bpe", "schedule": "noam", "precision": "bf16"}
    known |= {"norm": "post", "positions": "learned", "tied": "all", "embedding_init": "normal"}
    known |= {"d_model": 64, "n_heads": 8, "keep": "average", "linear_init": "torch"}
    for section in SECTIONS:
        for field in fields(getattr(DEFAULT, section)):
            old = getattr(getattr(DEFAULT, section), field.name)
            value = known.get(field.name, other[type(old)])
            changed = DEFAULT.changed({section: {field.name: value}})
            part = replace(getattr(DEFAULT, section), **{field.name: value})
            assert changed == replace(DEFAULT, **{section: part}) != DEFAULT


def test_an_assignment_is_read_as_toml():
    for assignment, section, name, value in [
        ("training.epochs=3", "training", "epochs", 3),
        ("epochs=3", "training", "epochs", 3),
        (" epochs = 3 ", "training", "epochs", 3),
        ("epochs=1_000", "training", "epochs", 1000),
        ("learning_rate=2e-3", "training", "learning_rate", 0.002),
        ("learning_rate=1", "training", "learning_rate", 1.0),
        ("model.dropout=0", "model", "dropout", 0.0),
        ("joint=true", "tokenizer", "joint", True),
        ("tokenizer.lowercase=false", "tokenizer", "lowercase", False),
        ("kind=spacy", "tokenizer", "kind", "spacy"),
        ('kind="spacy"', "tokenizer", "kind", "spacy"),
        ("kind='spacy'", "tokenizer", "kind", "spacy"),
        ("schedule=inverse-sqrt", "training", "schedule", "inverse-sqrt"),
        ("device=cuda:0", "training", "device", "cuda:0"),
        ("name=a=b", "corpus", "name", "a=b"),
        ("name=", "corpus", "name", ""),
        ('corpus.train=["/a.de", "/a.en"]', "corpus", "train", ["/a.de", "/a.en"]),
        ("test=[]", "corpus", "test", []),
    ]:
        given = getattr(getattr(DEFAULT.with_assignments([assignment]), section), name)
        assert given == value and type(given) is type(value)
    assert DEFAULT.with_assignments(["epochs=3", "epochs=5"]).training.epochs == 5


def test_a_bare_key_of_two_sections_is_refused_and_both_are_named():
    for key, sections in (
        ("max_tokens", ("training", "decoding")),
        ("max_length", ("model", "training")),
    ):
        with pytest.raises(ValueError, match="several sections") as caught:
            DEFAULT.with_assignments([f"{key}=64"])
        assert all(f"{section}.{key}" in str(caught.value) for section in sections)


def test_an_unknown_key_is_refused_with_the_nearest_one():
    for key, hint in [
        ("epoch", "training.epochs"),
        ("training.epoch", "training.epochs"),
        ("model.epochs", "training.epochs"),
        ("modell.d_model", "model.d_model"),
        ("learningrate", "training.learning_rate"),
        ("model.max_lenght", "model.max_length"),
        # The section was right, so the hint must keep it:
        ("training.max_lenght", "training.max_length"),
        ("decoding.max_token", "decoding.max_tokens"),
    ]:
        with pytest.raises(ValueError, match="unknown key") as caught:
            DEFAULT.with_assignments([f"{key}=1"])
        message = str(caught.value)
        assert repr(key) in message and "--set" in message
        assert f"did you mean {hint}?" in message
    with pytest.raises(ValueError, match="unknown key 'qqqqq'") as caught:
        DEFAULT.with_assignments(["qqqqq=1"])
    assert "corpus.name" in str(caught.value) and "decoding.beam" in str(caught.value)
    for assignment in ("epochs", "", "--epochs"):
        with pytest.raises(ValueError, match="key=value"):
            DEFAULT.with_assignments([assignment])


def test_a_value_of_the_wrong_type_is_refused_with_the_right_one():
    for assignment, kind, value in [
        ("epochs=2.5", "integer", "2.5"),
        ("epochs=true", "integer", "True"),  # bool is an int to Python, but not to a reader
        ("epochs=many", "integer", "'many'"),
        ('epochs="3"', "integer", "'3'"),
        ("joint=1", "boolean", "1"),
        ("joint=True", "boolean", "'True'"),  # TOML writes true
        ("kind=1", "whitespace", "1"),
        ("corpus.train=a.tsv", "array", "'a.tsv'"),
        ("model.dropout=high", "number", "'high'"),
        ("model.dropout=true", "number", "True"),
    ]:
        with pytest.raises(ValueError) as caught:
            DEFAULT.with_assignments([assignment])
        message = str(caught.value)
        assert kind in message and value in message and assignment.partition("=")[0] in message


def test_a_value_out_of_range_is_refused_before_anything_runs():
    nan, inf = float("nan"), float("inf")
    names = ("epochs", "accumulate", "warmup", "average", "max_tokens", "max_length")
    wrong = dict.fromkeys((f"training.{name}" for name in names), (0, -1))
    wrong |= {"training.patience": (-1,), "training.save_updates": (-1,)}
    wrong |= dict.fromkeys(("training.learning_rate", "training.grad_clip"), (0.0, -1.0, nan))
    wrong |= {"training.label_smoothing": (-0.1, 1.0, nan), "training.schedule": ("linear",)}
    wrong |= {"training.precision": ("fp16",), "decoding.length_penalty": (nan, inf)}
    wrong |= dict.fromkeys(("decoding.beam", "decoding.max_tokens"), (0,))
    wrong |= {"tokenizer.kind": ("words",), "tokenizer.size": (0,), "tokenizer.min_count": (0,)}
    for key, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError) as caught:
                section, _, name = key.partition(".")
                DEFAULT.changed({section: {name: value}}, where="my.toml")
            message = str(caught.value)
            assert message.startswith("my.toml: ") and key in message and repr(value) in message


def test_a_model_that_cannot_be_built_and_what_is_no_section_are_refused():
    models = ({"d_model": 30, "n_heads": 4}, {"norm": "middle"}, {"positions": "none"})
    for changes in (*models, {"tied": "some"}, {"dropout": 1.0}):
        with pytest.raises(ValueError, match="model"):
            Settings().changed({"model": changes})
    for rate in ("0.1", True, None):  # in Python; a file is refused by its types
        for name in ("dropout", "attention_dropout"):
            with pytest.raises(ValueError, match=f"{name} must be a number, not"):
                TransformerConfig(**{name: rate})
    for values, message in (
        ({"training": 3}, "preset.toml: 'training' must be a section"),
        ({"epochs": 3}, "preset.toml: 'epochs'"),
        ({"modell": {"d_model": 3}}, "modell"),
        ({"modell": {}}, "modell"),
    ):
        with pytest.raises(ValueError, match=message):
            Settings().changed(values, where="preset.toml")


def test_an_unknown_preset_is_refused_with_a_hint_and_all_names_and_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="'toy-de-em'.*did you mean toy-de-en") as caught:
        load_settings("toy-de-em")
    assert all(name in str(caught.value) for name in presets())
    (tmp_path / "folder.toml").mkdir()
    for name in ("none.toml", "folder.toml"):
        with pytest.raises(FileNotFoundError, match=name):
            load_settings(str(tmp_path / name))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_damaged_file_is_named_with_what_is_wrong_and_a_byte_order_mark_is_not(tmp_path):
    for content, expected in [
        ("[model]\nd_model == 3\n", "not valid TOML"),
        ("[model]\nd_model = 3\nd_model = 4\n", "not valid TOML"),
        ("epochs = 3\n", "must be a section"),
        ("[model]\nlayers = 3\n", "unknown key"),
        ("[training]\nepochs = 0\n", "greater than or equal to 1"),
        (b"[corpus]\nname = '\xff'\n", "(?i)utf-8"),
    ]:
        path = write(tmp_path / "own.toml", content)
        with pytest.raises(ValueError, match=expected) as caught:
            load_settings(path)
        assert "own.toml" in str(caught.value)
    path = write(tmp_path / "own.toml", b"\xef\xbb\xbf[training]\nepochs = 3\n")
    assert load_settings(path) == DEFAULT.changed({"training": {"epochs": 3}})


OWN = """
[corpus]
source_language = "de"
target_language = "en"
train = ["train.de", "sub/train.en"]
validation = ["valid.tsv"]
"""


def test_text_files_are_relative_to_their_toml_file(tmp_path, monkeypatch):
    path = write(tmp_path / "somewhere" / "own.toml", OWN)
    folder = tmp_path / "somewhere"
    corpus = load_settings(path).corpus
    assert corpus == CorpusSettings(
        source_language="de",
        target_language="en",
        train=[str(folder / "train.de"), str(folder / "sub" / "train.en")],
        validation=[str(folder / "valid.tsv")],
    )
    monkeypatch.chdir(tmp_path)
    relative = load_settings("somewhere/own.toml").corpus
    assert [str(Path(file).resolve()) for file in relative.train] == corpus.train
    path = write(tmp_path / "own.toml", f"[corpus]\ntrain = [{json.dumps(str(folder))}]\n")
    assert load_settings(path).corpus.train == [str(folder)], "an absolute path stays"
    corpus = DEFAULT.with_assignments(['corpus.test=["test.tsv"]']).corpus
    assert corpus.test == [str(tmp_path / "test.tsv")], "one after --set is from where we are"


def test_a_name_beside_files_is_refused_for_one_of_them_would_be_ignored(tmp_path):
    path = tmp_path / "both.toml"
    path.write_text('[corpus]\nname = "toy-de-en"\ntrain = ["mine.tsv"]\n', "utf-8")
    with pytest.raises(ValueError, match="'toy-de-en' and also gives files .*train"):
        load_settings(str(path))


def test_values_that_need_each_other_are_set_together():
    model = DEFAULT.with_assignments(["d_model=30", "n_heads=6"]).model
    assert (model.d_model, model.n_heads) == (30, 6)
    with pytest.raises(ValueError, match="--set: model.d_model must be a multiple"):
        DEFAULT.with_assignments(["d_model=30"])
    for assignments, sizes, message in (
        (["tied=all"], (9, 9), "tokenizer.joint=true"),
        (["source_vocab_size=8"], (9, 9), "the data decides"),
        (["tied=all", "joint=true"], (9, 8), "joint"),
    ):
        with pytest.raises(ValueError, match=message):
            DEFAULT.with_assignments(assignments).with_vocabularies(*sizes)


def test_the_options_of_a_recipe_are_its_own():
    settings = DEFAULT.with_assignments(["recipe.name=course", "recipe.r_drop=3.0"])
    assert settings.recipe == {"name": "course", "r_drop": 3.0}
    assert Settings().changed(json.loads(settings.to_json())) == settings


def test_numbers_of_numpy_are_numbers():
    settings = Settings().changed({"training": {"epochs": np.int64(3)}})
    assert settings.changed({"model": {"dropout": np.float64(0.25)}}).model.dropout == 0.25
    assert settings.training.epochs == 3
