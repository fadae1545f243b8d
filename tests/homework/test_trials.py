"""Inputs are drawn, shrunk and compared as the graders promise; solutions agree with libraries."""

import os
import random
import subprocess
import sys
from types import SimpleNamespace

import pytest
import tokenizers
import torch
from sacrebleu.metrics import BLEU
from torch import nn

from nmtcourse.homework.catalogue import find_task
from nmtcourse.homework.compare import Finding, described, same
from nmtcourse.homework.grading import judge
from nmtcourse.homework.inputs import HALVES, TYPES, Draw, shrink
from nmtcourse.homework.laws import unchanged
from nmtcourse.homework.operations import Operations
from nmtcourse.homework.signatures import Float, Mask, Size, draw_arguments
from nmtcourse.teaching.alignment import alignment_error_rate
from nmtlib.model import Transformer, TransformerConfig
from nmtlib.training.loss import label_smoothed_loss
from nmtlib.training.schedule import noam_rate

WORDS = "bade badi bika dabe dika kabi kade kidabe kika beka dakabi kabade bidabe dekabi".split()
MANY = {"x": Float("... T S"), "n": Size("H"), "mask": Mask("T S | 1 S", optional=True)}


def drawn(draw):
    sizes = draw.sizes(3)
    return sizes, draw.dtype, draw.normal(*sizes), draw.random.random()


def test_the_same_choices_give_the_same_input_and_turn_1_other_numbers_of_these_sizes():
    for number in range(20):
        draw = Draw(number)
        sizes, dtype, x, *rest = drawn(draw)
        again = drawn(draw.again())
        assert (sizes, dtype, rest) == (*again[:2], list(again[3:]))
        assert torch.equal(x, again[2]) and x.stride() == again[2].stride()
        other = drawn(draw.again(1))
        assert other[0] == sizes and other[1] == dtype and not torch.equal(other[2], x)


SHOWN = """
import hashlib, random, re, sys, tempfile, numpy, torch
for seeded in (torch.manual_seed, random.seed, numpy.random.seed):
    seeded(int(sys.argv[1]))
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import copy_value
from nmtcourse.homework.trials import arguments_of, guard_answer, observe
torch.set_printoptions(precision=8)
for task in (t for a in assignments().values() for t in a.tasks.values() if not t.uses):
    for prop in task.properties:
        for number in (1, 2):
            draw, subject = Draw(number), guard_answer(task, task.solution)
            seen, raised = observe(prop, subject, draw)
            shown = [(each.what, each.value) for each in seen], arguments_of(subject), draw.choices
            shown = [*map(copy_value, shown), draw.random.getstate(), draw.generator.get_state()]
            shown = re.sub(f" at 0x[0-9a-f]+|{tempfile.gettempdir()}/[^']*", "", repr(shown))
            print(task.id, prop.statement[:40], number, hashlib.sha256(shown.encode()).hexdigest())
"""


@pytest.mark.nightly
def test_every_task_has_the_same_inputs_whatever_is_seeded():
    """Numbers and structure, in processes that differ in all seeds, that of hashes among them."""
    shown = []
    for seed in ("1", "2"):
        own = os.environ | {"PYTHONHASHSEED": seed, "NMTLIB_HOMEWORK_SEED": seed}
        code = [sys.executable, "-c", SHOWN, seed]
        shown.append(subprocess.run(code, env=own, capture_output=True, text=True, check=True))
    first, other = (each.stdout.splitlines() for each in shown)
    assert len(first) > 200
    assert [line for line, same in zip(first, other, strict=True) if line != same] == []


def test_every_property_meets_the_extremes():
    draws = [Draw(number) for number in range(48)]
    given = [draw_arguments(MANY, draw) for draw in draws]
    sizes = [[*draw.known.values()] for draw in draws]
    assert any(max(each) > 100 for each in sizes) and any({*each} == {1} for each in sizes)
    assert any(len({*each}) == 1 < each[0] for each in sizes)
    assert any(len({*each}) == 3 for each in sizes)
    tensors = [each["x"] for each in given]
    assert {x.is_contiguous() for x in tensors} == {True, False}
    assert {x.dtype for x in tensors} == {*TYPES, *HALVES}
    assert any(x.numel() > 3 and torch.equal(x, x.round()) for x in tensors)


def test_scores_are_drawn_as_large_as_page_05_says_and_no_larger():
    largest = 0.0
    for number in range(96):
        given = draw_arguments(find_task("05.2").signature, Draw(number))
        query, key = given["query"], given["memory"]
        query, key = (x @ given["weights"][n] for x, n in ((query, "query"), (key, "key")))
        query, key = (x.unflatten(-1, (given["n_heads"], -1)).mT for x in (query, key))
        scores = torch.einsum("btkh,bskh->bhts", query, key) / query.size(-2) ** 0.5
        largest = max(largest, float(scores.abs().max()))
    assert 30_000 < largest <= 100_000


@pytest.mark.parametrize("first", range(1, 100, 10))
def test_a_fault_is_shrunk_to_the_simplest_input(first):
    def fails(choices):
        draw = Draw(0, choices)
        sizes = draw.sizes(3)
        return SimpleNamespace(choices=draw.choices) if sizes[1] > 3 else None

    start = next(d for n in range(first, 999) if (d := Draw(n)).sizes(3)[1] > 3)
    assert Draw(0, shrink(start.choices, fails).choices).sizes(3) == [2, 4, 4]


def test_a_call_may_change_nothing_that_the_caller_holds():
    layer = nn.Linear(2, 2)
    changes = {
        "a list": ([3, 1], lambda x: x.sort()),
        "a dictionary": ({"a": torch.ones(2)}, lambda x: x["a"].add_(1)),
        "its names": ({"a": 1}, lambda x: x.update(b=2)),
        "a tensor": (torch.ones(2), lambda x: x.mul_(2)),
        "its flag": (torch.ones(2), lambda x: x.requires_grad_()),
        "a set": ({1}, lambda x: x.add(2)),
        "a mode": (layer, lambda x: x.eval()),
        "a weight": (layer, lambda x: nn.init.zeros_(x.weight)),
        "a hook": (layer, lambda x: x.register_forward_hook(print)),
    }
    for value, change in changes.values():
        with unchanged(value=value):
            pass
        with pytest.raises(Finding, match="was changed"), unchanged(value=value):
            change(value)


def test_operations_follow_a_table_through_copies_but_not_through_a_product():
    table, ids = torch.randn(5, 3), torch.tensor([1, 2])
    for call, expected in (
        (lambda: table[ids], True),
        (lambda: table.clone().index_select(0, ids), True),
        (lambda: torch.eye(5)[ids] @ table, False),
        (lambda: (torch.eye(5)[ids] @ table)[0], False),
        (lambda: (table.new_zeros(2, 5)[0], torch.zeros_like(table)[0]), False),
    ):
        with Operations(of=table) as operations:
            call()
        assert bool({*operations.touched} & {"index", "index_select", "select"}) == expected


def test_equal_is_equal_in_type_and_up_to_rounding():
    same([1.0, torch.ones(2)], [1.0 + 1e-6, torch.ones(2)], "x")
    same({"b": 1, "a": 2}, {"a": 2, "b": 1}, "x")
    same(torch.tensor([torch.inf, torch.nan]), torch.tensor([torch.inf, torch.nan]), "x")
    for result, expected in (
        ([1, 2], [1, 2, 3]),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.tensor([torch.inf]), torch.tensor([-torch.inf])),
        (1, True),
        (0.5, 0.6),
        (torch.ones(1, 2), torch.ones(2)),
        (None, torch.ones(2)),
    ):
        with pytest.raises(Finding):
            same(result, expected, "x")
    assert described({"x": torch.zeros(2, 5), "n": 2}) == "x of shape (2, 5), n = 2"


def test_a_result_kept_for_a_size_is_found():
    kept = {}

    def softmax(scores):
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return kept.setdefault((scores.shape, scores.dtype), powers / powers.sum(-1, keepdim=True))

    assert not judge(find_task("04.1"), softmax).full


def test_a_verdict_is_the_same_each_time():
    task = find_task("05.1")
    wrong = next(iter(task.wrong.values()))
    torch.manual_seed(1)
    first = str(judge(task, wrong))
    torch.manual_seed(2)
    assert str(judge(task, wrong)) == first and "x = torch.tensor" in first


def test_the_solutions_agree_with_libraries():
    chance = random.Random(0)
    for _ in range(10):
        length = {k: chance.randint(3, 12) for k in range(6)}
        pairs = [[chance.choices("abcd", k=n) for n in length.values()] for _ in range(2)]
        metric = BLEU(tokenize="none", smooth_method="none", force=True)
        joined = [[" ".join(words) for words in side] for side in pairs]
        expected = metric.corpus_score(joined[0], [joined[1]]).score
        assert find_task("11.2").solution(*pairs) == pytest.approx(expected)
        links = [
            [{(chance.randrange(4), chance.randrange(4)) for _ in range(3)} for _ in range(5)]
            for _ in range(2)
        ]
        rate = find_task("11.1").solution(*links)
        assert rate == pytest.approx(alignment_error_rate(*links))
    words = {word: 40 * n + chance.randint(1, 39) for n, word in enumerate(WORDS, 1)}
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    letters = len({letter for word in words for letter in word})
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=letters + 12, show_progress=False)
    model.train_from_iterator((w for w, n in words.items() for _ in range(n)), trainer)
    pieces = sorted(model.get_vocab().items(), key=lambda item: item[1])[letters:]
    merges = find_task("01.2").solution(words, 12)
    assert sorted("".join(pair) for pair in merges) == sorted(piece for piece, _ in pieces)
    for step in (1, 7, 40, 900):
        assert find_task("08.1").solution(step, 64, 40) == pytest.approx(noam_rate(step, 64, 40))
    logits, labels = torch.randn(3, 4, 7), torch.randint(0, 7, (3, 4))
    expected = label_smoothed_loss(logits, labels, 0.1)
    assert torch.allclose(find_task("08.2").solution(logits, labels), expected)
    for options in ({"norm": "pre", "tied": "all"}, {"norm": "post", "positions": "learned"}):
        config = TransformerConfig(30, 30, d_model=16, n_heads=2, **options)
        size = sum(p.numel() for p in Transformer(config).parameters())
        assert find_task("07.2").solution(config) == size


def test_the_solution_counts_the_bytes_that_adam_holds():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[2].requires_grad_(False)
    model[3].weight = model[2].weight
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    held = [*model.parameters(), *model.buffers()]
    held += [p.grad for p in model.parameters() if p.grad is not None]
    for state in optimizer.state.values():
        held += [state["exp_avg"], state["exp_avg_sq"]]
    expected = sum(t.nbytes for t in {id(t): t for t in held}.values())
    assert find_task("12.1").solution(model) == expected
