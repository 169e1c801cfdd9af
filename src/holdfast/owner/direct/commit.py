"""Makes tagged objects part of a direct holding: in the tag store, then in the catalogue.

The journal keeps what is to be done until both have it, so that a crash between them is made good.
"""

from collections.abc import Mapping

from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.journal import Changes
from holdfast.owner.direct.tag_store import with_files
from holdfast.owner.holding import Holding


def commit(
    holding: Holding,
    client: DirectClient,
    changes: Changes,
    restamped: Mapping[str, str] | None = None,
) -> None:
    """Add what the journal has, and save new stamps of objects that are as they were.

    Nobody else may change the holding meanwhile.
    """
    record = client.holding(reload=True).record
    stamps = {**client.stamps, **(restamped or {})}
    if not changes:
        if restamped:
            client.store.write_stamps(stamps)
        client.journal.clear()
        return
    stamps |= {tagged.file.name: tagged.stamp for tagged in changes.tagged}
    files = [tagged.node_file for tagged in changes.tagged]
    after = with_files(record, files, changes.gone)
    names = {file.in_place for file in after.files}
    client.store.sync(tagged.file.nonce for tagged in changes.tagged)
    client.accept(after, {name: stamp for name, stamp in stamps.items() if name in names})
    _update_catalogue(holding, changes)
    client.journal.clear()


def finish_commit(holding: Holding, client: DirectClient) -> None:
    """Bring into the catalogue what the tag store got before a crash."""
    changes = client.journal.read()
    if not changes or client.store.record() is None:
        return
    record = client.holding(reload=True).record
    known = {entry.file_id: entry.nonce for entry in holding.inventory.files}
    tagged = tuple(
        entry
        for entry in changes.tagged
        if entry.file.nonce in record.uploads and known.get(entry.file.file_id) != entry.file.nonce
    )
    gone = tuple(
        file_id for file_id in changes.gone if file_id in known and file_id not in record.by_id
    )
    if tagged or gone:
        _update_catalogue(holding, Changes(tagged, gone))


def _update_catalogue(holding: Holding, changes: Changes) -> None:
    files = [tagged.file for tagged in changes.tagged]
    holding.catalogue.replace_files(holding.name, files, changes.gone)
