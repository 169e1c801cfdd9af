"""What is drawn from a memory happened, in that order, and lately."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.learn.replay_buffer import EpisodeReplay, Sequences, TransitionReplay

LENGTH = 5


def remember(replay: EpisodeReplay, name: int, length: int) -> None:
    """Add an episode in which every input, action and reward tells its episode and its moment."""
    moments = 1000.0 * name + np.arange(1, length + 2, dtype=np.float32)
    replay.add(
        np.column_stack((moments, -moments)), moments[:-1].astype(np.int64), moments[:-1] + 0.5
    )


def draw(replay: EpisodeReplay, seed: int = 0) -> Sequences:
    return replay.draw((4, 16), LENGTH, np.random.default_rng(seed))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_sequences_lie_within_one_of_the_last_episodes(lengths: list[int]) -> None:
    replay = EpisodeReplay(30, 2)
    for name, length in enumerate(lengths, start=1):
        remember(replay, name, length)
    assert len(replay) <= 30
    kept = {name for name in range(1, len(lengths) + 1) if sum(lengths[name - 1 :]) <= 30}
    assert len(replay) == sum(lengths[name - 1] for name in kept)
    found = draw(replay)
    for update in range(4):
        for place in range(16):
            mask = found.mask[update, :, place]
            steps = int(mask.sum())
            assert steps >= 1
            assert mask[:steps].all(), "what is masked lies behind the end"
            inputs = found.inputs[update, :, place]
            name, moment = divmod(int(inputs[0, 0]), 1000)
            assert name in kept
            length = lengths[name - 1]
            assert steps == min(length, LENGTH)
            expected = inputs[0, 0] + np.arange(steps + 1)
            assert (inputs[: steps + 1] == np.column_stack((expected, -expected))).all()
            assert (found.actions[update, :steps, place] == expected[:-1]).all()
            assert (found.rewards[update, :steps, place] == expected[:-1] + 0.5).all()
            ends = moment + np.arange(LENGTH) == length
            assert (found.ended[update, :, place] == ends).all()
            assert not inputs[steps + 1 :].any()
            assert not found.actions[update, steps:, place].any()


def test_every_moment_of_an_episode_is_drawn_sooner_or_later() -> None:
    replay = EpisodeReplay(100, 2)
    remember(replay, 1, 9)
    starts = {int(each) for seed in range(5) for each in draw(replay, seed).inputs[:, 0, :, 0].flat}
    assert starts == {1001, 1002, 1003, 1004, 1005}


def test_restored_episodes_are_drawn_and_dropped_like_those_saved() -> None:
    replay, other = EpisodeReplay(30, 2), EpisodeReplay(30, 2)
    for name in range(1, 9):
        remember(replay, name, 7)
    other.restore(replay.saved())
    for each in (replay, other):
        remember(each, 9, 4)
    first, second = draw(replay, 3), draw(other, 3)
    for field, array in vars(first).items():
        assert (array == getattr(second, field)).all()


def test_of_an_episode_longer_than_the_memory_the_end_is_remembered() -> None:
    replay = EpisodeReplay(10, 2)
    for name in (1, 2):
        remember(replay, name, 45)
    assert len(replay) == 10
    found = draw(replay)
    starts = found.inputs[:, 0, :, 0]
    assert starts.min() == 2036
    assert starts.max() == 2041
    assert found.mask.all()
    assert (found.inputs[:, 1:, :, 0] == found.inputs[:, :-1, :, 0] + 1).all()
    assert (found.ended[:, -1] == (starts == 2041)).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 40))
def test_transitions_drawn_are_the_last_ones_added(added: int, more: int) -> None:
    replay, other = TransitionReplay(20, 2), TransitionReplay(20, 2)

    def add(memory: TransitionReplay, moment: int) -> None:
        seen = np.array([moment, -moment], np.float32)
        memory.add(seen, moment, moment + 0.5, seen + 1, ended=moment % 3 == 0)

    for moment in range(added):
        add(replay, moment)
    other.restore(replay.saved())
    for moment in range(added, added + more):
        add(replay, moment)
        add(other, moment)
    total = added + more
    assert len(replay) == min(total, 20)
    found = replay.draw((3, 50), np.random.default_rng(0))
    assert found.actions.min() >= total - len(replay)
    assert found.actions.max() < total
    assert (found.inputs[..., 0] == found.actions).all()
    assert (found.inputs[..., 1] == -found.actions).all()
    assert (found.after == found.inputs + 1).all()
    assert (found.rewards == found.actions + 0.5).all()
    assert (found.ended == (found.actions % 3 == 0)).all()
    again = other.draw((3, 50), np.random.default_rng(0))
    assert (again.actions == found.actions).all()
