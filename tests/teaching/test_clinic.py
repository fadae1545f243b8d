"""The clinic's map names real bugs, its cures undo them, and its patient errs as it should."""

import math
from itertools import pairwise

import pytest
import torch

from nmtcheck import CHECKS, bugs
from nmtcourse.teaching import clinic, learning, load_toy, plots, symptoms
from nmtcourse.teaching.learning import small_model
from nmtlib.data import PAD, collate, corpora
from nmtlib.training import measure_all

TRANSLATOR = load_toy("de-en")
EXAMPLES = learning.encoded(TRANSLATOR, corpora.load("toy-de-en").train[:24])


def test_each_suspect_is_in_the_catalogue_and_has_a_check():
    keys = [key for suspects in symptoms.SYMPTOMS.values() for key in suspects]
    assert len(set(keys)) == len(keys)
    assert all(set(bugs.get(key).caught_by) <= CHECKS.keys() for key in keys)


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.key)
def test_a_cure_takes_away_what_the_bug_added_and_twice_cured_is_ill(bug):
    cured, ill = clinic.cure(bug.diff()).splitlines(), bug.diff().splitlines()
    assert [x for x in cured if x[:1] not in "-+"] == [x for x in ill if x[:1] not in "-+"]
    assert {"+" + x[1:] for x in cured if x[0] == "-" and x[:4] != "--- "} == {
        x for x in ill if x[0] == "+" and x[:4] != "+++ "
    }
    changes = [x for x in cured if x[:4] not in ("--- ", "+++ ")]
    assert not any(a[0] == "+" and b[0] == "-" for a, b in pairwise(changes))
    assert clinic.cure("\n".join(cured)).splitlines() == ill


def test_the_patient_divides_by_sentences():
    model = small_model(TRANSLATOR, dropout=0.0)
    batches = [collate(EXAMPLES[:10]), collate(EXAMPLES[10:])]
    right = measure_all(model, EXAMPLES)
    words = sum(int((batch.labels != PAD).sum()) for batch in batches)
    assert words == right.labels
    expected = right.nll_per_token * words / len(EXAMPLES)
    assert math.isclose(clinic.validation_epoch(model, batches), expected, rel_tol=1e-5)


def test_parts_make_the_same_training_and_with_the_bug_another():
    batches = [EXAMPLES[:8], EXAMPLES[8:16], EXAMPLES[16:]]

    def gap():
        (whole, rates), (parts, others) = (
            clinic.learn_in_parts(TRANSLATOR, batches, n, seed=1) for n in (1, 4)
        )
        assert len(whole) == len(batches)
        return max(abs(a - b) for a, b in zip(whole, parts, strict=True)), rates == others

    assert gap()[0] < 1e-3 and gap()[1]
    with bugs.plant("schedule-per-micro-batch"):
        assert gap()[0] > 1e-2 and not gap()[1]


def test_learning_is_measured_on_the_way_and_repeats():
    runs = [
        clinic.learn(TRANSLATOR, EXAMPLES, EXAMPLES[:8], seed=3, updates=4, every=2)
        for _ in range(2)
    ]
    (one, curve), (other, again) = runs
    assert curve == again and curve[0] == [2, 4] and curve[1][1] < curve[1][0]
    assert not one.model.training and one.translate(["Tom schläft ."], beam=1)
    tensors = zip(one.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in tensors)


def test_the_map_writes_every_word_once_and_none_over_another():
    plots.setup()
    rows = [
        (symptom, bugs.get(key).title, bugs.get(key).caught_by[0])
        for symptom, keys in symptoms.SYMPTOMS.items()
        for key in keys
    ]
    ax = symptoms.draw_map(rows)
    said = [text.get_text() for text in ax.texts]
    assert len(said) == 3 + len(symptoms.SYMPTOMS) + 2 * len(rows)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent().padded(-1) for text in ax.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i]), said[i]
