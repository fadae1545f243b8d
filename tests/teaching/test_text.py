"""The broken corpus of notebook 01 has the defects that it promises; padding is drawn to scale."""

from collections import Counter

import pytest

from nmtcourse import toy
from nmtcourse.teaching import text


@pytest.fixture(scope="module")
def corpus():
    return toy.load_toy("toy-de-en", train=1000, challenge=0)


def test_each_defect_is_in_the_copy_and_none_in_the_original(corpus):
    broken = text.broken_copy(corpus.train, corpus.test)
    assert len(broken) == len(corpus.train) - 1
    assert broken[699].target == corpus.train[699].target != broken[700].target
    assert broken[700].target == corpus.train[701].target
    tested = {pair.source for pair in corpus.test}
    for pairs, wanted in ((broken, True), (corpus.train, False)):
        repeated = max(Counter((pair.source, pair.target) for pair in pairs).values()) > 1
        found = {
            repeated,
            any(not pair.target for pair in pairs),
            any("&quot;" in pair.source for pair in pairs),
            any(pair.source in tested for pair in pairs),
        }
        assert found == {wanted}
