"""An ensemble's probabilities are the mean of its models', whichever way they are asked for."""

import argparse
import json
import shutil
from dataclasses import replace

import pytest
import torch
from runs_on_disk import set_anew

from nmtcourse.main import main
from nmtcourse.recipes.commands import add_others, name_of
from nmtcourse.recipes.ensemble import Ensemble, load_ensemble
from nmtlib.data.corpora import load_corpus
from nmtlib.inference.search import greedy_search
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import BOS, EOS, PAD

CONFIG = TransformerConfig(
    source_vocab_size=20, target_vocab_size=30, d_model=16, n_heads=2, d_ff=32, max_length=24
)
SOURCE = torch.tensor([[7, 9, 11, EOS], [5, EOS, PAD, PAD]])
TARGET = torch.tensor([[BOS, 8, 12, 4], [BOS, 6, 4, 9]])


def model(seed, **changes):
    torch.manual_seed(seed)
    return Transformer(replace(CONFIG, **changes)).eval()


@pytest.fixture
def three():
    """Models of unequal depth and width, of which one may say less than the others."""
    return [model(1), model(2, n_decoder_layers=2, max_length=20), model(3, d_model=8, d_ff=16)]


@torch.no_grad()
def test_the_probabilities_are_the_mean(three):
    together = Ensemble(three)(SOURCE, TARGET).exp()
    apart = torch.stack([one(SOURCE, TARGET).softmax(dim=-1) for one in three]).mean(dim=0)
    torch.testing.assert_close(together, apart)
    torch.testing.assert_close(together.sum(dim=-1), torch.ones(2, 4))


@torch.no_grad()
def test_step_by_step_they_are_the_same(three):
    together = Ensemble(three)
    state = together.start(SOURCE)
    steps = [together.step(TARGET[:, place], state) for place in range(4)]
    torch.testing.assert_close(torch.stack(steps, dim=1), together(SOURCE, TARGET))
    assert int(state.length) == 4


def test_models_stay_in_evaluation_mode(three):
    together = Ensemble(three)
    greedy_search(together, SOURCE)
    assert not any(part.training for part in together.modules())


def test_it_is_as_long_as_the_shortest_and_as_large_as_all(three):
    together = Ensemble(three)
    assert together.config.max_length == 20
    sizes = [sum(one.parameter_table().values()) for one in three]
    assert sum(together.parameter_table().values()) == sum(sizes)


def test_other_vocabularies_are_refused(three):
    with pytest.raises(ValueError, match="same vocabularies"):
        Ensemble([*three, model(4, target_vocab_size=31)])
    with pytest.raises(ValueError, match="toy-en-zh has other tokens than toy-de-en"):
        load_ensemble(["toy-de-en", "toy-en-zh"])


@pytest.fixture
def other_run(spoiled_run):
    """A run with the vocabularies of the shipped toy model and weights a little off its own."""
    return spoiled_run(0.01)


@pytest.mark.parametrize("text", ["--with b c", "--with b --with c"])
def test_further_runs_can_be_given_at_once_or_one_by_one(text):
    parser = argparse.ArgumentParser()
    add_others(parser.add_argument)
    assert parser.parse_args(text.split()).others == ["b", "c"]
    assert parser.parse_args([]).others == []


@pytest.mark.nightly
def test_commands_take_further_runs(other_run, tmp_path, capsys):
    scores = tmp_path / "scores.json"
    arguments = ["evaluate", str(other_run), "--with", "toy-de-en", "--beam", "2"]
    assert main([*arguments, "--output", str(scores)]) == 0
    found = json.loads(scores.read_text("utf-8"))
    assert found["models"] == 2 and found["scores"]["bleu"] > 90
    assert found["parameters"] == 2 * sum(
        Translator.load("toy-de-en").model.parameter_table().values()
    )
    assert (other_run / f"test-beam2-with-{name_of(['toy-de-en'])}.json").is_file()

    text, out = tmp_path / "text.txt", tmp_path / "pairs.tsv"
    sources = [pair.source for pair in load_corpus("toy-de-en").test[:20]]
    text.write_text("\n".join(sources), "utf-8")
    command = ["backtranslate", "toy-de-en", "--text", str(text), "--forward", "--out", str(out)]
    assert main([*command, "--with", str(other_run)]) == 0
    both = load_ensemble(["toy-de-en", other_run])
    expected = both.translate(sources, beam=1)
    assert [line.split("\t")[1] for line in out.read_text("utf-8").splitlines()] == expected
    capsys.readouterr()
    assert main(command) == 1
    assert "begun with another model" in capsys.readouterr().err


def test_models_of_opposite_directions_are_refused(other_run):
    set_anew(other_run / "model.safetensors", "corpus.name", "toy-en-de")
    with pytest.raises(ValueError, match="translates en-de, and toy-de-en de-en: .* one direction"):
        load_ensemble(["toy-de-en", other_run])
    for run in (other_run, two := other_run.with_name("two")):
        shutil.copytree(other_run, two, dirs_exist_ok=True)
        set_anew(run / "model.safetensors", "recipe.both_directions", True)
    assert load_ensemble([other_run, two])


def test_runs_of_the_same_names_in_other_folders_have_records_of_their_own(other_run):
    copies = [other_run.parent / seeds / "2" for seeds in ("a", "b")]
    for copy in copies:
        shutil.copytree(other_run, copy)
    names = [name_of([copy]) for copy in copies]
    assert names[0] != names[1] and all(name.startswith("2-") for name in names)
    assert name_of(copies) != name_of(copies[:1])
    long = [other_run.rename(other_run.with_name("x" * 200))] * 3
    assert len(f"test-beam5-penalty0.123456789012345-with-{name_of(long)}.json") < 200
