"""The records of notebook 13 say what they hold, and its pictures show it."""

from nmtcourse.teaching import case_studies
from nmtlib.training.history import EpochRecord


def history(scale):
    names = EpochRecord.__dataclass_fields__
    return [
        EpochRecord(**{**dict.fromkeys(names, scale / epoch), "epoch": epoch, "updates": epoch})
        for epoch in (1, 2, 3)
    ]


def test_every_quoted_sentence_is_judged_once():
    judged = case_studies.judged()
    assert sorted(n for group in judged["kinds"].values() for n in group) == list(range(40))
    assert len(judged["said"]) == 40


def test_own_captions_are_pairs_that_are_not_in_the_quoted_sentences():
    own = case_studies.own_captions()
    assert len({pair.source for pair in own}) == 20
    assert all(pair.source[-1] == pair.target[-1] == "." for pair in own)
