"""The same sentences in few shapes have the same loss."""

import pytest
import torch

from nmtcourse.recipes.few_shapes import STEPS, few_shapes, filled
from nmtlib.data.batching import collate, make_example, token_batches
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import compute_loss

SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32}
MODEL = TransformerConfig(20, 20, **SIZES, dropout=0.0, norm="pre", max_length=30)


def corpus(count=200, longest=29):
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, longest, (count, 2), generator=generator).tolist()
    return [
        make_example([4 + n % 16] * s, [4 + s % 16] * (t or 1)) for n, (s, t) in enumerate(sizes)
    ]


def gradients(batch, precision=torch.float64):
    torch.manual_seed(0)
    model = Transformer(MODEL).to(precision).train()
    loss, totals = compute_loss(model, batch, 0.1)
    return [*totals, *torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.parametrize(("rows", "width"), [(4, 7), (4, 16), (9, 7), (11, 24)])
def test_a_batch_that_is_filled_up_has_the_same_loss_and_gradients(rows, width):
    batch = collate([make_example([4] * n, [5 + n] * n) for n in (2, 6, 3, 1)])
    assert (batch.source.size(1), batch.target.size(1)) == (7, 8)
    more = filled(batch, rows, width)
    assert more.source.shape == more.decoder_input.shape == more.labels.shape == (rows, width)
    for one, other in zip(gradients(batch), gradients(more), strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("max_tokens", [30, 100, 400])
def test_an_epoch_has_few_shapes_and_they_are_hardly_larger_than_their_batches(max_tokens):
    examples, shapes, full, filled_up = corpus(), set(), 0, 0
    longest = MODEL.max_length
    for rows in token_batches(examples, max_tokens, seed=3):
        batch = collate([examples[row] for row in rows])
        more = few_shapes(batch, max_tokens, longest)
        assert more.source.shape == more.labels.shape
        assert torch.equal(more.target[: len(rows), : batch.target.size(1)], batch.target)
        assert more.labels.count_nonzero() == batch.labels.count_nonzero()
        shapes.add(tuple(more.source.shape))
        full, filled_up = full + batch.source.numel(), filled_up + more.source.numel()
    assert {width for _, width in shapes} <= {8, 16, 24, 29, longest}
    assert len(shapes) <= 4 * (STEPS + 1) and filled_up < 2 * full


def test_rounding_makes_no_sentence_too_long_for_the_model_or_the_batch():
    batch = collate([make_example([4] * 28, [5] * 27)])
    assert few_shapes(batch, 29, longest=30).source.shape == (1, 29), "and not 32"
    assert few_shapes(batch, 100, longest=30).source.shape == (1, 30)
