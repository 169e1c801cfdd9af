"""Every anchor is held against its ledger, and every anchor on the ledger against the log.

The owner holds the log's key, so a signature shows nothing against the owner: each log here is
signed as it should be.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger_env import NODE_ADDRESS, World, anvil, anvil_world, evm_world, local_world
from tests.support.memory_holding import Holding as Store
from tests.support.sample_log import MINUTE, SIGNER, START, Record, sample

from holdfast.errors import InputError
from holdfast.evidence.anchors import OnChain, only_owner
from holdfast.evidence.bundle import Bundle
from holdfast.evidence.checkpoint import Anchor
from holdfast.evidence.finding import Fault
from holdfast.evidence.leaf import (
    LOG_SETTING,
    ConfigurationChange,
    Holding,
    Registration,
    Setting,
    Transaction,
)
from holdfast.evidence.verification import Report, UncheckedAnchors, verify
from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.interface import Domain, Receipt, Registered
from holdfast.ledger.reader import ChainReader, FileReader, LedgerReader

SIZE = len(sample().entries_)
MAINNET = Domain(1, b"\xbe" * 20)


@dataclass(frozen=True)
class Site:
    """A ledger with an owner and a stranger, and how somebody else reads it."""

    world: World
    reader: Callable[[], LedgerReader]

    def chain(self, since: int = 0) -> OnChain:
        return OnChain(self.reader(), self.world.owner.sender, since)

    def anchored(self) -> Record:
        """Return the sample with its last head on this ledger."""
        record = sample()
        del record.notes[2:]
        record.sign()
        self.anchor(record)
        return record

    def anchor(self, record: Record) -> Receipt:
        head = record.head()
        receipt = self.world.owner.anchor(head.root, head.size)
        record.sign(self.claim(receipt))
        return receipt

    def claim(self, receipt: Receipt) -> Anchor:
        return Anchor(self.world.owner.domain, receipt.transaction, receipt.block)


def reader_of(world: World) -> LedgerReader:
    assert isinstance(world.owner, EvmLedger)
    return ChainReader(world.owner._web3, world.owner.domain.contract)


@pytest.fixture(params=["local", "evm", "anvil"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "local":
        yield Site(local_world(tmp_path), lambda: FileReader(tmp_path / "ledger"))
    elif request.param == "evm":
        world = evm_world(tmp_path)
        yield Site(world, lambda: reader_of(world))
    else:
        with anvil() as url:
            world = anvil_world(url, tmp_path)
            contract = world.owner.domain.contract
            yield Site(world, lambda: ChainReader.connect(url, contract))


@pytest.fixture
def local(tmp_path: Path) -> Site:
    return Site(local_world(tmp_path), lambda: FileReader(tmp_path / "ledger"))


def checked(record: Record, *chains: OnChain, **options: Any) -> Report:
    return verify(record, SIGNER.verifier, chains=chains, **options)


def findings_of(report: Report) -> list[tuple[Fault, str]]:
    return [(finding.fault, f"{finding.where}: {finding.what}") for finding in report.findings]


def test_a_log_with_all_its_anchors_on_the_ledger_is_fine(site: Site) -> None:
    record = site.anchored()
    report = checked(record, site.chain())
    assert findings_of(report) == []
    assert (report.anchors, report.anchors_checked, report.anchors_unchecked) == (1, 1, ())


def test_without_a_ledger_an_anchor_is_a_claim(local: Site) -> None:
    report = checked(local.anchored())
    assert report.fine
    domain = local.world.owner.domain
    claimed = UncheckedAnchors(domain.chain, f"0x{domain.contract.hex()}", 1)
    assert (report.anchors, report.anchors_checked, report.anchors_unchecked) == (1, 0, (claimed,))


def test_an_anchor_that_the_owner_invented_on_this_ledger_is_found(site: Site) -> None:
    """Before: the command looked at no ledger and called the log fine, with two anchors."""
    record = site.anchored()
    record.sign(Anchor(site.world.owner.domain, b"\x66" * 32, 1))
    ((fault, what),) = findings_of(checked(record, site.chain()))
    assert fault is Fault.MISSING
    assert what.startswith(f"checkpoint {len(record.notes)}: its anchor is not on ")


def test_an_anchor_that_the_owner_invented_on_mainnet_is_not_counted_as_checked(
    site: Site,
) -> None:
    """Before: "fine: 11 leaves with 6 audits, ... 5 signed heads, 2 of them anchored"."""
    record = site.anchored()
    record.sign(Anchor(MAINNET, b"\x66" * 32, 21_000_000))
    report = checked(record, site.chain())
    assert (report.anchors, report.anchors_checked) == (2, 1)
    assert report.anchors_unchecked == (UncheckedAnchors(1, "0x" + "be" * 20, 1),)
    where = f"checkpoint {len(record.notes)}: its anchor is not checked"
    assert findings_of(report) == [
        (Fault.UNCHECKED, f"{where}: it is on chain 1, contract 0x{'be' * 20}")
    ]


@pytest.mark.slow
def test_a_transaction_that_anchored_another_root_or_size_is_found(site: Site) -> None:
    record, world = site.anchored(), site.world
    head = record.head()
    for root, size in ((bytes(32), head.size), (head.root, head.size - 1)):
        lie = record.copy()
        lie.sign(site.claim(world.owner.anchor(root, size)))
        faults = {fault for fault, _ in findings_of(checked(lie, site.chain()))}
        assert faults == {Fault.MISSING, Fault.ROOT}  # the claim, and the anchor itself


def test_an_anchor_by_somebody_else_is_found(site: Site) -> None:
    record = site.anchored()
    head = record.head()
    record.sign(site.claim(site.world.stranger.anchor(head.root, head.size)))
    ((fault, what),) = findings_of(checked(record, site.chain()))
    assert fault is Fault.MISSING
    assert "its anchor is not on" in what


def test_anchors_of_others_say_nothing_about_the_log(site: Site) -> None:
    record = site.anchored()
    site.world.stranger.anchor(bytes(32), SIZE + 5)
    assert checked(record, site.chain()).fine


def test_a_log_that_is_cut_back_to_an_older_head_is_found(site: Site) -> None:
    """Before: "fine: 8 leaves with 3 audits, ... 3 signed heads, 1 of them anchored"."""
    record = site.anchored()
    cut = replace(record, entries_=record.entries_[:8], notes=record.notes[:2])
    assert checked(cut).fine  # one file doesn't show that it is the newest
    ((fault, what),) = findings_of(checked(cut, site.chain()))
    assert fault is Fault.ROOT
    assert what.endswith(f"it is of {SIZE} leaves, but the log has only 8")


def test_a_history_that_was_rewritten_and_signed_anew_is_found(site: Site) -> None:
    record = site.anchored()
    rewritten = Record(entries_=[*record.entries_], keys=record.keys)
    rewritten.entries_[2:3] = []
    rewritten.add(ConfigurationChange(START, bytes(32), (), "the owner"))
    rewritten.sign()
    ((fault, what),) = findings_of(checked(rewritten, site.chain()))
    assert fault is Fault.ROOT
    assert f"the first {SIZE} leaves have another root" in what


def test_an_anchor_before_the_first_block_that_is_read_is_not_counted_as_checked(
    local: Site,
) -> None:
    record = local.anchored()
    report = checked(record, local.chain(since=9))
    assert (report.anchors_checked, len(report.anchors_unchecked)) == (0, 1)
    assert [fault for fault, _ in findings_of(report)] == [Fault.UNCHECKED]


def test_a_log_may_grow_while_its_ledger_is_read(local: Site) -> None:
    record = local.anchored()
    chain = local.chain()
    record.add(ConfigurationChange(START, bytes(32), (), "the owner"))
    local.anchor(record)
    assert findings_of(checked(record, chain)) == []


def test_the_one_owner_of_a_ledger_need_not_be_named(local: Site) -> None:
    with pytest.raises(InputError, match="no owner"):
        only_owner(local.reader())
    local.anchored()
    assert only_owner(local.reader()) == local.world.owner.sender
    local.world.stranger.anchor(bytes(32), 1)
    with pytest.raises(InputError, match="2 owners"):
        only_owner(local.reader())


# A log that was restored from a backup: its ledger has anchors of the log that it replaces.


def restored(record: Record, at: int, name: str = str(SIGNER.verifier)) -> Record:
    """Return what a backup of the first eight leaves becomes."""
    after = Record(entries_=record.entries_[:8], keys=record.keys)
    setting = Setting(LOG_SETTING, "the old key, 8 leaves", name)
    after.add(ConfigurationChange(at, bytes(32), (setting,), "holdfast restore"))
    after.sign()
    return after


def test_anchors_from_before_a_restore_are_counted_and_no_finding_if_the_verifier_knows(
    site: Site,
) -> None:
    record = site.anchored()
    after = restored(record, 1000 * (site.world.now() + 1))
    assert not checked(after, site.chain()).fine
    report = checked(after, site.chain(), restored=True)
    assert (findings_of(report), report.anchors_before_restore) == ([], 1)


def test_an_anchor_from_after_a_restore_is_found(local: Site) -> None:
    after = restored(local.anchored(), 1000 * local.world.now() - MINUTE)
    report = checked(after, local.chain(), restored=True)
    assert [fault for fault, _ in findings_of(report)] == [Fault.ROOT]


def test_a_log_that_does_not_say_that_it_was_restored_gets_no_leave(local: Site) -> None:
    record = local.anchored()
    cut = replace(record, entries_=record.entries_[:8], notes=record.notes[:2])
    assert not checked(cut, local.chain(), restored=True).fine
    other = restored(record, 1000 * local.world.now(), name="another key")
    assert not checked(other, local.chain(), restored=True).fine


# Registrations are claims, too.


def registered(site: Site) -> tuple[Record, Holding, Transaction]:
    store = Store.of(31 * 5 - 1, sectors=1, seed=3)
    public = store.key.public
    receipt = site.world.owner.register(public, NODE_ADDRESS)
    (event,) = receipt.events
    assert isinstance(event, Registered)
    domain = site.world.owner.domain
    holding = Holding(domain.chain, domain.contract, event.holding, public.id, NODE_ADDRESS)
    record = Record(keys={public.id: public})
    return record, holding, Transaction(receipt.transaction, receipt.block, receipt.gas)


@pytest.mark.slow
def test_a_registration_is_held_against_the_ledger(site: Site) -> None:
    honest, holding, transaction = registered(site)
    other = Transaction(b"\x66" * 32, transaction.block, transaction.gas)
    for claimed, name, expected in (
        (holding, transaction, None),
        (holding, None, None),
        (holding, other, "in another transaction"),
        (replace(holding, node=b"\x05" * 20), transaction, "another node"),
        (replace(holding, id=holding.id + 1), transaction, "the holding is not on"),
    ):
        record = honest.copy()
        record.add(Registration(START, claimed, 1, name))
        record.sign()
        report = checked(record, site.chain())
        whats = [what for _, what in findings_of(report)]
        assert whats == [] if expected is None else expected in whats[0], (whats, expected)


def test_a_key_that_the_ledger_does_not_have_is_found(local: Site) -> None:
    record, holding, transaction = registered(local)
    other = Store.of(31 * 5 - 1, sectors=1, seed=4).key.public
    record.keys = {other.id: other}
    record.add(Registration(START, replace(holding, key=other.id), 1, transaction))
    record.sign()
    assert [fault for fault, _ in findings_of(checked(record, local.chain()))] == [Fault.KEY]


def test_a_bundle_from_before_registrations_and_settings_were_written_still_verifies() -> None:
    path = Path(__file__).parent / "data" / "first.bundle"
    report = verify(Bundle.open(path), SIGNER.verifier)
    assert report.findings == ()
    assert (report.leaves, report.checkpoints, report.anchors) == (5, 4, 1)
