"""`gymnasium.make_vec` returns the fleet, by Gymnasium's rules for vector environments."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import holdfast.sim  # noqa: F401 - registers the environment
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION, observe
from holdfast.model.scenario import PAPER, SCENARIOS
from holdfast.sim import fleet
from holdfast.sim.environment import AuditEnv
from holdfast.sim.reward import reward
from holdfast.sim.vector import AuditVectorEnv
from holdfast.sim.world import world_of

NODES = 64
WEEKLY = GRID.index_of(7, 0.05)


def made(nodes: int = NODES, **settings: Any) -> Any:
    return gymnasium.make_vec("holdfast/Audit-v0", nodes, **settings)


def test_gymnasium_makes_the_fleet() -> None:
    envs = made(3, scenario="drift")
    assert type(envs.unwrapped) is AuditVectorEnv
    assert (envs.num_envs, envs.scenario.name) == (3, "drift")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.single_action_space == AuditEnv().action_space
    assert envs.single_observation_space == AuditEnv().observation_space
    assert envs.actions == AuditEnv().actions


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_it_returns_lies_in_its_spaces(name: str) -> None:
    envs = made(scenario=name)
    envs.action_space.seed(0)
    observations, info = envs.reset(seed=0)
    assert envs.observation_space.contains(observations)
    assert info["hidden"]["time"].tolist() == [0] * NODES
    for _ in range(100):
        observations, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(observations)
        assert rewards.shape == terminated.shape == truncated.shape == (NODES,)
        assert terminated.dtype == truncated.dtype == np.bool_
        assert not terminated.any()
        assert {len(array) for key, array in info.items() if key != "hidden"} == {NODES}


def test_a_step_is_a_step_of_the_fleet() -> None:
    """Until the first episode ends, it draws what the fleet draws."""
    envs, rng = made(), gymnasium.utils.seeding.np_random(5)[0]
    envs.reset(seed=5)
    world = world_of(PAPER)
    nodes = fleet.start(world, NODES, rng)
    for action in range(20):
        actions = np.full(NODES, action)
        observations, rewards, _, _, info = envs.step(actions)
        nodes, outcome = fleet.step(world, nodes, actions, rng)
        assert np.array_equal(observations, observe(nodes.history, PAPER.constants))
        assert np.array_equal(rewards, reward(PAPER, outcome, 10.0))
        assert np.array_equal(info["miss_probability"], outcome.miss_probability)
        assert np.array_equal(info["hidden"]["corrupted_at_audit"], outcome.corrupted)


def test_a_finished_episode_starts_again_at_the_next_step() -> None:
    envs = made()
    first, _ = envs.reset(seed=1)
    audits = 53  # of seven units, in 365
    for number in range(1, audits + 1):
        last, _, _, truncated, _ = envs.step(np.full(NODES, WEEKLY))
        assert truncated.all() == (number == audits)
    assert not np.array_equal(last, first), "the last observation is that of the old episode"
    observations, rewards, _, truncated, info = envs.step(np.full(NODES, WEEKLY))
    assert np.array_equal(observations, first)
    assert not rewards.any()
    assert not truncated.any()
    assert not info["_gas"].any()
    assert not any(info[key].any() for key in ("gas", "cost", "encounter", "miss"))
    assert not info["hidden"]["time"].any()
    _, rewards, _, _, info = envs.step(np.full(NODES, WEEKLY))
    assert rewards.all()
    assert info["_gas"].all()
    assert info["hidden"]["time"].tolist() == [7] * NODES


def test_equal_seeds_give_equal_episodes_and_others_do_not() -> None:
    def lived(seed: int) -> list[float]:
        envs = made()
        envs.reset(seed=seed)
        steps = [envs.step(np.full(NODES, WEEKLY)) for _ in range(80)]
        return [float(step[1].sum()) for step in steps]

    assert lived(3) == lived(3)
    assert lived(3) != lived(4)


def test_it_costs_and_detects_what_the_single_environment_does() -> None:
    """Compare means over many episodes; the draws differ."""

    def single() -> np.ndarray:
        env, totals = AuditEnv(), []
        for episode in range(200):
            env.reset(seed=episode)
            total, over = np.zeros(3), False
            while not over:
                _, reward, _, over, info = env.step(WEEKLY)
                total += reward, info["encounter"], info["miss"]
            totals.append(total)
        return np.array(totals)

    def vector() -> np.ndarray:
        envs = made(1000)
        envs.reset(seed=0)
        totals = np.zeros((1000, 3))
        for _ in range(53):
            _, rewards, *_, info = envs.step(np.full(1000, WEEKLY))
            totals += np.stack([rewards, info["encounter"], info["miss"]], axis=1)
        return totals

    one, many = single(), vector()
    error = np.sqrt(one.var(axis=0) / len(one) + many.var(axis=0) / len(many))
    assert (abs(one.mean(axis=0) - many.mean(axis=0)) < 4 * error).all()


def test_the_multiplier_is_set_by_a_method_through_every_wrapper() -> None:
    envs: Any = RecordEpisodeStatistics(made())
    envs.unwrapped.set_multiplier(4.0)
    assert envs.unwrapped.get_attr("multiplier") == (4.0,) * NODES
    assert envs.unwrapped.call("set_multiplier", 3.0) == (None,) * NODES
    envs.reset(seed=0, options={"malicious": True})
    assert envs.unwrapped.multiplier == 3.0
    _, rewards, *_, info = envs.step(np.full(NODES, GRID.index_of(1, 0.01)))
    share = np.maximum(info["hidden"]["corrupted_at_audit"] / 1000, 0.01)
    missed = info["miss"]
    assert missed.any()
    expected = -10 * 3.0 * share - info["cost"]
    assert rewards[missed] == pytest.approx(expected[missed])
    envs.reset(options={"multiplier": 7.0})
    assert envs.unwrapped.multiplier == 7.0
    with pytest.raises(AttributeError, match="call set_multiplier"):
        made().multiplier = 5.0


def test_types_of_nodes_are_set_for_all_or_one_by_one() -> None:
    envs = made(4)
    for given, expected in [
        (True, [True] * 4),
        ([True, False, False, True], [True, False, False, True]),
    ]:
        _, info = envs.reset(seed=0, options={"malicious": given})
        assert info["hidden"]["malicious"].tolist() == expected


def test_gymnasiums_wrappers_understand_it() -> None:
    envs: Any = DictInfoToList(RecordEpisodeStatistics(made(4)))
    envs.reset(seed=0)
    for _ in range(53):
        *_, infos = envs.step(np.full(4, WEEKLY))
    assert [info["episode"]["l"] for info in infos] == [53] * 4
    assert all(info["hidden"]["time"] == 371 for info in infos)
    *_, infos = envs.step(np.full(4, WEEKLY))
    assert all("gas" not in info for info in infos), "they only started again"


@pytest.mark.parametrize(
    "actions", [[0] * 3, [[0] * 4], [0, 1, 2, -1], [0, 1, 2, GRID.size]], ids=str
)
def test_actions_that_are_none_are_refused(actions: Any) -> None:
    envs = made(4)
    envs.reset(seed=0)
    with pytest.raises(InputError, match="a step takes 4 actions from 0 to 24"):
        envs.step(np.array(actions))


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(InputError, match="at least one node"):
        AuditVectorEnv(0)
    with pytest.raises(ResetNeeded):
        made(2).step(np.zeros(2, np.int64))
    with pytest.raises(InputError, match="no option 'seed'"):
        made(2).reset(options={"seed": 3})


def test_the_latency_is_that_of_the_single_environment() -> None:
    """An honest node that nothing happens to is as old as its episode."""
    envs = made(2, scenario="paper")
    envs.reset(seed=0, options={"malicious": True})
    *_, info = envs.step(np.array([GRID.index_of(14, 0.20), GRID.index_of(1, 0.01)]))
    assert info["hidden"]["latency"].tolist() == [14, 1], "malicious nodes begin at once"
    assert len(OBSERVATION) == envs.single_observation_space.shape[0]
