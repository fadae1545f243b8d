"""The counts of the ladder: a model's starts do not grow with the batch, those of a loss do."""

from dataclasses import replace

import pytest

from nmtcourse.teaching.hardware_feed import (
    Device,
    loss_starts,
    seconds_of_update,
    starts_of_update,
)
from nmtlib.model.transformer import TransformerConfig

SIZES = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 64, "n_heads": 4, "d_ff": 128}
CONFIG = TransformerConfig(500, 500, **SIZES, norm="pre")


def test_the_starts_of_the_loss_grow_with_its_blocks_alone():
    one, two, four = (loss_starts(positions, rows=64) for positions in (64, 128, 256))
    assert four - two == 2 * (two - one) > 0
    assert loss_starts(256, rows=256) == one


def test_the_starts_of_a_model_grow_with_its_depth_alone():
    shallow, deep = (
        starts_of_update(replace(CONFIG, n_encoder_layers=n, n_decoder_layers=n), 64, rows=64)
        for n in (1, 2)
    )
    assert shallow == starts_of_update(replace(CONFIG, d_model=32, d_ff=32), 320, rows=320)
    assert deep.model > 1.5 * shallow.model and deep.outside < 1.2 * shallow.outside


@pytest.mark.parametrize("what", ["starts", "arithmetic", "memory"])
def test_each_thing_can_be_what_is_waited_for(what):
    fast = {"launch": 1e-12, "rate": 1e24, "bandwidth": 1e24}
    slow = {"starts": {"launch": 1.0}, "arithmetic": {"rate": 1.0}, "memory": {"bandwidth": 1.0}}
    waits = seconds_of_update(CONFIG, 640, 100, Device(**fast | slow[what]))
    assert max(waits, key=waits.get) == what
    twice = seconds_of_update(CONFIG, 1280, 100, Device(**fast | slow[what]))
    growth = twice[what] / waits[what]
    assert growth == 1 if what == "starts" else 1.3 < growth <= 2  # Adam's memory stays
