"""A learned policy shows its network the right inputs and remembers for each node."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.checkpoints import ARCHITECTURE, CHEAP, INPUTS, STRICT, random_weights

from holdfast.errors import InputError
from holdfast.model.arrays import Float32Array, put, take
from holdfast.model.observation import OBSERVATION
from holdfast.policy.dial import RANGES, Dial
from holdfast.policy.learned import Inputs, Learned
from holdfast.policy.network import Architecture

SIGNALS = len(OBSERVATION)


def learned(seed: int = 0) -> Learned:
    return Learned(ARCHITECTURE, random_weights(ARCHITECTURE, seed), INPUTS, CHEAP.dial)


def observed(rounds: int, batch: int) -> Float32Array:
    """Return observations that differ more than real ones, so that decisions do too."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(rounds, batch, SIGNALS)).astype(np.float32)


def mirror(inputs: Inputs, dial: Dial | None = None) -> Learned:
    """Return a policy that chooses the action numbered as its largest input."""
    architecture = Architecture(inputs.size, features=())
    weight = np.eye(inputs.size, architecture.outputs, dtype=np.float32)
    bias = np.zeros(architecture.outputs, np.float32)
    return Learned(architecture, {"action.weight": weight, "action.bias": bias}, inputs, dial)


def test_the_action_is_the_one_with_the_highest_output() -> None:
    policy = mirror(Inputs())
    actions, _ = policy.act(policy.initial_state(5), np.eye(5))
    assert actions.tolist() == [0, 1, 2, 3, 4]
    assert actions.dtype == np.int64


def test_frames_are_shown_newest_first_and_zero_before_the_first() -> None:
    policy = mirror(Inputs(frames=3))
    state = policy.initial_state(1)
    spike, calm = np.array([[0.1, 0.9, 0.1, 0.1, 0.1]]), np.full((1, SIGNALS), 0.2)
    chosen = []
    for seen in (spike, calm, calm, calm):
        actions, state = policy.act(state, seen)
        chosen.append(int(actions[0]))
    # The spike is seen at its place in the newest frame, then one and two frames on, then no more.
    assert chosen == [1, SIGNALS + 1, 2 * SIGNALS + 1, 0]


def test_a_masked_signal_makes_no_difference_now_or_later() -> None:
    policy = learned()
    plain = changed = policy.initial_state(50)
    for seen in observed(4, 50):
        other = seen.copy()
        other[:, OBSERVATION.index("latency")] = np.nan
        expected, plain = policy.act(plain, seen)
        actions, changed = policy.act(changed, other)
        np.testing.assert_array_equal(actions, expected)


def test_the_dial_is_shown_to_every_node_after_the_frames() -> None:
    dial = Dial(0.3, 0.001, 0.3, 3.0)  # of its signals the third is the only one above 0
    policy = mirror(Inputs(frames=2, dial=True), dial)
    actions, _ = policy.act(policy.initial_state(3), np.zeros((3, SIGNALS)))
    assert actions.tolist() == [2 * SIGNALS + 2] * 3


def test_the_dial_changes_what_is_decided() -> None:
    cheap = learned()
    strict = Learned(ARCHITECTURE, cheap.parameters, INPUTS, STRICT.dial)
    seen = observed(1, 200)[0]
    actions, _ = cheap.act(cheap.initial_state(200), seen)
    stricter, _ = strict.act(strict.initial_state(200), seen)
    assert (actions != stricter).any()


def test_many_nodes_at_once_are_decided_as_each_alone() -> None:
    policy = learned()
    history = observed(6, 40)
    together = []
    state = policy.initial_state(40)
    for seen in history:
        actions, state = policy.act(state, seen)
        together.append(actions)
    assert len(np.unique(together)) > 5, "a policy that always does the same would prove nothing"
    for node in range(40):
        state = policy.initial_state(1)
        for seen, expected in zip(history, together, strict=True):
            actions, state = policy.act(state, seen[node : node + 1])
            assert actions[0] == expected[node]


def test_nodes_taken_out_of_a_batch_and_put_back_go_on_as_before() -> None:
    policy = learned()
    first, second, third = observed(3, 20)
    due = np.arange(20) % 3 == 0
    _, state = policy.act(policy.initial_state(20), first)

    actions, whole = policy.act(state, second)
    some, after = policy.act(take(state, due), second[due])
    np.testing.assert_array_equal(some, actions[due])

    mixed = put(state, due, after)
    np.testing.assert_array_equal(
        policy.act(mixed, third)[0][due], policy.act(whole, third)[0][due]
    )
    np.testing.assert_array_equal(
        policy.act(mixed, third)[0][~due], policy.act(state, third)[0][~due]
    )


def test_acting_leaves_the_state_it_was_given_as_it_was() -> None:
    policy = learned()
    state = policy.initial_state(8)
    policy.act(state, observed(1, 8)[0])
    assert not state.hidden.any()
    assert not state.older.any()


@given(st.tuples(*[st.floats(low, high) for low, high in RANGES]))
def test_the_signals_of_a_dial_lie_between_minus_one_and_one(settings: tuple[float, ...]) -> None:
    signals = Dial(*settings).signals()
    assert signals.dtype == np.float32
    assert signals.shape == (4,)
    assert np.abs(signals).max() <= 1


def test_the_signals_of_a_dial_reach_both_ends_of_their_range() -> None:
    lowest, highest = (Dial(*ends).signals().tolist() for ends in zip(*RANGES, strict=True))
    assert (lowest, highest) == ([-1.0] * 4, [1.0] * 4)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_dial_of_anything_but_positive_numbers_is_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="must be positive"):
        Dial(miss_price=1.0, latency_price=wrong, rho=0.05, latency=9.0)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"masked": ("mood",)}, "no signal 'mood' to mask: they are reputation"),
        ({"frames": 0}, "0"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Inputs(**wrong)


def test_a_network_with_a_dial_needs_it_set_and_one_without_takes_none() -> None:
    with pytest.raises(InputError, match="needs a dial exactly where"):
        mirror(Inputs(dial=True))
    with pytest.raises(InputError, match="needs a dial exactly where"):
        mirror(Inputs(), CHEAP.dial)
