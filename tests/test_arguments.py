"""The public functions refuse a wrong argument in one line that begins with its name."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nmtlib
from nmtlib import Transformer, TransformerConfig, beam_search, greedy_search, label_smoothed_loss
from nmtlib.presets import load_settings

TRANSLATOR = nmtlib.load("toy-de-en")
SOURCE = torch.tensor([[4, 5, 2], [6, 2, 0]])
SENTENCE = ["der Hund schläft ."]
SETTINGS = load_settings("toy-de-en")


def small():
    torch.manual_seed(0)
    return Transformer(TransformerConfig(20, 20, d_model=8, n_heads=2, d_ff=16)).eval()


WRONG = {
    "folder should": [
        lambda: nmtlib.train(None, "toy-de-en"),
        lambda: nmtlib.train(b"x", SETTINGS),
        lambda: nmtlib.train("", SETTINGS),
    ],
    "settings should": [
        lambda: nmtlib.train("x", {"training": {}}),
        lambda: nmtlib.train("x", 5),
    ],
    "resume should": [lambda: nmtlib.train("x", SETTINGS, resume="yes")],
    "minutes should": [lambda: nmtlib.train("x", SETTINGS, minutes="5")],
    "corpus should": [
        lambda: nmtlib.load_corpus({"name": "toy-de-en"}),
        lambda: nmtlib.load_corpus(None),
        lambda: nmtlib.evaluate(TRANSLATOR, "toy-de-en"),
        lambda: nmtlib.train("x", SETTINGS, corpus=[("a", "b")]),
    ],
    "run should": [lambda: nmtlib.load(None), lambda: nmtlib.load(b"toy-de-en")],
    "checkpoint should": [lambda: nmtlib.load("toy-de-en", checkpoint=3)],
    "preset should": [lambda: nmtlib.load_settings(None)],
    "translator should": [lambda: nmtlib.evaluate("toy-de-en")],
    "split should": [lambda: nmtlib.evaluate(TRANSLATOR, split=None)],
    "beam should": [
        *(lambda beam=beam: TRANSLATOR.translate(SENTENCE, beam=beam) for beam in (0, "3", 10**6)),
        lambda: nmtlib.evaluate(TRANSLATOR, beam=math.nan),
        lambda: beam_search(small(), SOURCE, 10**6),
        lambda: beam_search(small(), SOURCE, 2.0),
    ],
    "length_penalty should": [lambda: TRANSLATOR.translate(SENTENCE, length_penalty=99)],
    "source should": [
        lambda: greedy_search(small(), [[4, 5]]),
        lambda: greedy_search(small(), SOURCE[0]),
        lambda: beam_search(small(), SOURCE.float()),
    ],
    "source and target are ids": [lambda: small()(SOURCE, SOURCE[:1])],
    "labels are in -100": [
        lambda: label_smoothed_loss(torch.randn(2, 20), torch.tensor([3, -100])),
    ],
    "n_heads must be a whole number": [lambda: TransformerConfig(20, 20, n_heads=2.0)],
    "max_length must be a whole number": [lambda: TransformerConfig(20, 20, max_length=2.5)],
    "dropout must be a number": [lambda: TransformerConfig(20, 20, dropout="0.1")],
}
CASES = [(begin, call) for begin, calls in WRONG.items() for call in calls]


@pytest.mark.parametrize(("begin", "call"), CASES, ids=[begin for begin, _ in CASES])
def test_a_wrong_argument_is_named_in_one_line(begin, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        call()
    line = str(caught.value)
    assert line.startswith(begin) and "\n" not in line and "pydantic" not in line
    assert not any(tmp_path.iterdir()), "nothing was written"


@settings(max_examples=40)
@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()))
def test_any_beam_gives_a_translation_or_one_line(beam):
    try:
        assert len(TRANSLATOR.translate(SENTENCE, beam=beam if beam != 1000 else 5)) == 1
    except ValueError as error:
        assert str(error).startswith("beam ") and "\n" not in str(error)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_model_that_has_diverged_raises_in_python(search, value):
    model = small()
    with torch.no_grad():
        model.encoder[0].feed_forward.fc1.weight.fill_(value)
    with pytest.raises(FloatingPointError, match="has diverged"):
        search(model, SOURCE)


def test_a_translator_of_a_diverged_model_says_so():
    translator = nmtlib.load("toy-de-en")
    with torch.no_grad():
        translator.model.output.bias.fill_(math.nan)
    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        translator.translate(SENTENCE)
