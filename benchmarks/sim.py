"""How fast the audit world runs: the fleet against the single environment, that against CartPole.

The environments are those that `gymnasium.make` and `gymnasium.make_vec` return. All take random
actions and start finished episodes again. The rounds are interleaved and each contender counts by
its median, so that what else the machine does weighs on all alike.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import gymnasium
import numpy as np

from holdfast.model.action import GRID
from holdfast.model.observation import observe
from holdfast.model.scenario import PAPER
from holdfast.sim import fleet
from holdfast.sim.reward import reward
from holdfast.sim.world import world_of

NODES = 2048  # as many as evaluation runs at once
MULTIPLIER = 10.0


def measure(rounds: int = 15, steps: int = 4000, nodes: int = NODES) -> dict[str, float]:
    """Return steps per second of each, and their ratios; a step is one decision of one node."""
    vector_steps = max(1, 16 * steps // nodes)
    contenders = {
        "fleet": _fleet(nodes, vector_steps),
        "make_vec": _vector_loop("holdfast/Audit-v0", nodes, vector_steps),
        "gym": _loop("holdfast/Audit-v0", steps),
        "cartpole": _loop("CartPole-v1", steps),
    }
    for run in contenders.values():
        run()
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            begun = perf_counter()
            done = run()
            speeds[name].append(done / (perf_counter() - begun))
    speed = {name: median(values) for name, values in speeds.items()}
    return {
        "vector_over_gym": speed["fleet"] / speed["gym"],
        "make_vec_over_make": speed["make_vec"] / speed["gym"],
        "gym_over_cartpole": speed["gym"] / speed["cartpole"],
        "fleet_steps_per_second": speed["fleet"],
        "make_vec_steps_per_second": speed["make_vec"],
        "gym_steps_per_second": speed["gym"],
        "cartpole_steps_per_second": speed["cartpole"],
        "nodes": float(nodes),
    }


def _fleet(nodes: int, steps: int) -> Callable[[], int]:
    """Return a run of the fleet that, like the environment, observes and rewards every step."""
    world, source = world_of(PAPER), np.random.default_rng(0)
    actions = np.random.default_rng(1).integers(GRID.size, size=(steps, nodes))
    state = fleet.start(world, nodes, source)

    def run() -> int:
        nonlocal state
        for chosen in actions:
            state, outcome = fleet.step(world, state, chosen, source)
            observe(state.history, PAPER.constants)
            reward(PAPER, outcome, MULTIPLIER)
            state = fleet.restart(world, state, outcome.finished, source)
        return steps * nodes

    return run


def _vector_loop(name: str, nodes: int, steps: int) -> Callable[[], int]:
    environments: gymnasium.vector.VectorEnv[object, object] = gymnasium.make_vec(name, nodes)
    actions = np.random.default_rng(1).integers(GRID.size, size=(steps, nodes))
    environments.reset(seed=0)

    def run() -> int:
        for chosen in actions:
            environments.step(chosen)
        return steps * nodes

    return run


def _loop(name: str, steps: int) -> Callable[[], int]:
    environment: gymnasium.Env[object, object] = gymnasium.make(name)
    environment.action_space.seed(1)
    actions = [environment.action_space.sample() for _ in range(steps)]
    environment.reset(seed=0)

    def run() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset()
        return steps

    return run
