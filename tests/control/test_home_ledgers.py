"""A home's own ledgers are known without its passphrase, from its first registration on."""

from pathlib import Path

import pytest
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.control.evidence.anchors import first_block, home_ledgers
from holdfast.control.evidence.leaves import last_leaf, record_leaf
from holdfast.errors import InputError, StorageError
from holdfast.evidence.leaf import Instruction, Order
from holdfast.ledger.local import LocalLedger
from holdfast.owner import Home
from holdfast.owner.catalogue import HoldingRecord, RegistrationRecord
from holdfast.storage.database import migrate, open_engine, transaction


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.create(tmp_path / "home", PASSPHRASE, QUICK)


def add_holding(home: Home, name: str, block: int | None) -> None:
    with home.catalogue() as catalogue:
        catalogue.add_holding(
            HoldingRecord(name, "http://node", b"n" * 20, None, b"s" * 16, 2, encrypted=False)
        )
        if block is not None:
            catalogue.record_registration(name, RegistrationRecord(b"t" * 32, block, 100))


def test_a_new_home_has_no_ledger(home: Home) -> None:
    assert home_ledgers(home.folder) == []


def test_a_ledger_in_a_file_is_read_for_the_home_s_own_address(home: Home) -> None:
    with home.ledger(2) as ledger:
        receipt = ledger.anchor(b"r" * 32, 7)
        assert isinstance(ledger, LocalLedger)
    (chain,) = home_ledgers(home.folder)
    assert [(anchor.transaction, anchor.size) for anchor in chain.anchors] == [
        (receipt.transaction, 7)
    ]
    (home.folder / "owner.pub").unlink()
    with pytest.raises(InputError, match="does not say which address anchors its evidence"):
        home_ledgers(home.folder)


def test_a_chain_is_read_from_the_first_registration_if_all_are_known(home: Home) -> None:
    add_holding(home, "near", 90)
    add_holding(home, "far", 70)
    assert first_block(home.folder) == 70
    add_holding(home, "unknown", None)
    assert first_block(home.folder) == 0


def test_evidence_that_lacks_a_holding_s_leaf_or_has_a_wrong_one_is_an_error(
    tmp_path: Path,
) -> None:
    with open_engine(str(tmp_path / "holdfast.db")) as engine:
        migrate(engine)
        with transaction(engine) as connection:
            with pytest.raises(StorageError, match="no leaf of a holding that was audited"):
                last_leaf(connection, 1)
            record_leaf(connection, Instruction(0, Order.RELEASE, "far", "ada", ""), 1)
            with pytest.raises(StorageError, match="none of its own"):
                last_leaf(connection, 1)
