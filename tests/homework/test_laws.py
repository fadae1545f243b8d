"""An answer that hangs on more than its arguments is refused; one in an odd form is not."""

import dataclasses
import functools
import math

import pytest
import torch
from nightly import some
from torch import nn

from nmtcourse.homework.catalogue import find_task
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import judge
from nmtcourse.homework.laws import Careful, CarefulClass


def solution(id):
    return find_task(id).solution


def by_object():
    kept = {}
    return lambda scores: kept.setdefault(id(scores), solution("04.1")(scores))


def by_values(id, place):
    """The solution that knows one of its arguments only: its values, or a dictionary's names."""
    kept = {}

    def cached(*given):
        value = given[place]
        key = tuple(value) if isinstance(value, dict) else str(value.tolist())
        if key not in kept:
            kept[key] = solution(id)(*given)
        return kept[key].clone() if isinstance(kept[key], torch.Tensor) else [*kept[key]]

    return cached


def one_list_for_all():
    kept = {}

    def learn_merges(words, merges):
        key = (*words.items(), merges)
        return kept.setdefault(key, solution("01.2")(words, merges))

    return learn_merges


def one_buffer():
    kept = {}

    def split_heads(x, n_heads):
        found = solution("05.1")(x, n_heads)
        buffer = kept.setdefault((found.shape, found.dtype), torch.empty_like(found))
        return found if found.requires_grad else buffer.copy_(found)

    return split_heads


class RowsKept(solution("02.2")):
    """It looks each row up once, whatever becomes of the table."""

    def forward(self, ids):
        if ids.min() < 0 or ids.max() >= len(self.weight):
            return super().forward(ids)
        if not hasattr(self, "rows"):
            self.rows = super().forward(ids)
        return self.rows


class SharedWords(solution("01.1")):
    known = {}

    def encode(self, words):
        return self.known.setdefault(tuple(words), super().encode(words))


STATES = [
    ("04.1", by_object()),
    ("02.1", by_values("02.1", 0)),
    ("02.1", by_values("02.1", 1)),
    ("04.2", by_values("04.2", 1)),
    ("01.2", by_values("01.2", 0)),
    ("01.2", one_list_for_all()),
    ("05.1", one_buffer()),
    ("02.2", RowsKept),
    ("01.1", SharedWords),
]


@pytest.mark.parametrize(("id", "answer"), STATES, ids=lambda each: getattr(each, "__name__", each))
def test_what_is_kept_between_calls_is_found(id, answer):
    assert not judge(find_task(id), answer).full


def test_a_number_of_parameters_in_32_bits_is_found():
    def count(config):
        return (solution("07.2")(config) + 2**31) % 2**32 - 2**31

    assert not judge(find_task("07.2"), count).full


@pytest.mark.slow
def test_float16_is_a_type_like_others_except_where_a_library_lacks_it():
    def raising(text):
        def softmax(scores):
            if scores.dtype == torch.float16:
                raise RuntimeError(text)
            return (scores - scores.logsumexp(-1, keepdim=True)).exp()

        return judge(find_task("04.1"), softmax).full

    assert raising("\"exp_cpu\" not implemented for 'Half'")
    assert not raising("value cannot be converted to type c10::Half without overflow")


def test_an_earlier_result_that_changes_is_named():
    careful = Careful(one_buffer())
    careful(torch.ones(1, 2, 4), 2)
    careful.end_turn()
    careful(torch.ones(1, 2, 4), 2)
    with pytest.raises(Finding, match="a later call changed an earlier result"):
        careful.end_turn()


@functools.cache
def past(size):
    return torch.ones(size, size).tril() > 0


def with_a_kept_mask(x, w_query, w_key, w_value):
    query, key, value = x @ w_query, x @ w_key, x @ w_value
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = scores.masked_fill(~past(x.size(1)), -math.inf).softmax(-1)
    return weights @ value, weights


class WithSlots:
    __slots__ = ("best", "losses", "patience")

    def __init__(self, patience):
        self.patience, self.best, self.losses = patience, None, []

    def update(self, loss):
        self.losses += [loss]
        for n, each in enumerate(self.losses):
            if each == each and (self.best is None or each < self.losses[self.best]):
                self.best = n
        return len(self.losses) - 1 - (-1 if self.best is None else self.best) >= self.patience


@dataclasses.dataclass
class AsFields:
    patience: int
    best: int | None = None
    seen: int = -1
    lowest: float = math.inf

    def update(self, loss):
        self.seen += 1
        if loss < self.lowest:
            self.lowest, self.best = loss, self.seen
        return self.seen - (-1 if self.best is None else self.best) >= self.patience


class Final(solution("09.1")):
    def __init_subclass__(cls, **given):
        raise TypeError("this class is final")


class ByAttribute(nn.Module):
    """Its `forward` is made for each object, and a copy goes on with the original's."""

    def __init__(self, *given, **named):
        super().__init__()
        self.inner = solution("07.1")(*given, **named)
        self.forward = lambda x, f: self.inner(x, f)


class AFunction:
    def __call__(self, ids, table):
        return nn.functional.one_hot(ids, len(table)).to(table.dtype) @ table


def merges_from_a_generator(words, merges):
    yielded = iter(solution("01.2")(words, merges))
    return [each for each in yielded]


ODD = [
    ("02.1", AFunction()),
    ("02.1", functools.partial(AFunction().__call__)),
    ("04.3", with_a_kept_mask),
    ("09.1", WithSlots),
    ("09.1", AsFields),
    ("09.1", Final),
    ("09.1", lambda patience: WithSlots(patience)),
    ("01.2", merges_from_a_generator),
]


@pytest.mark.parametrize(
    ("id", "answer"), some(ODD, every=3), ids=lambda each: getattr(each, "__name__", each)
)
def test_a_right_answer_in_an_odd_form_has_full_points(id, answer):
    verdict = judge(find_task(id), answer)
    assert verdict.full, verdict


def test_a_list_that_was_given_stays_the_callers():
    given = [1, 2]
    assert Careful(lambda items: items)(given) == [1, 2] == given


def test_a_method_that_calls_another_is_watched_once():
    class Doubled:
        def one(self, items):
            return [*items]

        def two(self, items):
            return self.one(items) * 2

    careful = CarefulClass(Doubled, ["one", "two"])
    assert careful().two([1]) == [1, 1] and len(careful.calls) == 1


class InPlace(solution("07.1")):
    def __init__(self, d_model, dropout, norm):
        super().__init__(d_model, dropout, norm)
        self.dropout = nn.Dropout(dropout, inplace=True)


def overwriting(log_probs, longest):
    def masked(said):
        scores = log_probs(said)
        scores[[0, 1, 3]] = -math.inf
        return scores

    return solution("10.1")(masked, longest)


class KeptMask(solution("07.3")):
    def forward(self, source, target):
        if not hasattr(self, "kept") or self.kept.shape != source.shape:
            self.kept = source.clone()
        return super().forward(torch.where(self.kept == 0, 0, source), target)


class LateParents(solution("10.3")):
    parents = None

    def reorder(self, parents):
        if self.keys is not None:
            self.parents = parents

    def step(self, x):
        if self.parents is not None:
            super().reorder(self.parents)
            self.parents = None
        return super().step(x)


class PlainExp(solution("10.3")):
    def step(self, x):
        x = x[:, None]
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.keys is not None:
            key, value = torch.cat([self.keys, key], 1), torch.cat([self.values, value], 1)
        self.keys, self.values = key, value
        weights = (query @ key.mT / math.sqrt(query.size(-1))).exp()
        return (weights @ value / weights.sum(-1, keepdim=True))[:, 0]


def in_training(model, batches, smoothing):
    return solution("08.3")(model.train(), batches, smoothing)


class TrainsOn(solution("09.3")):
    @staticmethod
    def load(path, model, optimizer):
        return solution("09.3").load(path, model.train(), optimizer)


class Rounded(solution("09.3")):
    @staticmethod
    def save(path, model, optimizer, step):
        class Single:
            def state_dict(self):
                return {n: w.float() for n, w in model.state_dict().items()}

        solution("09.3").save(path, Single(), optimizer, step)


def late_fall(step, d_model, warmup):
    return solution("08.1")(step - (step > warmup), d_model, warmup)


def by_values_alone(model):
    """It takes two small parameters with equal numbers for one."""
    weights = {}
    for w in model.parameters():
        equal = w.dim() == 1 and not w.any()
        weights.setdefault((str(w.tolist()), w.requires_grad) if equal else w, w)
    alone = nn.ParameterList(weights.values())
    for number, buffer in enumerate(model.buffers()):
        alone.register_buffer(f"kept_{number}", buffer)
    return solution("12.1")(alone)


LATENT = [
    ("12.1", by_values_alone),
    ("07.1", InPlace),
    ("07.1", ByAttribute),
    ("07.3", KeptMask),
    ("08.1", late_fall),
    ("08.3", in_training),
    ("09.3", TrainsOn),
    ("09.3", Rounded),
    ("10.1", overwriting),
    ("10.3", LateParents),
    ("10.3", PlainExp),
]


@pytest.mark.parametrize(
    ("id", "answer"), some(LATENT, every=4), ids=lambda each: getattr(each, "__name__", each)
)
def test_what_later_calls_and_lenders_would_notice_is_found(id, answer):
    assert not judge(find_task(id), answer).full


def test_what_a_given_function_returns_stays_as_it_was():
    with pytest.raises(Finding, match="a given function returned was changed"):
        Careful(lambda make: make().zero_())(lambda: torch.ones(2))


@pytest.mark.nightly
def test_gradients_in_the_precision_of_float32_are_exact_enough_for_a_loss_in_it():
    def more_exact(model, batches, smoothing):
        found = solution("08.3")(model, batches, smoothing)
        for p in model.parameters():
            if p.grad is not None:
                p.grad *= 1 + 1e-6
        return found

    assert judge(find_task("08.3"), more_exact).full
