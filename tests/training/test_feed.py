"""What a training is fed: the same sentences in few shapes have the same loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nmtlib.data.batching import collate, lengths_of, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.sections import TrainingSettings
from nmtlib.training.distributed import Processes
from nmtlib.training.feed import WIDTHS, Feed, filled
from nmtlib.training.measure import measure

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.0, norm="pre", max_length=30)
PLAIN = TrainingSettings(max_tokens=100, device="cpu")
COMPILED = replace(PLAIN, compile="default")


def corpus(count=200, longest=29):
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, longest, (count, 2), generator=generator).tolist()
    return [
        make_example([4 + n % 16] * s, [4 + s % 16] * (t or 1)) for n, (s, t) in enumerate(sizes)
    ]


def feed(settings=COMPILED, rank=0, count=1, examples=None):
    processes = Processes(torch.device("cpu"))
    processes.rank, processes.count = rank, count
    return Feed(examples or corpus(), settings, processes, longest=MODEL.max_length)


def gradients(batch, precision=torch.float64):
    torch.manual_seed(0)
    model = Transformer(MODEL).to(precision).train()
    loss, sums = measure(model, batch, smoothing=0.1)
    return [*sums, *torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.parametrize(("rows", "width"), [(4, 7), (4, 16), (9, 7), (11, 24)])
def test_a_batch_that_is_filled_up_has_the_same_loss_and_gradients(rows, width):
    batch = collate([make_example([4] * n, [5 + n] * n) for n in (2, 6, 3, 1)])
    assert (batch.source.size(1), batch.target.size(1)) == (7, 8)
    more = filled(batch, rows, width)
    assert more.source.shape == more.decoder_input.shape == more.labels.shape == (rows, width)
    for one, other in zip(gradients(batch), gradients(more), strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_compiled_training_has_one_shape_for_each_of_few_widths(count):
    shapes, read, labels = {}, [], 0
    for rank in range(count):
        fed = feed(rank=rank, count=count)
        for numbers in fed.plan(seed=3):
            share = numbers[rank::count]
            for batch in fed.shares([numbers]):
                shapes.setdefault(batch.source.size(1), set()).add(tuple(batch.source.shape))
                assert batch.source.shape == batch.labels.shape
                assert batch.source.numel() <= PLAIN.max_tokens / count + batch.source.size(1)
                labels += int((batch.labels != 0).sum())
            read += share.tolist()
    assert set(shapes) <= {8, 16, 24, MODEL.max_length} and WIDTHS == 8
    assert all(len(found) == 1 for found in shapes.values())
    assert sorted(read) == list(range(200))
    assert labels == fed.labels(fed.plan()) == (lengths_of(corpus())[:, 1] - 1).sum()


def test_without_a_compiler_the_batches_are_those_of_the_plan_and_hardly_padded():
    examples, fed = corpus(), feed(PLAIN)
    for numbers in fed.plan(seed=3):
        (batch,) = fed.shares([numbers])
        expected = collate([examples[i] for i in numbers])
        assert torch.equal(batch.source, expected.source)
        assert torch.equal(batch.target, expected.target)


def test_rounding_makes_no_sentence_too_long_and_hides_none_that_is():
    tight = replace(COMPILED, max_tokens=29)
    ((batch,),) = [feed(tight, examples=corpus(1, 2)).shares([np.array([0])])]
    assert batch.source.shape == (29 // 8, 8)
    longest = [make_example([4] * 28, [5] * 27)]
    (batch,) = feed(tight, examples=longest).shares(feed(tight, examples=longest).plan())
    assert batch.source.shape == (1, 29), "and not 32, more than a batch may hold"
    with pytest.raises(ValueError, match="29 tokens, more than max_tokens = 28"):
        feed(replace(COMPILED, max_tokens=28), examples=longest).plan()
