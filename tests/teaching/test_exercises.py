"""Each exercise of a notebook: a right answer passes, and wrong answers are refused."""

import copy
import math
from fractions import Fraction
from functools import cache

import pytest
import torch
from attempts import SEEDS
from torch import nn

from nmtcourse.teaching import judge, load_toy
from nmtcourse.teaching.course import exact_matches
from nmtcourse.teaching.exercises import Wrong, equal
from nmtlib.data import UNK, Vocab, collate, padding_waste
from nmtlib.model import TokenEmbedding, sinusoidal_table


@cache
def translator():
    return load_toy()


def unknown_words(text):
    return [word for word in text.split() if word not in translator().source.vocab]


def unknown_in_lower_case(text):
    return [word for word in text.split() if word.lower() not in translator().source.vocab]


def each_unknown_once(text):
    return list(dict.fromkeys(unknown_words(text)))


def unknown_as_part(text):
    """A word counts as known if it is a part of the whole vocabulary."""
    tokens = " ".join(translator().source.vocab.tokens)
    return [word for word in text.split() if word not in tokens]


def unknown_between_spaces(text):
    return [word for word in text.split(" ") if word not in translator().source.vocab]


def three_best(text):
    (found,) = translator().search([text], n_best=3)
    return [translator().target.decode(hypothesis.ids) for hypothesis in found]


def best_and_invented(text):
    return [*translator().translate([text]), "x", "y"]


def best_three_times(text):
    return translator().translate([text]) * 3


def exact_alone(model, pairs):
    return sum(model.translate([p.source], beam=1) == [p.target] for p in pairs)


def exact_against_itself(model, pairs):
    """Compares with the translation of a healthy model, not with the reference."""
    count = 0
    for pair in pairs:
        text = model.translate([pair.source], beam=1)
        count += text == translator().translate([pair.source], beam=1)
    return count


def exact_with_the_usual_beam(model, pairs):
    return sum(model.translate([p.source]) == [p.target] for p in pairs)


def exact_beginnings(model, pairs):
    """A target that is only the beginning of the translation counts."""
    texts = [model.translate([pair.source], beam=1)[0] for pair in pairs]
    return sum(text.startswith(p.target) for text, p in zip(texts, pairs, strict=True))


def exact_sources(model, pairs):
    """A pair that is given twice counts once."""
    found = {p.source for p in pairs if model.translate([p.source], beam=1) == [p.target]}
    return len(found)


def exact_in_any_order(model, pairs):
    count = 0
    for pair in pairs:
        (text,) = model.translate([pair.source], beam=1)
        count += sorted(text.split()) == sorted(pair.target.split())
    return count


def share_of_unknown(counts, size):
    kept = [count for _, count in counts.most_common(size - 4)]
    return 1 - sum(kept) / sum(counts.values())


def share_by_vocabulary(counts, size):
    """Through the vocabulary itself, as the notebook counts."""
    sentences = [[word] * count for word, count in counts.items()]
    ids = Vocab.build(sentences, max_size=size)
    coded = [i for sentence in sentences for i in ids.encode(sentence)]
    return coded.count(UNK) / len(coded)


def share_without_specials(counts, size):
    return 1 - sum(count for _, count in counts.most_common(size)) / sum(counts.values())


def share_of_types(counts, size):
    return max(0, len(counts) - (size - 4)) / len(counts)


def waste(examples, plan):
    padding = total = 0
    for batch in plan:
        for side in (0, 1):
            lengths = [len(examples[i][side]) for i in batch]
            total += len(batch) * max(lengths)
            padding += len(batch) * max(lengths) - sum(lengths)
    return padding / total


def waste_as_a_fraction(examples, plan):
    """Right: an exact number."""
    padding = total = 0
    for batch in plan:
        for side in (0, 1):
            lengths = [len(examples[i][side]) for i in batch]
            total += len(batch) * max(lengths)
            padding += len(batch) * max(lengths) - sum(lengths)
    return Fraction(padding, total)


def waste_as_mean_of_batches(examples, plan):
    return sum(waste(examples, [batch]) for batch in plan) / len(plan)


def waste_of_sources(examples, plan):
    return padding_waste([collate([(examples[i][0],) * 2 for i in batch]) for batch in plan])


def waste_of_tensors(examples, plan):
    return padding_waste([collate([examples[i] for i in batch]) for batch in plan])


def shared_subwords(tokenizer, sources, targets):
    used = [{t for text in side for t in tokenizer.encode(text)} for side in (sources, targets)]
    return used[0] & used[1]


def all_used_subwords(tokenizer, sources, targets):
    return {token for text in (*sources, *targets) for token in tokenizer.encode(text)}


def shared_words(tokenizer, sources, targets):
    return {w for text in sources for w in text.split()} & {
        w for text in targets for w in text.split()
    }


def times_as_large(layer):
    read = layer(torch.arange(layer.num_embeddings)[None])
    return (read.square().mean().sqrt() / 0.5**0.5).item()


def times_without_factor(layer):
    return (layer.weight.square().mean().sqrt() / 0.5**0.5).item()


def times_of_norms(layer):
    return layer(torch.arange(layer.num_embeddings)).norm(dim=-1).mean().item()


def times_by_deviation(layer):
    return (layer(torch.arange(layer.num_embeddings)).std() / 0.5**0.5).item()


def times_by_rows(layer):
    norms = layer(torch.arange(layer.num_embeddings)).norm(dim=-1)
    return (norms.mean() / (layer.embedding_dim / 2) ** 0.5).item()


def times_by_class(layer):
    """The factor of the class, whatever the layer multiplies by."""
    factor = layer.embedding_dim**0.5 if isinstance(layer, TokenEmbedding) else 1.0
    return (layer.weight.square().mean().sqrt() * factor / 0.5**0.5).item()


def times_a_table(layer):
    """Right: against a table of positions."""
    read = layer(torch.arange(layer.num_embeddings))
    return (read.norm() / sinusoidal_table(len(read), layer.embedding_dim).norm()).item()


def tie(model):
    model.output.weight = model.target_embedding.weight


def tie_to_the_output(model):
    """Right: the other of the two tables."""
    model.target_embedding.weight = model.output.weight


def tie_zeros(model):
    tie(model)
    nn.init.zeros_(model.output.weight)


def tie_to_new_zeros(model):
    new = nn.Parameter(torch.zeros_like(model.output.weight))
    model.output.weight = model.target_embedding.weight = new


def tie_without_factor(model):
    model.target_embedding = nn.Embedding.from_pretrained(model.output.weight, freeze=False)
    model.target_embedding.weight = model.output.weight


def tie_a_copy_of_the_model(model):
    model = copy.deepcopy(model)
    tie(model)
    return model


def tie_frozen(model):
    tie(model)
    model.output.weight.requires_grad_(False)


def tie_by_copy(model):
    model.output.weight.data.copy_(model.target_embedding.weight)


def tie_wrong_side(model):
    model.output.weight = model.source_embedding.weight


def tie_both_embeddings(model):
    model.source_embedding.weight = model.target_embedding.weight = model.output.weight


def count_plurals(words, vectors, nouns, excluded=(0, 1, 2)):
    count = 0
    for a, a_plural in nouns:
        for b, b_plural in nouns:
            if a != b:
                rows = [words.index(word) for word in (a, a_plural, b)]
                cosines = vectors @ (vectors[rows[1]] - vectors[rows[0]] + vectors[rows[2]])
                cosines[[rows[i] for i in excluded]] = -math.inf
                count += words[int(cosines.argmax())] == b_plural
    return count


def count_without_exclusion(words, vectors, nouns):
    return count_plurals(words, vectors, nouns, excluded=())


def count_excluding(*excluded):
    """Some of the three words, by place: a singular, its plural, another singular."""
    return lambda words, vectors, nouns: count_plurals(words, vectors, nouns, excluded)


def count_with_itself(words, vectors, nouns):
    return count_plurals(words, vectors, nouns) + len(nouns)


class MyPositions(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.register_buffer("table", sinusoidal_table(max_length, d_model))

    def forward(self, vectors):
        if vectors.size(1) > len(self.table):
            raise ValueError("too long")
        return vectors + self.table[: vectors.size(1)]


class Unchecked(MyPositions):
    """A table of one row is added to a sentence of any length."""

    def forward(self, vectors):
        return vectors + self.table[: vectors.size(1)]


class Slip(MyPositions):
    def __init__(self, d_model, max_length):
        super().__init__(d_model, max_length)
        i = torch.arange(d_model)
        angles = torch.arange(max_length)[:, None] * 10000.0 ** (-2 * i / d_model)
        self.table = torch.where(i % 2 == 0, angles.sin(), angles.cos())


class Zero(MyPositions):
    def forward(self, vectors):
        return vectors


def tabled(make):
    """A module that adds another table, which `make` makes of d_model and max_length."""

    class Tabled(MyPositions):
        def __init__(self, d_model, max_length):
            super().__init__(d_model, max_length)
            self.table = make(d_model, max_length)

    return Tabled


def sines(d_model, max_length, speeds):
    angles = torch.arange(max_length)[:, None] * speeds
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def halves(d_model, max_length):
    table = sinusoidal_table(max_length, d_model)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def cosine_first(d_model, max_length):
    return sinusoidal_table(max_length, d_model).unflatten(1, (-1, 2)).flip(-1).flatten(1)


OTHER_TABLES = [
    tabled(halves),
    tabled(cosine_first),
    tabled(lambda d, n: sinusoidal_table(n + 1, d)[1:]),  # from position 1
    tabled(lambda d, n: sines(d, n, 1000.0 ** -(torch.arange(0, d, 2) / d))),
    tabled(lambda d, n: sines(d, n, 10_000.0 ** -torch.linspace(0, 1, d // 2))),
    tabled(lambda d, n: sines(d, n, torch.full((d // 2,), 0.1))),  # one wavelength
    tabled(lambda d, n: sinusoidal_table(n, 512)[:, :d]),
    tabled(lambda d, n: sinusoidal_table(n, d).half().float()),
    tabled(lambda d, n: sinusoidal_table(n, d)[torch.arange(n) % 10]),
]


class Subtracted(MyPositions):
    def forward(self, vectors):
        return vectors - self.table[: vectors.size(1)]


class RowOfTheBatch(MyPositions):
    def forward(self, vectors):
        return vectors + self.table[: vectors.size(0)].unsqueeze(1)


class InPlace(MyPositions):
    def forward(self, vectors):
        vectors += self.table[: vectors.size(1)]
        return vectors


class Cut(MyPositions):
    def forward(self, vectors):
        return vectors[:, : len(self.table)] + self.table[: vectors.size(1)]


class Trained(MyPositions):
    def __init__(self, d_model, max_length):
        super().__init__(d_model, max_length)
        table = self.table
        del self.table
        self.table = nn.Parameter(table)


class Bounded(nn.Module):
    """Right: computed at each call, as much code does it, with an error beyond the end."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.d_model, self.max_length = d_model, max_length

    def forward(self, vectors):
        if vectors.size(1) > self.max_length:
            raise ValueError("too long")
        powers = torch.arange(0, self.d_model, 2) * -(math.log(10000.0) / self.d_model)
        return vectors + sines(self.d_model, vectors.size(1), powers.exp()).to(vectors)


class Frozen(nn.Module):
    """Right: an embedding that no optimizer trains."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.rows = nn.Embedding.from_pretrained(sinusoidal_table(max_length, d_model))

    def forward(self, vectors):
        return vectors + self.rows(torch.arange(vectors.size(1)))


class PlainAttribute(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = sinusoidal_table(max_length, d_model)

    def forward(self, vectors):
        return vectors + self.table[: vectors.size(1)]


def fit_reader(sums, positions):
    one = torch.ones(len(sums), 1)
    found = torch.linalg.lstsq(torch.cat([sums, one], 1), positions[:, None]).solution
    return lambda others: (torch.cat([others, torch.ones(len(others), 1)], 1) @ found)[:, 0]


def fit_without_constant(sums, positions):
    found = torch.linalg.lstsq(sums, positions[:, None]).solution
    return lambda others: (others @ found)[:, 0]


def fit_mean(sums, positions):
    return lambda others: positions.mean().expand(len(others))


def remember(sums, positions):
    return lambda others: positions[torch.arange(len(others)) % len(positions)]


def fit_rounded(sums, positions):
    """Right: linear but for the rounding to whole positions."""
    reader = fit_reader(sums, positions)
    return lambda others: reader(others).round()


def fit_around_the_mean(sums, positions):
    """New sums less *their* mean: what is read of one depends on the others."""
    slopes = torch.linalg.lstsq(sums - sums.mean(dim=0), positions[:, None]).solution
    level = positions.float().mean()
    return lambda others: ((others - others.mean(dim=0)) @ slopes)[:, 0] + level


def fit_column(sums, positions):
    reader = fit_reader(sums, positions)
    return lambda others: reader(others)[:, None]


def nearest_sum(sums, positions):
    return lambda others: positions[torch.cdist(others, sums).argmin(dim=1)].float()


def fit_the_first_dimensions(sums, positions):
    """One dimension alone."""
    reader = fit_reader(sums[:, :1], positions)
    return lambda others: reader(others[:, :1])


def rotate_halves(vectors, wavelengths, sign=1):
    half = vectors.size(-1) // 2
    positions = torch.arange(vectors.size(-2), dtype=torch.float64)[:, None]
    angles = sign * positions * (2 * math.pi / wavelengths)
    x, y = vectors[..., :half], vectors[..., half:]
    turned = [x * angles.cos() + y * angles.sin(), y * angles.cos() - x * angles.sin()]
    return torch.cat(turned, dim=-1).to(vectors.dtype)


def rotate_to_double(vectors, wavelengths):
    return rotate_halves(vectors.double(), wavelengths)


def rotate_in_place(vectors, wavelengths):
    return vectors.copy_(rotate_halves(vectors, wavelengths))


def rotate_interleaved(vectors, wavelengths):
    half = vectors.size(-1) // 2
    order = torch.stack([torch.arange(half), torch.arange(half) + half], 1).flatten()
    turned = rotate_halves(vectors[..., order.argsort()], wavelengths)
    return turned[..., order]


def rotate_the_other_way(vectors, wavelengths):
    return rotate_halves(vectors, wavelengths, sign=-1)


def unrotated(vectors, wavelengths):
    return vectors


def left_alone(model):
    names = [name for name, weights in model.named_parameters() if weights.dim() == 1]
    readers = ("query", "key", "value", "fc1")
    return {n for n in names if n == "output.bias" or any(part in n for part in readers)}


def left_alone_with_heads(model):
    """Without the biases of queries, keys and values, which are in the space of the heads."""
    return {name for name in left_alone(model) if "fc1" in name or "output" in name}


def left_alone_by_size(model):
    """Biases of another size than d_model, and those of the heads."""
    d_model = model.source_embedding.embedding_dim
    biases = {name: weights for name, weights in model.named_parameters() if weights.dim() == 1}
    heads = {n for n in biases if any(part in n for part in ("query", "key", "value"))}
    return heads | {name for name, weights in biases.items() if len(weights) != d_model}


def left_alone_and_changed(model):
    """The right names, of a model whose weights it changed to find them."""
    model.output.weight.data.normal_()
    return left_alone(model)


def left_alone_as_a_list(model):
    return sorted(left_alone(model))


def all_biases(model):
    return {name for name, _ in model.named_parameters() if name.endswith("bias")}


EXERCISES = {  # number: right answers, wrong answers
    "00.1": (
        [unknown_words],
        [unknown_in_lower_case, str.split, lambda text: []]
        + [each_unknown_once, unknown_as_part, unknown_between_spaces],
    ),
    "00.2": ([three_best], [best_and_invented, best_three_times, lambda text: ["a", "b", "c"]]),
    "00.3": (
        [exact_alone],
        [exact_matches, exact_against_itself, lambda model, pairs: len(pairs)]
        + [exact_with_the_usual_beam, exact_in_any_order, exact_beginnings, exact_sources],
    ),
    "01.1": (
        [share_of_unknown, share_by_vocabulary],
        [share_without_specials, share_of_types, lambda counts, size: 0.1],
    ),
    "01.2": (
        [waste, waste_as_a_fraction],
        [waste_as_mean_of_batches, waste_of_sources, waste_of_tensors]
        + [lambda examples, plan: 0.4],
    ),
    "01.3": (
        [shared_subwords],
        [all_used_subwords, shared_words, lambda *arguments: {"▁Peter", "▁man"}],
    ),
    "02.1": (
        [times_as_large, times_a_table],
        [times_without_factor, times_of_norms, lambda layer: 2**0.5]
        + [times_by_deviation, times_by_rows, times_by_class],
    ),
    "02.2": (
        [tie, tie_to_the_output],
        [tie_by_copy, tie_wrong_side, tie_both_embeddings, lambda model: None, tie_zeros]
        + [tie_to_new_zeros, tie_without_factor, tie_a_copy_of_the_model, tie_frozen],
    ),
    "02.3": (
        [count_plurals],
        [count_without_exclusion, count_with_itself, lambda *arguments: 1001]
        + [count_excluding(*some) for some in ([0], [1], [2], [0, 1], [0, 2], [1, 2])],
    ),
    "03.1": (
        [MyPositions, Bounded, Frozen],
        [Slip, Zero, PlainAttribute, nn.Embedding, Subtracted, RowOfTheBatch, InPlace, Cut]
        + [Trained, Unchecked, *OTHER_TABLES],
    ),
    "03.3": (
        [fit_reader, fit_without_constant, fit_rounded],
        [fit_mean, remember, fit_the_first_dimensions, lambda sums, positions: 0.0]
        + [fit_column, nearest_sum, fit_around_the_mean],
    ),
    "03b.1": (
        [left_alone, lambda model: frozenset(left_alone(model))],
        [left_alone_with_heads, all_biases, lambda model: set(), left_alone_as_a_list]
        + [left_alone_by_size, left_alone_and_changed],
    ),
    "03.4": (
        [rotate_halves],
        [rotate_interleaved, rotate_the_other_way, unrotated, rotate_to_double, rotate_in_place],
    ),
}
RIGHT = [(number, answer) for number, (right, _) in EXERCISES.items() for answer in right]
WRONG = [(number, answer) for number, (_, wrong) in EXERCISES.items() for answer in wrong]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", RIGHT)
def test_a_right_answer_passes_for_each_seed(number, answer, seed, capsys):
    before = torch.get_rng_state()
    judge(number, answer, seed=seed)
    assert f"exercise {number} is right: " in capsys.readouterr().out
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", WRONG)
def test_a_wrong_answer_is_refused_for_each_seed(number, answer, seed, capsys):
    with pytest.raises(Wrong):
        judge(number, answer, seed=seed)
    assert "is right" not in capsys.readouterr().out


@pytest.mark.parametrize("number", EXERCISES)
def test_what_is_no_function_is_refused(number):
    for invented in (1.0, [], "right"):
        with pytest.raises(Wrong, match="the function itself"):
            judge(number, invented)


def test_the_message_says_what_was_given_expected_and_returned():
    with pytest.raises(Wrong, match=r"waste\(\[.*\) should be 0\.\d+, but it is 'much'"):
        judge("01.2", lambda_named("waste", lambda examples, plan: "much"))
    with pytest.raises(Wrong, match=r"waste\(.*\) raises ZeroDivisionError: division by zero"):
        judge("01.2", lambda_named("waste", lambda examples, plan: 1 / 0))


def lambda_named(name, function):
    function.__name__ = name
    return function


def test_an_exercise_without_a_judge_says_so():
    for number in ("03.2", "03", "77.1", "", "..x.1"):
        with pytest.raises(ValueError, match="no judge for the exercise"):
            judge(number, len)


def test_an_answer_cannot_change_what_it_is_compared_with(capsys):
    def spoil(counts, size):
        share = share_of_unknown(counts, size)
        counts.clear()
        return share

    judge("01.1", spoil)
    assert "exercise 01.1 is right" in capsys.readouterr().out


def test_equal_is_no_looser_than_it_says():
    assert equal(1.00001, 1.0, 1e-4) and equal(torch.tensor(1.0), 1.0, 1e-4)
    assert equal([1, 2.0], (1, 2.0), 1e-4) and equal({"a"}, {"a"}, 1e-4)
    refused = [(math.nan, 1.0), (True, 1), (1.1, 1.0), ([1], [1, 2]), (None, 0), (["a"], {"a"})]
    refused += [(torch.ones(2, 1), torch.ones(2)), (torch.full((2,), math.nan), torch.ones(2))]
    for given, expected in refused:
        assert not equal(given, expected, 1e-4)
