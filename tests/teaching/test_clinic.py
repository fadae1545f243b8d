"""The clinic's map names real bugs, its cures undo them, and its patient errs as it should."""

from itertools import pairwise

from nmtcourse import bugs
from nmtcourse.teaching import clinic, learning, load_toy
from nmtlib.data import corpora

TRANSLATOR = load_toy("de-en")
EXAMPLES = learning.encoded(TRANSLATOR, corpora.load_corpus("toy-de-en").train[:24])


def test_a_cure_takes_away_what_the_bug_added_and_twice_cured_is_ill():
    for bug in bugs.BUGS:
        cured, ill = clinic.cure(bug.diff()).splitlines(), bug.diff().splitlines()
        assert [x for x in cured if x[:1] not in "-+"] == [x for x in ill if x[:1] not in "-+"]
        assert {"+" + x[1:] for x in cured if x[0] == "-" and x[:4] != "--- "} == {
            x for x in ill if x[0] == "+" and x[:4] != "+++ "
        }
        changes = [x for x in cured if x[:4] not in ("--- ", "+++ ")]
        assert not any(a[0] == "+" and b[0] == "-" for a, b in pairwise(changes))
        assert clinic.cure("\n".join(cured)).splitlines() == ill


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
