"""What an experiment depends on, as text: another experiment has another text."""

import dataclasses
import enum
import math
import os
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from asking import page
from torch import nn

from nmtcourse import bugs
from nmtcourse.teaching import load_toy, small
from nmtcourse.teaching.inputs import UnknownKind, identify, read_inputs
from nmtcourse.teaching.records import changed_names
from nmtlib import Transformer, TransformerConfig, Translator, load_corpus
from nmtlib.data import Vocab, collate
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.settings import CorpusSettings

ROOT = Path(__file__).parents[2]


def inputs_of(text: str, name: str = "learn"):
    return read_inputs(page(text)[name])


# Values


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Recipe:
    rate: float = 0.1
    words: tuple = ()


PAIRS = [Pair("ein Hund", f"dog {i}", ((0, 0), (1, i))) for i in range(50)]
WEIGHTS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
# Each value beside some that differ from it in one place.
DIFFERENT = [
    (24, 25, 24.0, "24", True, None),
    (0.1, -0.1, 0.10000000000000002),
    ("a", "b", "A", b"a"),
    ([1, 2], [2, 1], [1, 2, 0], (1, 2), [1, [2]]),
    ([[1], [2, 3]], [[1, 2], [3]], [[1], [2], [3]]),
    ([*range(100)], [*range(99), 0], (*range(100),)),
    (
        [[i, i] for i in range(50)],
        [[i, i] for i in range(49)] + [[0, 49]],
        [[i] for i in range(100)],
    ),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, OrderedDict(a=1, b=2), Counter(a=1, b=2)),
    ({"a": (1, 2)}, {"a": (1, 3)}, {"a": {"b": 1}}),
    (defaultdict(list, a=[1]), defaultdict(int, a=[1]), defaultdict(list, a=[2])),
    ({1, 2}, {1, 3}, frozenset({1, 2})),
    (range(3), range(4), slice(3), slice(0, 3)),
    (Colour.RED, Colour.BLUE, Colour),
    (Point(1, 2), Point(2, 1), (1, 2)),
    (Recipe(), Recipe(rate=0.2), Recipe(words=("a",)), Recipe(words=("b",))),
    (PAIRS, PAIRS[:-1], [*PAIRS[:-1], Pair("ein Hund", "dog 49", ((0, 0),))], [*reversed(PAIRS)]),
    (WEIGHTS, WEIGHTS.T, WEIGHTS.double(), WEIGHTS + 1e-6, WEIGHTS[None]),
    (torch.tensor(1.0), torch.tensor([1.0]), torch.tensor(1), torch.tensor(2.0)),
    (torch.zeros(2).bfloat16(), torch.zeros(2).half(), torch.ones(2).bfloat16()),
    (np.arange(3), np.arange(4), np.arange(3.0), np.arange(3)[::-1], np.float32(1), np.float64(1)),
    (Vocab([*"<PAD> <BOS> <EOS> <UNK>".split(), "a"]), Vocab("<PAD> <BOS> <EOS> <UNK>".split())),
    (torch.float32, torch.float16, torch.device("cpu"), torch.device("cuda")),
    (math, os, torch),
    (torch.relu, torch.tanh, torch.nn.functional.relu, nn.ReLU, nn.Linear, len, sum),
    (load_toy, load_corpus, collate, Translator.load, small.train, Transformer),
]


@pytest.mark.parametrize("values", DIFFERENT, ids=lambda values: type(values[0]).__name__)
def test_different_values_have_different_texts(values):
    texts = [identify(value) for value in values]
    assert len(set(texts)) == len(texts)


def test_the_same_value_made_anew_has_the_same_text():
    again = [Pair(f"{'ein'} Hund", f"dog {i}", ((0, 0), (1, i))) for i in range(50)]
    assert identify(again) == identify(PAIRS) and again is not PAIRS
    assert identify(WEIGHTS.clone()) == identify(WEIGHTS)
    assert identify(WEIGHTS.T.contiguous()) == identify(WEIGHTS.T)
    assert identify({"b", "a"}) == identify({"a", "b"})
    assert identify(load_corpus("toy-de-en")) == identify(load_corpus("toy-de-en"))
    assert identify(TransformerConfig(5, 6)) != identify(TransformerConfig(5, 7))


@pytest.mark.slow
def test_a_shipped_translator_is_known_by_its_weights_and_others_are_unknown():
    german, english = load_toy("de-en"), load_toy("en-zh")
    assert identify(german) == identify(load_toy("de-en")) != identify(english)
    assert identify(german).startswith("translator toy-de-en")
    moved = load_toy("de-en")
    next(moved.model.parameters()).data[0, 0] += 1e-3
    swapped = Translator(german.model, german.target, german.source)
    for unknown in (moved, swapped, Translator(german.model, german.source, german.target)):
        with pytest.raises(UnknownKind, match="trained here"):
            identify(unknown)


UNKNOWN = [
    Transformer(TransformerConfig(8, 8, d_model=8, n_heads=2)),
    nn.Linear(2, 2),
    nn.Parameter(WEIGHTS),
    WEIGHTS * nn.Parameter(WEIGHTS),
    torch.Generator(),
    np.random.default_rng(0),
    iter([1]),
    (i for i in range(3)),
    object(),
    threading.Lock(),
    SimpleNamespace(a=1),
    np.array([object()]),
    lambda: 1,
    type("Mine", (list,), {})([1]),
]


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda value: type(value).__name__)
def test_an_unknown_kind_is_named_and_not_guessed(value):
    for nested in (value, [value], {"a": (value,)}):
        with pytest.raises(UnknownKind):
            identify(nested)


def test_an_optimizer_is_an_unknown_kind():  # made here, as its import takes seconds
    with pytest.raises(UnknownKind):
        identify(torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1))


# Functions

PAGE = """
import math
from dataclasses import dataclass
from functools import cache, partial
from nmtcourse.teaching import small
import torch

WORDS, RATES, shared, table = 24, {"low": 0.1}, [1, 2], torch.zeros(2)

@dataclass
class Sizes:
    width: int = 8
    def area(self):
        return self.width * DEPTH

DEPTH, SIZES = 3, Sizes()

class Layer(torch.nn.Module):
    scale = 2
    def forward(self, x):
        return x * self.scale * GAIN

GAIN = 1.5

class Deep(Layer):
    def __init__(self):
        super().__init__()

@cache
def start(seed):
    return seed * BEGIN

BEGIN = 7

def scaled(factor):
    def inner(x):
        return x * factor
    return inner

twice, thrice = scaled(2), scaled(3)

def helper(x, shift=WORDS, *, sign=1):
    return x + shift

@torch.no_grad()
def judge(x):
    return x * LIMIT

LIMIT = 5
unread = 1

def learn(rate, seed):
    local = [table for table in (1, 2)]
    make = lambda: twice(WORDS) + sum(w for w in shared)
    small.train
    partial(judge, 1), Deep(), SIZES.area(), start(seed), math.pi
    return helper(RATES["low"]) + make()
"""
# An edit of the page, and a name that the message must have.
EDITS = [
    ("WORDS, RATES, shared, table = 24", "WORDS, RATES, shared, table = 25", "WORDS"),
    ('{"low": 0.1}', '{"low": 0.2}', "RATES"),
    ("[1, 2], torch", "[1, 3], torch", "shared"),
    ("width: int = 8", "width: int = 9", "Sizes.width, field"),
    ("SIZES = 3, Sizes()", "SIZES = 3, Sizes(4)", "SIZES"),
    ("DEPTH, SIZES = 3", "DEPTH, SIZES = 4", "DEPTH"),
    ("return self.width * DEPTH", "return self.width + DEPTH", "Sizes.area"),
    ("scale = 2", "scale = 3", "Layer.scale"),
    ("GAIN = 1.5", "GAIN = 1.6", "GAIN"),
    ("return x * self.scale * GAIN", "return x + self.scale * GAIN", "Layer.forward"),
    ("class Deep(Layer)", "class Deep(torch.nn.Module)", "Deep, bases"),
    ("BEGIN = 7", "BEGIN = 8", "BEGIN"),
    ("return seed * BEGIN", "return seed + BEGIN", "start"),
    ("twice, thrice = scaled(2)", "twice, thrice = scaled(4)", "scaled.<locals>.inner, factor"),
    ("return x * factor", "return x + factor", "scaled.<locals>.inner"),
    ("shift=WORDS", "shift=7", "helper, defaults"),
    ("sign=1", "sign=2", "helper, defaults"),
    ("return x * LIMIT", "return x + LIMIT", "judge"),
    ("LIMIT = 5", "LIMIT = 6", "LIMIT"),
    ("@torch.no_grad()", "@torch.enable_grad()", "judge"),
    (
        "from nmtcourse.teaching import small",
        "from nmtcourse.teaching import quick as small",
        "small",
    ),
    ('helper(RATES["low"])', 'helper(RATES["low"] + 1)', "learn"),
]


@pytest.mark.parametrize(("old", "new", "name"), EDITS, ids=[edit[1] for edit in EDITS])
def test_an_edit_of_what_a_function_needs_changes_its_inputs(old, new, name):
    before, after = inputs_of(PAGE), inputs_of(PAGE.replace(old, new, 1))
    assert not before.unknown and not after.unknown and old in PAGE
    assert name in changed_names({"code": before.code, "data": before.data}, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unread = 1", "unread = 2"),
        ("torch.zeros(2)\n", "torch.ones(2)\n"),  # `table` is a local variable where it is read
        ("thrice = scaled(2), scaled(3)", "thrice = scaled(2), scaled(9)"),
        ("    return helper(", "    # 注释\n    return helper("),
        ("    return seed * BEGIN", "    'Where it begins.'\n    return seed * BEGIN"),
    ],
)
def test_what_a_function_does_not_read_is_not_among_its_inputs(old, new):
    before, after = inputs_of(PAGE), inputs_of(PAGE.replace(old, new, 1))
    assert old in PAGE and changed_names({"code": before.code, "data": before.data}, after) == []


def test_a_module_of_ours_is_read_where_a_page_could_change_it(monkeypatch):
    text = (
        "from nmtcourse.teaching import quick\ndef learn(seed):\n    return quick.RATE, quick.step"
    )
    before = inputs_of(text).data
    monkeypatch.setattr("nmtcourse.teaching.quick.RATE", 1.0)
    assert inputs_of(text).data != before and inputs_of(text).data["quick.RATE"] == "1.0"
    mine = page("def step(model):\n    return WORDS\nWORDS = 3")["step"]
    monkeypatch.setattr("nmtcourse.teaching.quick.step", mine)
    assert "quick.step" in inputs_of(text).unknown


def test_what_was_put_in_the_place_of_our_code_is_among_the_inputs(monkeypatch):
    text = "def learn(seed):\n    return seed"
    before = inputs_of(text)
    with bugs.plant("causal-mask-off-by-one"), bugs.plant("schedule-per-micro-batch"):
        planted = inputs_of(text)
    names = changed_names({"code": before.code, "data": before.data}, planted)
    assert "nmtlib.model.attention.causal_mask, replaced" in names
    assert "nmtlib.training.trainer.Trainer.update, replaced" in names
    names = page(text + "\ndef forward(self, x):\n    return x")
    monkeypatch.setattr("nmtlib.model.layers.EncoderLayer.forward", names["forward"])
    replaced = read_inputs(names["learn"]).data[
        "nmtlib.model.layers.EncoderLayer.forward, replaced"
    ]
    assert replaced == "def forward(self, x):\n    return x"
    monkeypatch.undo()
    assert inputs_of(text) == before and not any("replaced" in name for name in before.data)


def test_a_wrapper_that_the_page_defines_is_code_of_the_page():
    text = """
from functools import wraps
def doubled(function):
    @wraps(function)
    def inner(seed):
        return 2 * function(seed)
    return inner
@doubled
def learn(seed):
    return seed
"""
    before, after = inputs_of(text), inputs_of(text.replace("2 * f", "3 * f"))
    assert "learn" in changed_names({"code": before.code, "data": before.data}, after)


def test_what_is_unknown_is_named_by_what_reads_it():
    text = "import torch\nmodel = torch.nn.Linear(1, 1)\ndef learn(seed):\n    return model(seed)"
    assert [*inputs_of(text).unknown] == ["model"]
    assert "weights differ between processors" in inputs_of(text).unknown["model"]
    loop = "rows = []\nrows.append(rows)\ndef learn(seed):\n    return rows"
    assert inputs_of(loop).unknown == {"rows": "which contains itself"}
    nowhere = {"__name__": "__main__"}
    exec("def learn(seed):\n    return seed", nowhere)
    assert inputs_of("def f(seed):\n    return seed", "f").unknown == {}
    assert "text is not known" in read_inputs(nowhere["learn"]).unknown["learn"]


def test_caches_are_found_wherever_they_are_read():
    assert [*inputs_of(PAGE).caches] == ["start"]


@pytest.mark.nightly
def test_neither_hash_seed_nor_process_changes_a_text():
    script = f"""
from asking import page
from nmtcourse.teaching.inputs import read_inputs, identify
inputs = read_inputs(page({PAGE!r})["learn"])
print(inputs.data, identify({{"b", "a", "c"}}), [*inputs.code], inputs.unknown)
"""
    outputs = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(ROOT), *(str(ROOT / part) for part in ("tests", "benchmarks"))])
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_where_a_corpus_was_read_is_no_part_of_its_data():
    pairs = Corpus("own", "de", "en", PAIRS)
    read = dataclasses.replace(pairs, origin=CorpusSettings(name="toy-de-en"))
    assert read == pairs and identify(read) == identify(pairs)
    assert identify(dataclasses.replace(pairs, train=PAIRS[:-1])) != identify(pairs)
