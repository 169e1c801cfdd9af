"""Settings and holdings that are new to the control plane leave one leaf, and secrets none."""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.support.command_line import QuickShell, Workplace
from tests.support.database import run_sql
from tests.support.live_service import Site
from tests.support.live_service import site as opened_site
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.starting_workers import ROUNDS, meet

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import open_service
from holdfast.control.settings.configuration import operator, record_configuration
from holdfast.control.settings.models import AlertSettings, ControlSettings, read_control
from holdfast.control.settings.show import recorded_settings
from holdfast.durations import DAY
from holdfast.evidence.explain import explain
from holdfast.evidence.leaf import ConfigurationChange, Leaf, Registration, Setting, decode
from holdfast.owner import Home
from holdfast.owner.settings import read_settings
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import configurations, leaves

STRICT = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
LOOSE = replace(STRICT, longest=60, sample_cap=10)
WORKERS = 4


def told(engine: Engine) -> list[Leaf]:
    with transaction(engine) as connection:
        rows = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
        return [decode(bytes(body)) for body in rows]


def changes(engine: Engine) -> list[ConfigurationChange]:
    return [leaf for leaf in told(engine) if isinstance(leaf, ConfigurationChange)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with opened_site(tmp_path, ControlSettings(rails=STRICT)) as place:
        place.holding("attic", os.urandom(3000))
        yield place


@contextmanager
def database(place: Site) -> Iterator[Engine]:
    engine = connect(place.settings.address(place.home.folder))
    yield engine
    engine.dispose()


def start(place: Site, rails: Rails) -> None:
    """Start the control plane with these rails, and do what is due."""
    place.settings = replace(place.settings, rails=rails)
    with place.service() as service:
        service.step()


@pytest.mark.slow
def test_loosened_rails_leave_one_leaf_with_the_old_and_the_new_values(place: Site) -> None:
    """Before: no leaf at all; only a restore wrote one."""
    start(place, STRICT)
    start(place, STRICT)
    with database(place) as engine:
        (first,) = changes(engine)
        start(place, LOOSE)
        start(place, LOOSE)
        _, loosened = changes(engine)
    before = {setting.name: setting for setting in first.settings}
    assert before["control.rails.longest"] == Setting("control.rails.longest", None, "14")
    assert all(setting.before is None for setting in first.settings)
    assert loosened.settings == (
        Setting("control.rails.longest", "14", "60"),
        Setting("control.rails.sample_cap", str(STRICT.sample_cap), "10"),
    )
    assert loosened.by == operator()
    assert loosened.hash != first.hash
    assert explain(loosened)[1] == "control.rails.longest was 14, is 60."
    assert place.verified().findings == ()


@pytest.mark.slow
def test_settings_that_go_back_leave_a_leaf_of_their_own(place: Site) -> None:
    for rails in (STRICT, LOOSE, STRICT):
        start(place, rails)
    with database(place) as engine:
        first, _, last = changes(engine)
    assert last.hash == first.hash
    assert last.settings[0] == Setting("control.rails.longest", "60", "14")


@pytest.mark.slow
def test_a_holding_is_registered_in_the_evidence_once_before_its_first_audit(place: Site) -> None:
    """Before: no registration was ever written."""
    start(place, STRICT)
    place.times.now += 20 * DAY  # an audit is due
    start(place, STRICT)
    with database(place) as engine:
        (registration,) = [leaf for leaf in told(engine) if isinstance(leaf, Registration)]
    with place.home.ledger(4) as ledger, place.home.holding("attic") as holding:
        (receipt, *_) = ledger.receipts()
        named, domain = registration.holding, ledger.domain
        assert (named.chain, named.contract) == (domain.chain, domain.contract)
        assert (named.id, named.node) == (receipt.events[0].holding, place.node.address)  # type: ignore[union-attr] # a registration
        assert (named.key, registration.sectors) == (holding.key_id, 4)
    assert registration.transaction is not None
    assert registration.transaction.hash == receipt.transaction
    report = place.verified()
    assert report.findings == ()
    assert report.audits >= 1
    words = explain(registration)
    assert "registered, with 4 sectors a block" in words[0]
    assert words[1].endswith(f"on local ledger 0x{domain.contract.hex()}.")


@pytest.mark.slow
def test_a_registration_whose_transaction_a_crash_has_lost_is_recorded_without_it(
    place: Site,
) -> None:
    run_sql(place.home.address, "DELETE FROM registrations")
    start(place, STRICT)
    with database(place) as engine:
        (registration,) = [leaf for leaf in told(engine) if isinstance(leaf, Registration)]
    assert registration.transaction is None
    assert "does not know the transaction" in explain(registration)[2]
    assert place.verified().findings == ()


@pytest.mark.slow
def test_of_workers_that_start_at_once_one_writes_the_leaf(engine: Engine, address: str) -> None:
    context = get_context("spawn")
    barrier = context.Barrier(WORKERS)
    team = [
        context.Process(target=meet, args=(address, barrier, number)) for number in range(WORKERS)
    ]
    for process in team:
        process.start()
    for process in team:
        process.join(120)
    assert [process.exitcode for process in team] == [0] * WORKERS
    found = changes(engine)
    assert [change.settings[-1].after for change in found] == [str(k) for k in range(ROUNDS)]
    assert [len(change.settings) for change in found] == [2, 1, 1, 1, 1]
    with transaction(engine) as connection:
        assert connection.execute(select(configurations.c.id)).scalars().all() == [1, 2, 3, 4, 5]


@pytest.mark.slow(seconds=10)
def test_four_workers_of_one_start_leave_one_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    monkeypatch.setenv("HOLDFAST_HOME", str(home.folder))
    port, path = free_ports(WORKERS), home.folder / "holdfast.toml"
    text = f'[control.web]\nlisten = "off"\n[control.metrics]\nlisten = "127.0.0.1:{port}"\n'
    path.write_text(text)
    with open_service(home, read_control(home.folder)):
        pass
    path.write_text(f"{text}[control.rails]\nlongest = 60\n")
    with QuickShell(tmp_path).start("serve", "--workers", str(WORKERS)) as process:
        for number in range(WORKERS):  # a worker serves its figures after it has read the settings
            wait_until_listening(port + number)
        process.terminate()
        process.communicate(timeout=60)
    engine = connect(str(home.folder / "holdfast.db"))
    first, second = changes(engine)
    engine.dispose()
    assert len(first.settings) > 30
    assert second.settings == (Setting("control.rails.longest", "14", "60"),)


def free_ports(count: int) -> int:
    """Return the first of so many neighbouring ports that nobody listens on."""
    for first in range(20_000, 60_000, 97):
        if not any(listens(first + number) for number in range(count)):
            return first
    raise AssertionError("there are no free ports")


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_until_listening(port: int) -> None:
    for _ in range(600):
        if listens(port):
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port}")


SECRETS = """
[home]
database = "postgresql://me:hunter2@db.example/holdfast?password=hunter3"
[ledger]
kind = "evm"
url = "https://user:hunter4@rpc.example/v3/hunter5?key=hunter6"
contract = "abababababababababababababababababababab"
keystore = "account.json"
passphrase_file = "passphrase"
[control.alerts]
webhook = "https://hooks.example/services/hunter7"
"""


@pytest.mark.slow
def test_no_secret_is_in_the_leaf_and_its_change_is(engine: Engine, tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    (home.folder / "passphrase").write_text("hunter8")
    path, key = home.folder / "holdfast.toml", home.keyring.settings_key()
    for text in (SECRETS, SECRETS.replace("hunter", "coyote")):
        path.write_text(text)
        settings, control = read_settings(home.folder), read_control(home.folder)
        values = recorded_settings(home.folder, settings, control, key)
        assert record_configuration(engine, values, Author("me", 1))
        assert not record_configuration(engine, values, Author("me", 2))
    with transaction(engine) as connection:
        bodies = b"".join(map(bytes, connection.execute(select(leaves.c.body)).scalars()))
        rows = "".join(connection.execute(select(configurations.c.document)).scalars())
    for secret in ("hunter", "coyote", str(tmp_path), key.hex()):
        assert secret.encode() not in bodies
        assert secret not in rows
    first, second = changes(engine)
    shown = {setting.name: setting.after for setting in first.settings}
    assert shown["ledger.keystore"] == "account.json"
    assert (shown["ledger.url"] or "").startswith("https://rpc.example, digest ")
    assert {setting.name for setting in second.settings} == {
        "home.database",
        "ledger.url",
        "control.alerts.webhook",
    }


@pytest.mark.slow
def test_a_value_too_long_for_a_leaf_is_cut_and_bound_by_its_hash(engine: Engine) -> None:
    for end in ("a", "b"):
        assert record_configuration(engine, {"hosts": "x" * 600 + end}, Author("me", 1))
    _, second = changes(engine)
    (setting,) = second.settings
    assert setting.before is not None
    assert setting.after is not None
    assert setting.before != setting.after
    assert len(setting.after) == 500


@pytest.mark.slow
def test_a_home_is_verified_on_its_own_ledger(
    place: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before: a database that was put back behind its anchors was fine."""
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    folder, desk = place.home.folder, Workplace(place.folder, capsys)
    start(place, STRICT)
    key = (folder / "evidence.pub").read_text().strip()
    line = ("evidence", "verify", str(folder), "--key", key)
    fine = desk.run(*line)
    assert fine.code == 0, fine
    assert fine.stdout.endswith("1 anchor, checked on the ledger\n")
    assert desk.run("evidence", "key", "--home", folder, "--json").data == {
        "key": key,
        "owner": f"0x{place.home.keyring.sender.hex()}",
    }

    shutil.copy(folder / "holdfast.db", place.folder / "old.db")
    place.times.now += 20 * DAY
    start(place, LOOSE)
    assert desk.run(*line).code == 0
    shutil.copy(place.folder / "old.db", folder / "holdfast.db")
    for beside in ("holdfast.db-wal", "holdfast.db-shm"):
        (folder / beside).unlink(missing_ok=True)
    cut = desk.run(*line, "--json")
    assert cut.code == 1
    assert [finding["fault"] for finding in cut.data["findings"]] == ["root"]
    offline = desk.run(*line, "--offline")
    assert offline.code == 0
    assert offline.stdout.endswith("1 anchor claimed, not checked\n")


def test_the_settings_of_the_alerts_are_recorded_as_they_are(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    key = home.keyring.settings_key()
    plain = recorded_settings(home.folder, home.settings, ControlSettings(), key)
    assert plain["control.alerts.webhook"] is None
    assert json.loads(plain["control.rails.fail_safe"] or "") == [1, 0.1]
    hooked = ControlSettings(alerts=AlertSettings(webhook="https://h.example/x"))
    shown = recorded_settings(home.folder, home.settings, hooked, key)["control.alerts.webhook"]
    assert (shown or "").startswith("(set, not shown), digest ")
    assert plain["ledger.account"] == f"0x{home.keyring.sender.hex()}"
