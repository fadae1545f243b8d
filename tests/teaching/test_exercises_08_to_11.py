"""The exercises of notebooks 08 to 11: right answers pass, and wrong answers are refused."""

import copy
import math

import numpy as np
import pytest
import torch
from attempts import SEEDS, answers_of, require_function, require_refused, require_right
from sacrebleu.metrics import CHRF
from torch import Tensor

from nmtcourse.teaching.exercises import read_answer
from nmtlib import beam_search
from nmtlib.data import PAD, collate
from nmtlib.data.batching import Example
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


def loss_without_gradient(logits, labels, smoothing):
    return right("08.1", "my_loss")(logits.detach(), labels, smoothing)


def loss_as_a_number(logits, labels, smoothing):
    return right("08.1", "my_loss")(logits, labels, smoothing).item()


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


def share_by_distance(losses, small, large, factor):
    """A gap without a sign: past the small batches it counts as open again."""
    best = min(losses[small], key=losses[small].get)
    lowest = losses[small][best]
    before, after = losses[large][best] - lowest, losses[large][best * factor] - lowest
    return 1 - abs(after) / abs(before)


def share_by_column(losses, small, large, factor):
    """As if each column doubled the rate."""
    ones, others = list(losses[small].values()), list(losses[large].values())
    lowest = min(ones)
    column = ones.index(lowest)
    scaled = min(column + int(math.log2(factor)), len(others) - 1)
    return (others[column] - others[scaled]) / (others[column] - lowest)


def values_as_tensor(gradients, rate):
    return torch.tensor(right(*ADAM)(gradients, rate))


def values_as_array(gradients, rate):
    return np.array(right(*ADAM)(gradients, rate))


def floor_for_a_prefix(sentences):
    """The mean over different prefixes, not over labels."""
    prefixes = {tuple(ids[:t]) for ids in sentences for t in range(1, len(ids))}
    return right("09.1", "floor")(sentences) * sum(len(s) - 1 for s in sentences) / len(prefixes)


def floor_of_words(sentences):
    """What follows the last word alone, as if a decoder read no more."""
    pairs = [[a, b] for ids in sentences for a, b in zip(ids, ids[1:], strict=False)]
    return right("09.1", "floor")(pairs)


def update_from_a_sum(model, optimizer, batches):
    """One backward pass for all batches: every graph is in memory at once."""
    optimizer.zero_grad()
    total = labels = 0
    for batch in batches:
        count = int((batch.labels != PAD).sum())
        logits = model(batch.source, batch.decoder_input)
        total = total + label_smoothed_loss(logits, batch.labels, 0.0) * count
        labels += count
    (total / labels).backward()
    optimizer.step()


def update_from_one_batch(model, optimizer, batches):
    """All sentences in one large batch."""
    examples = []
    for batch in batches:
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
            examples.append(Example([i for i in source if i], [i for i in target if i]))
    right(*UPDATE)(model, optimizer, [collate(examples)])


def update_that_clears_afterwards(model, optimizer, batches):
    """A gradient from before the first call is added to its update."""
    counts = [int((batch.labels != PAD).sum()) for batch in batches]
    for batch, count in zip(batches, counts, strict=True):
        logits = model(batch.source, batch.decoder_input)
        mean = label_smoothed_loss(logits, batch.labels, 0.0)
        (mean * count / sum(counts)).backward()
    optimizer.step()
    optimizer.zero_grad()


def unpack_state_only(model, optimizer, packed):
    """The means and counts of the old optimizer, at the rate and betas of the new one."""
    settings = copy.deepcopy(optimizer.state_dict()["param_groups"])
    right("09.3", "unpack")(model, optimizer, {**packed})
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update({key: own[key] for key in ("lr", "betas", "eps", "weight_decay")})


def unpack_shared(model, optimizer, packed):
    """The model goes on in the packed tensors: packed is good for one run."""
    for name, weight in model.named_parameters():
        weight.data = packed["model"][name]
    optimizer.load_state_dict(copy.deepcopy(packed["optimizer"]))


def unpack_with_shared_means(model, optimizer, packed):
    """What `load_state_dict` of an optimizer does by itself."""
    model.load_state_dict(packed["model"])
    optimizer.load_state_dict(packed["optimizer"])


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


def tree_of_other_words(beam):
    """Twice as many words: those after a first word are new ones."""
    first, second = right("10.1", "misleading")(beam)
    return first, {a: {f"{b}!": p for b, p in row.items()} for a, row in second.items()}


def best_n_times(model, source, beam, n):
    (best,) = beam_search(model, source, beam)[0]
    return [(best.ids, best.score)] * n


def n_best_by_sum(model, source, beam, n):
    found = beam_search(model, source, beam, n_best=n, length_penalty=0.0)[0]
    return [(hypothesis.ids, hypothesis.log_prob) for hypothesis in found]


def n_best_with_live_ones(model, source, beam, n):
    """Prefixes that were still growing count as translations."""
    code = read_answer("10.2")["code"]
    end = "    return sorted(finished"
    norm = "log_prob / ((5 + step) / 6)"
    added = f"    finished += [(ids[1:], {norm}) for ids, log_prob in live]\n"
    names = {}
    exec(code.replace(end, added + end), names)
    return names["n_best"](model, source, beam, n)


def n_best_of_n(model, source, beam, n):
    return right("10.2", "n_best")(model, source, n, n)


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


def cached_beam_of_three(model, source, beam):
    return right("10.3", "cached_beam")(model, source, 3)


def bleu2_by_logarithms(ten):
    """The logarithm of no matches is no number."""
    precision = (math.log(ten[2] / ten[6]) + math.log(ten[3] / ten[7])) / 2
    return 100 * min(1.0, math.exp(1 - ten[1] / ten[0])) * math.exp(precision)


def bleu2_of_pairs(ten):
    """One word has no pair: a division by zero."""
    if ten[2] == 0:
        return 0.0
    brevity = min(1.0, math.exp(1 - ten[1] / ten[0]))
    return 100 * brevity * math.sqrt(ten[2] / ten[6] * ten[3] / ten[7])


def chrf_of_mean_scores(hypotheses, references):
    """The mean of eight F-scores in place of F of two means."""
    return chrf_changed(
        "P, R = sum(precisions) / len(precisions), sum(recalls) / len(recalls)",
        "pairs = zip(precisions, recalls)"
        "\n    scores = [0 if not p + r else 5 * p * r / (4 * p + r) for p, r in pairs]"
        "\n    return 100 * sum(scores) / len(scores)",
    )(hypotheses, references)


def missing_sizes_as_zero(hypotheses, references):
    return chrf_changed(
        "if mine and wanted:", "mine, wanted = max(mine, 1), max(wanted, 1)\n            if True:"
    )(hypotheses, references)


def chrf_changed(old, new):
    return changed("11.2", "chrf_plus", old, new)


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


def follow_in_order(average, weights, share):
    """Tensors that have the same place, whatever their names."""
    for tensor, other in zip(average.values(), weights.values(), strict=True):
        tensor += share * (other - tensor)


def error_rate_of_linked(found, gold):
    """Sentences with an empty set are left out."""
    kept = [(a, s) for a, s in zip(found, gold, strict=True) if a and s]
    return right("11b.1", "error_rate_of")([a for a, _ in kept], [s for _, s in kept])


STOPS, FOLLOW = ("09b.1", "stops_by_score"), ("09b.2", "follow")
LINKS = ("11b.2", "links_of")
N_BEST, CACHED, CHRF_PLUS = ("10.2", "n_best"), ("10.3", "cached_beam"), ("11.2", "chrf_plus")
BLEU2, LIKELIHOOD = ("11.1", "bleu2"), ("11.3", "likelihood")
UPDATE = ("09.2", "update_from")
PACK, UNPACK = right("09.3", "pack"), right("09.3", "unpack")
EXERCISES = {  # right answers, wrong answers
    "08.1": (
        [(LOSS, RATE)],
        [
            (plain_loss, lambda n: 7.0),
            (plain_loss, RATE),
            (loss_without_gradient, RATE),
            (loss_as_a_number, RATE),
            (shares_for_others, RATE),
            (loss_with_padding, RATE),
            (LOSS, lambda n: noam(n + 1)),  # counts from 0
            (LOSS, lambda n: noam(min(n, 4000))),  # no decay
            (LOSS, lambda n: noam(n) * 512**0.5),  # no factor of the width
        ],
    ),
    "08.2": (
        [right("08.2", "share_closed")],
        [
            share_at_the_lowest_rate,
            share_left,
            share_of_large,
            share_by_distance,
            share_by_column,
        ],
    ),
    "08.3": (
        [right(*ADAM), values_as_tensor, values_as_array],
        [
            changed(*ADAM, "1e-9", "1e-8"),
            changed(*ADAM, "(math.sqrt(second) + 1e-9)", "math.sqrt(second)"),
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
            changed(*UPDATE, "    optimizer.zero_grad()\n", ""),
            update_that_clears_afterwards,
            update_from_a_sum,
            update_from_one_batch,
        ],
    ),
    "09.3": (
        [(PACK, UNPACK)],
        [
            (pack_weights, unpack_weights),
            (pack_shared, UNPACK),
            (PACK, unpack_without_count),
            (PACK, unpack_state_only),
            (PACK, unpack_shared),
            (PACK, unpack_with_shared_means),
        ],
    ),
    "09b.1": (
        [right(*STOPS)],
        [
            changed(*STOPS, "score > scores[best]", "score < scores[best]"),
            changed(*STOPS, "score > scores[best]", "score >= scores[best]"),
            lambda scores, patience: (scores.index(max(scores)), len(scores) - 1),
        ],
    ),
    "09b.2": (
        [right(*FOLLOW)],
        [
            follow_elsewhere,
            follow_in_order,
            changed(*FOLLOW, "weights[name] - tensor", "tensor - weights[name]"),
        ],
    ),
    "09b.3": (
        [right("09b.3", "choose")],
        [choose_early, overspend, lambda buy, rates, budget: rates[2]],
    ),
    "10.1": (
        [right("10.1", "misleading")],
        [misleading_for_two, even_tree, tree_of_weights, tree_of_other_words],
    ),
    "10.2": (
        [right(*N_BEST)],
        [
            best_n_times,
            n_best_by_sum,
            n_best_as_finished,
            n_best_with_live_ones,
            n_best_of_n,
            changed(*N_BEST, "len(finished) < beam", "len(finished) < 2 * beam"),
        ],
    ),
    "10.3": (
        [right(*CACHED)],
        [
            beam_that_never_reorders,
            beam_without_cache,
            cached_greedy,
            cached_beam_of_three,
            changed(*CACHED, "len(finished) < beam", "len(finished) < 2 * beam"),
            changed(*CACHED, "((5 + step) / 6)", "((5 + step) / 6) ** 2"),
            changed(*CACHED, "2 * source.size(1) + 10", "60"),
        ],
    ),
    "11.1": (
        [right(*BLEU2)],
        [
            lambda ten: 50 * (ten[2] / ten[6] + ten[3] / ten[7]),
            changed(*BLEU2, "100 * brevity", "100"),
            bleu2_by_logarithms,
            bleu2_of_pairs,
            changed(*BLEU2, "ten[1] / ten[0]", "ten[0] / ten[1]"),
            changed(*BLEU2, "min(ten[2], ten[3])", "min(ten[2:])"),
        ],
    ),
    "11.2": (
        [right(*CHRF_PLUS)],
        [
            chrf_without_words,
            mean_chrf,
            chrf_of_mean_scores,
            changed(*CHRF_PLUS, "if mine and wanted:", "if True:"),
            missing_sizes_as_zero,
        ],
    ),
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
    "11b.1": (
        [right("11b.1", "error_rate_of")],
        [mean_error_rate, found_only, error_rate_of_linked],
    ),
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
