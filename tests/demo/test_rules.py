"""Forecasts of how rules handle a fault, compared with a simulation of the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.demo.faults import SPAN, Corruption, Damage, Outage, erase, plan_faults
from holdfast.demo.rules import FIXED_HIGH, FIXED_LOW, Rule
from holdfast.durations import DAY
from holdfast.model.action import Action

BLOCKS = 1000


def test_the_rules_are_those_of_the_paper() -> None:
    assert Action(1, 0.10) == FIXED_HIGH.action
    assert Action(7, 0.01) == FIXED_LOW.action
    assert (FIXED_HIGH.audits(SPAN), FIXED_LOW.audits(SPAN)) == (28, 4)


def test_the_chance_and_the_day_are_those_of_audits_that_are_drawn() -> None:
    steps = tuple(Damage(day * DAY, tuple(range(3 * day, 3 * day + 3))) for day in range(2, 20))
    fault = Corruption("rot", "barn", steps, erase)
    rule, rng, detected_on = Rule("weekly", Action(7, 0.03)), np.random.default_rng(5), []
    for _ in range(4000):
        for week in range(1, 5):
            sample = rng.choice(BLOCKS, 30, replace=False)
            if fault.damaged(7 * week * DAY) & set(sample.tolist()):
                detected_on.append(7 * week)
                break
    forecast = rule.forecast(fault, SPAN, BLOCKS)
    assert forecast.probability == pytest.approx(len(detected_on) / 4000, abs=0.03)
    assert forecast.day == pytest.approx(np.mean(detected_on), abs=0.4)


@given(st.integers(0, 27), st.integers(1, 27))
def test_an_outage_is_noticed_if_an_audit_falls_into_it(begins: int, lasts: int) -> None:
    fault = Outage("loft", begins * DAY + 1, (begins + lasts) * DAY + 1)
    days = [day for day in (7, 14, 21, 28) if begins < day <= begins + lasts]
    forecast = FIXED_LOW.forecast(fault, SPAN, BLOCKS)
    assert forecast.probability == bool(days)
    assert forecast.day == (days[0] if days else None)


def test_nothing_is_found_before_it_is_there() -> None:
    for fault in plan_faults(BLOCKS, seed=3):
        assert FIXED_HIGH.forecast(fault, fault.begins - 1, BLOCKS).probability == 0
