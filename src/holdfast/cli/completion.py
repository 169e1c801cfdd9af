"""What the shell offers while a command is typed: the names of policies and scenarios."""

from holdfast.model.scenario import SCENARIOS
from holdfast.policy.registry import NAMES


def complete_policy(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    return [name for name in SCENARIOS if name.startswith(incomplete)]
