"""The scenario `operation`: what happens to nodes in an operator's world, and what audits cost.

Time is in days, rates are per node and year at hazard 1. Every parameter has its source, or the
word "assumed".
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property

from holdfast.errors import InputError

DAYS_PER_YEAR = 365.0

Range = tuple[float, float]  # of a quantity that is log-uniform between these two


@dataclass(frozen=True)
class Operation:
    """Every parameter of the operator's world."""

    name: str = "operation"
    days: float = 1095.0  # of an episode: three years
    blocks: int = 100_000

    # Every block is lost: 1.41 % of drives in the first quarter of 2024, 1.57 % in 2024
    # (Backblaze, Drive Stats).
    whole_loss: float = 0.014
    # Sectors that can't be read: 3.45 % of disks in 32 months (Bairavasundaram et al., 2007).
    latent_error: float = 0.013
    # A share of the blocks is lost at once. Assumed.
    partial_loss: float = 0.010
    # A node begins to drop blocks, for ever. Assumed, as is the share of those that always did.
    turn_cheater: float = 0.010
    cheaters_at_start: float = 0.01

    # A node's hazard multiplies all rates. It is log-uniform over this factor with mean 1. Assumed.
    hazard_spread: float = 100.0
    # Nodes of one provider, and the share of the variance of their log-hazards (on the scale of
    # normal scores) that they have in common. Assumed.
    provider_nodes: int = 20
    provider_share: float = 0.0

    # Blocks of a latent error: one and a geometric number more. Assumed.
    latent_blocks: float = 10.0
    # Some latent errors go on: so many blocks are lost each day, as a share of all. Assumed.
    rot_share: float = 0.2
    rot_rate: Range = (1e-5, 1e-3)
    partial_share: Range = (1e-3, 1.0)  # of the blocks. Assumed.
    cheating_rate: Range = (1e-4, 1e-2)  # share of all blocks dropped each day. Assumed.

    # A failed audit repairs everything, and ends rot with this probability. Assumed.
    cure: float = 0.7
    # After the repair of a latent error or a partial loss another one follows with this
    # probability, after so many days on average; so many of them are latent errors. Assumed.
    recurrence: float = 0.4
    recurrence_days: float = 30.0
    recurrence_latent: float = 0.6
    # After so many failures in a row the node is replaced by another. Assumed.
    failures_to_replace: int = 3

    # What counts as damage: at least this share of the blocks.
    material: tuple[float, ...] = (0.001, 0.01)
    # It is late if it was not found within so many days.
    late_after: tuple[float, ...] = (7.0, 14.0, 30.0)

    # What an audit and a block that it reads cost, in one unit.
    per_audit: float = 1.0
    per_block: float = 1.0 / 460.0
    # What a learned policy chooses from: days, and blocks of a sample.
    intervals: tuple[float, ...] = (1.0, 3.0, 7.0, 14.0, 21.0, 30.0, 45.0, 60.0, 90.0)
    samples: tuple[int, ...] = (50, 150, 460, 1500, 4600)

    def __post_init__(self) -> None:
        shares = ("cheaters_at_start", "provider_share", "rot_share", "cure", "recurrence")
        for name in (*shares, "recurrence_latent"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"scenario field {name}: must lie between 0 and 1")
        if self.recurrence == 1:
            raise InputError("scenario field recurrence: must be below 1, or damage never ends")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
                raise InputError(f"scenario field {field.name}: must be a number from 0 on")
        for name in ("rot_rate", "partial_share", "cheating_rate"):
            low, high = getattr(self, name)
            if not 0 < low <= high <= 1:
                raise InputError(f"scenario field {name}: must be two shares, the lower one first")
        if min(self.days, self.blocks, self.latent_blocks, self.hazard_spread) < 1:
            raise InputError(
                "scenario fields days, blocks, latent_blocks and hazard_spread: must be at least 1"
            )

    @cached_property
    def event_rate(self) -> float:
        """Events per node and year at hazard 1, of all causes."""
        return self.whole_loss + self.latent_error + self.partial_loss + self.turn_cheater

    @cached_property
    def least_hazard(self) -> float:
        """The hazard of the best nodes, by which the mean hazard is 1."""
        spread = self.hazard_spread
        return math.log(spread) / (spread - 1) if spread > 1 else 1.0


OPERATION = Operation()
