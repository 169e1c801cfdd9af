"""TD targets follow their definitions: one step ahead, with one network or two."""

import numpy as np

from holdfast.learn.td_target import next_q, td_target

TARGET_Q = np.array([[1.0, 5.0, 2.0], [4.0, 0.0, 3.0]], np.float32)
ONLINE_Q = np.array([[9.0, 0.0, 1.0], [0.0, 1.0, 9.0]], np.float32)


def test_dqn_takes_the_highest_value_of_the_target_network() -> None:
    assert next_q(TARGET_Q, TARGET_Q).tolist() == [5.0, 4.0]  # type: ignore[arg-type]


def test_double_dqn_takes_the_target_networks_value_of_the_online_networks_action() -> None:
    assert next_q(TARGET_Q, ONLINE_Q).tolist() == [1.0, 3.0]  # type: ignore[arg-type]


def test_nothing_follows_the_end_of_an_episode() -> None:
    rewards, dones = np.array([1.0, 1.0]), np.array([False, True])
    target = td_target(rewards, dones, np.array([2.0, 2.0]), 0.5)  # type: ignore[arg-type]
    assert target.tolist() == [2.0, 1.0]
