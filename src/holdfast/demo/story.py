"""The run: time passes in steps, harm is done when it is planned, and the service does its work."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from holdfast.control.scheduling.guardrails import HOUR
from holdfast.demo.environment import BLOCK_BYTES, Stage
from holdfast.demo.event_feed import News, Newspaper, days
from holdfast.demo.faults import Decay, Harm, Outage, differing, strike
from holdfast.demo.frame import Frame, Line, Row, lowest_price, read_rows

STEP = 4 * HOUR  # at most, between two looks at what is due


Show = Callable[[Frame], None]


@dataclass
class Story:
    stage: Stage
    harms: tuple[Harm, ...]
    span: int
    seconds: float  # of real time
    show: Show
    news: list[News] = field(default_factory=list)
    _lines: list[Line] = field(default_factory=list)
    _intervals: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.stage.clock()
        self._newspaper = Newspaper(self.stage.service.schedule.engine)
        self._damage = dict.fromkeys(self.stage.nodes, 0)
        self._due = sorted(self._acts(), key=lambda act: act[0])

    @property
    def now(self) -> int:
        return self.stage.clock() - self.start

    def run(self) -> None:
        """Tell it from the beginning to the end, as fast as the seconds allow."""
        self._work()
        self._compare()
        self._go_on(self.span)
        self.stage.service.anchor(self.stage.clock())

    def linger(self) -> None:
        """Go on at the same pace until interrupted; nobody does any more harm."""
        self._go_on(None)

    def _go_on(self, until: int | None) -> None:
        begun, first = time.monotonic(), self.now
        while until is None or self.now < until:
            moment = self._next() if until is None else min(self._next(), until)
            due = begun + self.seconds * (moment - first) / self.span
            time.sleep(max(0.0, due - time.monotonic()))
            self.stage.reach(self.start + moment)
            while self._due and self._due[0][0] <= self.now:
                self._due.pop(0)[1]()
            self._work()

    def _next(self) -> int:
        """Return when there is something to do again."""
        now = self.now
        due = self.stage.service.schedule.next_due(after=self.start + now)
        moments = [now + STEP, *(act[0] for act in self._due[:1])]
        if due is not None:
            moments.append(due - self.start)
        return max(now, min(moments))

    def _work(self) -> None:
        """Do what is due, and answer what failed; the service would use two threads for it."""
        self.stage.service.step()
        if self._hear():
            self._compare()
        while self.stage.service.responder.tick():
            self._hear()
        self.show(self.frame())

    def _hear(self) -> bool:
        """Take in what the evidence has of new; return whether there was anything."""
        fresh = self._newspaper.fresh()
        for each in fresh:
            self._say(each.node, each.words, each.what)
            if each.what == "repaired":
                self._look(each.node)
        self.news += fresh
        return bool(fresh)

    def _compare(self) -> None:
        """Tell where the policy has become more watchful."""
        for row in self._rows():
            if row.follow_up or row.quarantined:
                continue
            before = self._intervals.get(row.node, row.interval)
            if row.interval < before:
                words = f"is audited sooner from now on: after {days(row.interval)}"
                self._say(row.node, f"{words}, no longer {days(before)}", "sooner")
            self._intervals[row.node] = row.interval

    def _acts(self) -> Iterator[tuple[int, Callable[[], None]]]:
        for harm in self.harms:
            if isinstance(harm, Outage):
                yield harm.begins, partial(self._cut, harm.node)
                yield harm.ends, partial(self._restore, harm.node)
            else:
                for blow in harm.blows:
                    yield blow.at, partial(self._strike, harm, blow.blocks)

    def _strike(self, harm: Decay, blocks: tuple[int, ...]) -> None:
        strike(self.stage.nodes[harm.node].data(), blocks, BLOCK_BYTES, harm.mark)
        if not self._damage[harm.node]:
            self._say(harm.node, f"{harm.kind}: blocks go bad", "harm")
        self._look(harm.node)

    def _cut(self, name: str) -> None:
        self.stage.nodes[name].kill()
        self._say(name, "its power is cut", "harm")

    def _restore(self, name: str) -> None:
        node = self.stage.nodes[name]
        node.begin()
        node.ready()  # meanwhile time stands still
        self._say(name, "its power is back", "harm")

    def _look(self, node: str) -> None:
        path = self.stage.nodes[node].data()
        self._damage[node] = len(differing(path, self.stage.original, BLOCK_BYTES))

    def _say(self, node: str, words: str, mood: str) -> None:
        self._lines.append(Line(self.now, node, words, mood))

    def frame(self) -> Frame:
        price = lowest_price(self.stage)
        return Frame(self.now, self.span, self._rows(), tuple(self._lines), price)

    def _rows(self) -> tuple[Row, ...]:
        return read_rows(self.stage, self.start, self._damage)
