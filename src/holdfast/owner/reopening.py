"""Puts a holding on its node again after the node has lost it: every file as it was.

Key, number, names, versions and nonces stay, and so do tags: the node then has the same inventory.
An interrupted call resumes after the files that the node has.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.ledger.interface import holding_id
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.download import get
from holdfast.owner.fingerprint import Original
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.own_copies import OwnCopies
from holdfast.owner.replica_sources import other_replicas
from holdfast.owner.upload import put_again
from holdfast.pdp import Location

OnFile = Callable[[FileRecord], None]


def reopen(
    home: Home, holding: Holding, own: OwnCopies, on_file: OnFile = lambda _file: None
) -> None:
    """Open a holding on its node and put its files there; `on_file` gets each that was put.

    Nothing is done if a file has no copy. Nobody else may change the holding meanwhile.
    """
    inventory, known = holding.inventory, _count_at_node(holding)
    records = {file.file_id: file for file in holding.catalogue.files(holding.name)}
    files = [records[entry.file_id] for entry in inventory.files]
    for file in files[known:]:
        _check_copy(holding, file, own)
    with home.ledger(holding.record.sectors) as ledger:
        number = holding_id(ledger.sender, holding.number)
    holding.node.create(holding.key.public, number)
    for at, file in enumerate(files[known:], known):
        after = replace(inventory, files=inventory.files[: at + 1])
        with _copy_of(home, holding, file, own) as original:
            put_again(holding, file, original, after.hash)
        on_file(file)


def _count_at_node(holding: Holding) -> int:
    """Return how many of the files the node has."""
    try:
        return len(holding.node.inventory(holding.key_id).files)
    except NodeRefusedError as error:
        if error.code is not Code.UNKNOWN_HOLDING:
            raise
        return 0


def _check_copy(holding: Holding, file: FileRecord, own: OwnCopies) -> None:
    others = holding.catalogue.files_with(file.sha256).keys() - {holding.name}
    if not others and not own.locations_of(file):
        raise _no_copy(holding, file)


def _no_copy(holding: Holding, file: FileRecord) -> InputError:
    return InputError(
        f"the node of holding {holding.name!r} no longer has {file.name!r}, and no other holding "
        "has all of it: name your own copy with --source, or remove the holding with `holdfast "
        f"holding rm {holding.name}` and add it again"
    )


@contextmanager
def _copy_of(home: Home, holding: Holding, file: FileRecord, own: OwnCopies) -> Iterator[Original]:
    """Yield a whole copy of a file: the owner's own, or one that is downloaded for this."""
    if locations := own.locations_of(file):
        yield Original.of(locations[0])
        return
    folder = holding.folder / "copies"
    atomic.make_directory(folder, mode=atomic.PRIVATE_FOLDER)
    path = folder / file.nonce.hex()
    try:
        with other_replicas(home, holding, file) as others:
            if not others.replicas and others.unreachable:
                raise InputError(
                    f"no copy of {file.name!r} can be reached: {min(others.unreachable.values())}"
                )
            if not others.replicas or get(others.replicas[0], others.replicas[1:], path).lost:
                raise _no_copy(holding, file)
        yield Original.of(Location(str(path)))
    finally:
        path.unlink(missing_ok=True)
