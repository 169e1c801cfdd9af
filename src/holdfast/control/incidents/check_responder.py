"""Responds to checks that failed: says what the damage means, and repairs it if that is allowed.

Tools may take long and storage may hang, so every step runs in a thread of its own, which keeps the
step's lease while it works.
"""

from collections.abc import Callable
from functools import partial
from threading import Event, Lock, Thread

import structlog

from holdfast.checkers import codec
from holdfast.checkers.interface import Checker, Damage, Locator, Repairer, Report
from holdfast.control.audits.checked_fleet import CheckedFleet
from holdfast.control.incidents.damage_words import describe_commands, describe_damage, name_some
from holdfast.control.incidents.store import Cases
from holdfast.control.incidents.types import Progress, ResponseRecord, Step, Task
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.settings.models import Responses, ToolRepair
from holdfast.durations import DAY, SECOND
from holdfast.errors import HoldfastError, InputError
from holdfast.evidence import leaf
from holdfast.owner.checked import CheckedRecord
from holdfast.words import plural

MAX_STEP_TIME = DAY  # after which a step that hangs loses its lease
UP_TO_YOU = "Holdfast has not repaired it"
log = structlog.get_logger()

OnFailure = Callable[[Task, str], None]


class CheckResponder:
    """Takes the slow steps of checked holdings, one of each holding at a time."""

    def __init__(
        self,
        cases: Cases,
        fleet: CheckedFleet,
        settings: Responses,
        *,
        clock: Callable[[], int],
        on_failure: OnFailure,
    ) -> None:
        """Make a responder; `on_failure` decides about a step that could not be taken."""
        self._cases, self._fleet = cases, fleet
        self._settings, self._clock, self._on_failure = settings, clock, on_failure
        self._lock = Lock()
        self._busy: set[int] = set()  # holdings whose checkers work

    def begin(self, task: Task) -> None:
        """Take a step in a thread of its own, unless an earlier one of the holding hangs."""
        with self._lock:
            hangs = task.holding in self._busy
            self._busy.add(task.holding)
        if hangs:
            self._on_failure(task, "the storage gives no answer")
        else:
            Thread(target=self._run, args=(task,), daemon=True).start()

    def _run(self, task: Task) -> None:
        over = Event()
        keeper = Thread(target=self._keep_lease, args=(task, over), daemon=True)
        keeper.start()
        try:
            self._take(task)
        except LeaseLostError:
            log.warning("another worker has taken over a response", holding=task.name)
        except HoldfastError as error:  # of our own database: the lease ends, and it is tried again
            log.warning("a response stands still", holding=task.name, reason=str(error))
        finally:
            over.set()
            keeper.join()

    def _take(self, task: Task) -> None:
        try:
            record = self._fleet.find(task.name)
            finish = None if record is None else self._ask(task, record)
        finally:
            with self._lock:
                self._busy.discard(task.holding)
        if finish is not None:  # else the holding was removed, and its cases with it
            finish()

    def _ask(self, task: Task, record: CheckedRecord) -> Callable[[], None]:
        """Have the checker do its part; return what ends the step."""
        take = self._localise if task.step is Step.LOCALISE else self._repair
        try:
            return take(task, record, self._fleet.open(record))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            known = isinstance(error, HoldfastError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            return partial(self._on_failure, task, reason)

    def _localise(self, task: Task, record: CheckedRecord, checker: Checker) -> Callable[[], None]:
        report = self._fleet.last_report(task.holding)
        if report is None:
            raise InputError("the report of the check that failed is gone")
        damage = _locate(checker, report)
        units = tuple(unit.name for unit in damage.units)
        detail = f"{plural(len(units), record.unit)} damaged: {name_some(damage.units)}"
        return lambda: self._cases.finish(
            task,
            [ResponseRecord(leaf.Step.LOCALISED, detail, units=units)],
            detail,
            self._clock(),
            drop=() if units else (Step.REPAIR,),
            hand_on=codec.dump(damage),
            damaged=len(units),
            note=describe_damage(damage, task.name),
            progress=Progress(len(units), len(units)),
        )

    def _repair(self, task: Task, record: CheckedRecord, checker: Checker) -> Callable[[], None]:
        if task.progress is None:
            raise InputError("it is not known what to repair")
        damage = codec.load(Damage, task.progress, "the damage that was located")
        allowed = self._settings.tool_repair is ToolRepair.RUN and not damage.loses_data
        if not allowed or not isinstance(checker, Repairer):
            detail = "; ".join(filter(None, (UP_TO_YOU, describe_commands(damage, task.name))))
            # A follow-up would only confirm what is known.
            return lambda: self._cases.finish(
                task, [], detail, self._clock(), drop=(Step.FOLLOW_UP,)
            )
        repair = checker.repair(damage)
        recorded = []
        if repair.repaired:
            detail = f"{plural(len(repair.repaired), record.unit)} repaired"
            recorded.append(ResponseRecord(leaf.Step.REPAIRED, detail, units=repair.repaired))
        if repair.left:
            detail = f"{plural(len(repair.left), record.unit)} still damaged"
            recorded.append(ResponseRecord(leaf.Step.LOST, detail, units=repair.left))
        said = repair.detail or (recorded[-1].detail if recorded else "nothing was repaired")
        return lambda: self._cases.finish(
            task,
            recorded,
            said,
            self._clock(),
            drop=(Step.FOLLOW_UP,) if repair.left or not recorded else (),
            note=repair.detail,
        )

    def _keep_lease(self, task: Task, over: Event) -> None:
        """Extend the lease while the step works; one that hangs loses it in the end."""
        lease = self._settings.lease
        for _ in range(3 * MAX_STEP_TIME // lease):
            if over.wait(lease / SECOND / 3):
                return
            try:
                self._cases.extend(task, self._clock() + lease)
            except (HoldfastError, LeaseLostError):
                return


def _locate(checker: Checker, report: Report) -> Damage:
    return checker.locate(report) if isinstance(checker, Locator) else Damage(report.damaged)
