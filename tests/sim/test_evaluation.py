"""Evaluation runs every policy on the same episodes, and lets only the privileged see the truth."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array, IntArray
from holdfast.model.scenario import DRIFT, PAPER, Scenario
from holdfast.model.truth import Truth
from holdfast.sim import evaluation, fleet
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.evaluation import evaluate, types
from holdfast.sim.tally import Tally
from holdfast.sim.world import world_of


@dataclass(frozen=True)
class Always:
    action: int
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> IntArray:
        return np.zeros(batch, np.int64)

    def act(self, state: IntArray, observations: Float32Array) -> tuple[IntArray, IntArray]:
        assert len(state) == len(observations), "the state follows the episodes still running"
        return np.full(len(observations), self.action), state + 1


@dataclass(frozen=True)
class Hasty:
    """Tells the types apart, to make some episodes far longer than others."""

    privileged: ClassVar[Literal[True]] = True

    def initial_state(self, _batch: int) -> None:
        return None

    def act(self, _state: None, _observations: Float32Array, truth: Truth) -> tuple[IntArray, None]:
        daily, rarely = GRID.index_of(1, 0.10), GRID.index_of(14, 0.20)
        return np.where(truth.malicious, daily, rarely), None


def same(left: Tally, right: Tally) -> bool:
    return all(
        np.array_equal(getattr(left, part.name), getattr(right, part.name))
        for part in fields(Tally)
    )


WEEKLY = Always(GRID.index_of(7, 0.05))


def test_the_number_of_malicious_nodes_is_the_share_and_not_a_draw() -> None:
    for seed in range(5):
        assert types(0.3, 1000, seed).sum() == 300
    assert types(0.3, 1000, 0).tolist() != types(0.3, 1000, 1).tolist()
    tally = evaluate(WEEKLY, PAPER, episodes=50, seed=0, malicious_share=0.28)
    assert tally.malicious.sum() == 14


@pytest.mark.slow
def test_an_episode_does_not_depend_on_what_runs_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    together = evaluate(Hasty(), DRIFT, episodes=40, seed=5)
    monkeypatch.setattr(evaluation, "BATCH", 7)
    apart = evaluate(Hasty(), DRIFT, episodes=40, seed=5)
    order = np.lexsort((together.event_delay, together.event_episode))
    for part in fields(Tally)[:10]:
        np.testing.assert_array_equal(getattr(together, part.name), getattr(apart, part.name))
    np.testing.assert_array_equal(
        together.event_delay[order],
        apart.event_delay[np.lexsort((apart.event_delay, apart.event_episode))],
    )


def test_equal_seeds_give_equal_tallies_and_others_do_not() -> None:
    first = evaluate(WEEKLY, DRIFT, episodes=20, seed=1)
    assert same(first, evaluate(WEEKLY, DRIFT, episodes=20, seed=1))
    assert not same(first, evaluate(WEEKLY, DRIFT, episodes=20, seed=2))


def test_two_policies_meet_the_same_draws() -> None:
    """Up to the first decision that differs, matched episodes are one episode."""
    slow = Always(GRID.index_of(14, 0.20))
    swift = Always(GRID.index_of(14, 0.10))
    one_audit = replace(PAPER, horizon=14)
    left = evaluate(slow, one_audit, episodes=200, seed=0)
    right = evaluate(swift, one_audit, episodes=200, seed=0)
    np.testing.assert_array_equal(left.exposure, right.exposure)
    assert (left.detections >= right.detections).all(), "a larger sample finds whatever less does"


def onsets(interval: int, scenario: Scenario, episodes: int) -> list[list[int]]:
    """Return the units in which corruption began on intact nodes, by episode."""
    world, draws = world_of(scenario), KeyedDraws.of_episodes(0, range(episodes))
    nodes = fleet.start(world, episodes, draws, np.zeros(episodes, np.bool_))
    units: list[list[int]] = [[] for _ in range(episodes)]
    for _ in range(scenario.horizon // interval):
        begin = nodes.time
        action = np.full(episodes, GRID.index_of(interval, 0.20))
        nodes, outcome = fleet.step(world, nodes, action, draws)
        first = begin + outcome.growth.first_unit()
        for episode in np.flatnonzero(outcome.growth.began).tolist():
            units[episode].append(int(first[episode]))
    return units


def test_damage_strikes_at_the_same_time_whenever_a_policy_audits() -> None:
    """A node of one block is repaired by every audit, so that its onsets show every strike."""
    scenario = replace(PAPER, blocks=1, honest_rate=0.02, horizon=364)
    daily = onsets(1, scenario, 300)
    for interval in (7, 14):
        rarely = onsets(interval, scenario, 300)
        for struck, seen in zip(daily, rarely, strict=True):
            firsts = {unit // interval: unit for unit in reversed(struck)}
            assert seen == sorted(firsts.values()), "the first strike of every interval"


def test_the_first_damage_of_an_episode_is_the_same_under_every_policy() -> None:
    first = {
        interval: [units[0] if units else None for units in onsets(interval, PAPER, 300)]
        for interval in (1, 7, 14)
    }
    assert first[1] == first[7] == first[14]


def test_the_exposures_of_matched_episodes_are_correlated() -> None:
    """By as much as the world decides, beside the luck of the samples.

    On honest nodes the world decides 24 % of the variance under `constant:7,0.20` and 31 % under
    `fixed-high`, which was measured with the luck of the samples drawn anew. So no more than 0.27
    can be expected of the world alone; audits at common times share their luck too.
    """
    weekly = evaluate(Always(GRID.index_of(7, 0.20)), PAPER, episodes=1000, seed=0)
    daily = evaluate(Always(GRID.index_of(1, 0.10)), PAPER, episodes=1000, seed=0)
    honest = ~weekly.malicious
    by_type = [
        np.corrcoef(weekly.exposure[who], daily.exposure[who])[0, 1] for who in (honest, ~honest)
    ]
    assert by_type[0] > 0.2
    assert by_type[1] > 0.6
    others = evaluate(Always(GRID.index_of(1, 0.10)), PAPER, episodes=1000, seed=1)
    assert (
        abs(np.corrcoef(weekly.exposure[honest], others.exposure[~others.malicious])[0, 1]) < 0.15
    )


def test_types_and_loads_do_not_depend_on_the_audits() -> None:
    world, draws = world_of(DRIFT), KeyedDraws.of_episodes(0, range(200))
    states = []
    for interval in (1, 7, 14):
        nodes = fleet.start(world, 200, draws)
        for _ in range(364 // interval):
            action = np.full(200, GRID.index_of(interval, 0.20))
            nodes, _ = fleet.step(world, nodes, action, draws)
        states.append((nodes.malicious.tolist(), nodes.bursting.tolist(), nodes.load.tolist()))
    assert states[0] == states[1] == states[2]


def test_the_tally_adds_up() -> None:
    tally = evaluate(Hasty(), PAPER, episodes=100, seed=0)
    assert set(tally.audits[tally.malicious]) == {365.0}
    assert set(tally.audits[~tally.malicious]) == {27.0}
    assert tally.detections_malicious.sum() == tally.detections[tally.malicious].sum()
    assert tally.event_detected.sum() == tally.detections.sum()
    assert (~tally.event_detected).sum() == tally.undetected.sum()
    assert set(tally.undetected) == {0.0, 1.0}, "an episode ends once"
    detected = np.bincount(tally.event_episode[tally.event_detected], minlength=100)
    np.testing.assert_array_equal(detected, tally.detections)
    true_delay = tally.event_delay[tally.event_detected].sum()
    assert 0 < true_delay <= tally.latency.sum(), "the paper's onset is never after the true one"


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(InputError, match="episode"):
        evaluate(WEEKLY, PAPER, episodes=0, seed=0)
    with pytest.raises(InputError, match="malicious share"):
        evaluate(WEEKLY, PAPER, episodes=1, seed=0, malicious_share=1.5)
