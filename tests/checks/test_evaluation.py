"""What a reported number is, is told by one pair; with many pairs it must still be that."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from nmtcheck import Adapter, Finding, ours
from nmtcheck.checks.evaluation import bleu, find_meanings, loss
from nmtcheck.measure.scores import bleu as bleu_of
from nmtlib.specials import BOS, EOS, PAD

Rows = list[tuple[list[str], list[str]]]


def ids(words: list[str]) -> list[int]:
    """The ids of number words: 'w4' is 4."""
    return [int(word[1:]) for word in words]


def passes(model: nn.Module, pairs: Rows, size: int) -> list[tuple[Tensor, Tensor]]:
    """The logits (B, T, V) and labels (B, T) of batches of some pairs."""
    model.eval()
    found = []
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        pad = nn.utils.rnn.pad_sequence
        sources = [torch.tensor([*ids(s), EOS]) for s, _ in part]
        targets = [torch.tensor([BOS, *ids(t), EOS]) for _, t in part]
        source, target = (pad(x, True, PAD) for x in (sources, targets))
        with torch.no_grad():
            found.append((model(source, target[:, :-1]), target[:, 1:]))
    return found


def translate(model: nn.Module, words: list[str], longest: int) -> list[str]:
    """A greedy search."""
    model.eval()
    source, target = torch.tensor([[*ids(words), EOS]]), torch.tensor([[BOS]])
    while target.size(1) <= longest and int(target[0, -1]) != EOS:
        with torch.no_grad():
            best = model(source, target)[:, -1:].argmax(-1)
        target = torch.cat([target, best], dim=1)
    return [f"w{number}" for number in target[0, 1:].tolist() if number != EOS]


OURS = replace(ours(), translate=translate)


def evaluated(count: Callable[[list[tuple[Tensor, Tensor]]], object]) -> Adapter:
    """nmtlib with an evaluation that makes numbers of passes in batches of four."""
    return replace(OURS, evaluate=lambda model, pairs: count(passes(model, pairs, 4)))


def nats(logits: Tensor, labels: Tensor) -> tuple[float, int]:
    """The sum of the losses of the labels, and how many there are."""
    table = logits.flatten(0, 1)
    total = nn.functional.cross_entropy(table, labels.flatten(), ignore_index=PAD, reduction="sum")
    return float(total), int((labels != PAD).sum())


def by_last_batch(batches: list[tuple[Tensor, Tensor]]) -> float:
    """A loss whose divisor is that of the last batch times the number of batches."""
    sums = [nats(*batch) for batch in batches]
    return sum(total for total, _ in sums) / (sums[-1][1] * len(sums))


def accuracy(batches: list[tuple[Tensor, Tensor]], padded: bool) -> float:
    """The share of right words, in per cent; `padded` counts PAD, as a hit where nothing is."""
    hits = tokens = 0
    for logits, labels in batches:
        real = (labels != PAD) | padded
        hits += int(((logits.argmax(-1) == labels) & real).sum())
        tokens += int(real.sum())
    return 100 * hits / tokens


def test_a_loss_that_is_right_for_one_pair_and_wrong_for_many_is_found():
    adapter = evaluated(by_last_batch)
    assert find_meanings(adapter, 0) == {0: "loss"}
    with pytest.raises(Finding, match="of one pair alone it is right"):
        loss(adapter, 0)


def test_an_accuracy_that_counts_padding_is_found_and_the_other_is_not():
    with pytest.raises(Finding, match="accuracy") as found:
        loss(evaluated(lambda batches: accuracy(batches, True)), 0)
    assert found.value.proved and "PAD is counted" in found.value.fits
    right = evaluated(lambda batches: [accuracy(batches, False), by_mean(batches)])
    assert "reported" in loss(right, 0)


def by_mean(batches: list[tuple[Tensor, Tensor]]) -> float:
    """The mean loss over all tokens."""
    sums = [nats(*batch) for batch in batches]
    return sum(total for total, _ in sums) / sum(count for _, count in sums)


def scored(score: Callable[[list[list[str]], list[list[str]]], float]) -> Adapter:
    """nmtlib with a BLEU of one's own over its translations."""

    def evaluate(model: nn.Module, pairs: Rows) -> float:
        model.eval()
        translations = [translate(model, source, 40) for source, _ in pairs]
        return score(translations, [target for _, target in pairs])

    return replace(OURS, evaluate=evaluate)


def test_a_bleu_that_is_right_for_one_pair_and_wrong_for_many_is_found():
    def longest_only(hypotheses: list[list[str]], references: list[list[str]]) -> float:
        longest = max(range(len(hypotheses)), key=lambda n: len(hypotheses[n]))
        return bleu_of([hypotheses[longest]], [references[longest]])

    with pytest.raises(Finding, match="of one pair alone it is right"):
        bleu(scored(longest_only), 0)
    assert "is the BLEU" in bleu(scored(bleu_of), 0)
