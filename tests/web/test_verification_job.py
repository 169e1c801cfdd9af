"""The dashboard's verification checks anchors on the home's own ledger, as the command does."""

import os
import shutil
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_service import Site, site

from holdfast.durations import DAY
from holdfast.web.api.verification_job import check


def report(place: Site) -> Any:
    """Return what the job sends at its end."""
    receiver, sender = Pipe(duplex=False)
    folder = place.home.folder
    check(sender, place.settings.address(folder), folder)
    sender.close()
    words = []
    while receiver.poll():
        try:
            words.append(receiver.recv())
        except EOFError:
            break
    assert words[-1][0] == "report", words
    return words[-1][1]


def step(place: Site) -> None:
    with place.service() as service:
        service.step()


@pytest.mark.slow
def test_the_anchors_of_a_home_are_checked_and_a_log_put_back_is_found(tmp_path: Path) -> None:
    """Before: the report counted anchors, and a database that was put back was fine."""
    with site(tmp_path) as place:
        place.holding("attic", os.urandom(3000))
        step(place)
        database = place.home.folder / "holdfast.db"
        shutil.copy(database, tmp_path / "old.db")
        place.times.now += 20 * DAY  # an audit is due
        step(place)
        facts = report(place)
        assert facts["fine"]
        assert facts["anchors"] == facts["anchors_checked"] == 2
        assert (facts["anchors_unchecked"], facts["ledger_error"]) == ((), None)

        shutil.copy(tmp_path / "old.db", database)
        facts = report(place)
        assert not facts["fine"]
        assert [finding["fault"] for finding in facts["findings"]] == ["root"]

        (ledger,) = place.home.folder.glob("ledger-*.db")
        ledger.write_bytes(b"noise" * 999)
        facts = report(place)
        assert facts["fine"]
        assert (facts["anchors"], facts["anchors_checked"]) == (1, 0)
        assert "can't be read as a ledger" in facts["ledger_error"]
