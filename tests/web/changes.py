"""What a change through the API leaves in the database and the evidence."""

from typing import Any

from sqlalchemy import select
from tests.support.live_web import Served

from holdfast.evidence import leaf
from holdfast.evidence.verification import verify
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings


def told(served: Served) -> list[leaf.Leaf]:
    """Return the leaves, after the sequencer has given each its place and all was verified."""
    served.operation.sequencer.sequence()
    log = served.operation.log()
    assert verify(log, log.verifier).findings == ()
    return [leaf.decode(entry.leaf) for entry in log.entries()]


def row(served: Served, holding: int) -> Any:
    query = select(holdings).where(holdings.c.id == holding)
    with transaction(served.engine) as connection:
        return connection.execute(query).one()
