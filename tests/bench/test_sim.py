"""The benchmark of the world compares like with like, and the fleet is worth having."""

from holdfast.bench.sim import measure


def test_the_fleet_outruns_a_loop_over_one_environment_that_keeps_up_with_cartpole() -> None:
    """The stated marks are 20 and 0.5; a busy machine gets some grace."""
    found = measure(rounds=5, steps=2000)
    assert found["vector_over_gym"] > 12
    assert found["gym_over_cartpole"] > 0.35
    ratio = found["fleet_steps_per_second"] / found["gym_steps_per_second"]
    assert ratio == found["vector_over_gym"]
