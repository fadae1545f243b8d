"""Rates of the usual families raise no alarm; those that go on past their end do."""

import pytest
import torch
from torch.optim import lr_scheduler as schedules

from nmtcheck.checks.recorded import odd_first, rising_end, second_warm_up

COUNT = 60


def rates_of(make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler, used = make(optimizer), []
    for _ in range(COUNT):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return used


def noam(step):
    return min((step + 1) ** -0.5, (step + 1) * 20**-1.5)


SOUND = {
    "noam": lambda o: schedules.LambdaLR(o, noam),
    "from zero": lambda o: schedules.LambdaLR(o, lambda n: min(n / 20, 1)),
    "constant": lambda o: schedules.LambdaLR(o, lambda n: 1.0),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.95),
    "steps": lambda o: schedules.StepLR(o, 20),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, COUNT),
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 25),
    "one cycle": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=COUNT + 1),
    "triangles": lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=12),
}
WRONG = {
    "cosine past its end": lambda o: schedules.CosineAnnealingLR(o, 30),
    "the larger of two": lambda o: schedules.LambdaLR(
        o, lambda n: max((n + 1) ** -0.5, (n + 1) * 9**-1.5)
    ),
}


@pytest.mark.parametrize("family", SOUND)
def test_a_family_of_schedules_is_sound(family):
    used = rates_of(SOUND[family])
    assert not any(law(used) for law in (odd_first, rising_end, second_warm_up)), used


@pytest.mark.parametrize("family", WRONG)
def test_a_schedule_that_goes_on_past_its_end_is_not(family):
    said, cause = rising_end(rates_of(WRONG[family]))
    assert "then rises to the end" in said and "larger of two" in cause


def test_a_warm_up_in_each_epoch_is_seen():
    used = rates_of(SOUND["noam"])[:25]
    assert "at update 26" in second_warm_up(used + used)[0]


def test_a_first_rate_that_no_schedule_has_set_is_seen():
    used = rates_of(SOUND["noam"])
    assert odd_first([0.1, *used[1:]])[0].startswith("the first update has the rate 0.1")
