"""Runs the demo: time passes in steps, planned faults strike, and the service does its work."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from holdfast.demo.environment import BLOCK_BYTES, Environment
from holdfast.demo.event_feed import Event, EventFeed, days
from holdfast.demo.faults import Corruption, Fault, Outage, corrupt, damaged_blocks
from holdfast.demo.frame import Frame, Line, Row, lowest_price, read_rows
from holdfast.durations import HOUR

STEP = 4 * HOUR  # the longest time between two checks of what is due


Show = Callable[[Frame], None]


@dataclass
class Story:
    environment: Environment
    faults: tuple[Fault, ...]
    span: int
    seconds: float  # of real time
    show: Show
    events: list[Event] = field(default_factory=list)
    _lines: list[Line] = field(default_factory=list)
    _intervals: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.environment.clock()
        self._feed = EventFeed(self.environment.service.schedule.engine)
        self._damage = dict.fromkeys(self.environment.nodes, 0)
        self._due = sorted(self._planned_acts(), key=lambda act: act[0])

    @property
    def now(self) -> int:
        return self.environment.clock() - self.start

    def run(self) -> None:
        """Run from beginning to end, as fast as the seconds allow."""
        self._work()
        self._log_shorter_intervals()
        self._advance(self.span)
        self.environment.service.anchor(self.environment.clock())

    def keep_running(self) -> None:
        """Continue at the same pace until interrupted, without new faults."""
        self._advance(None)

    def _advance(self, until: int | None) -> None:
        begun, first = time.monotonic(), self.now
        while until is None or self.now < until:
            moment = self._next() if until is None else min(self._next(), until)
            due = begun + self.seconds * (moment - first) / self.span
            time.sleep(max(0.0, due - time.monotonic()))
            self.environment.reach(self.start + moment)
            while self._due and self._due[0][0] <= self.now:
                self._due.pop(0)[1]()
            self._work()

    def _next(self) -> int:
        """Return when there is something to do again."""
        now = self.now
        due = self.environment.service.schedule.next_due(after=self.start + now)
        moments = [now + STEP, *(act[0] for act in self._due[:1])]
        if due is not None:
            moments.append(due - self.start)
        return max(now, min(moments))

    def _work(self) -> None:
        """Do what is due, and respond to failures. The service would use two threads for it."""
        self.environment.service.step()
        if self._log_new_events():
            self._log_shorter_intervals()
        while self.environment.service.responder.tick():
            self._log_new_events()
        self.show(self.frame())

    def _log_new_events(self) -> bool:
        """Log new events from the evidence; return whether there were any."""
        fresh = self._feed.new_events()
        for event in fresh:
            self._log(event.node, event.text, event.kind)
            if event.kind == "repaired":
                self._count_damage(event.node)
        self.events += fresh
        return bool(fresh)

    def _log_shorter_intervals(self) -> None:
        """Log where the policy has shortened the interval."""
        for row in self._rows():
            if row.follow_up or row.quarantined:
                continue
            before = self._intervals.get(row.node, row.interval)
            if row.interval < before:
                text = f"is audited sooner from now on: after {days(row.interval)}"
                self._log(row.node, f"{text}, no longer {days(before)}", "sooner")
            self._intervals[row.node] = row.interval

    def _planned_acts(self) -> Iterator[tuple[int, Callable[[], None]]]:
        for fault in self.faults:
            if isinstance(fault, Outage):
                yield fault.begins, partial(self._cut_power, fault.node)
                yield fault.ends, partial(self._restore_power, fault.node)
            else:
                for step in fault.steps:
                    yield step.at, partial(self._corrupt, fault, step.blocks)

    def _corrupt(self, fault: Corruption, blocks: tuple[int, ...]) -> None:
        corrupt(self.environment.nodes[fault.node].data(), blocks, BLOCK_BYTES, fault.mark)
        if not self._damage[fault.node]:
            self._log(fault.node, f"{fault.kind}: blocks go bad", "fault")
        self._count_damage(fault.node)

    def _cut_power(self, name: str) -> None:
        self.environment.nodes[name].kill()
        self._log(name, "its power is cut", "fault")

    def _restore_power(self, name: str) -> None:
        node = self.environment.nodes[name]
        node.start()
        node.wait_until_ready()  # meanwhile time stands still
        self._log(name, "its power is back", "fault")

    def _count_damage(self, node: str) -> None:
        path = self.environment.nodes[node].data()
        self._damage[node] = len(damaged_blocks(path, self.environment.original, BLOCK_BYTES))

    def _log(self, node: str, text: str, kind: str) -> None:
        self._lines.append(Line(self.now, node, text, kind))

    def frame(self) -> Frame:
        price = lowest_price(self.environment)
        return Frame(self.now, self.span, self._rows(), tuple(self._lines), price)

    def _rows(self) -> tuple[Row, ...]:
        return read_rows(self.environment, self.start, self._damage)
