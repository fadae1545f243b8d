"""Pictures of searching say what a search did: what is kept, what ends, what it needs next."""

import math

import pytest
from matplotlib.colors import to_hex

from nmtcourse.teaching import trees

FIRST = {"two": 0.5, "both": 0.4, "books": 0.1}
SECOND = {
    "two": {"books": 0.4, "both": 0.3, "two": 0.3},
    "both": {"books": 0.9, "two": 0.05, "both": 0.05},
    "books": {"two": 0.4, "both": 0.3, "books": 0.3},
}
HISTORY = [
    [(["a"], -0.5), (["b"], -1.0), (["<EOS>"], -1.5), (["c"], -2.0)],
    [(["b", "<EOS>"], -1.1), (["a", "b"], -1.2), (["a", "<EOS>"], -1.9), (["b", "a"], -3.0)],
]


def said(figure) -> dict[str, str]:
    """The words of a figure with their colours."""
    (axes,) = figure.axes
    return {text.get_text(): to_hex(text.get_color()) for text in axes.texts}


def test_greedy_and_best_are_named_at_their_products():
    words = said(trees.probability_tree(FIRST, SECOND))
    assert words["0.20  greedy"].upper() == trees.GREEDY
    assert words["0.36  best"].upper() == trees.ACCENT
    sure = {"two": {"books": 1.0}, "both": {"books": 1.0}, "books": {"two": 1.0}}
    assert "0.50  greedy  best" in said(trees.probability_tree(FIRST, sure))


def test_each_candidate_has_its_fate():
    told = [fate for fate, _ in trees.fates(HISTORY[0], beam=2)]
    assert told == ["open", "open", "pruned", "pruned"]  # <EOS> is third, and a beam is two
    assert [fate for fate, _ in trees.fates(HISTORY[0], beam=3)] == [
        "open",
        "open",
        "ended",
        "open",
    ]
    assert [fate for fate, _ in trees.fates(HISTORY[1], 2, last=True)] == [
        "ended",
        "pruned",
        "pruned",
        "pruned",
    ]


@pytest.mark.parametrize("n", [1, 4, 9])
def test_the_cache_fills_by_one_position_a_step(n):
    figure = trees.cache_filling([f"w{i}" for i in range(n)])
    (axes,) = figure.axes
    colours = [to_hex(patch.get_facecolor()) for patch in axes.patches[: 2 * n * n]]
    made = to_hex(axes.patches[-3].get_facecolor())
    half = n * n
    assert colours[:half].count(made) == n * (n + 1) // 2
    assert colours[half:].count(made) == n
    assert colours[half:].count("#ffffff") == math.comb(n, 2)
    assert f"with a cache: {n} computed" in said(figure)
