"""A plan is the best setting that keeps what was asked for, and its figures are honest."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.measures import measured

from holdfast.control.planning import planner
from holdfast.control.planning.costs import Currency, Prices
from holdfast.control.planning.planner import (
    Plan,
    PlanRequest,
    Point,
    Trials,
    better,
    choose,
)
from holdfast.errors import InputError
from holdfast.model.estimate import Estimate
from holdfast.policy.registry import policy_named
from holdfast.sim.evaluation import evaluate
from holdfast.sim.frontier import frontier
from holdfast.sim.measures import Measures
from holdfast.sim.scenario_file import load_scenario

YEAR = Prices(months=12, holdings=1, gas=1.0)  # so that audits are gas
CHEAP = Point("cheap", measured(audits=12.0, miss_rate=0.5, latency=20.0, found=0.25))
FAIR = Point("fair", measured(audits=24.0, miss_rate=0.25, latency=10.0, found=0.5))
DEAR = Point("dear", measured(audits=48.0, miss_rate=0.125, latency=6.0, found=1.0))
POOR = Point("poor", measured(audits=36.0, miss_rate=0.375, latency=4.0, found=0.125))
POINTS = [DEAR, CHEAP, POOR, FAIR]


def again(name: str) -> Point:
    return next(point for point in POINTS if point.policy == name)


def planned(wish: PlanRequest, fresh: Callable[[str], Point] = again) -> Plan:
    return choose(POINTS, wish.limits(YEAR), wish.aim(YEAR), fresh)


def gas(measures: Measures) -> Estimate:
    return YEAR.cost(measures, Currency.GAS)


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        (PlanRequest(Currency.GAS, budget=2.5), "fair"),
        (PlanRequest(Currency.GAS, budget=2.4), "cheap"),  # the worse end of the interval counts
        (PlanRequest(Currency.GAS, budget=100.0), "dear"),
        (PlanRequest(Currency.GAS, ceiling=0.3125), "fair"),
        (PlanRequest(Currency.GAS, ceiling=0.9), "cheap"),
        (PlanRequest(Currency.GAS, ceiling=0.9, latency=5.0), "poor"),
        (PlanRequest(Currency.GAS, deadline=7, share=0.375), "fair"),
        (PlanRequest(Currency.GAS, budget=4.0, latency=15.0), "fair"),
    ],
)
def test_the_best_setting_that_keeps_the_wish_is_chosen(wish: PlanRequest, name: str) -> None:
    assert planned(wish).fresh.policy == name


@pytest.mark.parametrize(
    ("wish", "nearest"),
    [
        (PlanRequest(Currency.GAS, budget=1.0), "a month costs at least 1.250 gas$"),
        (PlanRequest(Currency.GAS, ceiling=0.1), "the lowest ceiling is 0.1563$"),
        (PlanRequest(Currency.GAS, deadline=7), "at most 75.0% is surely found within 7 units$"),
        (
            PlanRequest(Currency.GAS, budget=3.0, ceiling=0.2),
            "a month costs at least 5.000 gas, all else",
        ),
        (
            PlanRequest(Currency.GAS, ceiling=0.4, latency=5.0),
            "the lowest ceiling is 0.4688, all else",
        ),
        (PlanRequest(Currency.GAS, budget=0.5, ceiling=0.01, latency=1.0), "ask for less at once"),
    ],
)
def test_what_cannot_be_is_answered_with_the_nearest_that_can(
    wish: PlanRequest, nearest: str
) -> None:
    with pytest.raises(InputError, match=f"no setting of the policy can do that: {nearest}"):
        planned(wish)


def test_a_wish_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="a budget, a ceiling or a deadline"):
        PlanRequest(Currency.GAS, latency=9.0)


def test_a_setting_that_fresh_episodes_belie_gives_way_to_the_next() -> None:
    def sobering(name: str) -> Point:
        return Point(name, measured(miss_rate=0.5)) if name == "fair" else again(name)

    wish = PlanRequest(Currency.GAS, ceiling=0.4)
    assert planned(wish, sobering).fresh.policy == "dear"
    with pytest.raises(InputError, match=r"the lowest ceiling is 0\.6250"):
        planned(wish, lambda name: Point(name, measured(miss_rate=0.5)))


def test_a_world_without_damage_needs_no_plan() -> None:
    sound = [Point("any", measured(miss_rate=math.nan))]
    with pytest.raises(InputError, match="nothing to plan for"):
        choose(sound, (), lambda _: 0.0, again)


def test_the_frontier_is_what_nothing_beats() -> None:
    unmeasured = Point("unmeasured", measured(miss_rate=math.nan, audits=0.1))
    places = frontier([*POINTS, unmeasured], lambda p: (gas(p.measures).value, misses(p)))
    assert places == [CHEAP, FAIR, DEAR]
    worse = Point("worse", measured(audits=48.0, miss_rate=0.5))
    assert better(POINTS, worse, gas) == [FAIR]
    assert better(POINTS, POOR, gas) == [], "their intervals overlap"


def misses(point: Point) -> float:
    return point.measures.miss_rate.value


FIGURES = st.lists(
    st.tuples(st.floats(1, 100), st.floats(0.01, 0.9), st.floats(0.8, 1.25)), min_size=1
)


@given(FIGURES, st.floats(0.1, 12))
@example([(1.0, math.nextafter(0.0104, 1), 1.0)], 12.0)  # its interval ends just above 0.013
def test_the_ceiling_of_a_budget_leads_back_to_a_plan_that_costs_no_more(
    figures: list[tuple[float, float, float]], budget: float
) -> None:
    points = [
        Point(str(index), measured(audits=audits, miss_rate=misses))
        for index, (audits, misses, _) in enumerate(figures)
    ]

    def fresh(name: str) -> Point:
        audits, misses, luck = figures[int(name)]
        return Point(name, measured(audits=audits, miss_rate=misses * luck))

    wish = PlanRequest(Currency.GAS, budget=budget)
    limits, aim = wish.limits(YEAR), wish.aim(YEAR)
    if not any(limits[0].kept(point) for point in points):
        return
    there = choose(points, limits, aim, fresh)
    inverse = PlanRequest(Currency.GAS, ceiling=there.ceiling)
    back = choose(points, inverse.limits(YEAR), inverse.aim(YEAR), fresh)
    assert gas(back.chosen.measures).high <= gas(there.chosen.measures).high <= budget
    assert back.fresh.measures.miss_rate.high <= there.ceiling


WORLD = load_scenario("paper:horizon=60,blocks=100,malicious_rate=0.02")
# Settings that hardly differ, so that the luckiest of a comparison looks better than it is.
ALIKE = ("constant:7,0.20", "constant:7,0.10", "constant:5,0.20")


@pytest.mark.slow
def test_the_interval_of_a_plan_covers_the_truth_though_it_was_chosen() -> None:
    truth = {}
    for name in ALIKE:
        tally = evaluate(policy_named(name, WORLD), WORLD, episodes=5000, seed=99)
        misses, detections = tally.misses.sum(), tally.detections.sum()
        truth[name] = float(misses / (misses + detections))
    wish = PlanRequest(Currency.GAS, budget=math.inf)
    covered, flattered, fair = 0, 0.0, 0.0
    for seed in range(25):
        trials = Trials(WORLD, episodes=20, seed=seed)
        points = [trials.point(name) for name in ALIKE]
        plan = choose(points, wish.limits(YEAR), wish.aim(YEAR), trials.fresh().point)
        chosen, fresh = (each.measures.miss_rate for each in (plan.chosen, plan.fresh))
        real = truth[plan.fresh.policy]
        covered += fresh.low <= real <= fresh.high
        flattered, fair = flattered + chosen.value - real, fair + fresh.value - real
    # Fewer than 20 of 25 intervals at 95 % cover once in 800 times; here the seeds are fixed.
    assert covered >= 20
    assert flattered < -abs(fair), "so figures of the comparison would not be honest"


@pytest.mark.slow
def test_beside_the_settings_stand_the_planner_and_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner, "RULES", ("fixed-low",))
    world = load_scenario("paper:horizon=30,blocks=20")
    points = [
        Point("within reach", measured(miss_rate=0.7)),
        Point("out of", measured(miss_rate=0)),
    ]
    found = planner.references(points, Trials(world, episodes=20, seed=0))
    assert [point.policy for point in found] == ["belief:rho=0.525", "fixed-low"]
