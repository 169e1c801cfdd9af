"""What a replay buffer samples happened, in that order, and lately."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.learn.replay_buffer import EpisodeReplay, Sequences, TransitionReplay

LENGTH = 5


def add_episode(replay: EpisodeReplay, episode: int, length: int) -> None:
    """Add an episode in which every input, action and reward tells its episode and its moment."""
    moments = 1000.0 * episode + np.arange(1, length + 2, dtype=np.float32)
    replay.add(
        np.column_stack((moments, -moments)), moments[:-1].astype(np.int64), moments[:-1] + 0.5
    )


def sample(replay: EpisodeReplay, seed: int = 0) -> Sequences:
    return replay.sample((4, 16), LENGTH, np.random.default_rng(seed))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_sequences_lie_within_one_of_the_last_episodes(lengths: list[int]) -> None:
    replay = EpisodeReplay(30, 2)
    for episode, length in enumerate(lengths, start=1):
        add_episode(replay, episode, length)
    assert len(replay) <= 30
    kept = {episode for episode in range(1, len(lengths) + 1) if sum(lengths[episode - 1 :]) <= 30}
    assert len(replay) == sum(lengths[episode - 1] for episode in kept)
    batch = sample(replay)
    for update in range(4):
        for column in range(16):
            mask = batch.mask[update, :, column]
            steps = int(mask.sum())
            assert steps >= 1
            assert mask[:steps].all(), "what is masked lies behind the end"
            inputs = batch.inputs[update, :, column]
            episode, moment = divmod(int(inputs[0, 0]), 1000)
            assert episode in kept
            length = lengths[episode - 1]
            assert steps == min(length, LENGTH)
            expected = inputs[0, 0] + np.arange(steps + 1)
            assert (inputs[: steps + 1] == np.column_stack((expected, -expected))).all()
            assert (batch.actions[update, :steps, column] == expected[:-1]).all()
            assert (batch.rewards[update, :steps, column] == expected[:-1] + 0.5).all()
            ends = moment + np.arange(LENGTH) == length
            assert (batch.dones[update, :, column] == ends).all()
            assert not inputs[steps + 1 :].any()
            assert not batch.actions[update, steps:, column].any()


def test_every_moment_of_an_episode_is_drawn_sooner_or_later() -> None:
    replay = EpisodeReplay(100, 2)
    add_episode(replay, 1, 9)
    starts = {
        int(start) for seed in range(5) for start in sample(replay, seed).inputs[:, 0, :, 0].flat
    }
    assert starts == {1001, 1002, 1003, 1004, 1005}


def test_restored_episodes_are_drawn_and_dropped_like_those_saved() -> None:
    replay, other = EpisodeReplay(30, 2), EpisodeReplay(30, 2)
    for episode in range(1, 9):
        add_episode(replay, episode, 7)
    other.restore(replay.arrays())
    for buffer in (replay, other):
        add_episode(buffer, 9, 4)
    first, second = sample(replay, 3), sample(other, 3)
    for field, array in vars(first).items():
        assert (array == getattr(second, field)).all()


def test_of_an_episode_longer_than_the_memory_the_end_is_remembered() -> None:
    replay = EpisodeReplay(10, 2)
    for episode in (1, 2):
        add_episode(replay, episode, 45)
    assert len(replay) == 10
    batch = sample(replay)
    starts = batch.inputs[:, 0, :, 0]
    assert starts.min() == 2036
    assert starts.max() == 2041
    assert batch.mask.all()
    assert (batch.inputs[:, 1:, :, 0] == batch.inputs[:, :-1, :, 0] + 1).all()
    assert (batch.dones[:, -1] == (starts == 2041)).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 40))
def test_transitions_drawn_are_the_last_ones_added(added: int, more: int) -> None:
    replay, other = TransitionReplay(20, 2), TransitionReplay(20, 2)

    def add(memory: TransitionReplay, moment: int) -> None:
        seen = np.array([moment, -moment], np.float32)
        memory.add(seen, moment, moment + 0.5, seen + 1, done=moment % 3 == 0)

    for moment in range(added):
        add(replay, moment)
    other.restore(replay.arrays())
    for moment in range(added, added + more):
        add(replay, moment)
        add(other, moment)
    total = added + more
    assert len(replay) == min(total, 20)
    batch = replay.sample((3, 50), np.random.default_rng(0))
    assert batch.actions.min() >= total - len(replay)
    assert batch.actions.max() < total
    assert (batch.inputs[..., 0] == batch.actions).all()
    assert (batch.inputs[..., 1] == -batch.actions).all()
    assert (batch.next_inputs == batch.inputs + 1).all()
    assert (batch.rewards == batch.actions + 0.5).all()
    assert (batch.dones == (batch.actions % 3 == 0)).all()
    again = other.sample((3, 50), np.random.default_rng(0))
    assert (again.actions == batch.actions).all()
