"""Checks the nodes: they can be reached, are the ones that were pinned, and list our files.

A node that lists a file may have lost it all the same: only audits show that, so the last one is
reported, too.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from holdfast.doctor.clock import Reference
from holdfast.doctor.finding import Check, fault, ok, one_line, warning
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.node.client import Greeting, NodeClient, greet
from holdfast.node.time_limit import within
from holdfast.node.wire import NodeRefusedError
from holdfast.owner.catalogue import FileRecord, HoldingRecord
from holdfast.owner.direct.address import DirectAddress, is_direct
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.keyring import Keyring
from holdfast.pdp import Inventory

TIMEOUT_SECONDS = 10.0  # for each step of a request
MAX_CONCURRENT = 16
MAX_NAMES = 3  # of holdings, in what is said about their node
EXPIRES_SOON_SECONDS = 14 * 86_400
FAILED_AUDITS: dict[str, str] = {
    Outcome.FAILED: "its last audit failed",
    Outcome.ADMITTED: "in its last audit it admitted a loss",
    Outcome.TIMED_OUT: "its last audit timed out",
}


@dataclass(frozen=True)
class StoredHolding:
    """A holding, its files in the catalogue, a change under way, and its last audit's outcome."""

    record: HoldingRecord
    files: Sequence[FileRecord]
    changing: bool
    outcome: str | None = None

    def inventory(self, key_id: bytes) -> Inventory:
        sectors = self.record.sectors
        return Inventory(key_id, sectors, tuple(file.entry(sectors) for file in self.files))


@dataclass(frozen=True)
class NodeState:
    checks: list[Check]
    reference: Reference | None = None


def check(
    holdings: Sequence[StoredHolding], keyring: Keyring | None, clock: Callable[[], float]
) -> list[NodeState]:
    """Ask all nodes concurrently, each once for all its holdings."""
    groups: dict[tuple[str, bytes, str | None], list[StoredHolding]] = {}
    for stored in holdings:
        record = stored.record
        groups.setdefault((record.url, record.node, record.ca), []).append(stored)
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        return list(pool.map(lambda group: _check(group, keyring, clock), groups.values()))


def _check(
    group: Sequence[StoredHolding], keyring: Keyring | None, clock: Callable[[], float]
) -> NodeState:
    """Check one node; a fault that concerns all its holdings is reported once."""
    record = group[0].record
    direct = DirectAddress.parse(record.url)
    if direct is not None:
        return NodeState([_check_direct(f"data of {s.record.name}", s, direct) for s in group])
    part = f"node of {_names(group)}"
    authority = Path(record.ca) if record.ca else None
    try:
        greeting = greet(record.url, authority=authority, timeout=TIMEOUT_SECONDS)
    except UnreachableError as error:
        return NodeState([fault(part, one_line(str(error)), _cure(str(error)))])
    except HoldfastError as error:
        cure = f"see what answers at {record.url}: is it a node, and is its address right?"
        return NodeState([fault(part, one_line(str(error)), cure)])
    now = clock()
    reference = None
    if greeting.date is not None:  # in whole seconds: half a second is missing on average
        reference = Reference(f"the {part}", greeting.date + 0.5 - now, exact=True)
    if bytes.fromhex(greeting.facts.address) != record.node:
        message = (
            f"{record.url} is the node {greeting.facts.address}, not {record.node.hex()} as pinned"
        )
        cure = "ask its operator why: without the pinned key no audit passes there"
        return NodeState([fault(part, message, cure)], reference)
    return NodeState(
        [*_check_certificate(part, greeting, now), *_check_inventories(part, group, keyring)],
        reference,
    )


def _names(group: Sequence[StoredHolding]) -> str:
    """Return the holdings of a node in words: some by name, and how many others."""
    names = [stored.record.name for stored in group]
    others = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {others} more" if others > 0 else "")


def _check_direct(part: str, stored: StoredHolding, address: DirectAddress) -> Check:
    """Check that the storage of a direct holding answers."""
    try:
        with within(TIMEOUT_SECONDS):
            DirectStorage(address).check()
    except HoldfastError as error:
        cure = "look at the network, the credentials and the mounts between you and it"
        return fault(part, one_line(str(error)), cure)
    return _report(part, stored, f"{address.data} answers")


def _cure(reason: str) -> str:
    if "certificate" in reason.lower():
        return "have its certificate renewed, or give the authority that signed it by --ca"
    return (
        "have its operator start it, or restart it if it hangs, or look at the network between "
        "you and it"
    )


def _check_certificate(part: str, greeting: Greeting, now: float) -> list[Check]:
    ends = greeting.certified_until
    if ends is None or ends - now > EXPIRES_SOON_SECONDS:
        return []
    message = f"its certificate ends in {max(int((ends - now) // 86_400), 0)} days"
    return [warning(part, message, "have its operator renew the certificate")]


def _check_inventories(
    part: str, group: Sequence[StoredHolding], keyring: Keyring | None
) -> list[Check]:
    """Check that owner and node have the same inventories, by one signed request."""
    record = group[0].record
    if keyring is None:
        message = f"{record.url} answers and is the one that was pinned"
        return [_report(f"node of {stored.record.name}", stored, message) for stored in group]
    authority = Path(record.ca) if record.ca else None
    try:
        with NodeClient(
            record.url, keyring.request_key, record.node, authority=authority
        ) as client:
            known = {holding.key_id: holding.inventory_hash for holding in client.holdings()}
    except NodeRefusedError as error:
        cure = f"have its operator let you in: `holdfast node serve --owner {keyring.owner.hex()}`"
        return [fault(part, one_line(str(error)), cure)]
    except HoldfastError as error:
        return [fault(part, one_line(str(error)), _cure(str(error)))]
    return [_check_inventory(stored, keyring, known) for stored in group]


def _check_inventory(stored: StoredHolding, keyring: Keyring, known: Mapping[str, str]) -> Check:
    record = stored.record
    key_id = keyring.audit_key(record.salt, record.sectors).public.id
    ours = stored.inventory(key_id).hash.hex()
    return _compare(f"node of {record.name}", stored, known.get(key_id.hex()), ours)


def _report(part: str, stored: StoredHolding, message: str) -> Check:
    """Return that a node is as it should be, unless its last audit says otherwise."""
    last = FAILED_AUDITS.get(stored.outcome or "")
    if last is None:
        return ok(part, message)
    return fault(part, f"{message}; {last}", _cure_audit(stored))


def _cure_audit(stored: StoredHolding) -> str:
    """Return what to do after an audit that failed."""
    name = stored.record.name
    if stored.outcome == Outcome.TIMED_OUT:
        return f"have its operator restart it if it hangs, then: `holdfast audit now {name}`"
    if is_direct(stored.record.url):
        return f"`holdfast repair {name} --source FILE|FOLDER` puts a copy of yours back"
    return f"`holdfast repair {name}` restores damaged blocks from a replica"


def _compare(part: str, stored: StoredHolding, theirs: str | None, ours: str) -> Check:
    record = stored.record
    if theirs == ours:
        return _report(
            part, stored, f"{record.url} answers, is the one that was pinned, and lists your files"
        )
    if record.number is None:
        cure = f"`holdfast holding add {record.name} {record.url}` finishes that"
        return warning(part, "the holding is not registered yet", cure)
    if stored.changing:
        message = "owner and node differ by a file that is being uploaded"
        return warning(part, message, "put the same file again: the upload resumes")
    message = "owner and node disagree on what is stored: one of them was restored from an old copy"
    cure = "bring back the newest backup, or make a new holding there and put the files again"
    return fault(part, message, cure)
