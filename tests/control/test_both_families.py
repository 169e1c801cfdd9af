"""Nodes that prove and storage that is checked, audited by one service."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import scripted_checker
from tests.support.checked_site import RAILS, CheckedSite
from tests.support.live_service import Site, site

from holdfast.control.audits.types import CheckDetail
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import ConflictError, InputError
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.owner import add_holding

CONTENT = random.Random(3).randbytes(20_000)
pytestmark = pytest.mark.slow


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted_checker.install(monkeypatch)


def beside(place: Site) -> CheckedSite:
    return CheckedSite(place.folder, place.home, place.settings, place.times)


@pytest.mark.usefixtures("script")
def test_proofs_and_checks_share_a_worker_and_a_log(tmp_path: Path) -> None:
    settings = ControlSettings(policy="constant:1,0.10", rails=RAILS)
    with site(tmp_path, settings) as place:
        checked = beside(place)
        place.holding("attic", CONTENT)
        checked.add("bucket")
        with checked.service() as service:
            results = checked.run(service, 4)
            service.anchor(checked.times.wall())
        assert {result.outcome for result in results} == {Outcome.PASSED}
        kinds = {result.name: isinstance(result.detail, CheckDetail) for result in results}
        assert kinds == {"attic": False, "bucket": True}
        report = checked.verified()
        assert (report.findings, report.audits, report.checks) == ((), 2, 2)


@pytest.mark.usefixtures("script")
def test_the_price_of_gas_holds_up_proofs_and_no_check(tmp_path: Path) -> None:
    rails = replace(RAILS, gas_price_cap=1)
    settings = ControlSettings(policy="constant:1,0.10", rails=rails)
    with site(tmp_path, settings) as place:
        checked = beside(place)
        place.holding("attic", CONTENT)
        checked.add("bucket")
        with checked.service() as service, pytest.MonkeyPatch.context() as patch:
            patch.setattr("holdfast.control.audits.open_holdings.HomeFleet.gas_price", lambda _: 9)
            results = checked.run(service, 1)
        assert [result.name for result in results] == ["bucket"]


@pytest.mark.usefixtures("script")
def test_a_name_belongs_to_one_holding_of_either_family(tmp_path: Path) -> None:
    with site(tmp_path) as place:
        checked = beside(place)
        place.holding("attic", CONTENT)
        checked.add("bucket")
        with pytest.raises(ConflictError, match="there is a holding 'attic' already"):
            checked.add("attic")
        with pytest.raises(ConflictError, match="there is a holding 'bucket' already"):
            add_holding(place.home, "bucket", place.node.url, sectors=4, encrypted=False)
        with place.home.catalogue() as catalogue, pytest.raises(InputError) as refused:
            catalogue.holding("bucket")
        assert str(refused.value) == (
            "holding 'bucket' is on no node: the auditor 'scripted' checks it at script://bucket"
        )


def test_a_home_of_checked_storage_alone_has_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_checker.install(monkeypatch)
    with site(tmp_path) as place:
        checked = beside(place)
        script = checked.add("bucket")
        with checked.service() as service:
            checked.run(service)
            service.check_health(checked.times.wall())
            service.anchor(checked.times.wall())
        assert len(script.samples) == 1
        assert not [entry for entry in checked.leaves() if isinstance(entry, leaf.Registration)]
