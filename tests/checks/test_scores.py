"""Each number that an evaluation may report belongs to one formula."""

import math

import pytest
import torch
from nltk.translate.bleu_score import corpus_bleu as nltk_bleu
from sacrebleu import corpus_bleu
from torch.nn import functional as F

from nmtcheck.measure.scores import bleu, bleus_of, losses_of, numbers, perplexities_of, same

PAD = 0


@pytest.fixture(scope="module")
def batches():
    """Three batches of different sizes and lengths, the last one small."""
    torch.manual_seed(3)
    found = []
    for lengths in ((5, 2, 4), (3, 3, 1), (7,)):
        labels = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
        for row, length in enumerate(lengths):
            labels[row, :length] = torch.randint(1, 9, (length,))
        found.append((torch.randn(*labels.shape, 9), labels))
    return found


def cross_entropy(batch, **options):
    logits, labels = batch
    return float(F.cross_entropy(logits.double().flatten(0, 1), labels.flatten(), **options))


def test_the_losses_are_those_of_torch(batches):
    losses = losses_of(batches, PAD)
    sums = [cross_entropy(b, ignore_index=PAD, reduction="sum") for b in batches]
    counts = [int((labels != PAD).sum()) for _, labels in batches]
    assert same(losses["mean"], sum(sums) / sum(counts))
    means = [cross_entropy(b, ignore_index=PAD) for b in batches]
    assert same(losses["batches"], sum(means) / 3)
    assert same(perplexities_of(batches, PAD)["perplexities"], sum(map(math.exp, means)) / 3)
    padded = [cross_entropy(b, reduction="sum") for b in batches]
    assert same(losses["padded"], sum(padded) / sum(labels.numel() for _, labels in batches))
    smooth = [
        cross_entropy(b, ignore_index=PAD, label_smoothing=0.1, reduction="sum") for b in batches
    ]
    assert same(losses["smoothed 0.1 all"], sum(smooth) / sum(counts))


def test_the_divergence_is_that_of_the_annotated_transformer(batches):
    total, count = 0.0, 0
    for logits, labels in batches:
        logp, y = logits.double().log_softmax(-1).flatten(0, 1), labels.flatten()
        wanted = torch.full_like(logp, 0.1 / 7)
        wanted.scatter_(1, y[:, None], 0.9)
        wanted[:, PAD] = 0
        wanted[y == PAD] = 0
        total += float(F.kl_div(logp, wanted, reduction="sum"))
        count += int((y != PAD).sum())
    assert same(losses_of(batches, PAD)["smoothed 0.1 KL"], total / count)


def test_all_formulas_are_told_apart(batches):
    values = list(losses_of(batches, PAD).values())
    close = [(a, b) for n, a in enumerate(values) for b in values[:n] if same(a, b)]
    assert not close


def words(letters):
    """Words of two letters: letters alone would be the same for a scorer of letters."""
    return [f"{letter}x" for letter in letters]


HYPOTHESES = [words("abcdef"), words("ghijk"), words("cdefaab")]
REFERENCES = [words("abcdefg"), words("ghijab"), words("bcdefaa")]


def test_bleu_is_that_of_sacrebleu():
    texts = [" ".join(h) for h in HYPOTHESES], [" ".join(r) for r in REFERENCES]
    wanted = corpus_bleu(texts[0], [texts[1]], tokenize="none", force=True).score / 100
    assert same(bleu(HYPOTHESES, REFERENCES), wanted)
    assert bleu([["x"]], [["y"]]) == 0


def test_nltk_counts_an_ngram_of_every_short_sentence():
    hypotheses, references = [*HYPOTHESES, words("ab")], [*REFERENCES, words("ab")]
    wanted = nltk_bleu([[r] for r in references], hypotheses)
    found = bleus_of(hypotheses, references, [], "<s>", "</s>")["words"]
    assert not same(found[0], wanted) and same(found[1], wanted)


def test_the_ways_to_score_are_told_apart():
    forced = [r[1:] + ["</s>"] for r in REFERENCES]
    values = bleus_of(HYPOTHESES, REFERENCES, forced, "<s>", "</s>")
    longer = bleus_of([[*h, "ax", "ax"] for h in HYPOTHESES], REFERENCES, [], "<s>", "</s>")
    rights = [found.pop("words")[0] for found in (values, longer)]
    for name, found in values.items():
        # What a translation longer than its reference needs shows with such a one alone.
        pairs = zip(rights, (found, longer.get(name, [])), strict=True)
        assert any(mine and not any(same(right, x) for x in mine) for right, mine in pairs), name


def test_numbers_are_read_from_any_report():
    report = {"loss": torch.tensor(2.5), "scores": (1, [3.5]), "note": "done"}
    assert numbers(report) == [2.5, 1.0, 3.5]
    texts = ["a b c d e"], [["a b c d e"]]
    assert numbers(corpus_bleu(*texts, force=True)) == [pytest.approx(100)]
