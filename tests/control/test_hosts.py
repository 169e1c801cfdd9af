"""Two hosts with a home of their own each, one database, one chain: what they share and survive."""

import pytest
from tests.support.hosts import PAYER, SECTORS, Site, place, wait_until
from tests.support.killed_workers import names_opened
from tests.support.ledger_env import account_of
from web3 import Web3

from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.signer import evidence_signer
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Audit, Outcome, decode
from holdfast.evidence.verification import verify
from holdfast.ledger.evm import contract_at, history
from holdfast.ledger.interface import Passed
from holdfast.ledger.transactions import Node
from holdfast.storage.database import connect

__all__ = ["place"]  # fixtures


def all_above(place: Site, numbers: dict[int, int]) -> bool:
    """Return whether the schedule has more audits of every holding than these."""
    now = dict(place.query("SELECT id, number FROM holdings"))
    return all(now[id_] > number for id_, number in numbers.items())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hosts_share_the_work_and_one_goes_on_when_the_other_is_killed(place: Site) -> None:
    for name in ("alpha", "beta", "gamma"):
        place.put(place.first, name)
    with place.serving(place.second) as second:
        with place.serving(place.first) as first:
            wait_until("work of both", lambda: min(first.audited(), second.audited()) >= 3)
        numbers = dict(place.query("SELECT id, number FROM holdings"))
        place.put(place.first, "late")
        late = "SELECT 1 FROM holdings WHERE name = 'late' AND number > 0"
        wait_until("an audit of the file put meanwhile", lambda: bool(place.query(late)))
        wait_until("more audits of the others", lambda: all_above(place, numbers))
        assert second.audited() >= 3
    assert "Traceback" not in first.said.read_text() + second.said.read_text()
    assert not list(place.second.folder.glob("*.db*"))
    check_evidence(place)
    check_chain(place)


def check_evidence(place: Site) -> None:
    bundle = place.first.folder / "bundle"
    engine = connect(place.first.address)
    log = DatabaseLog(engine, evidence_signer(place.first.keyring).verifier)
    write_bundle(log, bundle)
    report = verify(Bundle.open(bundle), log.verifier)
    assert report.findings == ()
    assert report.anchors >= 1
    leaves = [decode(entry.leaf) for entry in log.entries()]
    engine.dispose()
    told = [each for each in leaves if isinstance(each, Audit)]
    assert {each.outcome for each in told} == {Outcome.PASSED}
    assert len({(each.holding.id, each.number) for each in told}) == len(told)


def check_chain(place: Site) -> None:
    """Each nonce has one intent, each intent one transaction, each challenge one verdict."""
    web3 = Web3(Node(place.chain))
    intents = place.query("SELECT nonce, data FROM transactions ORDER BY nonce")
    sent = web3.eth.get_transaction_count(account_of(PAYER).address)
    assert [nonce for nonce, _ in intents][:sent] == list(range(sent))
    assert len(intents) - sent <= 1, "the last host was killed, too"
    assert len({data for _, data in intents}) == len(intents)
    contract = contract_at(web3, place.contract, SECTORS)
    events = [event for receipt in history(contract, 0, 1) for event in receipt.events]
    opened = [name for event in events for name in names_opened(event)]
    passed = [event.challenge for event in events if isinstance(event, Passed)]
    assert len(set(opened)) == len(opened)
    assert len(set(passed)) == len(passed)
