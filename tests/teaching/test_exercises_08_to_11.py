"""The exercises of notebooks 08 to 11: right answers pass, and wrong answers are refused."""

import copy

import pytest
import torch
from attempts import SEEDS, answers_of, require_function, require_refused, require_right
from sacrebleu.metrics import CHRF
from torch import Tensor

from nmtcourse.teaching.exercises import read_answer
from nmtlib import beam_search
from nmtlib.model.layers import DecoderState
from nmtlib.training import label_smoothed_loss


def right(number, name):
    """The function that `solution` prints."""
    names = {}
    exec(read_answer(number)["code"], names)
    return names[name]


def changed(number, name, old, new):
    """A right answer with one mistake: `new` in place of `old`."""
    code = read_answer(number)["code"]
    assert code.count(old) == 1, (number, old)
    names = {}
    exec(code.replace(old, new), names)
    return names[name]


def plain_loss(logits, labels, smoothing):
    return right("08.1", "my_loss")(logits, labels, 0.0)


def loss_with_padding(logits, labels, smoothing):
    return label_smoothed_loss(logits, labels.clamp(min=1), smoothing)


def shares_for_others(logits, labels, smoothing):
    """V - 2 words share: the label has none of it."""
    words = logits.size(-1)
    return right("08.1", "my_loss")(logits, labels, smoothing * (words - 1) / (words - 2))


def noam(n):
    return right("08.1", "my_rate")(n)


def share_closed_at(losses, small, large, factor, rate):
    """Measured from a rate of one's choice, whatever suits the small batches."""
    gap = losses[large][rate] - losses[small][rate]
    return (losses[large][rate] - losses[large][rate * factor]) / gap


def share_at_the_lowest_rate(losses, small, large, factor):
    return share_closed_at(losses, small, large, factor, min(losses[small]))


def share_left(losses, small, large, factor):
    return 1 - right("08.2", "share_closed")(losses, small, large, factor)


def share_of_large(losses, small, large, factor):
    """At the rate that suits the large batches best."""
    best = min(list(losses[large])[:4], key=losses[large].get)
    return share_closed_at(losses, small, large, factor, best)


def floor_for_a_prefix(sentences):
    """The mean over different prefixes, not over labels."""
    prefixes = {tuple(ids[:t]) for ids in sentences for t in range(1, len(ids))}
    return right("09.1", "floor")(sentences) * sum(len(s) - 1 for s in sentences) / len(prefixes)


def floor_of_words(sentences):
    """What follows the last word alone, as if a decoder read no more."""
    pairs = [[a, b] for ids in sentences for a, b in zip(ids, ids[1:], strict=False)]
    return right("09.1", "floor")(pairs)


def pack_weights(model, optimizer):
    return copy.deepcopy(model.state_dict())


def unpack_weights(model, optimizer, packed):
    model.load_state_dict(packed)


def pack_shared(model, optimizer):
    """Not a copy: training goes on in what was packed."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def unpack_without_count(model, optimizer, packed):
    right("09.3", "unpack")(model, optimizer, packed)
    for state in optimizer.state.values():
        state["step"].zero_()


def misleading_for_two(beam):
    first = {"two": 0.36, "both": 0.34, "books": 0.3}
    even = dict.fromkeys(first, 1 / 3)
    return first, {"two": even, "both": even, "books": {"two": 1.0, "both": 0.0, "books": 0.0}}


def even_tree(beam):
    words = dict.fromkeys(map(str, range(beam + 1)), 1 / (beam + 1))
    return words, dict.fromkeys(words, words)


def tree_of_weights(beam):
    """Misleading, but the numbers after a word are no probabilities."""
    first, second = right("10.1", "misleading")(beam)
    return first, {a: {b: 3 * p for b, p in row.items()} for a, row in second.items()}


def best_n_times(model, source, beam, n):
    (best,) = beam_search(model, source, beam)[0]
    return [(best.ids, best.score)] * n


def n_best_by_sum(model, source, beam, n):
    found = beam_search(model, source, beam, n_best=n, length_penalty=0.0)[0]
    return [(hypothesis.ids, hypothesis.log_prob) for hypothesis in found]


def n_best_as_finished(model, source, beam, n):
    """In the order in which they ended: short ones first."""
    found = right("10.2", "n_best")(model, source, beam, beam)
    return sorted(found, key=lambda hypothesis: len(hypothesis[0]))[:n]


def beam_that_never_reorders(model, source, beam):
    """Its rows are copied when the beam becomes wider, and then stay as they are."""

    class Rows(DecoderState):
        def reorder(self, rows: Tensor) -> None:
            super().reorder(torch.arange(len(rows)).clamp(max=self.width - 1))
            self.width = len(rows)

    class Unsorted:
        def start(self, source):
            state = model.start(source)
            rows = Rows(state.layers, state.memory_mask, state.length)
            rows.width = 1
            return rows

        step = staticmethod(model.step)

    return right("10.3", "cached_beam")(Unsorted(), source, beam)


def beam_without_cache(model, source, beam):
    return right("10.2", "n_best")(model, source, beam, 1)[0][0]


def cached_greedy(model, source, beam):
    return right("10.3", "cached_beam")(model, source, 1)


def chrf_without_words(hypotheses, references):
    return CHRF().corpus_score(hypotheses, [references]).score


def mean_chrf(hypotheses, references):
    """The mean over sentences in place of summed counts."""
    pairs = zip(hypotheses, references, strict=True)
    return sum(right("11.2", "chrf_plus")([h], [r]) for h, r in pairs) / len(hypotheses)


def likelihood_without_source(source, translation):
    return right("11.3", "likelihood")("er schläft .", translation)


def likelihood_of_a_word(source, translation):
    """The mean over the words in place of the sum."""
    return right("11.3", "likelihood")(source, translation) / (len(translation.split()) + 1)


LOSS, RATE = right("08.1", "my_loss"), right("08.1", "my_rate")
ADAM = ("08.3", "adam_values")
CORRECTED = "mean / (1 - 0.9**n), square / (1 - 0.98**n)"


def follow_elsewhere(average, weights, share):
    """New tensors in a new dictionary: the average of the caller stays."""
    return {name: tensor + share * (weights[name] - tensor) for name, tensor in average.items()}


def choose_early(buy, rates, budget):
    """The rate that is ahead after 100 updates."""
    return max(rates, key=lambda rate: buy(rate, 1, 100))


def overspend(buy, rates, budget):
    return max(rates, key=lambda rate: buy(rate, 1, 400) + buy(rate, 2, 400))


def mean_error_rate(found, gold):
    rate = right("11b.1", "error_rate_of")
    return sum(rate([a], [s]) for a, s in zip(found, gold, strict=True)) / len(gold)


def found_only(found, gold):
    both = sum(len(a & s) for a, s in zip(found, gold, strict=True))
    return 1 - both / sum(map(len, found))


STOPS, FOLLOW = ("09b.1", "stops_by_score"), ("09b.2", "follow")
LINKS = ("11b.2", "links_of")
BLEU2, LIKELIHOOD = ("11.1", "bleu2"), ("11.3", "likelihood")
UPDATE = ("09.2", "update_from")
PACK, UNPACK = right("09.3", "pack"), right("09.3", "unpack")
EXERCISES = {  # right answers, wrong answers
    "08.1": (
        [(LOSS, RATE)],
        [
            (plain_loss, lambda n: 7.0),
            (plain_loss, RATE),
            (shares_for_others, RATE),
            (loss_with_padding, RATE),
            (LOSS, lambda n: noam(n + 1)),  # counts from 0
            (LOSS, lambda n: noam(min(n, 4000))),  # no decay
            (LOSS, lambda n: noam(n) * 512**0.5),  # no factor of the width
        ],
    ),
    "08.2": (
        [right("08.2", "share_closed")],
        [share_at_the_lowest_rate, share_left, share_of_large],
    ),
    "08.3": (
        [right(*ADAM)],
        [
            changed(*ADAM, CORRECTED, "mean, square"),
            changed(*ADAM, CORRECTED, "gradient, square / (1 - 0.98**n)"),
            changed(*ADAM, CORRECTED, "mean / (1 - 0.9**n), 1.0"),
            changed(
                *ADAM, "weight, mean, square, values = 0.0,", "weight, mean, square, values = 1.0,"
            ),
        ],
    ),
    "09.1": ([right("09.1", "floor")], [floor_for_a_prefix, floor_of_words, lambda s: 0.0]),
    "09.2": (
        [right(*UPDATE)],
        [
            changed(*UPDATE, "mean * count / sum(counts)", "mean / len(counts)"),
            changed(*UPDATE, "mean * count / sum(counts)", "mean * count"),
            changed(*UPDATE, "    optimizer.zero_grad()", ""),
        ],
    ),
    "09.3": (
        [(PACK, UNPACK)],
        [(pack_weights, unpack_weights), (pack_shared, UNPACK), (PACK, unpack_without_count)],
    ),
    "09b.1": (
        [right(*STOPS)],
        [
            changed(*STOPS, "score > scores[best]", "score < scores[best]"),
            lambda scores, patience: (scores.index(max(scores)), len(scores) - 1),
        ],
    ),
    "09b.2": (
        [right(*FOLLOW)],
        [follow_elsewhere, changed(*FOLLOW, "weights[name] - tensor", "tensor - weights[name]")],
    ),
    "09b.3": (
        [right("09b.3", "choose")],
        [choose_early, overspend, lambda buy, rates, budget: rates[2]],
    ),
    "10.1": ([right("10.1", "misleading")], [misleading_for_two, even_tree, tree_of_weights]),
    "10.2": ([right("10.2", "n_best")], [best_n_times, n_best_by_sum, n_best_as_finished]),
    "10.3": (
        [right("10.3", "cached_beam")],
        [beam_that_never_reorders, beam_without_cache, cached_greedy],
    ),
    "11.1": (
        [right(*BLEU2)],
        [
            lambda ten: 50 * (ten[2] / ten[6] + ten[3] / ten[7]),
            changed(*BLEU2, "100 * brevity", "100"),
            changed(*BLEU2, "ten[1] / ten[0]", "ten[0] / ten[1]"),
            changed(*BLEU2, "min(ten[2], ten[3])", "min(ten[2:])"),
        ],
    ),
    "11.2": ([right("11.2", "chrf_plus")], [chrf_without_words, mean_chrf]),
    "11.3": (
        [right(*LIKELIHOOD)],
        [
            likelihood_without_source,
            likelihood_of_a_word,
            changed(
                *LIKELIHOOD,
                "logp[torch.arange(len(labels)), labels]",
                "logp[torch.arange(len(labels) - 1), labels[:-1]]",
            ),
        ],
    ),
    "11b.1": ([right("11b.1", "error_rate_of")], [mean_error_rate, found_only]),
    "11b.2": (
        [right(*LINKS)],
        [
            changed(*LINKS, 'word if row == "output" else word + 1', "word"),
            changed(*LINKS, "source < S - 1", "True"),
            changed(*LINKS, "found.add((source, word))", "found.add((word, source))"),
        ],
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", answers_of(EXERCISES, 0))
def test_a_right_answer_passes_for_each_seed(number, answer, seed, capsys):
    require_right(number, answer, seed, capsys)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", answers_of(EXERCISES, 1))
def test_a_wrong_answer_is_refused_for_each_seed(number, answer, seed, capsys):
    require_refused(number, answer, seed, capsys)


@pytest.mark.parametrize("number", EXERCISES)
def test_an_invented_result_is_refused(number):
    require_function(number)
