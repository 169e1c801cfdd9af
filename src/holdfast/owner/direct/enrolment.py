"""Enrols the objects of a direct holding: lists them, reads each byte once, and tags it.

An enrolment that was interrupted resumes: what is tagged is not read again. Objects that are
written while they are read are left for the next time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from threading import Lock

from holdfast.errors import InputError, UnreachableError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.objects import LostError, StoredObject, StoredObjects
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.commit import commit
from holdfast.owner.direct.differences import Changed, Differences, compare, is_auditable, name_of
from holdfast.owner.direct.journal import Changes
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.direct.tagging import SegmentDigest, TaggedObject
from holdfast.owner.direct.tagging_team import Job
from holdfast.owner.holding import Holding
from holdfast.pdp.inventory import MAX_FILES

PART_BYTES = 8 << 20  # read at once, to compare the content of an object

OnProgress = Callable[[int], None]  # gets the bytes read so far


@dataclass(frozen=True)
class Enrolment:
    """What an enrolment did, by the names of objects."""

    enrolled: tuple[str, ...] = ()
    bytes: int = 0  # of them
    changed: tuple[str, ...] = ()  # other content than was tagged: not audited anew until accepted
    vanished: tuple[str, ...] = ()
    illegible: tuple[str, ...] = ()  # whose tags an audit could not use
    unsettled: tuple[str, ...] = ()  # written or removed while they were read
    left_out: tuple[str, ...] = ()  # links, and names that a node does not take


def list_enrollable(storage: DirectStorage) -> StoredObjects:
    """Return the objects that can be enrolled; raise if there are none, or they can't be read."""
    try:
        objects = [found for found in storage.walk() if is_auditable(found)]
    except UnreachableError as error:
        asks = str(error).endswith("?")  # it has a question of its own
        cure = "" if asks else ": is the address right, and may you read it?"
        raise InputError(f"{error}{cure}") from error
    if not objects:
        raise InputError(f"there are no objects at {storage.address} that can be audited")
    if len(objects) > MAX_FILES:
        raise InputError(
            f"there are {len(objects):,} objects at {storage.address}, and a holding has at most "
            f"{MAX_FILES:,}: add holdings for parts of it"
        )
    smallest = min(objects, key=lambda found: (not found.size, found.size))
    try:
        storage.read_exactly(smallest.name, 0, min(smallest.size, 1))
    except (UnreachableError, LostError) as error:
        raise InputError(f"objects can be listed but not read: {error}") from error
    return objects


def enrol(
    holding: Holding,
    client: DirectClient,
    *,
    on_total: OnProgress = lambda _bytes: None,
    on_progress: OnProgress = lambda _bytes: None,
) -> Enrolment:
    """Enrol new objects, and report those that have changed or vanished.

    Objects that were written again with the same content are noted as they are now. `on_total` gets
    how many bytes will be read. Nobody else may change the holding meanwhile.
    """
    listed = client.storage.walk()
    differences = compare(client.holding(reload=True).record, client.stamps, listed)
    _check_count(client, differences)
    done = _resumable(client, differences.new)
    _discard_leftovers(client, done.values())
    pending = [found for found in differences.new if found.name not in done]
    on_total(sum(found.size for found in pending))
    tagged, unsettled = _tag_all(client, [(found, None) for found in pending], on_progress)
    everything = [*done.values(), *tagged]
    settled, moved = _settle(client, everything)
    changed, restamped = _compare_rewritten(client, differences)
    commit(holding, client, Changes(tuple(settled)), restamped)
    return Enrolment(
        tuple(entry.file.name for entry in settled),
        sum(entry.file.length for entry in settled),
        tuple(changed),
        tuple(name_of(file) for file in differences.vanished),
        tuple(sorted(client.illegible.read())),
        tuple(sorted([*unsettled, *moved])),
        differences.left_out,
    )


def accept(
    holding: Holding,
    client: DirectClient,
    names: Sequence[str],
    on_progress: OnProgress = lambda _bytes: None,
) -> Enrolment:
    """Take changed objects as they are now: tag them anew, and audit vanished ones no longer.

    Without names, all that have changed or vanished are accepted.
    """
    listed = {found.name: found for found in client.storage.walk()}
    record = client.holding(reload=True).record
    known = {name_of(file): file for file in record.files}
    differences = compare(record, client.stamps, listed.values())
    for name in names:
        if name not in known:
            raise InputError(f"holding {holding.name!r} audits no object {name!r}")
    vanished = {name_of(file) for file in differences.vanished}
    wanted = list(names) or [
        *(name_of(changed.file) for changed in differences.changed),
        *sorted(vanished),
    ]
    gone = [known[name].file_id for name in wanted if name in vanished]
    again = [name for name in wanted if name not in vanished]
    files = {file.name: file for file in holding.catalogue.files(holding.name)}
    jobs: list[Job] = [(listed[name], files[name]) for name in again]
    tagged, unsettled = _tag_all(client, jobs, on_progress)
    settled, moved = _settle(client, tagged)
    client.journal.add_gone(gone)
    commit(holding, client, Changes(tuple(settled), tuple(gone)))
    for names_kept in (client.suspected, client.illegible):
        names_kept.remove(wanted)
    return Enrolment(
        enrolled=tuple(entry.file.name for entry in settled),
        bytes=sum(entry.file.length for entry in settled),
        vanished=tuple(name for name in wanted if name in vanished),
        unsettled=tuple(sorted([*unsettled, *moved])),
    )


def _check_count(client: DirectClient, differences: Differences) -> None:
    count = len(client.holding().record.files) + len(differences.new)
    if count > MAX_FILES:
        raise InputError(
            f"there would be {count:,} objects, and a holding has at most {MAX_FILES:,}"
        )


def _resumable(client: DirectClient, new: Iterable[StoredObject]) -> dict[str, TaggedObject]:
    """Return what an earlier enrolment tagged of these objects, if both are as they were."""
    public = client.holding().record.public
    known = {entry.file.name: entry for entry in client.journal.read().tagged}
    return {
        found.name: entry
        for found in new
        if (entry := known.get(found.name))
        and (entry.file.length, entry.stamp) == (found.size, found.stamp)
        and client.store.has_tags(entry.node_file, public)
    }


def _discard_leftovers(client: DirectClient, kept: Iterable[TaggedObject]) -> None:
    """Remove tags that a killed enrolment left without an entry in the journal."""
    nonces = {entry.file.nonce for entry in kept}
    left = client.store.unaccepted(client.holding().record)
    client.store.discard(nonce for nonce in left if nonce not in nonces)


def _tag_all(
    client: DirectClient, jobs: Sequence[Job], on_progress: OnProgress
) -> tuple[list[TaggedObject], list[str]]:
    """Tag objects side by side; return them, and the names of those that changed meanwhile."""
    lock, done = Lock(), 0

    def count(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            on_progress(done)

    results = client.tagging_task.tag_all(jobs, count) if jobs else []
    tagged = [result for result in results if isinstance(result, TaggedObject)]
    return sorted(tagged, key=lambda entry: entry.file.name), [
        result for result in results if isinstance(result, str)
    ]


def _settle(
    client: DirectClient, tagged: Sequence[TaggedObject]
) -> tuple[list[TaggedObject], list[str]]:
    """Return the objects that nobody wrote while they were read, and the names of the others."""
    if not tagged:
        return [], []
    now = {found.name: (found.size, found.stamp) for found in client.storage.walk()}
    settled = [
        entry for entry in tagged if now.get(entry.file.name) == (entry.file.length, entry.stamp)
    ]
    names = {entry.file.name for entry in settled}
    return settled, [entry.file.name for entry in tagged if entry.file.name not in names]


def _compare_rewritten(
    client: DirectClient, differences: Differences
) -> tuple[list[str], dict[str, str]]:
    """Return the names of objects with other content, and new stamps of those with the same."""
    pool = DaemonPool(client.storage.files_at_once)
    same = pool.map(partial(_has_content, client.storage), differences.changed, stall_seconds=inf)
    changed, restamped = [], {}
    for entry, unchanged in zip(differences.changed, same, strict=True):
        if unchanged:
            restamped[name_of(entry.file)] = entry.now.stamp
        else:
            changed.append(name_of(entry.file))
    return changed, restamped


def _has_content(storage: DirectStorage, changed: Changed) -> bool:
    """Return whether an object that was written again has the content that was tagged."""
    if changed.resized:
        return False
    try:
        return _digest(storage, changed.now) == changed.file.data_digest
    except LostError:
        return False


def _digest(storage: DirectStorage, found: StoredObject) -> bytes:
    """Read an object and return the digest by which the record knows its content."""
    digest = SegmentDigest(found.size)
    for start in range(0, found.size, PART_BYTES):
        digest.update(storage.read_exactly(found.name, start, min(start + PART_BYTES, found.size)))
    return digest.combined
