"""The demo's live view and its summary say what each node shows, and what only the viewer sees."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from holdfast.demo.console import summary_lines
from holdfast.demo.frame import Frame, Line, Row
from holdfast.demo.rules import Forecast
from holdfast.demo.summary import Cost, FaultReport, Summary
from holdfast.demo.view import LINES, Caption, show_frames
from holdfast.durations import DAY
from holdfast.evidence.finding import Fault, Finding
from holdfast.evidence.verification import Report

SOUND = Row(
    node="barn",
    runs=True,
    damage=0,
    quarantined=False,
    outcome="passed",
    audited=2 * DAY,
    audits=3,
    due=9 * DAY,
    interval=7,
    ratio=0.05,
    follow_up=False,
    gas=3000.0,
)
CAPTION = Caption("http://127.0.0.1:8000", "the contract", "drqn-cmdp-plus", measured=True)


def shown(caption: Caption, *rows: Row, lines: tuple[Line, ...] = ()) -> str:
    console = Console(file=io.StringIO(), width=160, record=True)
    console.print(caption.render(Frame(4 * DAY, 28 * DAY, rows, lines, price=1000.0)))
    return console.export_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ("sound", "nothing", "day 2.0: passed", "day 9.0: after 7 days, 5%", "3,000")),
        ({"audits": 0}, ("new", " - ")),
        ({"runs": False, "outcome": "offline"}, ("away", "no power")),
        ({"damage": 1, "outcome": "failed"}, ("damage found", "1 block ", "failed")),
        ({"damage": 1200}, ("sound", "1,200 blocks")),
        ({"quarantined": True}, ("quarantined", " - ")),
        ({"follow_up": True}, ("day 9.0: follow-up, 5%",)),
    ],
)
def test_a_row_shows_what_the_owner_knows_beside_the_truth(
    changes: dict[str, object], words: tuple[str, ...]
) -> None:
    (row,) = (
        line
        for line in shown(CAPTION, replace(SOUND, **changes)).splitlines()  # type: ignore[arg-type]
        if "barn" in line
    )
    for word in words:
        assert word in row, row


def test_the_head_names_day_dashboard_policy_and_cost() -> None:
    text = shown(CAPTION, SOUND, replace(SOUND, node="loft"))
    assert "day  4.0 of 28" in text
    assert CAPTION.url in text
    assert "drqn-cmdp-plus decides, the contract judges" in text
    # Four days, two nodes, 1,000 gas an audit.
    assert "gas so far 6,000; auditing every day at 10 % (FixedHigh) would have taken 8,000" in text
    assert "a local ledger takes no gas" in shown(replace(CAPTION, measured=False), SOUND)


def test_the_view_shows_the_last_lines_only() -> None:
    lines = tuple(Line(DAY, "barn", f"event {number};", "passed") for number in range(LINES + 5))
    text = shown(CAPTION, SOUND, lines=lines)
    assert "event 4;" not in text
    assert all(f"event {number};" in text for number in range(5, LINES + 5))


def test_a_terminal_gets_the_view_and_a_pipe_the_new_lines() -> None:
    lines = (Line(DAY, "barn", "first", "passed"), Line(2 * DAY, "barn", "second", "failed"))
    frames = [Frame(DAY, 28 * DAY, (SOUND,), lines[:count], price=1.0) for count in (1, 2, 2)]
    for terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, width=160, force_terminal=terminal)
        with show_frames(console, CAPTION) as show:
            for frame in frames:
                show(frame)
        assert ("holdfast demo" in file.getvalue()) == terminal
        if not terminal:
            assert file.getvalue() == "day  1.00  barn    first\nday  2.00  barn    second\n"


UNDETECTED = FaultReport(
    kind="rot",
    node="barn",
    day=3.0,
    blocks=8,
    detected=None,
    bad=None,
    localised=0,
    only_damaged=True,
    repaired=0,
    quarantined=None,
    left=8,
    fixed_high=Forecast(1.0, 4.0, 3.0),
    fixed_low=Forecast(0.0, None, None),
)


def test_a_summary_does_not_hide_what_was_not_detected_or_is_not_fine() -> None:
    finding = Finding(Fault.ROOT, "leaf 3", "it is another")
    report = Report(9, 3, 0, 1, 1, 1, (), 0, 3, 0, 1, (finding,))
    cost = Cost(3, 0, 0.1)
    summary = Summary(
        *(28.0, 4, 1000, "fixed-high", "local", {"passed": 3}, (UNDETECTED,)),
        *(cost, cost, cost, report),
    )
    lines = list(summary_lines(summary))
    assert "  not detected" in lines
    assert "  FixedHigh would have found it on day 4.0, when 3 blocks were bad" in lines
    assert "  FixedLow would have missed it" in lines
    assert any(line.startswith("evidence: NOT FINE, 9 leaves") for line in lines)
    assert "  leaf 3: it is another" in lines
    assert lines[-1] == "NOT DETECTED: rot on barn"
