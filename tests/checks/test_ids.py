"""PAD, BOS and EOS are found out where an adapter does not say them."""

from dataclasses import replace

import pytest
from torch import nn

from nmtcheck import Adapter, ours, run_checks
from nmtcheck.connect.ids import find_ids, with_ids

OURS = ours()


def hiding(hidden, **facts):
    """nmtlib's model for sentences in which 0 and `hidden` are exchanged."""

    def exchanged(ids):
        return ids + (ids == 0) * hidden - (ids == hidden) * hidden

    return Adapter(
        make_model=OURS.make_model,
        logits=lambda model, source, target: model(exchanged(source), exchanged(target)),
        **facts,
    )


@pytest.mark.parametrize(("pad", "usual"), [(0, (1, 2)), (1, (2, 3)), (2, (0, 1)), (3, (1, 2))])
def test_the_id_that_a_model_hides_is_its_pad(pad, usual):
    found, note = find_ids(hiding(pad))
    assert found == (pad, *usual) and f"Your PAD seems to be {pad}" in note


def test_no_false_alarm_comes_from_an_unusual_pad():
    found = run_checks(hiding(2), only=["masks", "model.batch_invariance"])
    assert found.ok and "seems to be 2" in found.note
    wrong = run_checks(hiding(2, pad=0), only=["masks", "model.batch_invariance"])
    assert not wrong.ok


def test_ids_that_are_said_are_taken():
    assert find_ids(hiding(2, pad=0, bos=5, eos=6)) == ((0, 5, 6), "")
    assert with_ids(Adapter(pad=1)) == (1, 2, 3) and with_ids(Adapter(pad=1, bos=3)) == (1, 3, 2)


def test_embeddings_tell_where_every_id_is_seen():
    def make_model(sizes):
        model = OURS.make_model(sizes)
        model.extra = nn.Embedding(5, 3, padding_idx=1)
        return model

    seen = replace(hiding(0), logits=lambda m, s, t: m(s + 1, t))
    assert find_ids(replace(seen, make_model=make_model))[0].pad in (0, 1)


def test_a_model_that_fails_is_left_to_the_checks():
    report = run_checks(Adapter(make_model=lambda sizes: None), only="model.shape")
    assert [r.verdict for r in report.results] == ["failed"]
