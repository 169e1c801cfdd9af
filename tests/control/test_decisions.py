"""Telemetry and the policy service: when the shipped policy decides, and when it may not."""

import numpy as np
import pytest

from holdfast.control.scheduling.decisions import Decisions, StoredMemory, decide
from holdfast.control.scheduling.guardrails import DRAWS, Override, Rails
from holdfast.control.scheduling.telemetry import Telemetry, empty_history_bytes
from holdfast.durations import DAY, HOUR
from holdfast.evidence.leaf import Outcome
from holdfast.model.action import GRID
from holdfast.model.observation import HistoryConstants
from holdfast.model.scenario import PAPER
from holdfast.policy.serving import Serving, load_serving

NOW = 1_800_000_000_000
RAILS = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
CONSTANTS = PAPER.constants


@pytest.fixture(scope="module")
def policy() -> Serving:
    return load_serving("drqn-cmdp-plus", PAPER)


def new(count: int) -> Telemetry:
    return Telemetry.stored(
        [empty_history_bytes()] * count, CONSTANTS, np.full(count, NOW), np.ones(count, np.bool_)
    )


def blank(count: int) -> StoredMemory:
    return StoredMemory([""] * count, [b""] * count)


def stored(policy: Serving, decisions: Decisions) -> StoredMemory:
    rows = [bytes(row) for row in decisions.memory]
    return StoredMemory([policy.version] * len(rows), rows)


def decided(
    policy: Serving, telemetry: Telemetry, remembered: StoredMemory, now: int = NOW
) -> Decisions:
    luck = np.full((DRAWS, len(telemetry.news)), 0.5)
    return decide(policy, RAILS, now, telemetry, remembered, luck)


def audited(telemetry: Telemetry, now: int, *outcomes: Outcome) -> Telemetry:
    count = len(outcomes)
    return telemetry.after(now, outcomes, np.full(count, 3.0), np.full(count, 0.2))


def test_the_policy_decides_for_holdings_never_audited(policy: Serving) -> None:
    found = decided(policy, new(3), blank(3))
    assert found.plan.overrides.tolist() == [0, 0, 0]
    assert len(set(found.chosen.tolist())) == 1
    assert GRID.interval_of[found.chosen].tolist() == ((found.plan.due - NOW) / DAY).tolist()


def test_a_batch_decides_as_its_holdings_do_alone(policy: Serving) -> None:
    telemetry = audited(new(2), NOW, Outcome.PASSED, Outcome.FAILED)
    before = stored(policy, decided(policy, new(2), blank(2)))
    both = decided(policy, telemetry, before)
    for at in range(2):
        one = Telemetry.stored(
            telemetry.rows()[at : at + 1],
            CONSTANTS,
            telemetry.observed[at : at + 1],
            telemetry.news[at : at + 1],
        )
        alone = decided(
            policy, one, StoredMemory(before.version[at : at + 1], before.memory[at : at + 1])
        )
        assert alone.chosen[0] == both.chosen[at]
        assert np.allclose(alone.observation[0], both.observation[at])


@pytest.mark.parametrize("outcome", [Outcome.OFFLINE, Outcome.UNKNOWN])
def test_without_news_the_fail_safe_decides_and_nothing_is_learnt(
    policy: Serving, outcome: Outcome
) -> None:
    start = new(1)
    before = stored(policy, decided(policy, start, blank(1)))
    telemetry = audited(start, NOW + DAY, outcome)
    assert telemetry.rows() == start.rows()
    found = decided(policy, telemetry, before, NOW + DAY)
    assert found.plan.overrides.tolist() == [int(Override.TELEMETRY)]
    assert (found.plan.due[0], found.plan.ratio[0]) == (NOW + 2 * DAY, 0.10)
    assert bytes(found.memory[0]) == before.memory[0]


@pytest.mark.parametrize(
    ("outcome", "failures"),
    [
        (Outcome.PASSED, 0),
        (Outcome.FAILED, 1),
        (Outcome.ADMITTED, 1),
        (Outcome.TIMED_OUT, 1),
    ],
)
def test_what_concerns_the_data_is_learnt(outcome: Outcome, failures: int) -> None:
    telemetry = audited(new(1), NOW + DAY, outcome)
    assert telemetry.history.failures == failures
    assert telemetry.observed.tolist() == [NOW + DAY]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ADMITTED, Outcome.TIMED_OUT])
def test_a_failure_is_recovered_from_by_three_passes_in_a_row(outcome: Outcome) -> None:
    rails = Rails(recovery_passes=3)
    telemetry = audited(new(1), NOW, Outcome.PASSED)
    assert not telemetry.recovering(rails)[0]
    story = [
        *((outcome, True), (Outcome.PASSED, True), (Outcome.PASSED, True), (outcome, True)),
        *((Outcome.PASSED, True), (Outcome.OFFLINE, True), (Outcome.UNKNOWN, True)),
        *((Outcome.PASSED, True), (Outcome.PASSED, False), (Outcome.OFFLINE, False)),
    ]
    for ended, recovering in story:
        telemetry = audited(telemetry, NOW, ended)
        assert telemetry.recovering(rails).tolist() == [recovering]
        telemetry = Telemetry.stored(
            telemetry.rows(), CONSTANTS, telemetry.observed, telemetry.news
        )


def test_a_policy_that_waits_long_after_a_failure_is_overruled() -> None:
    """Before, it chose 14 days through seven failures in a row."""
    long = load_serving("constant:14,0.05", PAPER)
    before = stored(long, decided(long, new(1), blank(1)))
    telemetry = audited(new(1), NOW, Outcome.FAILED)
    luck = np.full((DRAWS, 1), 0.5)
    found = decide(long, Rails(jitter=0.0, surprise=0.0), NOW, telemetry, before, luck)
    assert found.plan.overrides.tolist() == [int(Override.RECOVERY)]
    assert found.plan.due.tolist() == [NOW + DAY]
    assert found.chosen.tolist() == [GRID.index_of(14, 0.05)], "the evidence has the choice, too"


def test_stale_telemetry_brings_the_fail_safe(policy: Serving) -> None:
    telemetry = audited(new(1), NOW, Outcome.PASSED)
    before = stored(policy, decided(policy, new(1), blank(1)))
    for age, expected in ((28 * DAY, 0), (28 * DAY + 1, Override.TELEMETRY), (-HOUR, 1)):
        assert decided(policy, telemetry, before, NOW + age).plan.overrides[0] == expected


def test_a_lost_state_or_one_of_another_version_brings_the_fail_safe(policy: Serving) -> None:
    telemetry = audited(new(3), NOW, *[Outcome.PASSED] * 3)
    good = stored(policy, decided(policy, new(3), blank(3)))
    found = decided(
        policy,
        telemetry,
        StoredMemory([policy.version, "another", policy.version], [*good.memory[:2], b"short"]),
    )
    state = int(Override.STATE)
    assert found.plan.overrides.tolist() == [0, state, state]
    again = decided(policy, audited(telemetry, NOW, *[Outcome.PASSED] * 3), stored(policy, found))
    assert again.plan.overrides.tolist() == [0, 0, 0]


def test_an_observation_that_training_never_met_brings_the_fail_safe(policy: Serving) -> None:
    slow = new(1).after(NOW, [Outcome.PASSED], np.full(1, 3.0), np.full(1, 1e4))
    before = stored(policy, decided(policy, new(1), blank(1)))
    found = decided(policy, slow, before)
    assert found.plan.overrides.tolist() == [int(Override.ENVELOPE)]


def test_a_damaged_history_counts_as_missing_telemetry(policy: Serving) -> None:
    telemetry = Telemetry.stored(
        [b"cut"], HistoryConstants(), np.array([NOW]), np.ones(1, np.bool_)
    )
    assert decided(policy, telemetry, blank(1)).plan.overrides[0] & Override.TELEMETRY
