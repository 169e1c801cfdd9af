"""Lanes do work side by side, a few jobs at once, and give the results in order."""

import threading
import time

import pytest

from holdfast.node.lanes import lanes


def test_results_come_in_order_whoever_is_done_first() -> None:
    def work(job: int) -> int:
        time.sleep(0.002 * (job % 3))
        return job * job

    with lanes(work, range(20), 3) as results:
        assert list(results) == [job * job for job in range(20)]


def test_no_more_jobs_run_at_once_than_there_are_lanes() -> None:
    meeting = threading.Barrier(3, timeout=10)  # all three lanes must be in it at once
    lock, running, peak = threading.Lock(), 0, 0

    def work(_job: int) -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        meeting.wait()
        with lock:
            running -= 1

    with lanes(work, range(12), 3) as results:
        list(results)
    assert peak == 3


def test_whoever_leaves_early_begins_no_further_job() -> None:
    begun: list[int] = []
    with lanes(begun.append, range(10_000), 2) as results:
        next(results)
    assert len(begun) <= 5


def test_an_error_of_a_job_reaches_whoever_waits_for_its_result() -> None:
    with lanes(lambda job: 1 // job, [1, 1, 0, 1], 2) as results:
        assert [next(results), next(results)] == [1, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)
