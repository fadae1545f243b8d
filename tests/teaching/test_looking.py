"""What heads look at on average, and what is lost where a word is hidden."""

import torch

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.explorer import KINDS, attention_maps
from nmtcourse.teaching.looking import (
    attentions,
    habits,
    switched_off,
)
from nmtlib.data import corpora


def test_habits_are_means_over_rows_and_over_sentences():
    translator, pairs = load_toy(), corpora.load_corpus("toy-de-en").test[:2]
    found = habits(translator, pairs)
    assert {kind: tuple(table.shape) for kind, table in found.items()} == {
        kind: (8, 3 if kind == "cross" else 4) for kind in KINDS
    }
    before, gold, itself = [], [], []
    for pair in pairs:
        maps = attention_maps(translator, pair.source, pair.target).maps
        head = maps["encoder-self"][1][2]  # layer 1, head 2, which is row 4 + 2
        before.append(sum(head[i, i - 1] for i in range(1, len(head))) / (len(head) - 1))
        head = maps["cross"][0][3]
        rows = {t for _, t in pair.alignment}
        gold.append(sum(head[t, s] for s, t in pair.alignment) / len(rows))
        itself.append(maps["decoder-self"][0][1].diagonal().mean())
    means = [sum(values) / 2 for values in (before, gold, itself)]
    shown = found["encoder-self"][6, 2], found["cross"][3, 1], found["decoder-self"][1, 1]
    torch.testing.assert_close(torch.stack(shown), torch.stack(means))
    assert all((table[:, 0] >= 1).all() for table in found.values())


def test_a_head_that_is_switched_off_adds_nothing_and_returns_afterwards():
    parts = attentions(load_toy().model)
    assert len(parts) == 6
    attention, x = parts["cross, layer 1"], torch.randn(1, 5, 128)
    with torch.no_grad():
        before = attention(x, x, x)
        with switched_off(attention, range(4)):
            silent = attention(x, x, x)
        assert torch.equal(silent, attention.output.bias.expand(1, 5, -1))
        assert torch.equal(attention(x, x, x), before)
