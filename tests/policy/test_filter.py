"""The filter is Bayes' rule: it agrees with enumeration, and its probabilities come true."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.policy import hidden_states
from holdfast.policy.filter import BayesFilter, Belief, filter_for, reduced_filter
from holdfast.policy.hidden_states import modes_of
from holdfast.sim import fleet
from holdfast.sim.world import world_of

Audit = tuple[int, int, bool]  # interval, blocks sampled, failed
Joint = dict[tuple[bool, bool, int], float]  # P(malicious, bursting, corrupted)

TINY = replace(PAPER, blocks=4, honest_rate=0.05, malicious_rate=0.3)
TINY_DRIFT = replace(
    TINY,
    detection="exact",
    turn_malicious=0.1,
    turn_honest=0.2,
    quiet_after=2,
    quiet_factor=2.0,
    burst_start=0.3,
    burst_end=0.4,
    burst_factor=4.0,
)


def enumerated(world: Scenario, audits: Iterable[Audit]) -> tuple[Joint, float]:
    """Follow every path of a tiny world, unit by unit; return the posterior and the evidence."""
    joint: Joint = {
        (malicious, bursting, 0): share * burst
        for malicious, share in (
            (True, world.malicious_share),
            (False, 1 - world.malicious_share),
        )
        for bursting, burst in ((True, world.burst_share), (False, 1 - world.burst_share))
    }
    evidence, quiet = 1.0, 0
    for interval, sampled, failed in audits:
        for _ in range(interval):
            joint = grown(world, joint, quiet)
            quiet += 1
        after: Joint = defaultdict(float)
        for (malicious, bursting, corrupted), chance in joint.items():
            passes = passing(world, corrupted, sampled)
            left = 0 if failed else corrupted
            after[malicious, bursting, left] += chance * (1 - passes if failed else passes)
        quiet = 0 if failed else quiet
        total = sum(after.values())
        evidence *= total
        joint = {state: chance / total for state, chance in after.items()}
    return joint, evidence


def grown(world: Scenario, joint: Joint, quiet: int) -> Joint:
    after: Joint = defaultdict(float)
    for (was_malicious, was_bursting, corrupted), chance in joint.items():
        for malicious, bursting in product((True, False), repeat=2):
            turn = world.turn_honest if was_malicious else world.turn_malicious
            change = world.burst_end if was_bursting else world.burst_start
            moved = chance * (turn if malicious != was_malicious else 1 - turn)
            moved *= change if bursting != was_bursting else 1 - change
            bold = world.quiet_factor if quiet >= world.quiet_after else 1.0
            calm = world.honest_rate * (world.burst_factor if bursting else 1.0)
            rate = world.malicious_rate * bold if malicious else calm
            intact = world.blocks - corrupted
            for lost in range(intact + 1):
                share = comb(intact, lost) * rate**lost * (1 - rate) ** (intact - lost)
                after[malicious, bursting, corrupted + lost] += moved * share
    return after


def passing(world: Scenario, corrupted: int, sampled: int) -> float:
    if world.detection == "approximate":
        return float((1 - corrupted / world.blocks) ** sampled)
    return comb(world.blocks - corrupted, sampled) / comb(world.blocks, sampled)


def filter_audits(bayes: BayesFilter, audits: Iterable[Audit]) -> Belief:
    belief = bayes.initial(1)
    for interval, sampled, failed in audits:
        belief = bayes.step(belief, np.array([interval]), np.array([sampled]), np.array([failed]))
    return belief


@settings(deadline=None)
@given(
    st.sampled_from([TINY, TINY_DRIFT]),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans()), max_size=5),
)
def test_the_filter_equals_enumeration_of_all_paths(world: Scenario, audits: list[Audit]) -> None:
    bayes = filter_for(world)
    belief = filter_audits(bayes, audits)
    joint, evidence = enumerated(world, audits)
    malice = sum(chance for (malicious, _, _), chance in joint.items() if malicious)
    counts = [
        sum(chance for (_, _, corrupted), chance in joint.items() if corrupted == count)
        for count in range(world.blocks + 1)
    ]
    assert bayes.malice(belief)[0] == pytest.approx(malice, abs=1e-9)
    assert np.allclose(bayes.count(belief)[0], counts, atol=1e-9)
    assert belief.log_likelihood[0] == pytest.approx(log(evidence), abs=1e-8)


@pytest.mark.parametrize("world", [PAPER, DRIFT, FIELD], ids=lambda world: world.name)
def test_the_likelihoods_of_all_outcomes_add_up_to_one(world: Scenario) -> None:
    bayes = reduced_filter(world)
    total = 0.0
    for outcomes in product((False, True), repeat=4):
        audits = [(7, int(world.samples_of[2]), failed) for failed in outcomes]
        total += float(np.exp(filter_audits(bayes, audits).log_likelihood[0]))
    assert total == pytest.approx(1, abs=1e-9)


def simulated(
    world: Scenario, bayes: BayesFilter, episodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Audit at random; return the filter's P(malicious) and P(miss) beside the truth."""
    rng = np.random.default_rng(11)
    nodes = fleet.start(world_of(world), episodes, rng)
    belief = bayes.initial(episodes)
    rows = []
    for _ in range(25):
        actions = rng.integers(0, GRID.size, episodes)
        nodes, outcome = fleet.step(world_of(world), nodes, actions, rng)
        belief = bayes.step(
            belief, GRID.interval_of[actions], world.samples_of[actions], outcome.detection
        )
        rows.append(
            (
                bayes.malice(belief),
                nodes.malicious,
                1.0 - bayes.count(belief)[:, 0],  # a detection repairs everything
                nodes.corrupted > 0,
            )
        )
    malice, malicious, miss_probability, corrupted = (
        np.concatenate(part) for part in zip(*rows, strict=True)
    )
    return malice, malicious, miss_probability, corrupted


@pytest.mark.slow
@pytest.mark.parametrize("world", [PAPER, DRIFT, FIELD], ids=lambda world: world.name)
def test_what_the_filter_believes_comes_true_as_often(world: Scenario) -> None:
    world = replace(world, malicious_share=0.3)  # enough malicious nodes to count, in `field` too
    episodes = 1000
    malice, malicious, miss_probability, corrupted = simulated(
        world, reduced_filter(world), episodes
    )
    for believed, true in ((malice, malicious), (miss_probability, corrupted)):
        for low in np.arange(0, 1, 0.1):
            here = (believed >= low) & (believed < low + 0.1)
            # The rows of an episode are not independent: a bin counts as few as it may have.
            independent = max(1.0, np.count_nonzero(here) / 25)
            tolerance = 4 * np.sqrt(0.25 / independent)
            assert abs(true[here].mean() - believed[here].mean() if here.any() else 0) < tolerance
        assert abs(true.mean() - believed.mean()) < 0.02


@pytest.mark.slow
def test_shared_cells_hardly_change_what_is_believed() -> None:
    exact = filter_for(PAPER)
    assert len(exact.cells) == PAPER.blocks + 1
    fine, shared = simulated(PAPER, exact, 200), simulated(PAPER, reduced_filter(PAPER), 200)
    assert np.abs(fine[0] - shared[0]).max() < 0.004
    assert np.abs(fine[2] - shared[2]).max() < 0.0003


@pytest.mark.slow
def test_seven_classes_stand_for_a_whole_range_of_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(FIELD, malicious_share=0.3)
    seven = simulated(world, reduced_filter(world), 100)
    monkeypatch.setattr(hidden_states, "RATE_CLASSES", 15)
    many = simulated(world, BayesFilter(world, modes_of(world), reduced_filter(world).cells), 100)
    assert np.abs(seven[0] - many[0]).mean() < 0.002
    assert np.abs(seven[2] - many[2]).mean() < 0.002


def test_no_single_audit_rules_a_type_out_for_good() -> None:
    bayes = filter_for(replace(TINY, malicious_rate=0.999))
    passed = filter_audits(bayes, [(1, 4, False)] * 3)
    recovered = filter_audits(bayes, [(1, 4, False)] * 3 + [(1, 4, True)] * 60)
    assert bayes.malice(passed)[0] < 1e-6
    assert bayes.malice(recovered)[0] > 0.99
