"""Rules that need neither training nor planning: the paper's, and what practitioners run."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.model.truth import Truth
from holdfast.policy.interface import last_failed

REPUTATION = OBSERVATION.index("reputation")


@dataclass(frozen=True)
class Constant:
    """The same action always."""

    action: int
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> None:  # noqa: ARG002 - the interface names it
        return None

    def act(self, state: None, observations: FloatArray) -> tuple[IntArray, None]:
        return np.full(len(observations), self.action, np.int64), state


@dataclass(frozen=True)
class TwoSpeed:
    """One action for a node in good standing, another after a failure or at low reputation."""

    calm: int
    alarmed: int
    least_reputation: float = 0.0
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> None:  # noqa: ARG002 - the interface names it
        return None

    def act(self, state: None, observations: FloatArray) -> tuple[IntArray, None]:
        distrusted = observations[:, REPUTATION] < self.least_reputation
        return np.where(last_failed(observations) | distrusted, self.alarmed, self.calm), state


@dataclass(frozen=True)
class Oracle:
    """The paper's oracle, which sees corruption but not what the coming interval will add."""

    corrupted: int = GRID.index_of(1, 0.20)
    clean: int = GRID.index_of(14, 0.01)
    privileged: ClassVar[Literal[True]] = True

    def initial_state(self, batch: int) -> None:  # noqa: ARG002 - the interface names it
        return None

    def act(
        self,
        state: None,
        observations: FloatArray,  # noqa: ARG002 - the interface names it
        truth: Truth,
    ) -> tuple[IntArray, None]:
        return np.where(truth.corrupted > 0, self.corrupted, self.clean), state


def fixed_high() -> Constant:
    return Constant(GRID.index_of(1, 0.10))


def fixed_low() -> Constant:
    return Constant(GRID.index_of(7, 0.01))


def heuristic() -> TwoSpeed:
    return TwoSpeed(
        calm=GRID.index_of(5, 0.03), alarmed=GRID.index_of(1, 0.10), least_reputation=0.8
    )


def two_speed() -> TwoSpeed:
    """Sia scans a host every 14 days, 12 hours after a failure, and reads a single segment."""
    return TwoSpeed(calm=GRID.nearest(14, 0.0), alarmed=GRID.nearest(0.5, 0.0))


def daily_5(scenario: Scenario) -> Constant:
    """Filecoin proves five leaves every day, however large the holding."""
    return Constant(GRID.nearest(1, 5 / scenario.blocks))


def sample_460(scenario: Scenario) -> Constant:
    """Challenge 460 blocks as libpdp does, which finds a damage of 1 % with a confidence of 99 %.

    It leaves the schedule to its caller: weekly here, as scrubs of storage are commonly run.
    """
    return Constant(GRID.nearest(7, 460 / scenario.blocks))
