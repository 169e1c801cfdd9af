"""The nodes: each can be reached, is the one that was pinned, and knows what we keep there."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from holdfast.doctor.clock import Reference
from holdfast.doctor.finding import Check, fault, ok, one_line, warning
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.node.client import Greeting, NodeClient, greet
from holdfast.node.wire import NodeRefusedError
from holdfast.owner.catalogue import FileRecord, HoldingRecord
from holdfast.owner.keyring import Keyring
from holdfast.pdp import Inventory

TIMEOUT = 10.0  # seconds for each step of a question
AT_ONCE = 16
SOON = 14 * 86_400  # seconds before a certificate's end


@dataclass(frozen=True)
class StoredHolding:
    """A holding, the files that its owner has written down, and whether a change is under way."""

    record: HoldingRecord
    files: Sequence[FileRecord]
    changing: bool

    def inventory(self, key_id: bytes) -> Inventory:
        sectors = self.record.sectors
        return Inventory(key_id, sectors, tuple(file.entry(sectors) for file in self.files))


@dataclass(frozen=True)
class NodeState:
    checks: list[Check]
    reference: Reference | None = None


def look(
    holdings: Sequence[StoredHolding], keyring: Keyring | None, clock: Callable[[], float]
) -> list[NodeState]:
    """Ask all nodes, side by side."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: _look(each, keyring, clock), holdings))


def _look(kept: StoredHolding, keyring: Keyring | None, clock: Callable[[], float]) -> NodeState:
    record = kept.record
    part = f"node of {record.name}"
    authority = Path(record.ca) if record.ca else None
    try:
        met = greet(record.url, authority=authority, timeout=TIMEOUT)
    except UnreachableError as error:
        return NodeState([fault(part, one_line(str(error)), _cure(str(error)))])
    except HoldfastError as error:
        cure = f"see what answers at {record.url}: is it a node, and is its address right?"
        return NodeState([fault(part, one_line(str(error)), cure)])
    now = clock()
    reference = None
    if met.date is not None:  # told in whole seconds: half of one is missing on average
        reference = Reference(f"the node of {record.name}", met.date + 0.5 - now, exact=True)
    if bytes.fromhex(met.facts.address) != record.node:
        found = f"{record.url} is the node {met.facts.address}, not {record.node.hex()} as pinned"
        cure = "ask whoever runs it why: without the pinned key no audit passes there"
        return NodeState([fault(part, found, cure)], reference)
    return NodeState([*_certificate(part, met, now), *_agreement(part, kept, keyring)], reference)


def _cure(reason: str) -> str:
    if "certificate" in reason.lower():
        return "have its certificate renewed, or give the authority that signed it by --ca"
    return "have its operator start it, or look at the network between you and it"


def _certificate(part: str, met: Greeting, now: float) -> list[Check]:
    ends = met.certified_until
    if ends is None or ends - now > SOON:
        return []
    found = f"its certificate ends in {max(int((ends - now) // 86_400), 0)} days"
    return [warning(part, found, "have whoever runs it renew the certificate")]


def _agreement(part: str, kept: StoredHolding, keyring: Keyring | None) -> list[Check]:
    """Say whether owner and node have the same inventory; it takes a signed request."""
    record = kept.record
    if keyring is None:
        return [ok(part, f"{record.url} answers and is the one that was pinned")]
    key_id = keyring.audit_key(record.salt, record.sectors).public.id
    authority = Path(record.ca) if record.ca else None
    try:
        with NodeClient(
            record.url, keyring.request_key, record.node, authority=authority
        ) as client:
            known = {each.key_id: each.inventory_hash for each in client.holdings()}
    except NodeRefusedError as error:
        cure = f"have its operator let you in: `holdfast node serve --owner {keyring.owner.hex()}`"
        return [fault(part, one_line(str(error)), cure)]
    except HoldfastError as error:
        return [fault(part, one_line(str(error)), _cure(str(error)))]
    return [_compared(part, kept, known.get(key_id.hex()), kept.inventory(key_id).hash.hex())]


def _compared(part: str, kept: StoredHolding, theirs: str | None, ours: str) -> Check:
    record = kept.record
    if theirs == ours:
        return ok(part, f"{record.url} answers, is the one that was pinned, and has your files")
    if record.number is None:
        cure = f"`holdfast holding add {record.name} {record.url}` finishes that"
        return warning(part, "the holding is not registered yet", cure)
    if kept.changing:
        found = "owner and node differ by a file that is on its way"
        return warning(part, found, "put the same file again: the upload resumes")
    found = "owner and node disagree on what is stored: one of them was restored from an old copy"
    cure = "bring back the newest backup, or make a new holding there and put the files again"
    return fault(part, found, cure)
