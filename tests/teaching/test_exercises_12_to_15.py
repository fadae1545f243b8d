"""The exercises of notebooks 12 to 15: right answers pass, and wrong answers are refused."""

from collections import Counter
from math import ceil
from statistics import mean, stdev

import pytest
import torch
from attempts import SEEDS, answers_of, require_function, require_refused, require_right
from torch.nn import functional as F

from nmtcourse.teaching.cost import training_memory
from nmtcourse.teaching.exercises import read_answer
from nmtcourse.teaching.hardware_steps import CONFIG, MIB
from nmtlib.data import PAD
from nmtlib.training import losses


def right(number, *names):
    """The functions of the answer that is shown."""
    found = {}
    exec(read_answer(number)["code"], found)
    return tuple(found[name] for name in names)


def fits(sentences, length, limit, key="peak"):
    needed = training_memory(CONFIG, sentences, length, length, precision=torch.float32)
    return getattr(needed, key) / MIB <= limit


def one_more(length, limit):
    return right("12.1", "most_sentences")[0](length, limit) + 1


def one_sentence(length, limit):
    return 1


def by_two_points(length, limit):
    """Fixed memory and so much a sentence: below a few sentences the gradients are the peak."""
    few, many = (
        training_memory(CONFIG, n, length, length, precision=torch.float32).peak / MIB
        for n in (200, 400)
    )
    each = (many - few) / 200
    return max(0, int((limit - few) / each + 200))


def one_at_least(length, limit):
    return max(1, right("12.1", "most_sentences")[0](length, limit))


def at_most_256(length, limit):
    return min(256, right("12.1", "most_sentences")[0](length, limit))


def by_logits_alone(length, limit):
    return next(n for n in range(10_000) if not fits(n + 1, length, limit, "logits"))


def accumulate(model, parts, tokens=None, total=False, clear=True, count=None):
    if clear:
        model.zero_grad()
    every = sum(map(count or count_labels, parts))
    for part in parts:
        own = int(part.labels.ne(PAD).sum()) * len(parts)
        loss = losses(model(part.source, part.decoder_input), part.labels, 0.1)[0]
        (loss / (1 if total else own if tokens else every)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def count_labels(part):
    return int(part.labels.ne(PAD).sum())


def padding_counted(model, parts):
    return accumulate(model, parts, count=lambda part: part.labels.numel())


def source_counted(model, parts):
    return accumulate(model, parts, count=lambda part: int(part.source.ne(PAD).sum()))


def mean_of_means(model, parts):
    return accumulate(model, parts, tokens=True)


def sum_of_losses(model, parts):
    return accumulate(model, parts, total=True)


def gradients_kept(model, parts):
    return accumulate(model, parts, clear=False)


def first_part_only(model, parts):
    return accumulate(model, parts[:1])


def bytes_of_half(*sizes):
    return right("12.3", "decoder_layer_bytes")[0](*sizes) // 2


def bytes_of_an_encoder_layer(B, T, S, D, H, F):
    N = B * T
    return 4 * N * (9 * D + 3 * F) + 16 * N + 8 * B * H * T * T + 2 * N


def bytes_without_tables(B, T, S, D, H, F):
    tables = 8 * B * H * T * (T + S)
    return right("12.3", "decoder_layer_bytes")[0](B, T, S, D, H, F) - tables


def sizes_of_more(sentences, minima):
    counts = Counter(word for sentence in sentences for word in sentence.split())
    return [sum(count > least for count in counts.values()) for least in minima]


def sizes_of_tokens(sentences, minima):
    counts = Counter(word for sentence in sentences for word in sentence.split())
    return [sum(count for count in counts.values() if count >= least) for least in minima]


def sizes_by_sentence(sentences, minima):
    counts = Counter(word for sentence in sentences for word in set(sentence.split()))
    return [sum(count >= least for count in counts.values()) for least in minima]


def always_one(sentences, minima):
    return [1] * len(minima)


def right_sizes(sentences, minima):
    return right("13.1", "sizes")[0](sentences, minima)


def sizes_in_lower_case(sentences, minima):
    return right_sizes([text.lower() for text in sentences], minima)


def sizes_without_punctuation(sentences, minima):
    counts = Counter(word.strip(".,?!") for text in sentences for word in text.split())
    return [sum(count >= least for count in counts.values()) for least in minima]


def sizes_in_order(sentences, minima):
    return right_sizes(sentences, sorted(minima))


def sizes_that_drop_words(sentences, minima):
    counts = Counter(word for text in sentences for word in text.split())
    found = []
    for least in minima:
        counts = {word: count for word, count in counts.items() if count >= least}
        found.append(len(counts))
    return found


def sizes_of_different_minima(sentences, minima):
    return right_sizes(sentences, list(dict.fromkeys(minima)))


def sizes_of_different_sentences(sentences, minima):
    return right_sizes(list(dict.fromkeys(sentences)), minima)


def sizes_without_zero(sentences, minima):
    found = right_sizes(sentences, minima)
    return [size if least else 0 for size, least in zip(found, minima, strict=True)]


def plain_agreement(mine, theirs):
    return sum(a == b for a, b in zip(mine, theirs, strict=True)) / len(mine)


def kappa_of_even_chances(mine, theirs):
    return (plain_agreement(mine, theirs) - 0.25) / 0.75


def kappa_of_pooled_shares(mine, theirs):
    seen, shares = plain_agreement(mine, theirs), Counter([*mine, *theirs])
    chance = sum((count / (2 * len(mine))) ** 2 for count in shares.values())
    return (seen - chance) / (1 - chance) if chance < 1 else 0.0


def kappa_of_one_kind_is_one(mine, theirs):
    return 1.0 if {*mine, *theirs} == {"right"} else right("13.2", "kappa")[0](mine, theirs)


def kappa_not_below_0(mine, theirs):
    return max(0, right("13.2", "kappa")[0](mine, theirs))


def kappa_without_sign(mine, theirs):
    return abs(right("13.2", "kappa")[0](mine, theirs))


def kappa_of_four_kinds(mine, theirs):
    kinds = ("right", "wrong word", "lost part", "invented")
    chance = sum(mine.count(kind) * theirs.count(kind) for kind in kinds) / len(mine) ** 2
    return 0.0 if chance == 1 else (plain_agreement(mine, theirs) - chance) / (1 - chance)


def limit_of(confidences, count):
    return sorted(confidences, reverse=True)[count]


def keep_from_a_limit(pairs, confidences, share):
    if not (count := round(share * len(pairs))):
        return []
    limit = limit_of(confidences, count - 1)
    return [pair for pair, value in zip(pairs, confidences, strict=True) if value >= limit]


def keep_above_the_next(pairs, confidences, share):
    if (count := round(share * len(pairs))) == len(pairs):
        return pairs
    limit = limit_of(confidences, count)
    return [pair for pair, value in zip(pairs, confidences, strict=True) if value > limit]


def keep_by_pair(pairs, confidences, share):
    values = dict(zip(pairs, confidences, strict=True))
    best = sorted(values, key=lambda pair: -values[pair])[: round(share * len(pairs))]
    return [pair for pair in pairs if pair in best]


def keep_by_index(pairs, confidences, share):
    ranked = sorted(zip(confidences, pairs, strict=True), key=lambda one: -one[0])
    best = [pair for _, pair in ranked[: round(share * len(pairs))]]
    return [pairs[i] for i in sorted(pairs.index(pair) for pair in best)]


def keep_if_among_the_best(pairs, confidences, share):
    both = list(zip(confidences, pairs, strict=True))
    best = sorted(both, key=lambda one: -one[0])[: round(share * len(pairs))]
    return [pair for value, pair in both if (value, pair) in best]


def keep_least_confident(pairs, confidences, share):
    return right("13.3", "keep_confident")[0](pairs, [-c for c in confidences], share)


def keep_by_rank(pairs, confidences, share):
    ranked = sorted(range(len(pairs)), key=lambda i: -confidences[i])
    return [pairs[i] for i in ranked[: round(share * len(pairs))]]


def keep_rounded_up(pairs, confidences, share):
    return right("13.3", "keep_confident")[0](
        pairs, confidences, ceil(share * len(pairs)) / len(pairs)
    )


def keep_rounded_down(pairs, confidences, share):
    return right("13.3", "keep_confident")[0](
        pairs, confidences, int(share * len(pairs)) / len(pairs)
    )


def keep_the_first(pairs, confidences, share):
    return pairs[: round(share * len(pairs))]


def only_she(source, output):
    return "she" in source.split() and "他" in output and "她" not in output


def pronoun_in_letters(source, output):
    she, he = "she" in source, "he" in source.replace("she", "")
    pair = ("他", "她") if she else ("她", "他")
    return she != he and pair[0] in output and pair[1] not in output


def any_other_pronoun(source, output):
    words = source.split()
    return ("she" in words and "他" in output) or ("he" in words and "她" in output)


def segment_from_right(text, dictionary):
    words = []
    while text:
        start = next((i for i in range(len(text) - 1) if text[i:] in dictionary), len(text) - 1)
        words.insert(0, text[start:])
        text = text[:start]
    return words


def shortest_first(text, dictionary):
    words = []
    while text:
        end = next((i for i in range(1, len(text) + 1) if text[:i] in dictionary), 1)
        words.append(text[:end])
        text = text[end:]
    return words


def words_of_at_most(longest, text, dictionary):
    words = []
    while text:
        ends = range(min(longest, len(text)), 0, -1)
        end = next((end for end in ends if text[:end] in dictionary), 1)
        words.append(text[:end])
        text = text[end:]
    return words


def words_of_at_most_four(text, dictionary):
    return words_of_at_most(4, text, dictionary)


def words_of_at_most_ten(text, dictionary):
    return words_of_at_most(10, text, dictionary)


def words_of_a_dictionary_with_words(text, dictionary):
    return words_of_at_most(max(map(len, dictionary)), text, dictionary)


def segment_without_spaces(text, dictionary):
    return right("14.2", "segment")[0](text.replace(" ", ""), dictionary)


def longest_anywhere(text, dictionary):
    for length in range(len(text), 1, -1):
        for start in range(len(text) - length + 1):
            if (word := text[start : start + length]) in dictionary:
                before, after = text[:start], text[start + length :]
                return [
                    *longest_anywhere(before, dictionary),
                    word,
                    *longest_anywhere(after, dictionary),
                ]
    return list(text)


def single_characters(text, dictionary):
    return list(text)


def always_the_first(translations, has_slip):
    return translations[0]


def none_if_all_slip(translations, has_slip):
    return next((text for text in translations if not has_slip(text)), None)


def last_without_slip(translations, has_slip):
    return next((text for text in reversed(translations) if not has_slip(text)), translations[0])


def without_slip(translations, has_slip):
    return [text for text in translations if not has_slip(text)] or translations[:1]


def shortest_without_slip(translations, has_slip):
    return min(without_slip(translations, has_slip), key=len)


def longest_without_slip(translations, has_slip):
    return max(without_slip(translations, has_slip), key=len)


def first_by_alphabet(translations, has_slip):
    return sorted(without_slip(translations, has_slip))[0]


def first_of_five(translations, has_slip):
    return right("14.3", "choose")[0](translations[:5], has_slip)


def slip_is_false(translations, has_slip):
    return next((text for text in translations if has_slip(text) is False), translations[0])


def most_frequent(translations, has_slip):
    return max(translations, key=lambda text: (not has_slip(text), translations.count(text)))


def choose_and_empty(translations, has_slip):
    best = translations[0]
    while translations:
        if not has_slip(text := translations.pop(0)):
            return text
    return best


def epoch(model, batches, optimizer=None, mode=True, weight="tokens", step="mean"):
    model.train(optimizer is not None if mode else True)
    total, count = 0.0, 0
    for batch in batches:
        logits = model(batch.src, batch.trg[:, :-1]).flatten(0, 1)
        labels = batch.trg[:, 1:].flatten()
        summed = F.cross_entropy(logits, labels, ignore_index=0, reduction="sum")
        tokens = int((labels != 0).sum())
        if optimizer:
            optimizer.zero_grad()
            (summed / (tokens if step == "mean" else 1)).backward()
            optimizer.step()
        size = {"tokens": tokens, "positions": labels.numel(), "batches": 1}[weight]
        total += summed.item() / tokens * size
        count += size
    return total / count


def epoch_by_positions(model, batches, optimizer=None):
    return epoch(model, batches, optimizer, weight="positions")


def epoch_by_batches(model, batches, optimizer=None):
    return epoch(model, batches, optimizer, weight="batches")


def epoch_of_summed_steps(model, batches, optimizer=None):
    return epoch(model, batches, optimizer, step="sum")


def epoch_always_training(model, batches, optimizer=None):
    return epoch(model, batches, optimizer, mode=False)


def epoch_that_clears_late(model, batches, optimizer=None):
    model.train(optimizer is not None)
    total = count = 0
    for batch in batches:
        logits = model(batch.src, batch.trg[:, :-1]).flatten(0, 1)
        labels = batch.trg[:, 1:].flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=0)
        if optimizer:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        tokens = int((labels != 0).sum())
        total, count = total + loss.item() * tokens, count + tokens
    return total / count


def epoch_that_always_goes_back(model, batches, optimizer=None):
    model.train(optimizer is not None)
    total = count = 0
    for batch in batches:
        logits = model(batch.src, batch.trg[:, :-1]).flatten(0, 1)
        labels = batch.trg[:, 1:].flatten()
        if optimizer:
            optimizer.zero_grad()
        loss = F.cross_entropy(logits, labels, ignore_index=0)
        loss.backward()
        if optimizer:
            optimizer.step()
        tokens = int((labels != 0).sum())
        total, count = total + loss.item() * tokens, count + tokens
    return total / count


def loss_in(model, batch, training):
    with torch.no_grad():
        logits = model.train(training)(batch.source, batch.decoder_input)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0).item()


def diagnose_by_one_measurement(model, train, held_out):
    """What the notebook once called decisive: training sentences in evaluation mode."""
    log, measured = loss_in(model, train, True), loss_in(model, train, False)
    if measured > log + 1:
        return "measured badly"
    return "overfits" if loss_in(model, held_out, False) > measured + 1 else "healthy"


def diagnose_by_the_log(model, train, held_out):
    gap = loss_in(model, held_out, False) - loss_in(model, train, True)
    return "overfits" if gap > 1 else "healthy"


def moves(model, batch, training, seeded=True, until=3):
    """How far a change at position 3 moves the logits before `until`."""
    other = batch.decoder_input.clone()
    other[:, 3] = 5 + other[:, 3] % 50  # as notebook 15 does
    model.train(training)
    logits = []
    for target in (batch.decoder_input, other):
        if seeded:
            torch.manual_seed(0)
        with torch.no_grad():
            logits.append(model(batch.source, target)[:, :until])
    return (logits[0] - logits[1]).abs().max().item()


def diagnose_by(gap, seeded=True, until=3, limit=0.0):
    def diagnose(model, train, held_out):
        for verdict, training in (("measured badly", False), ("trained badly", True)):
            if moves(model, train, training, seeded, until) > limit:
                return verdict
        return "overfits" if gap(model, train, held_out) else "healthy"

    return diagnose


def beyond(limit, training=False, measure=loss_in):
    def gap(model, train, held_out):
        losses = (measure(model, batch, training) for batch in (held_out, train))
        return next(losses) - next(losses) > limit

    return gap


def loss_with_padding(model, batch, training):
    with torch.no_grad():
        logits = model.train(training)(batch.source, batch.decoder_input)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten()).item()


def loss_of_a_sentence(model, batch, training):
    tokens = int(batch.labels.ne(PAD).sum())
    return loss_in(model, batch, training) * tokens / len(batch.labels)


def more_than_twice(model, train, held_out):
    return loss_in(model, held_out, False) > 2 * loss_in(model, train, False)


def more_than_three(model, train, held_out):
    return loss_in(model, held_out, False) > 3


as_the_notebook_does = diagnose_by(beyond(1))
own_position_compared = diagnose_by(beyond(1), until=4)
two_seeds = diagnose_by(beyond(1), seeded=False)
any_gap, half_a_nat, two_nats = (diagnose_by(beyond(limit)) for limit in (0, 0.5, 2))
padding_in_the_gap = diagnose_by(beyond(1, measure=loss_with_padding))
gap_of_sentences = diagnose_by(beyond(1, measure=loss_of_a_sentence))
gap_in_train_mode = diagnose_by(beyond(1, training=True))
ratio_of_losses, held_out_alone = diagnose_by(more_than_twice), diagnose_by(more_than_three)
three_logits = diagnose_by(beyond(1), limit=3)


def batch_changed(model, train, held_out):
    verdict = as_the_notebook_does(model, train, held_out)
    train.decoder_input[:, 3] = 7
    return verdict


def always_healthy(model, train, held_out):
    return "healthy"


def line_without_way_back(n, add, copy):
    for device in range(n - 1):
        add(device, device + 1)


def line_that_closes_the_ring(n, add, copy):
    line_without_way_back(n, add, copy)
    for device in range(n - 1):
        copy(n - 1, device)


def line_that_adds_twice(n, add, copy):
    line_without_way_back(n, add, copy)
    for device in range(n - 1, 0, -1):
        add(device, device - 1)


def expanded_sum(n, add, copy):
    return torch.arange(16.0).view(4, 4).sum(dim=0).expand(4, 4)


def effect_unpaired(with_it, without):
    ones, others = sum(with_it, []), sum(without, [])
    error = (stdev(ones) ** 2 / len(ones) + stdev(others) ** 2 / len(others)) ** 0.5
    return mean(ones) - mean(others), (mean(ones) - mean(others)) / error


def effect_without_root(with_it, without):
    gap, errors = right("13b.1", "effect")[0](with_it, without)
    return gap, errors / len(with_it[0]) ** 0.5


def effect_alone(with_it, without):
    return right("13b.1", "effect")[0](with_it, without)[0]


def rows_added_up(model):
    count = sum(weight.numel() for weight in model.parameters())
    return count + sum(map(rows_added_up, model.children()))


def only_trainable(model):
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def shared_twice(model):
    return sum(weight.numel() for weight in model.state_dict().values())


def children_added_up(model):
    return sum(only_once(child) for child in model.children())


def only_once(model):
    return sum(weight.numel() for weight in model.parameters())


def children_and_own(model):
    own = sum(weight.numel() for weight in model.parameters(recurse=False))
    return own + children_added_up(model)


def by_memory(model):
    return sum({weight.data_ptr(): weight.numel() for weight in model.parameters()}.values())


def state_by_memory(model):
    return sum(
        {weight.data_ptr(): weight.numel() for weight in model.state_dict().values()}.values()
    )


def with_buffers(model):
    return only_once(model) + sum(buffer.numel() for buffer in model.buffers())


def by_value(model):
    values = {weight.detach().numpy().tobytes(): weight.numel() for weight in model.parameters()}
    return sum(values.values())


def by_sum(model):
    return sum({float(weight.sum()): weight.numel() for weight in model.parameters()}.values())


def rows_by_columns(model):
    sizes = (weight.shape for weight in model.parameters())
    return sum(size[0] * size[-1] if len(size) > 1 else size[0] for size in sizes)


def bytes_by_four(model):
    return sum(weight.numel() * weight.element_size() for weight in model.parameters()) // 4


def all_made_trainable(model):
    return only_trainable(model.requires_grad_(True))


def effect_as_a_list(with_it, without):
    return list(right("13b.1", "effect")[0](with_it, without))


def last_of_equal_ones(pairs, confidences, share):
    ranked = sorted(range(len(pairs)), key=lambda i: (confidences[i], i), reverse=True)
    return [pairs[i] for i in sorted(ranked[: round(share * len(pairs))])]


OTHER_RIGHT = {
    "13b.1": (effect_as_a_list,),
    "13.3": (last_of_equal_ones,),
    "15.2": (as_the_notebook_does,),
}
EXERCISES = {
    "12b.1": (
        [("sum_on_a_line",)],
        [line_without_way_back, line_that_closes_the_ring, line_that_adds_twice, expanded_sum],
    ),
    "13b.1": ([("effect",)], [effect_unpaired, effect_without_root, effect_alone]),
    "14c.1": (
        [("count_parameters",)],
        [
            rows_added_up,
            only_trainable,
            shared_twice,
            children_added_up,
            children_and_own,
            by_memory,
            state_by_memory,
            with_buffers,
            by_value,
            by_sum,
            rows_by_columns,
            bytes_by_four,
            all_made_trainable,
        ],
    ),
    "12.1": (
        [("most_sentences",)],
        [one_more, one_sentence, by_logits_alone, by_two_points, one_at_least, at_most_256],
    ),
    "12.2": (
        [("accumulated",)],
        [
            mean_of_means,
            sum_of_losses,
            gradients_kept,
            first_part_only,
            padding_counted,
            source_counted,
        ],
    ),
    "12.3": (
        [("decoder_layer_bytes",)],
        [bytes_of_half, bytes_of_an_encoder_layer, bytes_without_tables],
    ),
    "13.1": (
        [("sizes",)],
        [
            sizes_of_more,
            sizes_of_tokens,
            sizes_by_sentence,
            always_one,
            sizes_in_lower_case,
            sizes_without_punctuation,
            sizes_in_order,
            sizes_that_drop_words,
            sizes_of_different_minima,
            sizes_of_different_sentences,
            sizes_without_zero,
        ],
    ),
    "13.2": (
        [("kappa",)],
        [
            plain_agreement,
            kappa_of_even_chances,
            kappa_of_pooled_shares,
            kappa_of_one_kind_is_one,
            kappa_not_below_0,
            kappa_without_sign,
            kappa_of_four_kinds,
        ],
    ),
    "13.3": (
        [("keep_confident",)],
        [
            keep_least_confident,
            keep_by_rank,
            keep_rounded_up,
            keep_rounded_down,
            keep_the_first,
            keep_from_a_limit,
            keep_above_the_next,
            keep_by_pair,
            keep_by_index,
            keep_if_among_the_best,
        ],
    ),
    "14.1": ([("wrong_pronoun",)], [only_she, pronoun_in_letters, any_other_pronoun]),
    "14.2": (
        [("segment",)],
        [
            segment_from_right,
            shortest_first,
            single_characters,
            words_of_at_most_four,
            words_of_at_most_ten,
            words_of_a_dictionary_with_words,
            segment_without_spaces,
            longest_anywhere,
        ],
    ),
    "14.3": (
        [("choose",)],
        [
            always_the_first,
            none_if_all_slip,
            last_without_slip,
            shortest_without_slip,
            longest_without_slip,
            first_by_alphabet,
            first_of_five,
            slip_is_false,
            most_frequent,
            choose_and_empty,
        ],
    ),
    "15.1": (
        [("run_epoch",)],
        [
            epoch_by_positions,
            epoch_by_batches,
            epoch_of_summed_steps,
            epoch_always_training,
            epoch_that_clears_late,
            epoch_that_always_goes_back,
        ],
    ),
    "15.2": (
        [("diagnose",)],
        [
            diagnose_by_one_measurement,
            diagnose_by_the_log,
            always_healthy,
            own_position_compared,
            two_seeds,
            any_gap,
            half_a_nat,
            two_nats,
            padding_in_the_gap,
            gap_of_sentences,
            gap_in_train_mode,
            ratio_of_losses,
            held_out_alone,
            three_logits,
            batch_changed,
        ],
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", EXERCISES)
def test_a_right_answer_passes_for_each_seed(number, seed, capsys):
    require_right(number, right(number, *EXERCISES[number][0][0]), seed, capsys)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", OTHER_RIGHT)
def test_another_right_answer_passes(number, seed, capsys):
    require_right(number, OTHER_RIGHT[number], seed, capsys)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", answers_of(EXERCISES, 1))
def test_a_wrong_answer_is_refused_for_each_seed(number, answer, seed, capsys):
    require_refused(number, answer, seed, capsys)


@pytest.mark.parametrize("number", EXERCISES)
def test_an_invented_result_is_refused(number):
    require_function(number)
