"""The catalogue: names of any bytes, and an inventory that is always the node's."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InputError, StorageError
from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord, Intent
from holdfast.pdp import Inventory

Fresh = Callable[[], AbstractContextManager[Catalogue]]

HOLDING = HoldingRecord("attic", "http://node", b"\1" * 20, None, b"\2" * 16, 2, encrypted=True)
KEY_ID = b"\3" * 32


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return what opens a catalogue with one empty holding, once of each kind."""
    if request.param == "postgres":
        addresses = request.getfixturevalue("addresses")
        return lambda: filled(next(addresses))
    return lambda: filled(str(tmp_path_factory.mktemp("home") / "holdfast.db"))


@contextmanager
def filled(address: str) -> Iterator[Catalogue]:
    with closing(Catalogue.open(address)) as catalogue:
        catalogue.add_holding(HOLDING)
        yield catalogue


def record(name: str, version: int = 1, length: int = 100) -> FileRecord:
    file_id, nonce = os.fsencode(name)[:16].ljust(16, b"\0"), bytes([version]) * 32
    source = f"/folder/{name}"
    return FileRecord(name, source, file_id, version, nonce, length, b"\4" * 32, b"\5" * 32)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=50))
def test_a_name_of_any_bytes_is_found_again(fresh: Fresh, name: bytes) -> None:
    with fresh() as catalogue:
        file = record(os.fsdecode(name))
        intent = Intent(file, upload=b"\5" * 32)
        catalogue.intend("attic", intent)
        assert catalogue.intents("attic") == [intent]
        catalogue.conclude("attic", intent)
        assert catalogue.file("attic", os.fsdecode(name)) == file
        assert catalogue.files("cellar") == []


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=12))
def test_the_inventory_is_what_the_steps_make_of_it(
    fresh: Fresh, steps: list[tuple[str, bool]]
) -> None:
    """The node applies the same steps to its own inventory: the two must never differ."""
    with fresh() as catalogue:
        inventory = Inventory(KEY_ID, 2)
        for number, (name, removes) in enumerate(steps, start=1):
            held = catalogue.file("attic", name)
            if removes and held is None:
                continue
            intent = Intent(held if removes and held else record(name, number), removes)
            inventory = intent.after(inventory)
            catalogue.intend("attic", intent)
            catalogue.conclude("attic", intent)
            catalogue.conclude("attic", intent)  # as two commands may that find it done
            assert catalogue.inventory("attic", KEY_ID, 2) == inventory
            assert catalogue.intents("attic") == []


def test_what_is_concluded_late_does_not_undo_what_came_after(fresh: Fresh) -> None:
    with fresh() as catalogue:
        first, second = Intent(record("file", 1)), Intent(record("file", 2))
        catalogue.conclude("attic", first)
        catalogue.intend("attic", second)
        catalogue.conclude("attic", first)
        assert catalogue.intents("attic") == [second]
        catalogue.conclude("attic", second)
        catalogue.conclude("attic", first)
        assert catalogue.file("attic", "file") == second.file


def test_a_holding_is_found_by_its_name(fresh: Fresh) -> None:
    with fresh() as catalogue:
        catalogue.add_holding(HOLDING)
        assert catalogue.holdings() == [HOLDING]
        catalogue.number_holding("attic", 7)
        assert catalogue.holding("attic").number == 7
        with pytest.raises(InputError, match="there is no holding 'cellar'"):
            catalogue.holding("cellar")


@pytest.mark.slow
def test_every_change_of_its_files_gives_a_holding_another_revision(fresh: Fresh) -> None:
    with fresh() as catalogue:
        revisions = [catalogue.holding("attic").revision]
        for file in (record("a"), record("a", version=2), record("b")):
            catalogue.intend("attic", Intent(file))
            assert catalogue.holding("attic").revision == revisions[-1], "it is only intended"
            catalogue.conclude("attic", Intent(file))
            revisions.append(catalogue.holding("attic").revision)
        assert revisions == sorted(set(revisions))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").write_bytes(b"something else" * 100)
    with pytest.raises(StorageError, match="the database can't be used"):
        Catalogue.open(str(tmp_path / "holdfast.db"))
