"""The operator's world is the one that its page describes, and the same for every policy."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.operation import OPERATION, Operation
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.operation.bayes import BayesIndex
from holdfast.sim.operation.evaluation import run
from holdfast.sim.operation.measures import measure
from holdfast.sim.operation.nodes import Nodes
from holdfast.sim.operation.policies import Clairvoyant, Constant, OperationPolicy, TwoSpeed
from holdfast.sim.operation.registry import operation_named, operation_policy
from holdfast.sim.operation.tally import Tally
from holdfast.sim.operation.tuning import tune

# Nothing ever happens here, unless a test says so.
CALM = replace(
    OPERATION,
    whole_loss=0.0,
    latent_error=0.0,
    partial_loss=0.0,
    turn_cheater=0.0,
    cheaters_at_start=0.0,
    hazard_spread=1.0,
)


def run_some(policy: OperationPolicy, scenario: Operation, nodes: int = 20_000) -> Tally:
    return run(policy, scenario, nodes=nodes, seed=11)


# Measured by an independent, event-driven simulation: audits, onsets at 0.1 % and 1 %, exposure.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "audits", "onsets", "exposure"),
    [
        (Constant(14, 460), 26.07, (4.39, 3.88), 0.118),
        (Constant(14.7, 460), 24.83, (4.38, 3.87), 0.124),
        (Constant(30, 460), 12.17, (4.30, 3.81), 0.262),
        (Constant(14, 4600), 26.07, (4.56, 3.99), 0.119),
    ],
)
def test_it_has_the_figures_of_an_independent_simulation(
    policy: Constant, audits: float, onsets: tuple[float, float], exposure: float
) -> None:
    figures = measure(run(policy, OPERATION, nodes=400_000, seed=5))
    assert figures.audits_per_year.value == pytest.approx(audits, rel=0.005)
    assert figures.exposure_per_year.value == pytest.approx(exposure, rel=0.03)
    for share, expected in zip(("0.001", "0.01"), onsets, strict=True):
        assert figures.onsets_per_100_node_years[share].value == pytest.approx(expected, rel=0.03)


def test_whole_losses_are_exposed_for_half_an_interval_on_average() -> None:
    figures = measure(run_some(Constant(20, 10), replace(CALM, whole_loss=0.1), nodes=50_000))
    assert figures.onsets_per_100_node_years["0.01"].value == pytest.approx(10, rel=0.02)
    assert figures.exposure_per_year.value == pytest.approx(0.1 * 20 / 2, rel=0.03)
    assert figures.late_per_onset["0.01"]["7"].value == pytest.approx(13 / 20, rel=0.03)
    assert figures.late_per_onset["0.01"]["30"].value == 0


def test_a_cheater_is_exposed_as_the_integral_says() -> None:
    rate = 1e-3
    scenario = replace(
        CALM, cheaters_at_start=1.0, cheating_rate=(rate, rate), failures_to_replace=10**6
    )
    tally = run_some(Constant(10, 10**6), scenario, nodes=500)
    whole_intervals = tally.audits - 1  # the first and the last are cut
    expected = whole_intervals * rate * 10**2 / 2
    np.testing.assert_allclose(tally.exposure, expected, rtol=0.02)
    assert (tally.onsets == 1).all(), "one campaign, however often it was found"
    assert (tally.failures == tally.audits).all()


def test_nothing_is_damaged_beyond_all_blocks() -> None:
    scenario = replace(CALM, cheaters_at_start=1.0, cheating_rate=(0.5, 0.5), whole_loss=50.0)
    tally = run_some(Constant(90, 10**6), scenario, nodes=200)
    assert (tally.exposure <= scenario.days).all()


def test_three_failures_in_a_row_bring_a_new_node() -> None:
    scenario = replace(CALM, cheaters_at_start=1.0, cheating_rate=(0.01, 0.01))
    tally = run_some(Constant(10, 10**6), scenario, nodes=100)
    np.testing.assert_array_equal(tally.replacements, tally.audits // 3)


def test_events_come_at_the_same_times_whoever_audits() -> None:
    scenario = replace(OPERATION, failures_to_replace=10**6, recurrence=0.0, hazard_spread=100.0)
    policies = (Constant(3, 4600), Constant(60, 50), TwoSpeed(Constant(30, 460), Constant(1, 460)))
    first, *others = (run_some(policy, scenario).onsets for policy in policies)
    # Losses that strike damaged blocks differ; they are few.
    for onsets in others:
        assert (onsets == first).mean() > 0.995


def test_equal_seeds_give_equal_nodes_however_many_run_beside_them() -> None:
    few, many = (run(Constant(14, 460), OPERATION, nodes=n, seed=3) for n in (40, 400))
    np.testing.assert_array_equal(few.exposure, many.exposure[:40])


def test_auditing_more_does_not_pad_onsets() -> None:
    often, seldom = (
        measure(run_some(Constant(days, 460), OPERATION, nodes=50_000)) for days in (3, 30)
    )
    for share, onsets in often.onsets_per_100_node_years.items():
        expected = seldom.onsets_per_100_node_years[share].value
        assert onsets.value == pytest.approx(expected, rel=0.06)


def test_knowing_the_hazard_costs_less_for_the_same_exposure() -> None:
    constant = measure(run_some(Constant(14, 460), OPERATION, nodes=50_000))
    knowing = measure(run_some(Clairvoyant(350.0, 460), OPERATION, nodes=50_000))
    assert knowing.exposure_per_year.value <= constant.exposure_per_year.value
    assert knowing.cost_per_year.value < 0.85 * constant.cost_per_year.value


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_hazards_keep_their_mean_whatever_providers_share(share: float) -> None:
    scenario = replace(CALM, whole_loss=1.0, hazard_spread=100.0, provider_share=share)
    tally = run_some(Constant(1, 10), scenario)
    assert tally.onsets[0].mean() / 3 == pytest.approx(1.0, rel=0.08)
    by_provider = tally.onsets[0].reshape(-1, scenario.provider_nodes).mean(axis=1)
    spread = by_provider.std() / tally.onsets[0].std()
    assert (spread < 0.3) if share == 0 else (spread > 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "constant",
        "constant:14",
        "constant:0,460",
        "constant:14,1.5",
        "constant:x,y",
        "oracle",
        "two-speed:14,460",
        "clairvoyant:0,460",
        "constant:nan,460",
    ],
)
def test_an_unknown_policy_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        operation_policy(name)


@pytest.mark.parametrize(
    "changes",
    [
        "days=x",
        "cure=2",
        "blocks=1.5",
        "material=1",
        "nosuch=1",
        "recurrence=1.0",
        "whole_loss=-1",
        "days=true",
        "name=1",
    ],
)
def test_a_wrong_field_is_refused(changes: str) -> None:
    with pytest.raises(InputError):
        operation_named(f"operation:{changes}")


def test_fields_are_changed_by_name() -> None:
    assert operation_named("operation") == OPERATION
    changed = operation_named("operation:per_audit=10,blocks=5000")
    assert changed == replace(OPERATION, per_audit=10.0, blocks=5000)


@pytest.mark.slow
def test_own_history_beats_a_common_constant_in_cost_and_exposure() -> None:
    constant = measure(run_some(Constant(14, 460), OPERATION, nodes=2000))
    learning = measure(run_some(BayesIndex(OPERATION, 400.0), OPERATION, nodes=2000))
    assert learning.cost_per_year.value < constant.cost_per_year.value
    assert learning.exposure_per_year.value < constant.exposure_per_year.value


def test_a_failure_shortens_the_wait_and_clean_years_lengthen_it() -> None:
    def decide(failures: list[bool]) -> list[float]:
        policy = BayesIndex(OPERATION, 200.0)
        nodes = Nodes(CALM, KeyedDraws.of_episodes(0, range(1)), np.zeros(1))
        one = np.zeros(1, np.int64)
        waits = [float(policy.decide(nodes, one).interval[0])]
        for failed in failures:
            in_row = nodes.history.failures_in_row[0] + 1 if failed else 0
            nodes.history.failures_in_row[0] = in_row
            nodes.history.interval[0], nodes.history.samples[0] = 14.0, 460
            waits.append(float(policy.decide(nodes, one).interval[0]))
            assert policy._belief.sum() == pytest.approx(1.0)
        return waits

    clean = decide([False] * 60)
    assert clean[-1] > 1.15 * clean[0]
    failing = decide([False] * 10 + [True, True])
    assert failing[-2] < failing[-3]
    assert failing[-1] < failing[-2], "the second failure in a row tells of a cheater"


def test_an_exposure_out_of_reach_is_refused() -> None:
    with pytest.raises(InputError, match="no policy that was tried"):
        tune(replace(OPERATION, days=100.0), 1e-9, nodes=5000, seed=0, kinds=("constant",))
    with pytest.raises(InputError, match="above 0"):
        tune(OPERATION, 0.0, nodes=100, seed=0)
