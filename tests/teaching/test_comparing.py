"""`compare`: a difference, its standard error and the limit that belongs to both."""

import math

import pytest

from nmtcourse.teaching import compare


def test_pairs_are_compared_by_their_differences():
    a, b = [2.78, 2.68, 2.75], [2.61, 2.48, 2.58]
    paired, unpaired = compare(a, b, paired=True), compare(a, b, paired=False)
    assert paired.difference == pytest.approx(0.18) == unpaired.difference
    assert paired.error == pytest.approx(0.01) and paired.limit == 4.30
    assert unpaired.error == pytest.approx(0.0493, abs=1e-3) and unpaired.limit == 2.78
    assert paired.errors == pytest.approx(18) and paired.beyond


def test_what_spreads_as_much_as_it_differs_is_within_the_limit():
    assert not compare([1.0, 2.0, 3.0], [1.5, 1.5, 3.5], paired=True).beyond
    assert not compare([1.0, 1.0], [1.0, 1.0], paired=True).beyond
    assert compare([2.0, 2.0], [1.0, 1.0], paired=True).errors == math.inf


def test_too_few_results_are_refused():
    with pytest.raises(ValueError, match="two or more"):
        compare([1.0], [2.0], paired=False)
    with pytest.raises(ValueError, match="as many"):
        compare([1.0, 2.0], [2.0, 3.0, 4.0], paired=True)
