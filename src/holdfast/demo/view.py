"""The live view in a terminal, and the same in plain lines where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.demo.environment import Environment
from holdfast.demo.event_feed import days
from holdfast.demo.frame import Frame, Line, Row
from holdfast.demo.rules import FIXED_HIGH
from holdfast.demo.story import Show
from holdfast.durations import DAY

ON_CHAIN = "the contract on an EVM in this process"
LOCAL = "the local ledger, which is no chain (holdfast[demo] has one)"
LINES = 14  # of what happened, at most
STYLES = {
    "fault": "magenta",
    "failed": "bold red",
    "admitted": "bold red",
    "timed-out": "bold red",
    "offline": "yellow",
    "passed": "dim",
    "sooner": "cyan",
    "localised": "blue",
    "repaired": "green",
    "lost": "bold red",
    "quarantined": "bold red",
}


@dataclass(frozen=True)
class Caption:
    """What stays the same: the dashboard's address, the ledger and the policy."""

    url: str
    ledger: str
    policy: str
    measured: bool  # whether the ledger takes gas

    @classmethod
    def of(cls, environment: Environment) -> "Caption":
        on_chain = environment.chain is not None
        ledger = ON_CHAIN if on_chain else LOCAL
        return cls(environment.url, ledger, environment.settings.policy, on_chain)

    def render(self, frame: Frame) -> Group:
        head = Text.assemble(
            ("holdfast demo", "bold"),
            f"   day {frame.at / DAY:4.1f} of {frame.span / DAY:.0f}   ",
            ("dashboard ", "dim"),
            (self.url, "underline"),
        )
        who = Text(f"{self.policy} decides, {self.ledger} judges", "dim")
        return Group(head, who, _nodes(frame), self._cost(frame), _log(frame))

    def _cost(self, frame: Frame) -> Text:
        if not self.measured:
            return Text("a local ledger takes no gas: the summary has what the contract would take")
        high = FIXED_HIGH.audits(frame.at) * len(frame.rows) * frame.price
        return Text.assemble(
            "gas so far ",
            (f"{frame.gas:,.0f}", "bold"),
            f"; auditing every day at 10 % (FixedHigh) would have taken {high:,.0f}",
        )


@contextmanager
def show_frames(console: Console, caption: Caption) -> Iterator[Show]:
    """Yield a function that shows a frame: in place on a terminal, else as its new lines."""
    if not console.is_terminal:
        yield Lines(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield lambda frame: live.update(caption.render(frame))


class Lines:
    """Prints what has happened since the last frame."""

    def __init__(self, console: Console, printed: int = 0) -> None:
        self._console, self._printed = console, printed

    def __call__(self, frame: Frame) -> None:
        for line in frame.lines[self._printed :]:
            self._console.print(_line(line), soft_wrap=True)
        self._printed = len(frame.lines)


def _line(line: Line) -> Text:
    text = f"day {line.at / DAY:5.2f}  {line.node:<7} {line.text}"
    return Text(text, STYLES.get(line.kind, ""))


def _log(frame: Frame) -> Panel:
    recent = [_line(line) for line in frame.lines[-LINES:]]
    recent += [Text("")] * (LINES - len(recent))
    return Panel(
        Group(*recent), title="what happens (in magenta: what the owner can't see)", expand=True
    )


def _nodes(frame: Frame) -> Table:
    table = Table(expand=True)
    for name in ("node", "state", "really damaged", "last audit", "next audit", "audits", "gas"):
        table.add_column(name, justify="right" if name in {"audits", "gas"} else "left")
    for row in frame.rows:
        table.add_row(
            row.node,
            _state(row),
            _truth(row),
            _last(row),
            _next(row),
            str(row.audits),
            f"{row.gas:,.0f}",
        )
    return table


def _truth(row: Row) -> Text:
    if not row.runs:
        return Text("no power", "magenta")
    if not row.damage:
        return Text("nothing", "dim")
    return Text(f"{row.damage:,} block{'' if row.damage == 1 else 's'}", "magenta")


def _state(row: Row) -> Text:
    if row.quarantined:
        return Text("quarantined", "bold red")
    if row.outcome in FAILURES:
        return Text("damage found", "bold red")
    if row.outcome == "offline":
        return Text("away", "yellow")
    return Text("sound" if row.audits else "new", "green" if row.audits else "dim")


def _last(row: Row) -> Text:
    if not row.audits:
        return Text("-", "dim")
    return Text(f"day {row.audited / DAY:.1f}: {row.outcome}", STYLES.get(str(row.outcome), ""))


def _next(row: Row) -> Text:
    if row.quarantined:
        return Text("-", "dim")
    why = "follow-up" if row.follow_up else f"after {days(row.interval)}"
    style = "cyan" if row.follow_up or row.interval < 5 else ""
    return Text(f"day {row.due / DAY:.1f}: {why}, {row.ratio:.0%}", style)
