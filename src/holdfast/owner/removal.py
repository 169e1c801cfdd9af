"""Removes a file from a node, or all that a node has of a removed holding.

An intent is saved before the node is asked, so that an interrupted removal can be finished.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import HoldfastError, InputError, RefusedError
from holdfast.node.access import NodeAccess
from holdfast.node.client import greet
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.catalogue import Catalogue, HoldingRecord, Intent, Removal
from holdfast.owner.direct.address import DirectAddress, is_direct
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.names import check_name
from holdfast.owner.upload import abandon

GREETING_TIMEOUT_SECONDS = 5.0
MAX_ATTEMPTS = 5  # another process may delete the same files


@dataclass(frozen=True)
class RemovalPlan:
    """What the removal of a holding does to its files."""

    holding: HoldingRecord
    files: tuple[str, ...]
    bytes: int
    unfinished: tuple[str, ...]  # uploads
    last_replicas: tuple[str, ...]  # files that no other holding has
    delete_files: bool  # on the node
    unreachable: str = ""  # why the node can't delete them
    unknown: bool = False  # to the node: it has nothing to delete


def remove(holding: Holding, name: str) -> None:
    """Remove a file, or give up its upload. Nobody else may change the holding meanwhile."""
    check_name(name)
    if is_direct(holding.record.url):
        raise InputError(
            f"holding {holding.name!r} is direct: delete the object by your own means, then "
            f"`holdfast holding accept {holding.name}`"
        )
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


def plan_removal(
    catalogue: Catalogue, name: str, *, keep_files: bool = False, home: Home | None = None
) -> RemovalPlan:
    """Return what becomes of a holding's files; ask its node whether it is there.

    With the opened home, ask it whether it knows the holding as well.
    """
    record = catalogue.holding(name)
    unreachable = "" if keep_files else _why_unreachable(record)
    direct = DirectAddress.parse(record.url)
    tags_in_home = direct is not None and not direct.beside  # they go with the holding's folder
    delete_files = not keep_files and not unreachable and not tags_in_home
    plan = describe_removal(catalogue, record, delete_files=delete_files, unreachable=unreachable)
    unknown = delete_files and home is not None and not _is_known(home, record)
    return replace(plan, unknown=unknown)


def _is_known(home: Home, record: HoldingRecord) -> bool:
    """Return whether the node knows the holding, or can't be asked."""
    key_id = home.keyring.audit_key(record.salt, record.sectors).public.id.hex()
    try:
        with home.client(record) as node:
            return any(facts.key_id == key_id for facts in node.holdings())
    except HoldfastError:
        return True


def describe_removal(
    catalogue: Catalogue, record: HoldingRecord, *, delete_files: bool, unreachable: str = ""
) -> RemovalPlan:
    """Return the plan of a removal, without asking the node."""
    files = catalogue.files(record.name)
    others = (other.name for other in catalogue.holdings() if other.name != record.name)
    replicated = {file.sha256 for other in others for file in catalogue.files(other)}
    return RemovalPlan(
        record,
        tuple(file.name for file in files),
        sum(file.length for file in files),
        tuple(intent.file.name for intent in catalogue.intents(record.name)),
        tuple(file.name for file in files if file.sha256 not in replicated),
        delete_files,
        unreachable,
    )


def delete_pending(home: Home, catalogue: Catalogue, name: str | None = None) -> dict[str, str]:
    """Have nodes delete the files of removed holdings, of all or of one name.

    Return why it failed, by the holding's name. What failed stays pending.
    """
    failures = {}
    for removal in catalogue.removals():
        if name in {None, removal.name}:
            try:
                _delete_files(home, removal)
                catalogue.end_removal(removal)
            except (HoldfastError, OSError) as error:
                failures[removal.name] = str(error)
    return failures


def _delete_files(home: Home, removal: Removal) -> None:
    key_id = home.keyring.audit_key(removal.salt, removal.sectors).public.id
    with home.client(removal) as node:
        if is_direct(removal.url):
            node.remove(key_id)
            return
        for _ in range(MAX_ATTEMPTS):
            try:
                _delete_all(node, key_id)
            except NodeRefusedError as error:
                if error.code not in {Code.UNKNOWN_HOLDING, Code.NOT_FOUND, Code.INVENTORY}:
                    raise
            if all(facts.key_id != key_id.hex() for facts in node.holdings()):
                return
        raise RefusedError(f"files of {removal.name!r} on its node keep changing: try again")


def _delete_all(node: NodeAccess, key_id: bytes) -> None:
    """Delete every file of a holding, then the holding itself."""
    inventory = node.inventory(key_id)
    for file in inventory.files:
        after = inventory.without_file(file.file_id)
        node.delete_file(key_id, file.file_id, inventory.hash, after.hash)
        inventory = after
    node.remove(key_id)


def _why_unreachable(record: HoldingRecord) -> str:
    """Return why the node of a holding can't be asked for anything; "" if it can."""
    if is_direct(record.url):
        return ""
    authority = Path(record.ca) if record.ca else None
    try:
        greeting = greet(record.url, authority=authority, timeout=GREETING_TIMEOUT_SECONDS)
    except HoldfastError as error:
        return str(error)
    if bytes.fromhex(greeting.facts.address) != record.node:
        return f"another node answers at {record.url}"
    return ""
