"""A log that was cut, exchanged or put back is named before it is verified leaf by leaf."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, insert, update
from tests.doctor.checks import faults
from tests.support.command_line import Workplace
from tests.support.owner_env import PASSPHRASE, SECTORS, World, flip

from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.evidence.signer import begin_anew, current_signer, evidence_signer
from holdfast.doctor.examination import examine
from holdfast.evidence import leaf
from holdfast.evidence.tree import Frontier, leaf_hash
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import checkpoints, leaves, trees


@dataclass(frozen=True)
class Written:
    """A home whose log has a leaf, and its head on the ledger."""

    world: World
    engine: Engine
    sequencer: Sequencer

    @property
    def folder(self) -> Path:
        return self.world.home.folder

    def grow(self) -> None:
        change = leaf.ConfigurationChange(at=1, hash=bytes(32), settings=(), by="a test")
        with transaction(self.engine) as connection:
            connection.execute(insert(leaves), [{"body": leaf.encode(change)}])
        assert self.sequencer.sequence() == 1

    def anchor(self) -> None:
        with self.world.home.ledger(SECTORS) as ledger:
            assert self.sequencer.anchor(ledger) is not None

    def fault(self) -> str:
        (fault,) = faults(examine(self.folder, PASSPHRASE))
        assert fault.part == "evidence"
        assert fault.cure
        return fault.found


@pytest.fixture
def written(world: World) -> Iterator[Written]:
    engine = connect(str(world.home.folder / "holdfast.db"))
    migrate(engine)
    signer = current_signer(world.home.keyring, engine)
    (world.home.folder / VERIFIER).write_text(f"{signer.verifier}\n")
    written = Written(world, engine, Sequencer(engine, signer, lambda: 1))
    written.grow()
    written.anchor()
    yield written
    engine.dispose()


def test_a_log_in_order_is_told_with_its_size(written: Written, desk: Workplace) -> None:
    finished = desk.run("doctor", "--json")
    assert finished.code == 0, finished
    (check,) = [check for check in finished.data["checks"] if check["part"] == "evidence"]
    assert check["found"].startswith("1 leaves, the last head signed by holdfast/")
    written.grow()
    assert faults(examine(written.folder, PASSPHRASE)) == []


def test_a_key_that_is_not_the_logs_is_named(written: Written) -> None:
    other = evidence_signer(written.world.home.keyring, "other").verifier
    (written.folder / VERIFIER).write_text(f"{other}\n")
    assert "is not the key by which the log is signed" in written.fault()


@pytest.mark.parametrize(
    "spoil",
    [lambda note: note.replace(b"\n1\n", b"\n2\n"), lambda note: note[:-2], lambda _note: b""],
)
def test_a_head_that_was_changed_is_named(
    written: Written, spoil: Callable[[bytes], bytes]
) -> None:
    with transaction(written.engine) as connection:
        note = bytes(connection.execute(checkpoints.select()).all()[-1].note)
        connection.execute(update(checkpoints).values(note=spoil(note)))
    assert "the last head" in written.fault()


def test_a_tree_that_the_head_does_not_tell_of_is_named(written: Written) -> None:
    longer = Frontier().append(bytes(32)).append(bytes(32))
    with transaction(written.engine) as connection:
        connection.execute(update(trees).values(size=2, frontier=longer.encode()))
    assert written.fault() == "the last head says 1 leaves, and the tree of 2 differs"


def test_a_log_that_is_behind_its_own_anchor_is_named_until_it_begins_anew(
    written: Written,
) -> None:
    written.engine.dispose()
    shutil.copy(written.folder / "holdfast.db", written.folder / "old")
    written.grow()
    written.anchor()
    written.engine.dispose()
    (written.folder / "old").replace(written.folder / "holdfast.db")
    assert written.fault() == "the ledger has an anchor of 2 leaves, and the log only 1"
    keyring = written.world.home.keyring
    after = begin_anew(written.engine, keyring, bytes(32), written.folder, 2)
    (written.folder / VERIFIER).write_text(f"{after.verifier}\n")
    assert faults(examine(written.folder, PASSPHRASE)) == []


def test_a_log_cut_back_to_before_its_first_anchor_is_named(written: Written) -> None:
    """Before: without an anchored head in the log, the ledger was not read."""
    written.grow()
    with transaction(written.engine) as connection:
        connection.execute(delete(checkpoints).where(checkpoints.c.anchored))
    written.anchor()
    with transaction(written.engine) as connection:
        connection.execute(delete(checkpoints).where(checkpoints.c.size > 1))
        connection.execute(delete(checkpoints).where(checkpoints.c.anchored))
        body = bytes(connection.execute(leaves.select()).all()[0].body)
        tree = Frontier().append(leaf_hash(body))
        connection.execute(update(trees).values(size=1, frontier=tree.encode()))
    assert written.fault() == "the ledger has an anchor of 2 leaves, and the log only 1"


def test_a_spoilt_database_is_named(written: Written) -> None:
    written.engine.dispose()
    flip(written.folder / "holdfast.db", 0)
    assert any(check.part == "database" for check in faults(examine(written.folder, PASSPHRASE)))
