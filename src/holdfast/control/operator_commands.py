"""Commands of an operator: carried out and recorded in the evidence in one transaction.

`incidents.store` releases holdings, because it quarantines them.
"""

from sqlalchemy import Connection, Engine, insert, select, update

from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.guardrails import Override
from holdfast.errors import ConflictError, NotFoundError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.storage.database import transaction
from holdfast.storage.schema import alerts, holdings, leaves


def record_instruction(
    connection: Connection, order: leaf.Order, subject: str, author: Author
) -> None:
    """Write the leaf of a command, in the transaction that carries it out."""
    instruction = leaf.Instruction(
        author.at, order, plain(subject), plain(author.by), plain(author.reason)
    )
    row = {"holding": None, "body": leaf.encode(instruction), "proof": None}
    connection.execute(insert(leaves), [row])


def audit_now(engine: Engine, name: str, author: Author) -> None:
    """Make a holding due now."""
    with transaction(engine) as connection:
        query = select(holdings).where(holdings.c.name == name).with_for_update()
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError(f"holding {name!r} is not on the schedule")
        if row.quarantined:
            raise ConflictError(f"holding {name!r} is quarantined: release it first")
        if row.lease > author.at or row.flight is not None:
            raise ConflictError(f"holding {name!r} is being audited just now")
        soon = {
            "due": max(author.at, row.decided),  # whatever became of the clock
            "overrides": row.overrides | int(Override.ASKED),
        }
        connection.execute(update(holdings).where(holdings.c.id == row.id).values(soon))
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
        seen = {"acknowledged": author.at, "acknowledged_by": plain(author.by)}
        connection.execute(update(alerts).where(alerts.c.id == alert).values(seen))
        what = f"alert {alert}: {row.kind}: {row.subject}"
        record_instruction(connection, leaf.Order.ACKNOWLEDGE, what, author)
