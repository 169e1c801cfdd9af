"""Commands about a holding: its node has moved, it gets another name, or it is removed.

Each is one transaction with its leaf in the evidence. It works while the service runs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from holdfast.control.incidents.holding_alerts import (
    end_all_alerts,
    end_node_alerts,
    rename_alerts,
)
from holdfast.control.incidents.store import drop_cases, record_response
from holdfast.control.incidents.types import ResponseRecord
from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.schedule import delete_scheduled, rename_scheduled
from holdfast.errors import ConflictError, InputError
from holdfast.evidence import leaf
from holdfast.owner import (
    Catalogue,
    HoldingRecord,
    Home,
    RemovalPlan,
    describe_removal,
    direct_operations,
)
from holdfast.owner.checked import check_free
from holdfast.owner.direct.address import is_direct
from holdfast.owner.direct.differences import count_objects, describe_names
from holdfast.owner.direct.enrolment import Enrolment
from holdfast.owner.enrolment import address_to_pin, check_name
from holdfast.owner.holding_rows import delete_holding, move_holding, rename_holding
from holdfast.settings_file import public_address
from holdfast.storage.home_schema import catalogue as holding_records
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import former_names, holdings, nodes, shadows

LOCK_TIMEOUT_SECONDS = 10.0  # to wait for another process that changes the holding
LOCK_RETRY_SECONDS = 0.2


def set_url(
    catalogue: Catalogue, name: str, url: str, author: Author, *, ca: str | None = None
) -> HoldingRecord:
    """Save that the node of a holding has moved to a URL; another node there is refused.

    `ca` replaces the certificates to trust.
    """
    record = catalogue.holding(name)
    authority = ca or record.ca
    try:
        address_to_pin(url, authority, record.node)
    except InputError as error:
        raise InputError(f"holding {name!r} stays at {record.url}: {error}") from error
    with lock_holding(catalogue, name), catalogue.transaction() as connection:
        move_holding(connection, name, url, authority)
        subject = f"{name} to {public_address(url)}"
        record_instruction(connection, leaf.Order.SET_URL, subject, author)
    return catalogue.holding(name)


def rename(catalogue: Catalogue, old: str, new: str, author: Author) -> HoldingRecord:
    """Give a holding another name. What is in the evidence stays as it is."""
    catalogue.holding(old)
    check_name(new)
    with lock_holding(catalogue, old), catalogue.transaction() as connection:
        check_free(connection, new)
        rename_rows(connection, old, new, author, lambda: rename_holding(connection, old, new))
    return catalogue.holding(new)


def rename_rows(
    connection: Connection, old: str, new: str, author: Author, rename_owned: Callable[[], None]
) -> None:
    """Rename a holding on the schedule and in alerts; `rename_owned` does so in its own table."""
    row = find_scheduled(connection, old)
    if row is not None and row.lease > author.at:
        raise ConflictError(f"holding {old!r} is being audited just now: try again")
    rename_owned()
    if row is not None:
        rename_scheduled(connection, row.id, new)
        _record_former_name(connection, row, author.at)
        rename_alerts(connection, old, new, author.at)
    record_instruction(connection, leaf.Order.RENAME, f"{old} to {new}", author)


def remove(catalogue: Catalogue, plan: RemovalPlan, author: Author) -> None:
    """Remove a holding from the catalogue and the schedule, as its plan says.

    Open cases and alerts about it end, and so does an audit under way. Its audits and its evidence
    stay. If its node is to delete the files, that is saved for `delete_pending`.
    """
    name, node = plan.holding.name, plan.holding.node
    with lock_holding(catalogue, name):
        record = catalogue.holding(name)
        now = describe_removal(catalogue, record, delete_files=plan.delete_files)
        if (now.files, now.last_replicas) != (plan.files, plan.last_replicas):
            raise ConflictError(f"the files of {name!r} have changed meanwhile: try again")
        with catalogue.transaction() as connection:
            row = find_scheduled(connection, name)
            delete_holding(connection, record, delete_files=plan.delete_files)
            if row is not None:
                unschedule(connection, row, author)
            others = select(holding_records.c.name).where(holding_records.c.node == node).limit(1)
            if connection.execute(others).first() is None:
                reason = f"{author.by} removed its last holding"
                end_node_alerts(connection, node, reason, author.at)
                connection.execute(delete(nodes).where(nodes.c.address == node))
            subject = f"{name}, with its files {_fate(plan)}"
            record_instruction(connection, leaf.Order.REMOVE, subject, author)


def _fate(plan: RemovalPlan) -> str:
    """Return what becomes of the files of a removed holding."""
    if is_direct(plan.holding.url):
        return "left where they are"
    return "deleted" if plan.delete_files else "left on its node"


def accept_changes(home: Home, name: str, objects: Sequence[str], author: Author) -> Enrolment:
    """Take changed objects of a direct holding as they are now, and record who said so."""
    done = direct_operations.accept_changes(home, name, objects)
    accepted = [*done.enrolled, *done.vanished]
    if accepted:
        with home.catalogue() as catalogue, catalogue.transaction() as connection:
            subject = f"{name}, {count_objects(len(accepted))}: {describe_names(accepted)}"
            record_instruction(connection, leaf.Order.ACCEPT, subject, author)
    return done


def unschedule(connection: Connection, row: Row[Any], author: Author) -> None:
    drop_cases(connection, row.id, author.at)
    end_all_alerts(connection, row.name, f"{author.by} removed the holding", author.at)
    if row.number:
        under_way = f" during audit {row.number + 1}" if row.flight is not None else ""
        detail = f"{author.by} removed the holding{under_way}"
        response = ResponseRecord(leaf.Step.REMOVED, detail)
        record_response(connection, row.id, row.number, response, author.at)
    _record_former_name(connection, row, author.at)
    for table in (shadows, confidences):
        connection.execute(delete(table).where(table.c.holding == row.id))
    delete_scheduled(connection, row.id)


def _record_former_name(connection: Connection, row: Row[Any], now: int) -> None:
    former = {"holding": row.id, "name": row.name, "until": now}
    connection.execute(insert(former_names).values(former))


def find_scheduled(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of a holding on the schedule, which nobody else changes meanwhile."""
    query = select(holdings).where(holdings.c.name == name).with_for_update()
    return connection.execute(query).first()


@contextmanager
def lock_holding(catalogue: Catalogue, name: str) -> Iterator[None]:
    """Keep everyone else from changing a holding; a repair holds it for seconds only."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(catalogue.locked(name, wait=False))
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise ConflictError(
                        f"holding {name!r} is being changed by another process: try again later"
                    ) from error
            time.sleep(LOCK_RETRY_SECONDS)
        yield
