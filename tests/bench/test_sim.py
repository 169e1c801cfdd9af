"""The benchmark of the world reports the ratios it promises; how large they are is not tested."""

from holdfast.bench.sim import measure


def test_ratios_are_those_of_the_speeds_beside_them() -> None:
    found = measure(rounds=1, steps=200, nodes=64)
    fleet, gym = found["fleet_steps_per_second"], found["gym_steps_per_second"]
    assert found["vector_over_gym"] == fleet / gym
    assert found["gym_over_cartpole"] == gym / found["cartpole_steps_per_second"]
    assert found["nodes"] == 64
