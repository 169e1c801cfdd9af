"""What the demo shows at one moment: every node, and what has happened so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.control.queries.audits import lowest_gas
from holdfast.control.queries.holdings import list_scheduled
from holdfast.control.scheduling.guardrails import Override
from holdfast.demo.environment import SECTORS, Environment
from holdfast.ledger.price import gas_of_an_audit
from holdfast.storage.database import transaction


@dataclass(frozen=True)
class Line:
    """Something that happened, as the viewer sees it."""

    at: int
    node: str
    text: str
    kind: str  # an outcome, a step, or "fault", which the owner can't see


@dataclass(frozen=True)
class Row:
    """A node as it is now; `damage` is what is really there, which the owner can't see."""

    node: str
    runs: bool
    damage: int
    quarantined: bool
    outcome: str | None
    audited: int
    audits: int
    due: int
    interval: int
    ratio: float
    follow_up: bool
    gas: float


@dataclass(frozen=True)
class Frame:
    """What is shown at one moment, in milliseconds since the run began."""

    at: int
    span: int
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    price: float  # of an audit, the lowest that there was

    @property
    def gas(self) -> float:
        return sum(row.gas for row in self.rows)


def read_rows(environment: Environment, start: int, damage: Mapping[str, int]) -> tuple[Row, ...]:
    """Return the nodes by name, as the schedule has them; moments count from `start`."""
    with transaction(environment.service.schedule.engine) as connection:
        listed = list_scheduled(connection)
    return tuple(
        Row(
            node=row.name,
            runs=environment.nodes[row.name].runs,
            damage=damage[row.name],
            quarantined=row.quarantined,
            outcome=row.outcome,
            audited=row.audited - start,
            audits=row.audits,
            due=row.due - start,
            interval=row.interval,
            ratio=row.ratio,
            follow_up=bool(row.overrides & Override.FOLLOW_UP),
            gas=row.gas,
        )
        for row in listed
    )


def lowest_price(environment: Environment) -> float:
    """Return the gas of the cheapest audit that passed: the one in the largest batch.

    Before there is one, and on a local ledger, it is the lowest of `holdfast bench ledger`.
    """
    with transaction(environment.service.schedule.engine) as connection:
        measured = lowest_gas(connection)
    return measured or gas_of_an_audit(SECTORS, batched=True)
