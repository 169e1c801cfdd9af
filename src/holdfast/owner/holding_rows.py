"""Statements about a holding's row in the catalogue, for transactions that change more than it."""

from dataclasses import fields

from sqlalchemy import Connection, delete, update

from holdfast.owner.catalogue import HoldingRecord, Removal, insert_rows
from holdfast.storage import home_schema as tables


def move_holding(connection: Connection, name: str, url: str, ca: str | None) -> None:
    """Save that the node of a holding is at another URL."""
    moved = update(tables.catalogue).where(tables.catalogue.c.name == name)
    connection.execute(moved.values(url=url, ca=ca))


def rename_holding(connection: Connection, old: str, new: str) -> None:
    """Give a holding another name; the rows of its files follow."""
    renamed = update(tables.catalogue).where(tables.catalogue.c.name == old)
    connection.execute(renamed.values(name=new))


def delete_holding(connection: Connection, record: HoldingRecord, *, delete_files: bool) -> None:
    """Delete a holding with all that is known of its files.

    With `delete_files`, save that its node is still to delete them.
    """
    for table in filter(tables.refers_to_catalogue, tables.metadata.tables.values()):
        connection.execute(delete(table).where(table.c.holding == record.name))
    connection.execute(delete(tables.catalogue).where(tables.catalogue.c.name == record.name))
    if delete_files:
        row = {field.name: getattr(record, field.name) for field in fields(Removal)[1:]}
        connection.execute(insert_rows(connection, tables.removals, row))
