"""What is looked up: the entries, the equations of the paper, and the commands that ask for it."""

import json

import pytest
import torch

from nmtcourse.main import main
from nmtcourse.recipes import neighbours
from nmtcourse.recipes.ensemble import Ensemble
from nmtcourse.recipes.neighbours import Datastore, NeighbourModel, with_neighbours
from nmtlib.data.batching import make_example
from nmtlib.data.corpora import load_corpus
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import CorpusSettings
from nmtlib.specials import BOS, EOS, PAD

DESIGN = {"tied": "target", "embedding_init": "normal", "norm": "pre"}
CONFIG = TransformerConfig(20, 30, d_model=16, n_heads=2, d_ff=32, max_length=24, **DESIGN)
# Pairs of unequal lengths, so that a batch of them is padded.
EXAMPLES = [
    make_example([7, 9, 11], [8, 12, 4, 20]),
    make_example([5], [6, 21]),
    make_example([13, 5, 6, 8, 19, 10], [9]),
    make_example([7, 7], [25, 26, 27, 28, 29, 5, 7]),
]
SOURCE = torch.tensor([[7, 9, 11, EOS], [5, EOS, PAD, PAD]])
TARGET = torch.tensor([[BOS, 8, 12, 4], [BOS, 6, 4, 9]])


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Transformer(CONFIG).eval()


@pytest.fixture
def store(model):
    return Datastore.build(model, EXAMPLES)


def vectors(model, source, target):
    """What enters the output layer, (B, T, D), by listening to it."""
    heard = []
    with model.output.register_forward_pre_hook(lambda _, given: heard.append(given[0])):
        with torch.no_grad():
            model(source, target)
    return heard[0]


def test_there_is_one_entry_for_each_label(model, store):
    labels = [(i, place) for i, e in enumerate(EXAMPLES) for place in range(len(e.target) - 1)]
    assert sorted(map(tuple, store.origins.tolist())) == labels
    for key, value, (number, place) in zip(*store, strict=True):
        example = EXAMPLES[number]  # alone, so that nothing is padded
        source, target = (torch.tensor([ids]) for ids in (example.source, example.target))
        torch.testing.assert_close(key, vectors(model, source, target[:, :-1])[0, place])
        assert value == target[0, place + 1]


@torch.no_grad()
@pytest.mark.parametrize(
    "neighbours, weight, temperature", [(1, 0.5, 0.1), (3, 0.3, 0.2), (18, 0.5, 0.3)]
)
def test_the_probabilities_are_those_of_the_paper(model, store, neighbours, weight, temperature):
    options = {"neighbours": neighbours, "weight": weight, "temperature": temperature}
    found = NeighbourModel(model, store, **options)(SOURCE, TARGET).exp()
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(2, 4))
    alone = NeighbourModel(model, store, weight=0.0)(SOURCE, TARGET)
    torch.testing.assert_close(alone, model(SOURCE, TARGET).log_softmax(dim=-1))
    said, hidden = model(SOURCE, TARGET).softmax(dim=-1), vectors(model, SOURCE, TARGET)
    scale = temperature * sum(float(column.var(correction=0)) for column in store.keys.T)
    for place in [(row, column) for row in range(2) for column in range(4)]:
        squared = [float((key - hidden[place]).square().sum()) for key in store.keys]
        nearest = sorted(range(len(squared)), key=squared.__getitem__)[:neighbours]
        shares = torch.tensor([-squared[entry] / scale for entry in nearest]).softmax(dim=0)
        expected = (1 - weight) * said[place]
        for entry, share in zip(nearest, shares, strict=True):
            expected[store.values[entry]] += weight * share
        torch.testing.assert_close(found[place], expected, rtol=1e-3, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("length", [0, torch.zeros(1, dtype=torch.long)])
def test_step_by_step_they_are_the_same(model, store, length):
    looking = NeighbourModel(model, store)
    state = looking.start(SOURCE)
    state.length = length
    steps = [looking.step(TARGET[:, place], state) for place in range(4)]
    torch.testing.assert_close(torch.stack(steps, dim=1), looking(SOURCE, TARGET))


@pytest.mark.parametrize("entries, neighbours", [(5, 5), (64, 3), (100, 50), (1000, 7)])
def test_the_nearest_are_found(model, monkeypatch, entries, neighbours):
    monkeypatch.setattr("nmtcourse.recipes.neighbours.MOST_DISTANCES", 1)  # one row at a time
    torch.manual_seed(entries)
    places = torch.zeros(entries, 2, dtype=torch.long)
    store = Datastore(torch.randn(entries, 16), torch.randint(4, 30, (entries,)), places)
    hidden = torch.randn(9, 16)
    squared, places = NeighbourModel(model, store, neighbours=neighbours).nearest(hidden)
    expected = torch.cdist(hidden, store.keys).square().topk(neighbours, largest=False)
    torch.testing.assert_close(squared, expected.values, rtol=1e-4, atol=1e-4)
    assert places.tolist() == expected.indices.tolist()


def test_what_makes_no_sense_is_refused(model, store):
    for options, complaint in (
        ({"neighbours": 19}, "neighbours must be from 1 to the number of entries, 18, not 19"),
        ({"weight": 1.0}, r"neighbour_weight must be in \[0, 1\), not 1.0"),
        ({"weight": float("nan")}, r"neighbour_weight must be in \[0, 1\), not nan"),
        ({"temperature": 0.0}, "temperature must be greater than 0, not 0.0"),
    ):
        with pytest.raises(ValueError, match=complaint):
            NeighbourModel(model, store, **options)
    with pytest.raises(ValueError, match="examples must be 1 or more, not 0"):
        Datastore.build(model, [])
    with pytest.raises(ValueError, match="model must be in evaluation mode, without dropout"):
        Datastore.build(model.train(), EXAMPLES)
    alike = Datastore(*(part[[0, 0]] for part in store))
    with pytest.raises(ValueError, match="keys must be different from each other"):
        NeighbourModel(model.eval(), alike, neighbours=1)


@pytest.fixture
def run(tmp_path, spoiled_run):
    """The shipped toy model, a little spoiled, as a run that was trained on thirty pairs."""
    lines = [f"{p.source}\t{p.target}" for p in load_corpus("toy-de-en").test[:30]]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    pairs = [str(tmp_path / "pairs.tsv")]
    files = {"train": pairs, "validation": pairs, "test": pairs}
    return spoiled_run(0.1, CorpusSettings(source_language="de", target_language="en", **files))


def test_a_translator_looks_up_among_its_training_pairs(run):
    plain = Translator.load(run)
    looking = with_neighbours(plain, 1, 0.9)
    pairs = load_corpus("toy-de-en").test[:30]

    def right(translator):
        found = translator.translate([pair.source for pair in pairs])
        return sum(said == pair.target for said, pair in zip(found, pairs, strict=True))

    assert right(plain) < 20 < right(looking)
    assert with_neighbours(plain, None) is plain
    twice = Ensemble([plain.model, plain.model])
    both = Translator(twice, plain.source, plain.target, plain.settings)
    both = with_neighbours(both, 1, 0.9)
    sources = [pair.source for pair in pairs]
    assert both.translate(sources) == looking.translate(sources)


def test_commands_look_up(run, tmp_path, capsys):
    arguments = ["evaluate", str(run), "--beam", "2", "--output", str(tmp_path / "scores.json")]
    assert main(arguments) == 0
    plain = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert not {"neighbours", "neighbour_weight"} & plain.keys()
    assert main([*arguments, "--neighbours", "2", "--neighbour-weight", "0.8"]) == 0
    assert "  neighbours 2   neighbour_weight 0.8" in capsys.readouterr().out
    found = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert (found["neighbours"], found["neighbour_weight"]) == (2, 0.8)
    assert found["scores"]["bleu"] > plain["scores"]["bleu"] + 10
    assert found["perplexity"] < plain["perplexity"]
    assert found["parameters"] == plain["parameters"]
    assert (run / "test-beam2-neighbours2-weight0.8.json").is_file() and (
        run / "test-beam2.json"
    ).is_file()

    pair = load_corpus("toy-de-en").test[0]
    asked = ["translate", "--model", str(run), pair.source]
    assert main([*asked, "--neighbours", "1", "--neighbour-weight", "0.9"]) == 0
    assert capsys.readouterr().out == f"{pair.target}\n"
    for options, complaint in (
        (["--neighbours", "0"], "neighbours must be 1 or more"),
        (["--neighbour-weight", "0.5"], "neighbour_weight must be given only with neighbours"),
        (["--neighbours", "2", "--neighbour-weight", "1.5"], "must be in [0, 1), not 1.5"),
    ):
        assert main([*asked, *options]) == 1
        assert complaint in capsys.readouterr().err


def test_what_makes_no_sense_is_refused_before_the_corpus_is_read(monkeypatch):
    translator = Translator.load("toy-de-en")
    monkeypatch.setattr(neighbours, "load_corpus", lambda settings: pytest.fail("read"))
    for how, message in (((0, None), "neighbours must be 1"), ((4, 2.0), "neighbour_weight must")):
        with pytest.raises(ValueError, match=message):
            with_neighbours(translator, *how)
