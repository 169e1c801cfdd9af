"""The responses: what is done after a failed audit, step by step, beside the audits of all others.

A case is over when an audit that follows up passes, or when its last step is taken.
"""

from collections.abc import Callable

from holdfast.control.incidents.repair import Damage, locate_more, repair_more
from holdfast.control.incidents.store import Cases
from holdfast.control.incidents.types import ResponseRecord, Step, Task
from holdfast.control.settings.models import Responses
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, InputError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import MAX_ITEMS
from holdfast.owner import Home, spans_of

BUSY = SECOND  # until a holding that is being audited is looked at again


class Responder:
    """Takes steps that are ready. Any number of responders share the cases."""

    def __init__(
        self, cases: Cases, home: Home, settings: Responses, *, unit: int, clock: Callable[[], int]
    ) -> None:
        self._cases, self._home, self._settings = cases, home, settings
        self._unit, self._clock = unit, clock

    def tick(self) -> int:
        """Take steps for as long as a slice of work lasts; return how many goes that were."""
        settings, start = self._settings, self._clock()
        self._cases.resolve(start, patience=settings.patience, pause=settings.pause)
        self._cases.open(settings.plans, start)
        goes = 0
        while (now := self._clock()) - start <= settings.slice:
            task = self._cases.claim(now, settings.lease)
            if task is None:
                break
            self._take(task)
            goes += 1
        return goes

    def _take(self, task: Task) -> None:
        try:
            match task.step:
                case Step.FOLLOW_UP:
                    self._follow_up(task)
                case Step.LOCALISE:
                    self._localise(task)
                case Step.REPAIR:
                    self._repair(task)
                case Step.QUARANTINE:
                    self._unless_busy(task, self._cases.quarantine(task, self._clock()))
                case Step.ALERT:
                    self._cases.alert(task, self._clock())
        except (HoldfastError, OSError) as error:
            self._failed(task, str(error))

    def _follow_up(self, task: Task) -> None:
        now, settings = self._clock(), self._settings
        interval = settings.delay // self._unit
        due = now + settings.delay
        asked = self._cases.follow_up(task, now, due=due, interval=interval, ratio=settings.ratio)
        self._unless_busy(task, asked)

    def _localise(self, task: Task) -> None:
        known = None if task.progress is None else Damage.decode(task.progress)
        with self._home.holding(task.name) as holding:
            damage, complete = locate_more(holding, known)
        if not complete:
            self._cases.put_back(task, self._clock(), damage.encode())
            return
        detail, blocks = _shown(damage.blocks, "damaged")
        drop = () if damage.spots else (Step.REPAIR,)
        told = ResponseRecord(leaf.Step.LOCALISED, detail, blocks)
        self._cases.done(
            task,
            [told],
            detail,
            self._clock(),
            drop=drop,
            hand_on=damage.encode(),
            found=len(damage.blocks),
        )

    def _repair(self, task: Task) -> None:
        if task.progress is None:
            raise InputError("there is nothing known of what to repair")
        with self._home.changing(task.name, wait=False) as holding:
            damage, complete = repair_more(self._home, holding, Damage.decode(task.progress))
        if not complete:
            self._cases.put_back(task, self._clock(), damage.encode())
            return
        lost = set(damage.lost)
        mended, spans = _shown([each for each in damage.blocks if each not in lost], "put back")
        gone, lost_spans = _shown(sorted(lost), "lost: no replica has them")
        told = [ResponseRecord(leaf.Step.REPAIRED, mended, spans)] if spans else []
        told += [ResponseRecord(leaf.Step.LOST, gone, lost_spans)] if lost else []
        drop = (Step.FOLLOW_UP,) if lost else ()  # which would only find what is known
        self._cases.done(task, told, gone if lost else mended, self._clock(), drop=drop)

    def _unless_busy(self, task: Task, taken: bool) -> None:
        if not taken:
            self._cases.put_back(task, self._clock() + BUSY, task.progress)

    def _failed(self, task: Task, reason: str) -> None:
        """Try again later, or give the step up and what builds on it."""
        now, settings = self._clock(), self._settings
        if now - task.began < settings.patience:
            self._cases.put_back(task, now + settings.pause, task.progress)
            return
        drop = (Step.REPAIR, Step.FOLLOW_UP)
        self._cases.done(task, [], f"{task.step} was given up: {reason}", now, drop=drop)


def _shown(places: list[int], what: str) -> tuple[str, tuple[leaf.Span, ...]]:
    """Return how many blocks that are, in words, and which, as far as a leaf can hold them."""
    spans = spans_of(places)
    blocks = f"{len(places)} block{'' if len(places) == 1 else 's'}" if places else "no block"
    more = f", the first {MAX_ITEMS} of {len(spans)} spans" if len(spans) > MAX_ITEMS else ""
    return f"{blocks} {what}{more}", tuple(leaf.Span(*span) for span in spans[:MAX_ITEMS])
