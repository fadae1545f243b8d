"""Rates rise to their peak at the end of the warm-up, then fall, and are never zero at first."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtlib.settings import Schedule, TrainingSettings
from nmtlib.training.schedule import cosine_rate, inverse_sqrt_rate, make_schedule, noam_rate


@given(st.integers(1, 10_000), st.integers(1, 8000), st.sampled_from([64, 512]))
def test_noam_is_the_formula_of_the_paper_and_the_inverse_root_by_its_peak(step, warmup, d_model):
    expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert noam_rate(step, d_model, warmup) == pytest.approx(expected)
    peak = noam_rate(warmup, d_model, warmup)
    assert inverse_sqrt_rate(step, peak, warmup) == pytest.approx(expected)
    assert noam_rate(step, d_model, warmup, 2.0) == pytest.approx(2 * expected)


@given(st.integers(1, 500), st.integers(0, 2000))
def test_cosine_rises_to_its_peak_and_ends_close_to_zero(warmup, more):
    total = warmup + more
    rates = [cosine_rate(step, 0.5, warmup, total) for step in range(1, total + 1)]
    assert max(rates) == pytest.approx(0.5) == pytest.approx(rates[warmup - 1])
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup - 1 :] == sorted(rates[warmup - 1 :], reverse=True)
    assert all(rate > 0 for rate in rates)
    if more > 100:
        assert rates[-1] < 0.001 * 0.5 * 2.5


def test_updates_count_from_one_and_the_first_rate_is_not_zero():
    for rate in (
        lambda s, w: noam_rate(s, 64, w),
        lambda s, w: inverse_sqrt_rate(s, 1.0, w),
        lambda s, w: cosine_rate(s, 1.0, w, 50),
    ):
        assert rate(1, 10) > 0
        with pytest.raises(ValueError, match="count from 1"):
            rate(0, 10)
        with pytest.raises(ValueError, match="warmup"):
            rate(1, 0)
    with pytest.raises(ValueError, match="warm-up of 10 updates, not 5"):
        cosine_rate(1, 1.0, 10, 5)


@pytest.mark.parametrize("name", get_args(Schedule))
def test_each_schedule_of_the_settings_is_a_function_of_the_update(name):
    settings = TrainingSettings(schedule=name, learning_rate=0.5, warmup=10)
    rates = [make_schedule(settings, 64, 40)(step) for step in (1, 10, 40)]
    assert max(rates) == rates[1] >= rates[2] > 0 and rates[0] > 0
