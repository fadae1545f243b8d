"""A stack that only adds passes words and gradients on; one that replaces loses them."""

import pytest
import torch

from nmtcourse.teaching.course import GERMAN, load_toy
from nmtcourse.teaching.depth import through, vectors
from nmtcourse.teaching.small import new_model


def test_a_connection_that_ignores_its_sublayers_changes_nothing():
    translator = load_toy()
    x, arrived = through(translator, GERMAN, 3, lambda x, sublayer: x)
    model = new_model(translator, 3, n_decoder_layers=1).double()
    assert torch.equal(x, vectors(translator, GERMAN, model)[0]) and arrived == pytest.approx(1)
