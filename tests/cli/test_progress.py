"""Progress where there is no terminal: plain lines on stderr, every few seconds."""

import pytest

from holdfast.cli.terminal import LineBar, progress_bar

GIB = 1 << 30


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_line_comes_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Before, a command without a terminal was silent until its end."""
    clock = Clock()
    bar = LineBar("verifying", 2000, of_bytes=False, clock=clock)
    for second in range(1, 13):
        clock.now = second
        bar.reach(100 * second)
    assert lines(capsys) == [
        "verifying: 25 %, 500 of 2,000, about 15 s left",
        "verifying: 50 %, 1,000 of 2,000, about 10 s left",
    ]


def test_what_is_done_several_times_over_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Before, a file of 2 GiB for two nodes had a bar of 8 GiB."""
    clock = Clock()
    bar = LineBar("putting large", 2 * GIB, of_bytes=True, scale=4, clock=clock)
    clock.now = 6
    bar.advance(2 * GIB)
    clock.now = 12
    bar.advance(6 * GIB)
    assert lines(capsys) == [
        "putting large: 25 %, 512 MiB of 2 GiB, about 18 s left",
        "putting large: 100 %, 2 GiB of 2 GiB",
    ]


def test_a_share_and_an_empty_file_have_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    share = LineBar("locating", 1, of_bytes=False, clock=clock)
    empty = LineBar("putting empty", 0, of_bytes=True, clock=clock)
    clock.now = 5
    share.describe("localising")
    share.reach(0.5)
    empty.reach(0)
    assert lines(capsys) == [
        "localising: 50 %, about 5 s left",
        "putting empty: 0 bytes of 0 bytes",
    ]


def test_what_ends_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("quick", 10, of_bytes=False) as bar:
        for done in range(11):
            bar.reach(done)
    assert lines(capsys) == []
