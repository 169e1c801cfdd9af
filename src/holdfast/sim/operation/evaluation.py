"""A policy in the operator's world: whole episodes of many nodes, each keyed by its number."""

from collections.abc import Callable

import numpy as np

from holdfast.errors import InputError
from holdfast.model.operation import Operation
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.operation.causes import Cause
from holdfast.sim.operation.nodes import Nodes
from holdfast.sim.operation.policies import OperationPolicy
from holdfast.sim.operation.tally import Tally

Progress = Callable[[float], None]  # is called with the episodes' worth of time that has passed


def run(
    policy: OperationPolicy,
    scenario: Operation,
    *,
    nodes: int,
    seed: int,
    progress: Progress = lambda _episodes: None,
) -> Tally:
    """Run an episode of each node and return what happened."""
    if nodes < 1:
        raise InputError(f"at least one node is needed, not {nodes}")
    draws = KeyedDraws.of_episodes(seed, range(nodes))
    providers = KeyedDraws.of_episodes(seed, range(nodes, nodes + _providers(scenario, nodes)))
    provider = providers.uniform(0, Cause.HAZARD)[np.arange(nodes) // scenario.provider_nodes]
    fleet = Nodes(scenario, draws, provider)
    alive = np.arange(nodes)
    # The first audit comes at any time of the first interval: nodes don't begin together.
    phase = draws.uniform(0, Cause.PHASE)
    while len(alive):
        decision = policy.decide(fleet, alive)
        due = np.minimum(fleet.time[alive] + phase[alive] * decision.interval, scenario.days)
        before = fleet.time[alive]
        fleet.advance(alive, due)
        progress(float((due - before).sum() / scenario.days))
        phase[alive] = 1.0
        audited = due < scenario.days
        alive = alive[audited]
        fleet.audit(alive, decision.samples[audited])
    return fleet.end()


def _providers(scenario: Operation, nodes: int) -> int:
    return -(-nodes // scenario.provider_nodes)
