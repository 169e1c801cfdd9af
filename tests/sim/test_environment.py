"""The environment keeps Gymnasium's rules and gives nothing away."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from tests.support import parts

import holdfast.sim  # noqa: F401 - registers the environment
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER, SCENARIOS
from holdfast.sim import fleet
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.environment import AuditEnv
from holdfast.sim.world import world_of


def made(**settings: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("holdfast/Audit-v0", **settings)


@pytest.mark.parametrize("name", SCENARIOS)
def test_gymnasium_accepts_it(name: str) -> None:
    check_env(made(scenario=name).unwrapped)


@pytest.mark.slow
def test_stable_baselines3_accepts_it() -> None:
    checker = parts.package("stable_baselines3.common.env_checker")
    checker.check_env(AuditEnv())


@pytest.mark.parametrize("name", SCENARIOS)
def test_equal_seeds_give_equal_episodes_and_others_do_not(name: str) -> None:
    def episode(seed: int) -> list[Any]:
        environment = made(scenario=name)
        observation, info = environment.reset(seed=seed)
        lived: list[Any] = [observation.tolist(), info]
        over = False
        while not over:
            observation, reward, _, over, info = environment.step(len(lived) % GRID.size)
            lived.append((observation.tolist(), reward, info))
        return lived

    assert episode(3) == episode(3)
    assert episode(3) != episode(4)


def test_an_episode_ends_with_the_audit_that_reaches_the_horizon() -> None:
    for interval, audits in {1: 365, 3: 122, 5: 73, 7: 53, 14: 27}.items():
        environment = AuditEnv()
        environment.reset(seed=0)
        count, over = 0, False
        while not over:
            _, _, terminated, over, _ = environment.step(GRID.index_of(interval, 0.01))
            assert not terminated
            count += 1
        assert count == audits


def test_the_reward_is_the_papers() -> None:
    environment = AuditEnv(replace(PAPER, honest_rate=0.0), multiplier=7.0)
    environment.reset(seed=0, options={"malicious": False})
    a = GRID.index_of(1, 0.10)
    _, clean, *_ = environment.step(a)
    cost = 71_000 / 521_000 + 0.5 * 0.5
    assert clean == pytest.approx(10 * 0.1 - cost)

    environment = AuditEnv(multiplier=7.0)
    environment.reset(seed=0, options={"malicious": True})
    outcomes = set()
    for _ in range(300):
        _, earned, _, _, info = environment.step(a)
        share = info["hidden"]["corrupted_at_audit"] / 1000
        security = 1 + share if info["detection"] else -7 * max(share, 0.01)
        assert info["encounter"]
        assert info["miss"] != info["detection"]
        assert info["cost"] == pytest.approx(cost)
        assert earned == pytest.approx(10 * security - cost)
        outcomes.add(info["miss"])
    assert outcomes == {True, False}


MISS = GRID.index_of(1, 0.01)


def price_of_a_miss(step: Any) -> float:
    """Return the price in the first miss that a function's steps meet."""
    while True:
        reward, info = step()
        if info["miss"]:
            share = max(info["hidden"]["corrupted_at_audit"] / 1000, 0.01)
            return float((reward + info["cost"]) / (-10 * share))


def test_the_multiplier_is_set_by_a_method_through_every_wrapper() -> None:
    wrapped = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.Autoreset(made()), 50)
    wrapped.reset(seed=0, options={"malicious": True})

    def step() -> tuple[Any, dict[str, Any]]:
        _, reward, *_, info = wrapped.step(np.int64(MISS))
        return reward, info

    assert price_of_a_miss(step) == pytest.approx(10.0)
    wrapped.get_wrapper_attr("set_multiplier")(3.0)
    assert price_of_a_miss(step) == pytest.approx(3.0)
    wrapped.reset(options={"multiplier": 8.0, "malicious": True})
    assert price_of_a_miss(step) == pytest.approx(8.0)
    wrapped.reset(options={"malicious": True})
    assert price_of_a_miss(step) == pytest.approx(8.0)
    assert wrapped.get_wrapper_attr("multiplier") == 8.0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_gymnasiums_vector_environments_call_it(kind: str) -> None:
    envs: Any = gymnasium.make_vec("holdfast/Audit-v0", 2, vectorization_mode=kind)
    envs.reset(seed=0, options={"malicious": True})
    envs.call("set_multiplier", 4.0)
    assert envs.get_attr("multiplier") == (4.0, 4.0)
    _, rewards, *_, infos = envs.step(np.full(2, MISS))
    while not infos["miss"][0]:
        _, rewards, *_, infos = envs.step(np.full(2, MISS))
    share = max(infos["hidden"]["corrupted_at_audit"][0] / 1000, 0.01)
    assert rewards[0] == pytest.approx(-10 * 4.0 * share - infos["cost"][0])
    envs.close()


def test_stable_baselines3s_vector_environments_call_it() -> None:
    util = parts.package("stable_baselines3.common.env_util")
    venv = util.make_vec_env(made, 2, seed=1)
    venv.env_method("set_multiplier", 4.0)
    assert venv.get_attr("multiplier") == [4.0, 4.0]


def test_an_assignment_to_the_multiplier_is_refused_and_names_the_method() -> None:
    environments: list[Any] = [made(), AuditEnv()]
    for environment in environments:
        with pytest.raises(AttributeError, match="call set_multiplier"):
            environment.multiplier = 5.0
    wrapped = gymnasium.wrappers.TimeLimit(made(), 50)
    with pytest.raises(AttributeError, match="call set_multiplier"):
        wrapped.set_wrapper_attr("multiplier", 5.0)
    envs: Any = gymnasium.make_vec("holdfast/Audit-v0", 2, vectorization_mode="sync")
    with pytest.raises(AttributeError, match="call set_multiplier"):
        envs.set_attr("multiplier", 5.0)
    vec_env = parts.package("stable_baselines3.common.vec_env")
    with pytest.raises(AttributeError, match="call set_multiplier"):
        vec_env.DummyVecEnv([AuditEnv]).set_attr("multiplier", 5.0)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "5", None])
def test_what_is_no_price_is_refused(value: Any) -> None:
    environment = AuditEnv()
    for call in (
        lambda: environment.set_multiplier(value),
        lambda: environment.reset(options={"multiplier": value}),
        lambda: AuditEnv(multiplier=value),
    ):
        with pytest.raises(InputError, match="the multiplier is a number of at least 0"):
            call()


def test_an_option_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(InputError, match="no option 'malicous' of a reset"):
        AuditEnv().reset(options={"malicous": True})


def test_a_scenario_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text("horizon = 5\n")
    environment = AuditEnv(str(file))
    environment.reset(seed=0)
    assert environment.step(GRID.index_of(5, 0.01))[3]

    file.write_text("horizont = 5\n")
    with pytest.raises(InputError, match=r"short\.toml: scenario field horizont"):
        AuditEnv(str(file))
    file.write_text("horizon = \n")
    with pytest.raises(InputError, match=r"short\.toml is not a TOML file"):
        AuditEnv(str(file))


def test_it_asks_to_be_reset_first() -> None:
    with pytest.raises(ResetNeeded):
        AuditEnv().step(0)


def test_the_response_time_tells_nothing_in_the_papers_world_and_little_in_drift() -> None:
    """Equal draws, but one node full of corruption: only drift's answers differ, by a little."""
    latency = OBSERVATION.index("latency")
    shown = {}
    for name, scenario in SCENARIOS.items():
        world = world_of(scenario)
        for corrupted in (0, scenario.blocks):
            draws = KeyedDraws.of_episodes(0, range(50))
            nodes = fleet.start(world, 50, draws)
            nodes = replace(nodes, corrupted=nodes.corrupted + corrupted)
            nodes, _ = fleet.step(world, nodes, np.zeros(50, np.int64), draws)
            seconds = np.asarray(nodes.history.latency)
            shown[name, bool(corrupted)] = seconds / (seconds + scenario.latency_scale)
    assert latency == 2
    assert np.array_equal(shown["paper", False], shown["paper", True])
    assert np.array_equal(shown["field", False], shown["field", True])
    difference = shown["drift", True] - shown["drift", False]
    assert 0 < difference.mean() < shown["drift", False].std()
