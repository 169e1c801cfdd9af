"""How fast the agents learn: DRQN-CMDP against PyTorch, each against Stable-Baselines3's DQN.

All run in one process, pinned to one core, and take turns. Only PyTorch may try all cores besides,
and its faster way counts. A rate is the best of the rounds, in updates a second.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger

from benchmarks.pytorch import PyTorchLearner
from holdfast.bench.clock import best_rates
from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.epsilon_greedy import CHUNK
from holdfast.learn.learner import Figures, Learner
from holdfast.learn.methods import METHODS, Settings, make_learner
from holdfast.learn.policy_gradient import GradientSettings
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.model.scenario import PAPER
from holdfast.sim.environment import AuditEnv

AGENTS = tuple(name for name in METHODS if name != "ppo-lagrangian")  # which learns as ppo does
WARM = 8  # episodes, until all is compiled and the memory suffices to learn from

Say = Callable[[str], None]
Work = Callable[[], float]  # returns how many updates it made


def measure(*, rounds: int = 5, episodes: int = 8, say: Say) -> dict[str, float]:
    """Return the ratios, and below them the rates that they are made of."""
    with _cores() as (one, every):
        say("preparing DRQN-CMDP, in JAX and in PyTorch")
        settings = RecurrentSettings()
        drqn = {
            "jax": (RecurrentLearner(PAPER, 0, settings), one),
            "one": (PyTorchLearner(PAPER, 0, settings), one),
            "every": (PyTorchLearner(PAPER, 0, settings), every),
        }
        for agent, _ in drqn.values():
            _warm(agent)
        say("its updates alone, then its whole trainings")
        updates, whole = (
            best_rates(
                {name: _placed(work_of(agent, episodes), on) for name, (agent, on) in drqn.items()},
                rounds,
            )
            for work_of in (_updates, _training)
        )
        _move(one)
        say("every agent, and Stable-Baselines3's DQN")
        contenders = {name: _agent(METHODS[name], episodes) for name in AGENTS}
        contenders["sb3_dqn"] = _stable_baselines(60 * episodes)
        rates = best_rates({name: _placed(work, one) for name, work in contenders.items()}, rounds)
    reference = rates["sb3_dqn"]
    named = {name.replace("-", "_"): rate for name, rate in rates.items()}
    return {
        "drqn_update_over_pytorch": updates["jax"] / max(updates["one"], updates["every"]),
        "drqn_run_over_pytorch": whole["jax"] / max(whole["one"], whole["every"]),
        **{
            f"{name}_over_sb3_dqn": rate / reference
            for name, rate in named.items()
            if name != "sb3_dqn"
        },
        **{f"{name}_updates_per_second": rate for name, rate in named.items()},
        "drqn_update_jax_per_second": updates["jax"],
        "drqn_update_pytorch_one_core_per_second": updates["one"],
        "drqn_update_pytorch_all_cores_per_second": updates["every"],
        "cores": float(len(every)),
    }


@contextmanager
def _cores() -> Iterator[tuple[set[int], set[int]]]:
    """Yield one core and all of them, and keep to the one meanwhile."""
    every = os.sched_getaffinity(0)
    one = {max(every)}
    _move(one)
    try:
        yield one, every
    finally:
        _move(every)


def _move(cores: set[int]) -> None:
    """Run on these cores from now on, PyTorch with a thread for each."""
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))


def _placed(work: Work, cores: set[int]) -> Work:
    def run() -> float:
        _move(cores)
        return work()

    return run


def _updates(agent: RecurrentLearner, chunks: int) -> Work:
    """Return updates with what they draw from the memory."""

    def run() -> float:
        for _ in range(chunks):
            agent.update()
        return chunks * CHUNK

    return run


def _training(agent: RecurrentLearner, episodes: int) -> Work:
    """Return episodes with their world, decisions, memory and updates."""

    def run() -> float:
        return sum(agent.advance()["decisions"] for _ in range(episodes))  # an update each

    return run


def _agent(settings: Settings, episodes: int) -> Work:
    agent = make_learner(settings, PAPER, 0, 600)
    if isinstance(settings, PlusSettings):
        episodes = 1  # a round has the decisions of some dozen
        agent.advance()
    else:
        _warm(agent)

    def run() -> float:
        return sum(_made(settings, agent.advance()) for _ in range(episodes))

    return run


def _warm(agent: Learner) -> None:
    for _ in range(WARM):
        agent.advance()


def _made(settings: Settings, figures: Figures) -> float:
    """Return how many updates a unit of training made."""
    match settings:
        case GradientSettings():
            return settings.epochs
        case PlusSettings():
            return settings.gradient_steps
        case _:
            return figures["decisions"]


def _stable_baselines(steps: int) -> Work:
    """Return its DQN with the figures of ours, on the bare environment, an update each step."""
    starts = 256
    model = DQN(
        "MlpPolicy",
        AuditEnv(PAPER),
        policy_kwargs={"net_arch": [128, 128]},
        learning_rate=1e-3,
        buffer_size=50_000,
        batch_size=64,
        train_freq=1,
        gradient_steps=1,
        learning_starts=starts,
        device="cpu",
        seed=0,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own would leave a directory
    model.learn(2 * starts)

    def run() -> float:
        model.learn(steps, reset_num_timesteps=False)
        return steps

    return run
