"""Dials are validated on the world that evaluation uses, and ranked as their figures deserve."""

from dataclasses import astuple

import numpy as np
import pytest
from tests.support.checkpoints import random_weights

from holdfast.learn import dial_search
from holdfast.learn.dial_search import DialResults, evaluate_dials, search_dials
from holdfast.learn.drqn_cmdp_plus import DialRange
from holdfast.model.scenario import PAPER
from holdfast.policy.dial import Dial
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.learned import Inputs, Learned
from holdfast.policy.network import Architecture
from holdfast.sim.evaluation import evaluate

INPUTS = Inputs(dial=True)
ARCHITECTURE = Architecture(INPUTS.size, (16,), recurrent=8, head="dueling")
PARAMETERS = random_weights(ARCHITECTURE)
DIALS = (Dial(1.0, 0.01, 0.05, 9.0), Dial(40.0, 0.5, 0.02, 2.0))


def evaluate_both(seed: int, episodes: int = 300) -> DialResults:
    dials = np.array([astuple(dial) for dial in DIALS])
    rng = np.random.default_rng(seed)
    return evaluate_dials(ARCHITECTURE, PARAMETERS, PAPER, dials, episodes, rng)


@pytest.mark.slow
def test_the_search_measures_what_an_evaluation_measures() -> None:
    results = evaluate_both(0)
    for index, dial in enumerate(DIALS):
        policy = Learned(ARCHITECTURE, PARAMETERS, INPUTS, dial)
        tally = evaluate(policy, PAPER, episodes=300, seed=1)
        encounters = tally.misses + tally.detections
        assert results.gas[index] == pytest.approx(tally.gas.mean(), rel=0.05)
        miss_rate = tally.misses.sum() / encounters.sum()
        assert results.miss_rate[index] == pytest.approx(miss_rate, abs=0.03)
        latency = tally.latency.sum() / tally.detections.sum()
        assert results.latency[index] == pytest.approx(latency, rel=0.1)
    assert abs(results.gas[0] - results.gas[1]) > 0.1 * results.gas[0], (
        "the dial makes a difference"
    )


def test_equal_seeds_give_equal_results() -> None:
    first, again, other = evaluate_both(0, 50), evaluate_both(0, 50), evaluate_both(1, 50)
    assert (first.gas == again.gas).all()
    assert (first.miss_rate == again.miss_rate).all()
    assert (first.gas != other.gas).any()


def test_few_dials_at_once_fare_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    many = evaluate_both(0)
    monkeypatch.setattr(dial_search, "MAX_PARALLEL_EPISODES", 1)
    few = evaluate_both(0)
    assert few.gas == pytest.approx(many.gas, rel=0.05)
    assert (few.dials == many.dials).all()


def results_of(*rows: tuple[float, float, float]) -> DialResults:
    gas, miss_rate, latency = np.array(rows).T
    return DialResults(np.zeros((len(rows), 4)), gas, miss_rate, latency)


def test_the_cheapest_that_keeps_the_ceilings_comes_first() -> None:
    known = results_of((30, 0.04, 8), (20, 0.03, 8), (25, 0.01, 8), (5, 0.2, 8), (10, 0.03, 20))
    assert known.best(Ceilings(0.05, 9.0), 3).tolist() == [1, 2, 0]
    assert known.best(Ceilings(0.05), 2).tolist() == [4, 1], "any latency will do"
    assert known.best(Ceilings(0.5), 1).tolist() == [3]


def test_one_that_nearly_keeps_them_ranks_by_how_nearly() -> None:
    # By a tenth above the ceiling and its margin: it counts as if it cost twice as much.
    nearly = 0.05 * 0.96 * 1.1
    assert results_of((10, nearly, 1), (19, 0.01, 1)).best(Ceilings(0.05), 1).tolist() == [1]
    assert results_of((10, nearly, 1), (21, 0.01, 1)).best(Ceilings(0.05), 1).tolist() == [0]


def test_what_is_validated_is_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial_search, "FIRST_ROUND", (6, 10))
    monkeypatch.setattr(dial_search, "SEMIFINAL", (5, 20))
    monkeypatch.setattr(dial_search, "REFINEMENTS", ((2, 2, 0.3, 0.1, 10),))
    progress: list[float] = []
    targets = (Ceilings(0.1), Ceilings(0.3, 9.0))
    dials = search_dials(
        ARCHITECTURE,
        PARAMETERS,
        PAPER,
        DialRange().sample_around,
        targets,
        seed=3,
        episodes=30,
        on_progress=progress.append,
    )
    assert 1 <= len(dials) <= dial_search.FINALISTS * len(targets)
    assert all(validated.episodes == 30 for validated in dials)
    assert progress == sorted(progress)
    assert progress[-1] == 1
