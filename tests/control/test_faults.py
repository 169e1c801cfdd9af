"""What fails around the control plane: the work goes on or waits, nothing is lost, one alert tells.

The service is the real one, on a real node; the hours pass on its clocks alone.
"""

import json
import random
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from tests.support import parts
from tests.support.chain_gateway import Gateway, gateway
from tests.support.ledger_env import account_of, anvil, request, sender_of
from tests.support.live_service import SECTORS, Site, site
from tests.support.webhook import Receiver, listening
from web3 import Web3

from holdfast.bench.postgres import Server
from holdfast.control.audits.types import Auditor, AuditResult, Deferred
from holdfast.control.incidents.alerts import Kind
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service
from holdfast.control.settings.models import AlertSettings, ControlSettings, Pace, Timeouts, Upkeep
from holdfast.durations import HOUR, MINUTE
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.evm import deploy
from holdfast.ledger.interface import Opened, Passed
from holdfast.ledger.transactions import Node
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.owner.settings import read_settings
from holdfast.storage import database

pytestmark = pytest.mark.slow

CONTENT = random.Random(3).randbytes(3000)
HOURLY = ControlSettings(
    policy="heuristic",
    rails=Rails(unit=HOUR, longest=1, jitter=0.0, surprise=0.0, first=0.0, recovery=14),
    patience=Timeouts(deadline=2 * HOUR, first_pause=10 * MINUTE, longest_pause=10 * MINUTE),
    upkeep=Upkeep(enrol=10 * MINUTE, anchor=24 * HOUR, idle=2 * MINUTE),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, HOURLY) as place:
        place.holding("one", CONTENT)
        yield place


def outcomes(place: Site) -> list[str]:
    return [str(each.outcome) for each in place.audits()]


def check_evidence(place: Site) -> None:
    report = place.verified()
    assert report.findings == ()
    assert [each.number for each in place.audits()] == list(range(1, report.audits + 1))


@contextmanager
def chained(place: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """Give the site a chain for its ledger, behind a gateway, and a holding on it."""
    with anvil() as url, gateway(url) as way:
        contract = deploy(sender_of(Web3(Node(url)), place.folder), SECTORS)
        sealed = Account.encrypt(account_of(1).key, "horse", kdf="pbkdf2", iterations=1000)
        folder = place.home.folder
        (folder / "account.json").write_text(json.dumps(sealed))
        (folder / "holdfast.toml").write_text(
            f'[ledger]\nkind = "evm"\nurl = "{way.url}"\ncontract = "0x{contract.hex()}"\n'
            'keystore = "account.json"\n'
        )
        monkeypatch.setenv(KEYSTORE_VARIABLE, "horse")
        place.home = replace(place.home, settings=read_settings(folder))
        place.holding("one", CONTENT)
        yield way


@dataclass
class Interrupted:
    """An auditor that is interrupted when all is done and nothing is written: the worst moment."""

    inner: Auditor
    act: Callable[[], object]
    left: int = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def collect(self, seconds: float) -> Sequence[tuple[Claim, AuditResult | Deferred]]:
        results = self.inner.collect(seconds)
        if results and self.left:
            self.left -= 1
            self.act()
        return results


def interrupt(service: Service, act: Callable[[], object]) -> None:
    service.worker._auditor = Interrupted(service.worker._auditor, act)


@pytest.mark.slow
def test_a_ledger_down_for_an_hour_delays_audits_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(tmp_path, HOURLY) as place, chained(place, monkeypatch) as way:
        with place.service() as service:
            place.run(service, 2 * HOUR)
            before = len(place.audits())
            way.cut = True
            place.run(service, HOUR)
            assert len(place.audits()) == before
            (open_,) = place.alerts()
            assert (open_.kind, open_.ended) == (Kind.LEDGER, None)
            assert "can't be reached" in open_.detail
            way.cut = False
            place.run(service, 2 * HOUR)
        (alert,) = place.alerts()
        assert alert.ended is not None
        assert len(place.audits()) > before
        assert set(outcomes(place)) == {Outcome.PASSED}
        check_evidence(place)


@pytest.mark.slow
def test_a_reorganised_chain_gets_its_transactions_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(tmp_path, HOURLY) as place, chained(place, monkeypatch) as way:
        web3 = Web3(Node(way.url))
        with place.service() as service:
            place.run(service, HOUR)
            before = request(web3, "evm_snapshot")
            place.run(service, HOUR)
            assert len(place.audits()) >= 1
            request(web3, "evm_revert", before)
            request(web3, "evm_mine")
            place.run(service, 2 * HOUR)
            ledger = service.fleet.any_ledger()
            assert ledger is not None
            events = [event for receipt in ledger.receipts() for event in receipt.events]
        assert [alert.kind for alert in place.alerts()] == [Kind.CHAIN]
        names = [each.opening.name for each in place.audits()]
        assert [each.challenge for each in events if isinstance(each, Opened)] == names
        assert [each.challenge for each in events if isinstance(each, Passed)] == names
        check_evidence(place)


@pytest.mark.slow(seconds=20)
def test_a_node_that_is_down_is_told_of_once_and_again_when_it_is_back(place: Site) -> None:
    with listening() as receiver:
        place.settings = replace(
            place.settings, alerts=AlertSettings(webhook=_address(receiver), overdue=24 * HOUR)
        )
        with place.service() as service:
            place.run(service, 2 * HOUR)
            port = place.stop_node()
            place.run(service, 8 * HOUR)
            place.start_node(port)
            place.run(service, 3 * HOUR)
    assert [body["state"] for body in receiver.bodies] == ["raised", "ended"]
    (alert,) = place.alerts()
    assert (alert.kind, alert.subject) == (Kind.NODE, f"0x{place.node.address.hex()}")
    story = outcomes(place)
    assert story[0] == story[-1] == Outcome.PASSED
    assert story.count(Outcome.OFFLINE) >= 2
    assert set(story) == {Outcome.PASSED, Outcome.OFFLINE}
    check_evidence(place)


def _address(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.server_port}/hook"


@pytest.mark.slow
def test_a_database_server_that_stops_under_work_is_waited_for(
    tmp_path: Path, postgres: Server
) -> None:
    with (
        parts.database(postgres, "stopped") as address,
        site(tmp_path, replace(HOURLY, database=f"{address}&schema=public")) as place,
    ):
        place.holding("one", CONTENT)
        with place.service() as service:
            place.run(service, 2 * HOUR)
            before = len(place.audits())
            interrupt(service, postgres.stop)
            try:
                place.run(service, 3 * HOUR)
            finally:
                postgres.start()
            assert len(place.audits()) == before
            place.run(service, 3 * HOUR)
        assert [alert.kind for alert in place.alerts()] == [Kind.DATABASE]
        assert len(place.audits()) >= before + 2
        assert set(outcomes(place)) == {Outcome.PASSED}
        check_evidence(place)
        check_ledger(place)


def check_ledger(place: Site) -> None:
    """Each challenge was opened once and passed once."""
    with place.home.ledger(SECTORS) as ledger:
        events = [event for receipt in ledger.receipts() for event in receipt.events]
    names = [each.opening.name for each in place.audits()]
    assert [each.challenge for each in events if isinstance(each, Opened)] == names
    assert [each.challenge for each in events if isinstance(each, Passed)] == names


@pytest.mark.slow
def test_a_database_file_that_someone_locks_is_waited_for(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.settings.address(place.home.folder)
    with place.service() as service:
        place.run(service, 2 * HOUR)
        before = len(place.audits())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:

            def lock() -> None:
                other.execute("BEGIN IMMEDIATE")
                for name in ("NOTICE_SECONDS", "LOCK_TIMEOUT_SECONDS"):
                    monkeypatch.setattr(database, name, 0)  # nobody gets it by waiting

            interrupt(service, lock)
            place.run(service, 3 * HOUR)
        monkeypatch.undo()
        assert len(place.audits()) == before
        place.run(service, 3 * HOUR)
    assert [alert.kind for alert in place.alerts()] == [Kind.DATABASE]
    assert set(outcomes(place)) == {Outcome.PASSED}
    assert len(place.audits()) >= before + 2
    check_evidence(place)
    check_ledger(place)


@pytest.mark.slow
@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize("at", ["rest", "work"])
def test_a_clock_set_by_an_hour_is_told_and_upsets_nothing(step: int, at: str, place: Site) -> None:
    def set_clock() -> None:
        place.times.ahead += step

    with place.service() as service:
        place.run(service, 2 * HOUR)
        before = len(place.audits())
        if at == "rest":
            set_clock()
        else:
            interrupt(service, set_clock)
        place.run(service, 5 * HOUR)
    (alert,) = place.alerts()
    assert alert.kind == Kind.CLOCK
    assert alert.detail == f"it was set {'forward' if step > 0 else 'back'} by 3600 seconds"
    assert alert.ended is not None
    assert len(place.audits()) >= before + 3
    assert set(outcomes(place)) == {Outcome.PASSED}
    check_evidence(place)
    check_ledger(place)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a disk of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    done = subprocess.run(["mount", *options], check=False, capture_output=True)  # noqa: S607
    if done.returncode:
        parts.skip("small disk", "run the tests as root, who may mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            return


@pytest.mark.slow
@pytest.mark.parametrize("at", ["rest", "work"])
def test_a_full_disk_is_waited_for(at: str, small_disk: Path) -> None:
    with site(small_disk, HOURLY) as place:
        place.holding("one", CONTENT)
        filler = small_disk / "filler"
        with place.service() as service:
            place.run(service, 2 * HOUR)
            before = len(place.audits())
            if at == "rest":
                fill(filler)
            else:
                interrupt(service, lambda: fill(filler))
            place.run(service, 4 * HOUR)
            filler.unlink()
            during = len(place.audits())
            place.run(service, 3 * HOUR)
        assert [alert.kind for alert in place.alerts()] == [Kind.DISK]
        assert len(place.audits()) >= during + 2
        assert during < before + 4
        assert set(outcomes(place)) == {Outcome.PASSED}
        check_evidence(place)
        check_ledger(place)


@pytest.mark.slow
def test_settings_that_became_unusable_are_told_before_the_next_start_fails(place: Site) -> None:
    path = place.home.folder / "holdfast.toml"
    with place.service() as service:
        place.run(service, HOUR)
        path.write_text('[control]\npolicy = "no such policy"\n')
        place.run(service, HOUR)
        path.unlink()
        place.run(service, HOUR)
    (alert,) = place.alerts()
    assert (alert.kind, alert.subject) == (Kind.SETTINGS, "holdfast.toml")
    assert "no such policy" in alert.detail
    assert alert.ended is not None


@pytest.mark.slow
def test_a_start_with_a_policy_that_cannot_be_served_is_told(place: Site) -> None:
    place.settings = replace(place.settings, policy="no such policy")
    with pytest.raises(InputError, match="no such policy"), place.service():
        pass
    assert [alert.kind for alert in place.alerts()] == [Kind.SETTINGS]
    place.settings = replace(place.settings, policy="heuristic")
    with place.service() as service:
        place.run(service, HOUR)
    assert [alert.ended is None for alert in place.alerts()] == [False]


@pytest.mark.slow
def test_audits_that_are_late_are_told_until_they_are_caught_up_with(place: Site) -> None:
    place.holding("two", CONTENT)
    place.holding("three", CONTENT)
    place.settings = replace(place.settings, pace=Pace(batch=1))
    with place.service() as service:
        place.run(service, 2 * HOUR)
        place.times.now += 5 * HOUR
        place.run(service, 2 * HOUR)
    (alert,) = place.alerts()
    assert alert.kind == Kind.OVERDUE
    assert alert.detail.startswith("2 audits are overdue, the first by ")
    assert alert.ended is not None


@pytest.mark.slow
def test_anything_else_that_stops_the_work_is_told_until_it_goes_on(place: Site) -> None:
    key = place.home.folder / "owner.key"
    with place.service() as service:
        place.run(service, 2 * HOUR)
        before = len(place.audits())
        key.rename(place.folder / "elsewhere")
        place.run(service, 2 * HOUR)
        assert len(place.audits()) == before
        (place.folder / "elsewhere").rename(key)
        place.run(service, 2 * HOUR)
    (alert,) = place.alerts()
    assert alert.kind == Kind.STANDSTILL
    assert "is no owner's home" in alert.detail
    assert alert.ended is not None
    assert len(place.audits()) > before
    check_evidence(place)
