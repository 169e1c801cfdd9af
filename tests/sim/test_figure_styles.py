"""A policy looks the same in all figures, and no two look the same in one."""

from holdfast.policy.registry import NAMES
from holdfast.sim.figure import OTHERS, POLICIES, key, style_numbers


def look(number: int) -> tuple[str, str]:
    style = key(number)
    return style["color"], style["marker"]


def test_a_policy_has_the_same_colour_and_mark_whatever_else_is_drawn() -> None:
    alone = style_numbers(["drqn-cmdp-plus:rho=0.04"])
    among = style_numbers(["ppo", "runs/a", "drqn-cmdp-plus@paper", "constant:14,0.20"])
    assert alone == [among[2]]
    assert style_numbers(["runs/a"]) == [among[1]]


def test_no_two_styles_look_the_same() -> None:
    assert len({look(number) for number in range(len(POLICIES) + OTHERS)}) == (
        len(POLICIES) + OTHERS
    )
    several = style_numbers(
        ["belief:rho=0.05", "belief:rho=0.1", *(f"runs/{k}" for k in range(20))]
    )
    assert len({look(number) for number in several}) == 22


def test_every_policy_that_has_a_name_has_a_style_of_its_own() -> None:
    assert set(NAMES) - {"constant"} <= set(POLICIES)
