"""Retraining put to the test where the truth is known: a fleet unlike the one we trained for.

The shipped policy audits it for two months. A world is fitted to that log, and challengers are
trained in it. All are tried in the true world on episodes that nothing else uses, beside the
planner that knows the one or the other.
"""

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulated_log import operate
from holdfast.errors import InputError
from holdfast.inference.fit import Fitted, fit
from holdfast.inference.log import Log
from holdfast.learn.dial_search import evaluate_dials
from holdfast.learn.retraining import Budget, make_request, retrain
from holdfast.learn.training import VALIDATION_SEED
from holdfast.model.action import GRID
from holdfast.model.scenario import PAPER, Scenario
from holdfast.policy import checkpoint
from holdfast.policy.belief import belief_policy
from holdfast.policy.dial import Dial, ValidatedDial
from holdfast.policy.interface import AnyPolicy, Policy
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.registry import policy_named
from holdfast.policy.shipped import shipped_folder
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import main_figures
from holdfast.sim.measures import measure as measured

BASE = PAPER  # where the champion was trained
TRUE = replace(BASE, name="true", malicious_share=0.1, honest_rate=0.0003, malicious_rate=0.02)
CHAMPION = "drqn-cmdp-plus@paper"
DECLARED = Ceilings(0.05, 9.1)  # the champion's own
TIGHT = Ceilings(0.25)  # near what is possible there
LOG_SEED = 60_060
EVALUATION_SEED = 6161  # never used for tuning
TURNS = 500  # episodes in which each dial of the champion is tried

Say = Callable[[str], None]
Figures = dict[str, Any]


@dataclass(frozen=True)
class Fleet:
    nodes: int = 1000
    units: int = 60


def measure(fleet: Fleet, budget: Budget, folder: Path, say: Say) -> Figures:
    """Return the fit and what each policy does in the true world; the folder keeps trainings."""
    champion = policy_named(CHAMPION, TRUE)
    if champion.privileged:
        raise TypeError("the champion sees what is hidden")
    say(f"{fleet.nodes} nodes are audited for {fleet.units} units, then fitted")
    log = _log(champion, fleet)
    fitted = fit(log, BASE)
    request = make_request(fitted.scenario, log.blocks, champion, DECLARED, budget, facts={})
    request = replace(request, targets=(*request.targets, TIGHT))
    say(f"{budget.seeds} seeds are trained in the fitted world, for {request.ceilings}")
    result = retrain(request, champion, folder / "fitted")
    seeds = [folder / "fitted" / f"seed-{seed}" for seed in range(budget.seeds)]
    say("all are tried in the true world")
    tried = partial(_tried, episodes=budget.episodes)
    return {
        "world": asdict(TRUE),
        "log": _about(log),
        "fit": _recovered(fitted),
        "declared": asdict(DECLARED),
        "chosen_seed": result.seed,
        "ceilings": {
            name: asdict(ceilings)
            | {
                "champion": tried(champion),
                "champion with another dial": tried(_turned(fitted.scenario, ceilings)),
                "fitted world": {
                    seed.name: tried(_set(checkpoint.load(seed), ceilings)) for seed in seeds
                },
                "belief in the fitted world": tried(_planned(fitted.scenario, ceilings)),
                "belief in the true world": tried(_planned(TRUE, ceilings)),
            }
            for name, ceilings in (("kept by the champion", request.ceilings), ("tight", TIGHT))
        },
    }


def _log(policy: Policy[Any], fleet: Fleet) -> Log:
    return operate(policy, TRUE, nodes=fleet.nodes, units=fleet.units, seed=LOG_SEED).log


def _turned(world: Scenario, ceilings: Ceilings) -> AnyPolicy | None:
    """Return the champion with the best of its dials in the fitted world: nothing is trained."""
    found = checkpoint.load(shipped_folder(*CHAMPION.split("@")))
    dials = np.array([astuple(dial.dial) for dial in found.manifest.dials])
    network = found.manifest.architecture, found.parameters
    tries = evaluate_dials(*network, world, dials, TURNS, np.random.default_rng(VALIDATION_SEED))
    figures = zip(dials.tolist(), tries.gas, tries.miss_rate, tries.latency, strict=True)
    validated = tuple(
        ValidatedDial(Dial(*each), float(gas), float(misses), float(latency), TURNS)
        for each, gas, misses, latency in figures
    )
    manifest = replace(found.manifest, dials=validated)
    return _set(checkpoint.Checkpoint(manifest, found.parameters), ceilings)


def _set(found: checkpoint.Checkpoint, ceilings: Ceilings) -> AnyPolicy | None:
    try:
        return found.policy(ceilings)
    except InputError:
        return None


def _planned(scenario: Scenario, ceilings: Ceilings) -> AnyPolicy | None:
    try:
        return belief_policy(scenario, ceilings)
    except InputError:
        return None


def _tried(policy: AnyPolicy | None, *, episodes: int) -> Figures | None:
    """Return what a policy does in the true world, None where it can't keep the ceilings."""
    if policy is None:
        return None
    return main_figures(measured(evaluate(policy, TRUE, episodes=episodes, seed=EVALUATION_SEED)))


def _about(log: Log) -> Figures:
    taken = np.bincount(log.action, minlength=GRID.size)
    named = {
        f"{action.interval},{action.ratio:g}": int(taken[a]) for a, action in _actions() if taken[a]
    }
    return {
        "nodes": log.nodes,
        "audits": log.audits,
        "failures": int(log.failed.sum()),
        "actions": named,
    }


def _actions() -> list[tuple[int, Any]]:
    return [(a, GRID.action(a)) for a in range(GRID.size)]


def _recovered(fitted: Fitted) -> Figures:
    return {
        name: {"true": getattr(TRUE, name), **asdict(estimate)}
        | {"inside": estimate.low <= getattr(TRUE, name) <= estimate.high}
        for name, estimate in fitted.parameters.items()
    }
