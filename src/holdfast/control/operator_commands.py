"""Commands of an operator. Each is carried out and recorded in the evidence in one transaction.

Releasing a holding is in `control/incidents/store.py`, beside its quarantine.
"""

from sqlalchemy import Connection, Engine, select, update

from holdfast.control.evidence.leaves import record_leaf
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.schedule import lock_holding, request_audit
from holdfast.errors import ConflictError, NotFoundError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.storage.database import transaction
from holdfast.storage.schema import alerts


def record_instruction(
    connection: Connection, order: leaf.Order, subject: str, author: Author
) -> None:
    """Record a command, in the transaction that carries it out."""
    by, reason = plain(author.by), plain(author.reason)
    record_leaf(connection, leaf.Instruction(author.at, order, plain(subject), by, reason))


def audit_now(engine: Engine, name: str, author: Author) -> None:
    """Make a holding due now."""
    with transaction(engine) as connection:
        row = lock_holding(connection, name)
        if row.quarantined:
            raise ConflictError(f"holding {name!r} is quarantined: release it first")
        if row.lease > author.at or row.flight is not None:
            raise ConflictError(f"holding {name!r} is being audited just now")
        request_audit(connection, row, author.at)
        record_instruction(connection, leaf.Order.AUDIT, name, author)


def acknowledge(engine: Engine, alert: int, author: Author) -> None:
    """Record who has seen an alert; it stays open until its cause is gone."""
    with transaction(engine) as connection:
        query = select(alerts).where(alerts.c.id == alert).with_for_update()
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError(f"there is no alert {alert}")
        if row.acknowledged is not None:
            raise ConflictError(f"alert {alert} was acknowledged by {row.acknowledged_by} already")
        changes = {"acknowledged": author.at, "acknowledged_by": plain(author.by)}
        connection.execute(update(alerts).where(alerts.c.id == alert).values(changes))
        subject = f"alert {alert}: {row.kind}: {row.subject}"
        record_instruction(connection, leaf.Order.ACKNOWLEDGE, subject, author)
