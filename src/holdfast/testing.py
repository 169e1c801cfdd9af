"""Tests for packages that offer an auditor: `check_auditor` tries one on data of the caller's.

    from holdfast.testing import check_auditor

    def test_my_auditor(tmp_path):
        (tmp_path / "data").mkdir()
        ...
        place = Place(str(tmp_path / "data"), {}, tmp_path / "state")
        check_auditor(MyChecker, place, damage=lambda: flip_a_byte(tmp_path / "data"))

It raises AssertionError, with one sentence that says what is not as the interface promises.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from holdfast.checkers import codec
from holdfast.checkers.interface import (
    MAX_WORDS,
    Checker,
    Extent,
    Finding,
    Place,
    Report,
    Running,
    Sample,
)
from holdfast.checkers.process_checker import ProcessChecker, now
from holdfast.errors import HoldfastError, UnreachableError

Factory = Callable[[Place], Checker]
POLL_SECONDS = 0.02


def check_auditor(
    factory: Factory,
    place: Place,
    damage: Callable[[], Iterable[str] | None],
    *,
    away: Callable[[], AbstractContextManager[object]] | None = None,
    timeout_seconds: float = 300.0,
) -> None:
    """Try an auditor on intact data, during an outage, and on damaged data, in this order.

    `factory` must be a class or function of a module, for another process opens it too. `damage`
    damages the data of the place for good, and may return the names of the units that it damaged.
    `away` makes the storage unreachable for as long as its context lasts. A single check may take
    `timeout_seconds`.
    """
    trial = _Trial(factory, place, timeout_seconds)
    trial.try_extent()
    trial.try_intact()
    trial.try_interruptions()
    trial.try_cancel()
    trial.try_late()
    if away is not None:
        sample = trial.sample_all()
        with away():
            trial.try_outage(sample)
        trial.expect_intact("after the outage")
    trial.try_damage({*(damage() or ())})


@dataclass(frozen=True)
class _Trial:
    factory: Factory
    place: Place
    timeout_seconds: float

    def try_extent(self) -> None:
        first, again = self._open().extent(), self._open().extent()
        _require(first == again, "the extent of the same data differs from call to call")
        _require(bool(first.unit and first.tool), "the extent does not name its unit and its tool")
        _require(first.units > 0, "the extent has no units: give check_auditor data to check")
        names = [group.name for group in first.groups]
        _require(len({*names}) == len(names), "two groups of the extent have the same name")
        units = sum(group.units for group in first.groups)
        _require(not names or units == first.units, "the groups don't have all units of the extent")

    def try_intact(self) -> None:
        checker, before = self._open(), self._files()
        sample = self.sample_all()
        pending = checker.start(sample)
        _require(isinstance(pending, bytes), "start does not return bytes")
        _require(self._files() == before, "start has an effect: it must only name the check")
        _require(checker.start(sample) != pending, "two checks of one sample are the same one")
        report = self._end(checker, pending)
        self._expect(report, sample, Finding.INTACT, "on intact data")
        _require(not report.reason, "a report on intact data gives a reason")
        groups = {*sample.groups}
        _require({*report.verified} == groups, "not all groups of intact data were verified")
        _require(self._open().poll(pending) == report, "polled again, the check ends otherwise")
        _require(self._poll_elsewhere(pending) == report, "another process is told another end")
        checker.cancel(pending)

    def try_interruptions(self) -> None:
        """Let two poll at once, and kill the process of the check."""
        expected = self.expect_intact("at another check")
        checker, sample = self._open(), self.sample_all()
        pending = checker.start(sample)
        with ThreadPoolExecutor(2) as pool:
            polls = [pool.submit(self._open().poll, pending) for _ in range(2)]
        for poll in polls:
            poll.result()
        if isinstance(checker, ProcessChecker):
            checker.kill_job(pending)
        report = self._end(checker, pending)
        _require(
            _facts(report) == _facts(expected),
            f"a check that was killed ends otherwise: {report.finding}, {report.reason}",
        )
        checker.cancel(pending)

    def try_cancel(self) -> None:
        checker, before = self._open(), self._files()
        pending = checker.start(self.sample_all())
        checker.cancel(pending)
        checker.poll(pending)
        checker.cancel(pending)
        checker.cancel(pending)
        _require(self._files() == before, "a check that was cancelled left files behind")
        pending = checker.start(self.sample_all())
        self._end(checker, pending)
        checker.cancel(pending)
        _require(self._files() == before, "a check left files behind, after it was cancelled")

    def try_late(self) -> None:
        checker = self._open()
        pending = checker.start(self.sample_all(deadline=now() - 1))
        report = self._end(checker, pending)
        _require(report.finding is Finding.UNKNOWN, "a check past its deadline says something")
        checker.cancel(pending)

    def try_outage(self, sample: Sample) -> None:
        try:
            self._open().extent()  # which may know it without the storage
        except UnreachableError:
            pass
        except HoldfastError as error:
            raise AssertionError(f"the extent calls an outage something else: {error}") from error
        report = self._check(sample)
        _require(
            report.finding is Finding.UNREACHABLE,
            f"a check during an outage ends as {report.finding}: {report.reason}",
        )
        _require(bool(report.reason), "a check during an outage does not say why it failed")
        _require(not report.damaged, "a check during an outage calls data damaged")

    def try_damage(self, names: Collection[str]) -> None:
        sample = self.sample_all()
        report = self._check(sample)
        self._expect(report, sample, Finding.DAMAGED, "on damaged data")
        named = {unit.name for unit in report.damaged}
        missed = ", ".join({*names} - named)
        _require(not missed, f"a check of all data does not name what is damaged: {missed}")
        again = tuple(dict.fromkeys(unit.group for unit in report.damaged))
        second = self._check(Sample(os.urandom(16), len(again), again, self._deadline()))
        _require(
            second.finding is Finding.DAMAGED,
            f"looked at again, damaged units are {second.finding}: {second.reason}",
        )

    def expect_intact(self, when: str) -> Report:
        sample = self.sample_all()
        report = self._check(sample)
        self._expect(report, sample, Finding.INTACT, when)
        return report

    def sample_all(self, deadline: int | None = None) -> Sample:
        """Return a sample of all there is."""
        extent: Extent = self._open().extent()
        groups = tuple(group.name for group in extent.groups)
        return Sample(os.urandom(16), extent.units, groups, deadline or self._deadline())

    def _expect(self, report: Report, sample: Sample, finding: Finding, when: str) -> None:
        said = f"{report.finding}: {report.reason}"
        _require(report.finding is finding, f"{when} the report is not {finding}, but {said}")
        _require(report.checked > 0, f"{when} nothing was checked")
        _require(report.began <= report.ended, f"{when} a check ends before it begins")
        _require(len(report.words) <= MAX_WORDS, f"the report has more than {MAX_WORDS} characters")
        _require("\n" not in report.reason, "the reason has more than one line")
        _require(bool(report.tool), "the report does not name its tool")
        strange = {*report.verified} - {*sample.groups}
        _require(not strange, f"verified groups were not asked for: {', '.join(sorted(strange))}")
        is_damaged = finding is Finding.DAMAGED
        _require(bool(report.damaged) == is_damaged, f"{when} the units named don't fit {said}")
        for unit in report.damaged:
            _require(bool(unit.name and unit.group), "a damaged unit has no name or no group")
            _require(unit.group not in report.verified, f"{unit.group} is damaged and verified")

    def _open(self) -> Checker:
        return self.factory(self.place)

    def _deadline(self) -> int:
        return now() + round(1000 * self.timeout_seconds)

    def _check(self, sample: Sample) -> Report:
        checker = self._open()
        pending = checker.start(sample)
        report = self._end(checker, pending)
        checker.cancel(pending)
        return report

    def _end(self, checker: Checker, pending: bytes) -> Report:
        give_up = time.monotonic() + self.timeout_seconds + 60
        while isinstance(answer := checker.poll(pending), Running):
            _require(time.monotonic() < give_up, "a check does not end, not even at its deadline")
            time.sleep(POLL_SECONDS)
        return answer

    def _files(self) -> set[str]:
        root = self.place.folder
        return (
            {str(path) for path in root.rglob("*") if not path.is_dir()} if root.exists() else {*()}
        )

    def _poll_elsewhere(self, pending: bytes) -> Report:
        """Poll a check whose end is known, in a fresh interpreter."""
        factory = f"{self.factory.__module__}:{self.factory.__qualname__}"
        request = json.dumps(
            {
                "factory": factory,
                "address": self.place.address,
                "options": dict(self.place.options),
                "folder": str(self.place.folder),
                "pending": pending.hex(),
            }
        )
        path = os.pathsep.join(filter(None, sys.path))
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast.testing"],
            input=request.encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        words = ended.stderr.decode(errors="replace").strip()
        _require(not ended.returncode, f"another process can't poll the check: {words}")
        return codec.load(Report, ended.stdout, "the report that another process read")


def _facts(report: Report) -> tuple[object, ...]:
    """Return what must be the same if a check is run again."""
    return report.finding, report.checked, report.damaged, {*report.verified}


def _require(is_met: bool, sentence: str) -> None:
    if not is_met:
        raise AssertionError(sentence)


def _poll_for_parent() -> None:
    request = json.load(sys.stdin)
    module, _, name = request["factory"].partition(":")
    factory: Factory = attrgetter(name)(import_module(module))
    place = Place(request["address"], request["options"], Path(request["folder"]))
    answer = factory(place).poll(bytes.fromhex(request["pending"]))
    sys.stdout.buffer.write(codec.dump(answer))


if __name__ == "__main__":
    _poll_for_parent()
