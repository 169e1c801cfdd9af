"""Policies put to the test: whole episodes on matched seeds, tallied one by one.

Every draw is keyed by episode, unit of time and cause, so that an episode's node has the same type,
faults, bursts and loads under every policy, whenever the policy audits. The types of the nodes are
stratified: their number is the share, not a draw.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import BoolArray, IntArray, take
from holdfast.model.observation import observe
from holdfast.model.scenario import Scenario
from holdfast.policy.interface import AnyPolicy
from holdfast.sim import fleet
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.tally import Tally, TallyBuilder, concat_tallies
from holdfast.sim.world import World, world_of

BATCH = 2048  # nodes at once: more gain no speed and take more memory

Progress = Callable[[float], None]  # hears how many episodes' worth of time has passed


def evaluate(
    policy: AnyPolicy,
    scenario: Scenario,
    *,
    episodes: int,
    seed: int,
    malicious_share: float | None = None,
    progress: Progress = lambda _episodes: None,
) -> Tally:
    """Run the episodes and return what happened in each."""
    if episodes < 1:
        raise InputError(f"at least one episode is needed, not {episodes}")
    share = scenario.malicious_share if malicious_share is None else malicious_share
    if not 0 <= share <= 1:
        raise InputError(f"the malicious share must lie between 0 and 1, not at {share:g}")
    malicious = types(share, episodes, seed)
    tallies = []
    for first in range(0, episodes, BATCH):
        some = range(first, min(first + BATCH, episodes))
        draws = KeyedDraws.of_episodes(seed, some)
        tallies.append(_run(policy, world_of(scenario), malicious[some], draws, progress))
    return concat_tallies(tallies)


def types(share: float, episodes: int, seed: int) -> BoolArray:
    """Return which episodes have a malicious node: the nearest number to the share, shuffled."""
    malicious = np.arange(episodes) < round(share * episodes)
    return np.random.default_rng((seed, 0)).permutation(malicious)


def _run(
    policy: AnyPolicy,
    world: World,
    malicious: BoolArray,
    draws: KeyedDraws,
    progress: Progress,
) -> Tally:
    nodes = fleet.start(world, len(malicious), draws, malicious)
    state = policy.initial_state(len(malicious))
    book = TallyBuilder(malicious)
    episode = np.arange(len(malicious))
    while len(episode):
        actions, state = _decide(policy, state, nodes, world.scenario)
        nodes, outcome = fleet.step(world, nodes, actions, draws)
        book.record(episode, nodes, outcome)
        progress(float(outcome.growth.interval.sum()) / world.scenario.horizon)
        alive = ~outcome.finished
        if not alive.all():
            nodes, state, episode = take((nodes, state, episode), alive)
            draws = draws.take(alive)
    return book.build()


def _decide(
    policy: AnyPolicy, state: Any, nodes: fleet.Nodes, scenario: Scenario
) -> tuple[IntArray, Any]:
    act: Any = policy.act
    known = [state, observe(nodes.history, scenario.constants)]
    if getattr(policy, "privileged", False):
        known.append(nodes.truth)
    actions, state = act(*known)
    return actions, state
