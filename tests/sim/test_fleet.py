"""The fleet and the single environment are the same world, and both obey its definition."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.model.action import GRID
from holdfast.model.observation import observe
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.sim import fleet
from holdfast.sim.draws import KeyedDraws, Rng, sample_key
from holdfast.sim.environment import AuditEnv
from holdfast.sim.reward import reward
from holdfast.sim.world import world_of

NODES = 12

# Everything that can happen does, within a few dozen steps.
LIVELY = replace(
    DRIFT, turn_malicious=0.05, turn_honest=0.05, malicious_rate=0.002, quiet_after=5, blocks=5000
)


@pytest.mark.parametrize(
    "scenario", [PAPER, DRIFT, FIELD, LIVELY], ids=["paper", "drift", "field", "lively"]
)
def test_the_fleet_equals_the_single_environment_step_by_step(scenario: Scenario) -> None:
    world = world_of(scenario)
    environments = [AuditEnv(scenario, multiplier=20.0) for _ in range(NODES)]
    first = [environment.reset(seed=k)[0] for k, environment in enumerate(environments)]
    draws = KeyedDraws(np.concatenate([sample_key(np.random.default_rng(k)) for k in range(NODES)]))
    nodes = fleet.start(world, NODES, draws)
    np.testing.assert_array_equal(observe(nodes.history, scenario.constants), first)

    chooser = np.random.default_rng(99)
    for _ in range(60):
        actions = chooser.integers(GRID.size, size=NODES)
        nodes, outcome = fleet.step(world, nodes, actions, draws)
        steps = [environment.step(a) for environment, a in zip(environments, actions, strict=True)]
        observations, rewards, _, truncated, infos = zip(*steps, strict=True)

        def listed(key: str, infos: tuple[dict[str, Any], ...] = infos) -> list[Any]:
            return [info[key] for info in infos]

        hidden = listed("hidden")
        np.testing.assert_allclose(
            observe(nodes.history, scenario.constants), observations, rtol=1e-6
        )
        np.testing.assert_allclose(reward(scenario, outcome, 20.0), rewards, rtol=1e-12)
        np.testing.assert_array_equal(outcome.finished, truncated)
        for key in ("encounter", "detection", "miss", "gas", "compute", "miss_probability"):
            np.testing.assert_array_equal(getattr(outcome, key), listed(key), err_msg=key)
        for key in ("malicious", "corrupted", "time"):
            assert getattr(nodes, key).tolist() == [node[key] for node in hidden]
        assert outcome.corrupted.tolist() == [node["corrupted_at_audit"] for node in hidden]
        np.testing.assert_allclose(
            outcome.growth.exposure(), [node["exposure"] for node in hidden], rtol=1e-9
        )
        onset = nodes.time - outcome.growth.interval + outcome.growth.first_unit()
        began = outcome.growth.began
        assert onset[began].tolist() == [
            node["time"] - node["delay"] for node, new in zip(hidden, began, strict=True) if new
        ]


def test_everything_lively_happens() -> None:
    """The scenario above would prove little if its nodes never turned or burst."""
    world = world_of(LIVELY)
    rng = np.random.default_rng(0)
    nodes = fleet.start(world, NODES, rng)
    turned = burst = False
    for _ in range(60):
        before = nodes
        nodes, _ = fleet.step(world, nodes, np.full(NODES, GRID.index_of(3, 0.01)), rng)
        turned |= bool((nodes.malicious != before.malicious).any())
        burst |= bool((nodes.bursting != before.bursting).any())
    assert turned
    assert burst


@pytest.mark.parametrize("keyed", [False, True], ids=["at once", "unit by unit"])
def test_an_interval_has_the_law_of_its_units(keyed: bool) -> None:
    """Count, first unit and exposure of 14 units, against 14 plain binomial draws."""
    scenario = replace(PAPER, honest_rate=0.0003, malicious_share=0.0)
    world, batch, units = world_of(scenario), 40_000, 14
    rng = np.random.default_rng(1)
    draws: Rng = KeyedDraws.of_episodes(1, range(batch)) if keyed else rng
    action = np.full(batch, GRID.index_of(units, 0.01))
    _, outcome = fleet.step(world, fleet.start(world, batch, draws), action, draws)
    growth = outcome.growth

    corrupted = np.zeros(batch, np.int64)
    first, exposure = np.full(batch, -1), np.zeros(batch)
    for unit in range(units):
        corrupted = corrupted + rng.binomial(scenario.blocks - corrupted, 0.0003)
        first[(first < 0) & (corrupted > 0)] = unit
        exposure += corrupted

    def histogram(values: Any) -> Any:
        return np.bincount(values, minlength=units)[:units] / batch

    tolerance = 4 * np.sqrt(0.25 * 2 / batch)  # four standard deviations of any one share
    assert np.abs(histogram(outcome.corrupted) - histogram(corrupted)).max() < tolerance
    assert growth.began.mean() == pytest.approx((first >= 0).mean(), abs=tolerance)
    by_unit = histogram(growth.first_unit()[growth.began]) - histogram(first[first >= 0])
    assert np.abs(by_unit).max() < tolerance
    assert growth.exposure().mean() == pytest.approx(exposure.mean(), rel=0.02)


@pytest.mark.parametrize("scenario", [PAPER, LIVELY, FIELD], ids=["paper", "lively", "field"])
def test_both_ways_to_draw_have_one_law(scenario: Scenario) -> None:
    """Six fortnights, whole intervals at once against unit by unit: means and spreads agree."""
    world, batch = world_of(replace(scenario, malicious_share=0.5)), 4000
    action = np.full(batch, GRID.index_of(14, 0.01))
    ways: list[Rng] = [np.random.default_rng(7), KeyedDraws.of_episodes(7, range(batch))]
    results = []
    for rng in ways:
        nodes, figures = fleet.start(world, batch, rng), []
        for _ in range(6):
            nodes, outcome = fleet.step(world, nodes, action, rng)
            figures += [
                outcome.corrupted,
                outcome.detection,
                outcome.malicious,
                nodes.load if scenario.latency_load else nodes.malicious,
                np.log(np.asarray(nodes.history.latency)),
                outcome.growth.exposure(),
            ]
        results.append(np.array(figures, np.float64))
    left, right = results
    error = np.sqrt((left.var(axis=1) + right.var(axis=1)) / batch)
    assert (np.abs(left.mean(axis=1) - right.mean(axis=1)) <= 4.5 * error).all()
    np.testing.assert_allclose(left.std(axis=1), right.std(axis=1), rtol=0.12)


def test_malicious_nodes_speed_up_after_a_quiet_period() -> None:
    scenario = replace(PAPER, malicious_share=1.0, quiet_after=10, quiet_factor=5.0)
    world, rng = world_of(scenario), np.random.default_rng(2)
    wait = np.full(4000, GRID.index_of(1, 0.01))
    nodes = fleet.start(world, 4000, rng)
    _, early = fleet.step(world, nodes, wait, rng)
    _, late = fleet.step(world, replace(nodes, quiet=nodes.quiet + 10), wait, rng)
    assert late.corrupted.mean() == pytest.approx(5 * early.corrupted.mean(), rel=0.05)


def test_finished_nodes_start_again_and_the_others_go_on() -> None:
    world, rng = world_of(PAPER), np.random.default_rng(3)
    nodes, _ = fleet.step(
        world, fleet.start(world, 4, rng), np.full(4, GRID.index_of(14, 0.01)), rng
    )
    again = fleet.restart(world, nodes, np.array([True, False, True, False]), rng)
    assert again.time.tolist() == [0, 14, 0, 14]
    assert again.corrupted[[0, 2]].tolist() == [0, 0]
    assert again.corrupted[[1, 3]].tolist() == nodes.corrupted[[1, 3]].tolist()
    assert np.asarray(again.history.audits).tolist() == [0, 1, 0, 1]
