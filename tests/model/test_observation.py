"""One function turns an audit history into an observation, for one node as for many."""

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.observation import (
    OBSERVATION,
    History,
    HistoryConstants,
    empty_history,
    observe,
    record,
)

CONSTANTS = HistoryConstants()

audits = st.lists(
    st.tuples(st.sampled_from([1, 7, 14, 40]), st.booleans(), st.floats(0, 1e6)), max_size=30
)


def after(past: list[tuple[int, bool, float]]) -> History:
    history = empty_history()
    for interval, failed, latency in past:
        history = record(history, float(interval), float(failed), latency, CONSTANTS)
    return history


def seen(past: list[tuple[int, bool, float]]) -> dict[str, float]:
    return dict(zip(OBSERVATION, observe(after(past), CONSTANTS).tolist(), strict=True))


def test_a_node_never_audited_is_undecided() -> None:
    assert seen([]) == {
        "reputation": 0.5,
        "previous_interval": 0.0,
        "latency": 0.0,
        "consecutive_failures": 0.0,
        "pass_rate": 0.5,
    }


@given(audits)
def test_every_signal_lies_between_0_and_1(past: list[tuple[int, bool, float]]) -> None:
    assert all(0 <= signal <= 1 for signal in seen(past).values())


@given(audits.filter(bool))
def test_the_failure_signal_tells_whether_the_last_audit_failed(
    past: list[tuple[int, bool, float]],
) -> None:
    assert (seen(past)["consecutive_failures"] > 0) == past[-1][1]


@given(st.lists(audits, min_size=1, max_size=4))
def test_a_batch_is_observed_like_its_nodes_one_by_one(
    pasts: list[list[tuple[int, bool, float]]],
) -> None:
    histories = [after(past) for past in pasts]
    batch = History(
        *(
            np.array([getattr(history, part.name) for history in histories])
            for part in fields(History)
        )
    )
    one_by_one = [observe(history, CONSTANTS) for history in histories]
    np.testing.assert_array_equal(observe(batch, CONSTANTS), one_by_one)


def test_reputation_forgets_and_the_pass_rate_does_not() -> None:
    fallen_and_risen = [(1, True, 0.1)] * 30 + [(1, False, 0.1)] * 30
    only_risen = [(1, False, 0.1)] * 30
    assert abs(seen(fallen_and_risen)["reputation"] - seen(only_risen)["reputation"]) < 0.05
    assert seen(fallen_and_risen)["pass_rate"] == 0.5


def test_a_late_audit_shows_as_the_longest_interval() -> None:
    assert seen([(40, False, 0.1)])["previous_interval"] == 1.0
    assert seen([(7, False, 0.1)])["previous_interval"] == 0.5
