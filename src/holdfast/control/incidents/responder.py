"""Responds to failed audits, step by step, while other holdings are audited.

A case is over when an audit that follows up passes, or when its last step is taken.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from holdfast.control.audits.checked_fleet import CheckedFleet
from holdfast.control.incidents.check_responder import CheckResponder
from holdfast.control.incidents.repair import (
    Damage,
    find_losses,
    locate_more,
    name_damaged,
    repair_more,
)
from holdfast.control.incidents.store import Cases
from holdfast.control.incidents.types import Progress, ResponseRecord, Step, Task
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.settings.models import Responses
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, InputError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import MAX_ITEMS
from holdfast.owner import HoldingLostError, Home
from holdfast.owner.direct.address import is_direct
from holdfast.pdp.spans import Spans

BUSY_DELAY = SECOND  # until a holding that is being audited is tried again


class Responder:
    """Takes steps that are ready. Any number of responders and threads share the cases."""

    def __init__(
        self,
        cases: Cases,
        home: Home,
        settings: Responses,
        *,
        unit: int,
        clock: Callable[[], int],
        checked: CheckedFleet | None = None,
    ) -> None:
        """Make a responder; `checked` are the holdings that tools check, if there may be any."""
        self._cases, self._home, self._settings = cases, home, settings
        self._unit, self._clock = unit, clock
        self._claiming = Lock()
        self._running: dict[int, Task] = {}  # what threads of this process do, by its id
        self._checks = (
            None
            if checked is None
            else CheckResponder(
                cases, checked, settings, clock=clock, on_failure=self._retry_or_drop
            )
        )

    def open_cases(self) -> None:
        """Raise alerts and plan steps for audits that have failed. It waits for no node."""
        settings, now = self._settings, self._clock()
        self._cases.resolve(now, patience=settings.patience, pause=settings.pause)
        self._cases.open(settings.plans, now)
        self._cases.quarantine_repeated(now, settings.repairs, settings.repairs_within)

    def tick(self) -> int:
        """Take steps for as long as a slice of work lasts; return how many were tried.

        No two threads work with the same node: one that hangs keeps only one of them.
        """
        settings, start = self._settings, self._clock()
        self.open_cases()
        tried = 0
        while (now := self._clock()) - start <= settings.slice:
            with self._claiming:
                busy = [task.node for task in self._running.values() if task.node is not None]
                task = self._cases.claim(now, settings.lease, without_nodes=busy)
                if task is None:
                    break
                self._running[task.id] = task
            try:
                self._take(task)
            finally:
                self._running.pop(task.id, None)
            tried += 1
        return tried

    def give_up(self) -> None:
        """Give up the leases of steps that threads still take: what they do then has no effect."""
        for task in list(self._running.values()):
            with suppress(LeaseLostError, StorageError):  # else the lease ends by itself
                self._cases.give_up(task)

    def _take(self, task: Task) -> None:
        if task.checked and self._checks and task.step in {Step.LOCALISE, Step.REPAIR}:
            self._checks.begin(task)
            return
        try:
            match task.step:
                case Step.FOLLOW_UP:
                    self._follow_up(task)
                case Step.LOCALISE:
                    self._localise(task)
                case Step.REPAIR:
                    self._repair(task)
                case Step.QUARANTINE:
                    self._put_back_unless(self._cases.quarantine(task, self._clock()), task)
                case Step.ALERT:
                    self._cases.alert(task, self._clock())
        except (HoldfastError, OSError) as error:
            self._retry_or_drop(task, str(error))

    def _follow_up(self, task: Task) -> None:
        now, settings = self._clock(), self._settings
        interval = settings.delay // self._unit
        due = now + settings.delay
        asked = self._cases.follow_up(task, now, due=due, interval=interval, ratio=settings.ratio)
        self._put_back_unless(asked, task)

    def _localise(self, task: Task) -> None:
        known = None if task.progress is None else Damage.decode(task.progress)
        with self._home.holding(task.name) as holding:
            damage, complete = locate_more(holding, known, self._slice())
            total = holding.inventory.blocks
            damages = name_damaged(holding, damage) if complete else []
        if not complete:
            self._save(task, damage, Progress(damage.reached, total))
            return
        detail, blocks = _describe(damage.blocks, "damaged")
        drop = () if damage.spots else (Step.REPAIR,)
        self._cases.finish(
            task,
            [ResponseRecord(leaf.Step.LOCALISED, detail, blocks)],
            detail,
            self._clock(),
            drop=drop,
            hand_on=damage.encode(),
            damaged=damage.count,
            damages=damages,
            progress=Progress(total, total),
        )

    def _repair(self, task: Task) -> None:
        if task.progress is None:
            raise InputError("it is not known what to repair")
        try:
            self._repair_blocks(task, Damage.decode(task.progress))
        except HoldingLostError as error:  # to put it there again may take days
            self._cases.finish(task, [], str(error), self._clock(), drop=(Step.FOLLOW_UP,))

    def _repair_blocks(self, task: Task, known: Damage) -> None:
        with self._home.changing(task.name, wait=False) as holding:
            if is_direct(holding.record.url) and not self._settings.repair_direct:
                self._leave_repair(task)
                return
            damage, complete = repair_more(self._home, holding, known, self._slice())
            losses = find_losses(holding, damage) if complete else []
        if not complete:
            self._save(task, damage, Progress(damage.handled, damage.count))
            return
        lost = damage.lost
        repair, spans = _describe(damage.blocks.without(lost), "put back")
        loss, lost_spans = _describe(lost, "lost: no replica has them")
        responses = [ResponseRecord(leaf.Step.REPAIRED, repair, spans)] if spans else []
        responses += [ResponseRecord(leaf.Step.LOST, loss, lost_spans)] if lost else []
        drop = (Step.FOLLOW_UP,) if lost else ()  # it would only confirm what is known
        self._cases.finish(
            task,
            responses,
            loss if lost else repair,
            self._clock(),
            drop=drop,
            losses=losses,
            progress=Progress(damage.count, damage.count),
        )

    def _leave_repair(self, task: Task) -> None:
        """Leave the repair of a direct holding to its owner, whose data we only read."""
        detail = f"the repair is yours: `holdfast repair {task.name}` shows what can be put back"
        self._cases.finish(task, [], detail, self._clock(), drop=(Step.FOLLOW_UP,))

    def _slice(self) -> Callable[[], bool]:
        """Return whether a step that begins now may go on, to be asked again and again."""
        end: int | None = None

        def wants_more() -> bool:
            # The first question starts the time: before it, replicas that hang are waited for.
            nonlocal end
            now = self._clock()
            end = now + self._settings.slice if end is None else end
            return now <= end

        return wants_more

    def _save(self, task: Task, damage: Damage, progress: Progress) -> None:
        """Leave the rest of a step to the next slice."""
        self._cases.put_back(task, self._clock(), damage.encode(), progress)

    def _put_back_unless(self, taken: bool, task: Task) -> None:
        if not taken:
            self._cases.put_back(task, self._clock() + BUSY_DELAY, task.progress)

    def _retry_or_drop(self, task: Task, reason: str) -> None:
        """Try again later, or give up the step and those that depend on it."""
        now, settings = self._clock(), self._settings
        if now - task.began < settings.patience:
            self._cases.put_back(task, now + settings.pause, task.progress)
            return
        # A node that was silent and has passed an audit since is followed up instead.
        instead = Step.QUARANTINE if self._cases.is_answering(task) else Step.FOLLOW_UP
        drop = (Step.REPAIR, instead)
        self._cases.finish(task, [], f"{task.step} was given up: {reason}", now, drop=drop)


def _describe(blocks: Spans, what: str) -> tuple[str, tuple[leaf.Span, ...]]:
    """Return the number of blocks in words, and which they are, as far as a leaf can hold them."""
    count, spans = blocks.count, blocks.spans
    number = f"{count} block{'' if count == 1 else 's'}" if count else "no block"
    more = f", the first {MAX_ITEMS} of {len(spans)} spans" if len(spans) > MAX_ITEMS else ""
    return f"{number} {what}{more}", tuple(leaf.Span(*span) for span in spans[:MAX_ITEMS])
