"""Removes a file from a node: saves the intent, removes the file, then updates the catalogue."""

from holdfast.errors import InputError
from holdfast.owner.catalogue import Intent
from holdfast.owner.holding import Holding
from holdfast.owner.upload import abandon


def remove(holding: Holding, name: str) -> None:
    """Remove a file, or give up its upload. Nobody else may change the holding meanwhile."""
    catalogue = holding.catalogue
    held, pending = catalogue.file(holding.name, name), catalogue.intent(holding.name, name)
    if pending and not pending.removes:
        abandon(holding, pending)
    if held is None:
        if pending is None:
            raise InputError(f"holding {holding.name!r} has no file {name!r}")
        return
    intent = Intent(held, removes=True)
    catalogue.intend(holding.name, intent)
    before = holding.inventory
    after = intent.after(before)
    holding.node.delete_file(holding.key_id, held.file_id, before.hash, after.hash)
    catalogue.conclude(holding.name, intent)
