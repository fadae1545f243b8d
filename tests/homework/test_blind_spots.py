"""Wrong answers of kinds that inputs once did not show, and a right one that was refused."""

import pytest

from nmtcourse.homework.catalogue import find_task
from nmtcourse.homework.grading import judge
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import undisturbed
from nmtcourse.homework.trials import LiveAnswer, try_answer

IN_PLACE = """\
if not torch.is_grad_enabled():
            return embedded.add_(self.table[start:end])
        return embedded + self.table[start:end]"""
NEVER_DROPS = """\
if not torch.is_grad_enabled():
            return x + f(self.norm(x)) if self.kind == "pre" else self.norm(x + f(x))
        if self.kind == "pre\""""
HERE = ('path.with_name(path.name + ".new")', 'Path("checkpoint.tmp")')
BACKUP = """\
if path.exists():
            path.with_name(path.name + ".bak").write_bytes(path.read_bytes())
        new.replace(path)"""
WRONG = {
    "a set is not sorted": ("06.2", [("return sorted(found)", "return list(found)")]),
    "a mask for 512 words": (
        "04.3",
        [("torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()",
          "torch.ones(512, 512, dtype=torch.bool).tril()[: x.size(1), : x.size(1)]")],
    ),
    "scores are limited": (
        "04.1", [("powers = (scores", "powers = ((scores := scores.clamp(-1e4))")],
    ),
    "in place without gradients": (
        "03.3", [("return embedded + self.table[start:end]", IN_PLACE)],
    ),
    "no dropout without gradients": ("07.1", [('if self.kind == "pre"', NEVER_DROPS)]),
    "a temporary file elsewhere": ("09.3", [HERE]),
    "a temporary file elsewhere is copied": (
        "09.3", [HERE, ("new.replace(path)", 'import shutil\n        shutil.move(new, path)')]
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_answer_is_refused(how):
    id, edits = WRONG[how]
    task = find_task(id)
    answer = task.build(task.edited(edits))
    with undisturbed():
        assert any(
            try_answer(prop, LiveAnswer(task, answer), Draw(number)).finding
            for prop in task.properties
            for number in range(prop.draws)
        )


@pytest.mark.slow
def test_a_checkpoint_may_leave_a_backup():
    task = find_task("09.3")
    assert judge(task, task.build(task.edited([("new.replace(path)", BACKUP)]))).full
