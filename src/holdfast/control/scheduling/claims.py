"""What a worker takes from the schedule and gives back: claims, conclusions, and the lag."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.control.policies.shadow_states import ShadowRecord
from holdfast.control.scheduling.coverage import Look
from holdfast.model.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Claim:
    """A holding that is due, as it stands in its row."""

    id: int
    name: str
    token: int  # of the lease
    blocks: int
    due: int
    number: int
    audited: int
    history: bytes
    observed: int
    news: bool
    version: str
    memory: bytes
    decided: int
    observation: bytes
    chosen: int
    interval: int
    ratio: float
    overrides: int
    flight: bytes | None
    checked: bool = False  # by a tool, not by proofs
    verify_within: int = 0  # milliseconds in which every unit is checked; 0 if nobody asks


@dataclass(frozen=True)
class Conclusion:
    """What is written at the end of an audit, in one transaction."""

    holding: dict[str, Any]  # the row's new values, by column
    audit: dict[str, Any]
    leaf: dict[str, Any]
    shadows: Sequence[ShadowRecord] = ()
    look: Look | None = None  # of a check


@dataclass(frozen=True)
class Lag:
    """How far the schedule is behind."""

    overdue: int  # holdings that are due and that no worker has, or has for a minute
    longest: int  # milliseconds since the first of them was due
    working: int
    quarantined: int


class LeaseLostError(Exception):
    """Another worker has the holdings now, and finishes what was begun."""


def column(claims: Sequence[Claim], name: str) -> IntArray:
    return np.array([getattr(claim, name) for claim in claims])
