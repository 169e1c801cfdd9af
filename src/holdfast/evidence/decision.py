"""Why an audit happened: what was known of the node, who decided, and what rails changed."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import InputError
from holdfast.model.action import Action
from holdfast.model.observation import Observation


@dataclass(frozen=True)
class Policy:
    """A policy by its name and its version, the SHA-256 of what defines it."""

    name: str
    hash: bytes


class Freshness(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"


@dataclass(frozen=True)
class Telemetry:
    """What was known of the node when it was decided about, and since when."""

    freshness: Freshness
    observation: Observation | None
    at: int | None

    def __post_init__(self) -> None:
        known = (self.observation is not None, self.at is not None)
        if known != (self.freshness != Freshness.MISSING,) * 2:
            raise InputError("an observation has its time, unless it is missing")


@dataclass(frozen=True)
class Choice:
    policy: Policy
    action: Action


@dataclass(frozen=True)
class Override:
    """What a guardrail changed the action to, and why."""

    rail: str
    reason: str
    action: Action


@dataclass(frozen=True)
class Decision:
    """How an audit came about. The champion's choice counts, unless rails overrode it in turn.

    `chosen` is empty if the policy could not decide; `shadow` is what a challenger would have done.
    """

    at: int
    telemetry: Telemetry
    chosen: Choice | None
    shadow: Choice | None
    overrides: tuple[Override, ...]

    def __post_init__(self) -> None:
        if self.chosen is None and not self.overrides:
            raise InputError("neither a policy nor a rail has decided")

    @property
    def action(self) -> Action:
        return [step.action for step in (self.chosen, *self.overrides) if step is not None][-1]
