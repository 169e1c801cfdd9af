"""Audits that an owner asks for and waits for: `audit now`, and the audit after a repair.

They are audits as any other: a worker runs them, the evidence has them, incidents follow them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from holdfast.control.audits.types import AuditResult
from holdfast.control.logging import quiet_logs
from holdfast.control.service import Service, open_service
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.durations import SECOND
from holdfast.errors import InputError, NodeError, StorageError
from holdfast.evidence.leaf import Outcome
from holdfast.owner import (
    Home,
    OnUnreachable,
    RepairedFile,
    RepairProgress,
    repair_holding,
)
from holdfast.owner.catalogue import HoldingRecord
from holdfast.owner.checked import CheckedRecord, list_checked
from holdfast.owner.direct.address import is_direct

MAX_ASKED_AT_ONCE = 16
DIRECT_SAMPLES = 460  # which find damage of 1 % with a probability of 99 %
FACTS_SECONDS = 5.0  # for a node to say what it takes
MAX_SAMPLES = 1 << 31  # a node has a limit of its own, which is asked for
POLL_SECONDS = 0.1
# Beyond the deadline: another worker may hold the holding, and the ledger takes its time.
MAX_WAIT_SECONDS = 600.0

OnResult = Callable[[AuditResult], None]


@dataclass(frozen=True)
class Repair:
    """What a repair put back, and the audit that followed it."""

    files: list[RepairedFile]
    audit: AuditResult

    @property
    def complete(self) -> bool:
        """Whether nothing is lost and the audit passed."""
        lost = any(file.lost for file in self.files)
        return not lost and self.audit.outcome is Outcome.PASSED


def audit_holdings(
    home: Home,
    names: Iterable[str],
    count_samples: Callable[[int], int],
    *,
    deadline_seconds: int,
    on_result: OnResult = lambda _result: None,
    on_resumed: OnResult = lambda _result: None,
) -> list[AuditResult]:
    """Audit these holdings now, or all of them; empty ones are left out.

    `count_samples` takes the number of blocks, or of other units, and returns the sample size,
    before the node's limit. A check by a tool may take longer than the deadline, which is for
    storage that can't be reached.
    `on_result` gets every result as it comes. An audit that another process left open ends first,
    and `on_resumed` gets its result.
    """
    records, checked = _select(home, names)
    with ThreadPoolExecutor(MAX_ASKED_AT_ONCE) as pool:  # a hung node delays no other
        sizes = list(pool.map(lambda record: _size(home, record.name), records))
    counts = {
        record.name: (min(count_samples(blocks), cap or blocks), blocks)
        for record, (blocks, cap) in zip(records, sizes, strict=True)
        if blocks
    }
    for record in checked:
        units = max(record.units, 1)  # at the last look; there may be some now
        counts[record.name] = (count_samples(units), units)
    if not counts:
        return []
    ratios = {name: count / blocks for name, (count, blocks) in counts.items()}
    settings = read_control(home.folder)
    seconds = deadline_seconds + MAX_WAIT_SECONDS
    if checked:
        seconds += len(checked) * settings.checks.deadline / SECOND
    with _service(home, settings, deadline_seconds) as service:
        _enrol(service, ratios)
        results = _audit(service, ratios, seconds, on_result, on_resumed)
    return [results[name] for name in counts]


def _select(home: Home, names: Iterable[str]) -> tuple[list[HoldingRecord], list[CheckedRecord]]:
    """Return the holdings of these names, or all of them, on nodes and checked by tools."""
    wanted = list(dict.fromkeys(names))
    with home.catalogue() as catalogue:
        with catalogue.transaction() as connection:
            checked = list_checked(connection, wanted or None)
        if wanted:
            known = {record.name for record in checked}
            return [catalogue.holding(name) for name in wanted if name not in known], checked
        records = catalogue.holdings()
    if not records and not checked:
        raise InputError("there are no holdings yet: create one with `holdfast holding add`")
    return records, checked


def _size(home: Home, name: str) -> tuple[int, int | None]:
    """Return how many blocks a holding has, and how many its node takes in one challenge."""
    with home.holding(name) as holding:
        cap = None
        with suppress(NodeError):  # the audit will show whether the node answers
            if holding.catalogue.intents(name):
                holding.reconcile()
            cap = holding.node.facts(seconds=FACTS_SECONDS).limits.samples
        return holding.inventory.blocks, cap


def repair_and_audit(
    home: Home,
    holding: str,
    sources: Iterable[str] = (),
    *,
    deadline_seconds: int,
    on_progress: Callable[[RepairProgress], None] = lambda _progress: None,
    on_unreachable: OnUnreachable = lambda _holding, _reason: None,
) -> Repair:
    """Find the damaged blocks of a holding, put them back, and audit it.

    All its blocks are audited, and of a direct holding a sample.
    """
    files = repair_holding(
        home, holding, sources, on_progress=on_progress, on_unreachable=on_unreachable
    )
    with home.catalogue() as catalogue:
        # What was written again is known to be right, and reading all the rest may be dear.
        direct = is_direct(catalogue.holding(holding).url)
    (audit,) = audit_holdings(
        home,
        [holding],
        lambda blocks: min(blocks, DIRECT_SAMPLES) if direct else blocks,
        deadline_seconds=deadline_seconds,
    )
    return Repair(files, audit)


@contextmanager
def _service(home: Home, settings: ControlSettings, deadline_seconds: int) -> Iterator[Service]:
    patience = replace(settings.patience, deadline=deadline_seconds * SECOND)
    with (
        quiet_logs(),
        open_service(
            home, settings, patience=patience, sample_cap=MAX_SAMPLES, alone=False
        ) as service,
    ):
        try:
            yield service
        finally:
            service.stop_worker()


def _enrol(service: Service, names: Iterable[str]) -> None:
    """Schedule new holdings; raise why one of these can't be."""
    now = service.clock()
    service.enrol(now)
    scheduled = service.schedule.names()
    for name in names:
        if name not in scheduled:
            service.fleet.registration(name, now)
            raise StorageError(f"holding {name!r} is not on the schedule: try again")


def _audit(
    service: Service,
    ratios: Mapping[str, float],
    seconds: float,
    on_result: OnResult,
    on_resumed: OnResult,
) -> dict[str, AuditResult]:
    """Run ticks over these holdings until each has an audit that began here."""
    over = time.monotonic() + seconds
    begun: dict[str, bytes] = {}  # ids of audits, by holding
    results: dict[str, AuditResult] = {}
    while len(results) < len(ratios):
        if time.monotonic() > over:
            raise InputError(
                "another process has been auditing the same holdings for too long: try again later"
            )
        rest = {name: ratio for name, ratio in ratios.items() if name not in results}
        asked = {name: ratio for name, ratio in rest.items() if name not in begun}
        tick = service.worker.tick(only=rest, asked=asked)
        begun |= tick.started
        for result in tick.concluded:
            if begun.get(result.name) == result.detail.id:
                results[result.name] = result
                on_result(result)
            else:
                on_resumed(result)
        if not tick.busy:
            time.sleep(_pause_seconds(service))
    return results


def _pause_seconds(service: Service) -> float:
    """Return how long to wait: the last try before a short deadline must not be missed."""
    now = service.clock()
    due = service.schedule.next_due(now)
    return POLL_SECONDS if due is None else min(POLL_SECONDS, (due - now) / SECOND)
