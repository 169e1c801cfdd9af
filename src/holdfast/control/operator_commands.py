"""What an operator orders: done, and recorded in the evidence with who did it, at once.

Releasing a holding is in `cases`, where it was quarantined.
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
    """Write the leaf of an order, in the transaction that carries it out."""
    told = leaf.Instruction(
        author.at, order, plain(subject), plain(author.by), plain(author.reason)
    )
    row = {"holding": None, "body": leaf.encode(told), "proof": None}
    connection.execute(insert(leaves), [row])


def audit_now(engine: Engine, name: str, author: Author) -> None:
    """Have a holding audited as soon as a worker is free."""
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
    """Note that someone has seen an alert; it stays open until its cause is gone."""
    with transaction(engine) as connection:
        row = connection.execute(select(alerts).where(alerts.c.id == alert).with_for_update())
        found = row.first()
        if found is None:
            raise NotFoundError(f"there is no alert {alert}")
        if found.acknowledged is not None:
            raise ConflictError(
                f"alert {alert} was acknowledged by {found.acknowledged_by} already"
            )
        seen = {"acknowledged": author.at, "acknowledged_by": plain(author.by)}
        connection.execute(update(alerts).where(alerts.c.id == alert).values(seen))
        what = f"alert {alert}: {found.kind}: {found.subject}"
        record_instruction(connection, leaf.Order.ACKNOWLEDGE, what, author)
