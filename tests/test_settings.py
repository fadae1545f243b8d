"""Settings are checked where they are given: an error names the place, the key, and what was
expected.
"""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nmtlib.data import corpora
from nmtlib.model.transformer import TransformerConfig
from nmtlib.presets import load_settings, presets
from nmtlib.settings import SECTIONS, CorpusSettings, Settings

DEFAULT = Settings()


def test_the_presets_of_the_course_are_there():
    assert {"toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh"} <= set(presets())
    assert presets() == sorted(set(presets()))


def test_a_preset_builds_a_valid_configuration():
    for name in presets():
        settings = load_settings(name)
        assert settings.corpus.name in corpora.names()
        config = settings.with_vocabularies(5000, 5000).model
        assert isinstance(config, TransformerConfig)
        assert config == replace(settings.model, source_vocab_size=5000, target_vocab_size=5000)


PATHS = st.text(max_size=8).filter(lambda path: path.strip() and "\0" not in path)


@hypothesis_settings(deadline=None, max_examples=50)
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
        settings = settings.with_value(key, value)
    assert Settings.from_dict(json.loads(settings.to_json())) == settings


def test_every_field_can_be_set_and_only_that_one_changes():
    other = {int: 7, float: 0.25, bool: True, str: "something", list: ["a", "b"]}
    known = {"kind": "spacy", "target_kind": "bpe", "schedule": "noam", "precision": "bf16"}
    known |= {"norm": "post", "positions": "learned", "tied": "all", "embedding_init": "normal"}
    known |= {"d_model": 64, "n_heads": 8, "keep": "average", "linear_init": "torch"}
    for section in SECTIONS:
        for field in fields(getattr(DEFAULT, section)):
            old = getattr(getattr(DEFAULT, section), field.name)
            value = known.get(field.name, other[type(old)])
            changed = DEFAULT.with_value(f"{section}.{field.name}", value)
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


def test_the_last_of_several_assignments_counts_and_the_original_stays():
    changed = DEFAULT.with_assignments(["epochs=3", "model.d_model=64", "epochs=5"])
    assert (changed.training.epochs, changed.model.d_model) == (5, 64)
    assert DEFAULT == Settings()


@pytest.mark.parametrize(
    ("key", "sections"),
    [("max_tokens", ("training", "decoding")), ("max_length", ("model", "training"))],
)
def test_a_bare_key_of_two_sections_is_refused_and_both_are_named(key, sections):
    with pytest.raises(ValueError, match="several sections") as caught:
        DEFAULT.with_assignments([f"{key}=64"])
    assert all(f"{section}.{key}" in str(caught.value) for section in sections)
    for section in sections:
        changed = DEFAULT.with_assignments([f"{section}.{key}=64"])
        assert getattr(getattr(changed, section), key) == 64
        other = next(s for s in sections if s != section)
        assert getattr(changed, other) == getattr(DEFAULT, other)


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


def test_an_unknown_key_like_no_other_is_answered_with_all_keys():
    with pytest.raises(ValueError, match="unknown key 'qqqqq'") as caught:
        DEFAULT.with_assignments(["qqqqq=1"])
    for section in SECTIONS:
        for field in fields(getattr(DEFAULT, section)):
            assert f"{section}.{field.name}" in str(caught.value)


def test_an_assignment_without_an_equals_sign_is_refused():
    for assignment in ["epochs", "", "epochs 3", "--epochs"]:
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


OUT_OF_RANGE = [
    *[(f"training.{n}", v) for n in ("epochs", "accumulate", "warmup", "average") for v in (0, -1)],
    *[(f"training.{n}", v) for n in ("max_tokens", "max_length") for v in (0, -1)],
    *[(f"training.{n}", -1) for n in ("patience", "save_updates")],
    *[
        (f"training.{n}", v)
        for n in ("learning_rate", "grad_clip")
        for v in (0.0, -1.0, float("nan"))
    ],
    *[("training.label_smoothing", v) for v in (-0.1, 1.0, float("nan"))],
    ("training.schedule", "linear"),
    ("training.precision", "fp16"),
    ("decoding.beam", 0),
    ("decoding.beam", -1),
    ("decoding.max_tokens", 0),
    ("decoding.length_penalty", float("nan")),
    ("decoding.length_penalty", float("inf")),
    ("tokenizer.kind", "words"),
    ("tokenizer.size", 0),
    ("tokenizer.min_count", 0),
]


def test_a_value_out_of_range_is_refused_before_anything_runs():
    for key, value in OUT_OF_RANGE:
        with pytest.raises(ValueError) as caught:
            DEFAULT.with_value(key, value, where="my.toml")
        message = str(caught.value)
        assert message.startswith("my.toml: ") and key in message and repr(value) in message


def test_a_model_that_cannot_be_built_is_refused():
    for changes in [
        {"d_model": 30, "n_heads": 4},
        {"norm": "middle"},
        {"positions": "none"},
        {"tied": "some"},
        {"dropout": 1.0},
    ]:
        with pytest.raises(ValueError, match="model"):
            Settings.from_dict({"model": changes})


def test_sections_must_be_sections():
    with pytest.raises(ValueError, match="'training' must be a section"):
        Settings.from_dict({"training": 3})
    with pytest.raises(ValueError, match="preset.toml: 'epochs'"):
        Settings.from_dict({"epochs": 3}, where="preset.toml")


@pytest.mark.parametrize("values", [{"d_model": 3}, {}])
def test_an_unknown_section_is_refused_even_when_it_is_empty(values):
    with pytest.raises(ValueError, match="modell"):
        Settings.from_dict({"modell": values})


@pytest.mark.parametrize(
    ("given", "hint"), [("toy-de-em", "toy-de-en"), ("Multi30k-de-en", "multi30k-de-en")]
)
def test_an_unknown_preset_is_refused_with_a_hint_and_all_names(given, hint):
    with pytest.raises(
        ValueError, match=f"unknown preset '{given}'.*did you mean {hint}"
    ) as caught:
        load_settings(given)
    assert all(name in str(caught.value) for name in presets())


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path / "folder.toml"):
        if path.stem == "folder":
            path.mkdir()
        with pytest.raises(FileNotFoundError, match=path.name):
            load_settings(str(path))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path):
    for content, expected in [
        ("[model]\nd_model == 3\n", "not valid TOML"),
        ("[model\n", "not valid TOML"),
        ("[model]\nd_model = 3\nd_model = 4\n", "not valid TOML"),
        ("epochs = 3\n", "must be a section"),
        ("[model]\nlayers = 3\n", "unknown key"),
        ("[training]\nepochs = '3'\n", "epochs should be a valid integer"),
        ("[training]\nepochs = 0\n", "greater than or equal to 1"),
        (b"[corpus]\nname = '\xff'\n", "(?i)utf-8"),
        ("[corpus]\ntrain = [1]\n", "train"),
    ]:
        path = write(tmp_path / "own.toml", content)
        with pytest.raises(ValueError, match=expected) as caught:
            load_settings(path)
        assert "own.toml" in str(caught.value)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = write(tmp_path / "own.toml", b"\xef\xbb\xbf[training]\nepochs = 3\n")
    assert load_settings(path).training.epochs == 3


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


def test_an_absolute_path_in_a_toml_file_stays(tmp_path):
    file = tmp_path / "elsewhere" / "train.tsv"
    path = write(tmp_path / "own.toml", f"[corpus]\ntrain = [{json.dumps(str(file))}]\n")
    assert load_settings(path).corpus.train == [str(file)]


def test_what_a_toml_file_leaves_out_has_its_default(tmp_path):
    settings = load_settings(write(tmp_path / "own.toml", "[training]\nepochs = 3\n"))
    assert settings == DEFAULT.with_value("training.epochs", 3)


def test_a_relative_path_after_set_starts_from_where_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = DEFAULT.with_assignments(['corpus.test=["test.tsv"]']).corpus
    assert corpus.test == [str(tmp_path / "test.tsv")]


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


@pytest.mark.parametrize(
    ("assignments", "sizes", "message"),
    [
        (["tied=all"], (9, 9), "tokenizer.joint=true"),
        (["source_vocab_size=8"], (9, 9), "the data decides"),
        (["tied=all", "joint=true"], (9, 8), "joint"),
    ],
)
def test_vocabularies_that_do_not_fit_the_model_are_refused(assignments, sizes, message):
    with pytest.raises(ValueError, match=message):
        DEFAULT.with_assignments(assignments).with_vocabularies(*sizes)


def test_the_options_of_a_recipe_are_its_own():
    settings = DEFAULT.with_assignments(["recipe.name=course", "recipe.r_drop=3.0"])
    assert settings.recipe == {"name": "course", "r_drop": 3.0}
    assert Settings.from_dict(json.loads(settings.to_json())) == settings


def test_numbers_of_numpy_are_numbers():
    settings = Settings().with_value("training.epochs", np.int64(3))
    assert settings.with_value("dropout", np.float64(0.25)).model.dropout == 0.25
    assert settings.training.epochs == 3
