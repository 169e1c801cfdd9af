"""Whether what is inferred holds: intervals over simulated fleets, whose truth is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.simulated_log import operate
from holdfast.inference.confidence import confidence
from holdfast.inference.fit import fit
from holdfast.model.estimate import Estimate
from holdfast.model.scenario import DRIFT, PAPER, Scenario
from holdfast.policy.registry import policy_named

# A fleet unlike the one that shipped policies were trained for.
FLEET = replace(PAPER, name="fleet", malicious_share=0.1, honest_rate=0.0003, malicious_rate=0.02)
POLICIES = ("drqn-cmdp-plus@paper", "constant:7,0.10")
UNITS = 60


def measure(
    *,
    fleets: int,
    nodes: int,
    recovered: int,
    say: Callable[[str], None],
    policies: Sequence[str] = POLICIES,
) -> dict[str, Any]:
    """Return how often intervals hold over so many fleets, and what one larger fleet gives back."""
    coverage = {}
    for name in policies:
        say(f"{fleets} fleets of {nodes} nodes under {name}")
        coverage[name] = covered(FLEET, name, fleets=fleets, nodes=nodes)
    drifting = max(1, fleets // 10)
    say(f"{drifting} fleets that drift, which the model does not know of")
    world = replace(DRIFT, latency_load=0.0)
    misled = covered(world, policies[-1], fleets=drifting, nodes=nodes)
    say(f"one fleet of {recovered} nodes")
    return {
        "fleets": fleets,
        "nodes": nodes,
        "units": UNITS,
        "coverage": coverage,
        "coverage_if_the_world_drifts": misled,
        "recovery": recovery(policies[0], nodes=recovered),
    }


def covered(world: Scenario, policy: str, *, fleets: int, nodes: int) -> dict[str, float]:
    """Return the share of fleets, nodes and parameters whose truth lies where it was said to."""
    acting: Any = policy_named(policy, world)
    held: dict[str, list[float]] = {}
    for seed in range(fleets):
        fleet = operate(acting, world, nodes=nodes, units=UNITS, seed=seed)
        fitted = fit(fleet.log, PAPER)
        told = confidence(fleet.log, fitted, seed=seed)
        rate = told.miss_rate
        share = fleet.corrupted / fleet.log.blocks
        whole = fleet.corrupted.sum() / fleet.log.blocks.sum()
        row = {
            "miss_rate": _inside(rate, fleet.miss_rate),
            "miss_rate_width": rate.high - rate.low,
            "miss_rate_true": fleet.miss_rate,
            "holding_damage": float((share <= told.at_most).mean()),
            "fleet_damage": float(whole <= told.fleet_at_most),
        }
        row |= {
            name: _inside(fitted.parameters[name], getattr(world, name)) for name in fitted.hidden
        }
        for name, value in row.items():
            held.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in held.items()}


def recovery(policy: str, *, nodes: int, seed: int = 0) -> dict[str, Any]:
    """Return each parameter of a fleet: the true one, and what its log gives back."""
    acting: Any = policy_named(policy, FLEET)
    fleet = operate(acting, FLEET, nodes=nodes, units=UNITS, seed=seed)
    fitted = fit(fleet.log, PAPER)
    return {
        name: {"true": getattr(FLEET, name), **vars(told)}
        for name, told in fitted.parameters.items()
    }


def _inside(estimate: Estimate, truth: float) -> float:
    return float(estimate.low <= truth <= estimate.high)
