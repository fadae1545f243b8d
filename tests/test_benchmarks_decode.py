"""The decoding benchmark gives every candidate every batch, and reports ratios and shares of what
they said.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def decode(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import decode

    yield decode
    sys.modules.pop("decode")


def test_speeds_shares_and_order(decode, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(decode.time, "perf_counter", lambda: clock[0])

    def searcher(seconds, calls, say=lambda row: row[:-1]):
        def search(sources, beam):
            calls.append((sources, beam))
            clock[0] += seconds * len(
                calls
            )  # slower and slower, like a machine that others begin to use
            return [say(row) for row in sources]

        return search

    batches, quick, slow = [[[4, 5, 2], [6, 2]], [[7, 2]]], [], []
    candidates = {
        decode.OURS: searcher(1, quick),
        "other": searcher(3, slow, lambda row: [9] if row == [6, 2] else row[:-1]),
    }
    seconds, said = decode.measure(candidates, batches, beam=5, repeats=2)
    assert quick == slow == [(batches[-1], 5)] + [(batch, 5) for batch in batches] * 2
    assert said == {decode.OURS: [[4, 5], [6], [7]], "other": [[4, 5], [9], [7]]}
    found = decode.report(seconds, said, bleu=lambda said: len(said))
    assert (
        found[decode.OURS]["nmtlib_speed_over_this"] == 1
        and found[decode.OURS]["same_as_nmtlib"] == 1
    )
    assert found["other"] == {
        "sentences_per_second": round(
            3 / (3 * (2 + 3 + 4 + 5) / 2), 1
        ),  # the median of two repeats is their mean
        "nmtlib_speed_over_this": 3.0,
        "same_as_nmtlib": round(2 / 3, 4),
        "bleu": 3,
    }


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_bfloat16_is_shown_whether_it_is_faster_or_slower(decode, seconds):
    times = {decode.OURS: [1.0], decode.OURS_BF16: [seconds]}
    found = decode.report(times, {name: [[4]] for name in times}, bleu=lambda said: 0.0)
    assert found[decode.OURS_BF16]["nmtlib_speed_over_this"] == seconds
