"""Checks the ledger: it can be reached, is the one that was used so far, and has our contract."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.doctor.clock import Reference
from holdfast.doctor.finding import Check, fault, ok, one_line, warning
from holdfast.errors import InputError, LedgerError, PassphraseError
from holdfast.ledger import local_reader
from holdfast.ledger.interface import Receipt
from holdfast.ledger.price import PASSING, gas_of_an_audit
from holdfast.owner.home import address_in
from holdfast.owner.ledgers import keystore_passphrase
from holdfast.owner.settings import EvmSettings, Settings
from holdfast.storage.database import Standing, standing_of

if TYPE_CHECKING:
    from web3 import Web3

PART, CONTRACT, ACCOUNT = "ledger", "contract", "account"
MIN_AUDITS = 100  # that the balance should pay for


@dataclass(frozen=True)
class LedgerState:
    checks: list[Check]
    reference: Reference | None = None


def check_files(home: Path, sectors: set[int], clock: Callable[[], float]) -> LedgerState:
    """Check the local ledgers of holdings with these numbers of sectors a block."""
    checks, references = [], []
    for number in sorted(sectors):
        path = home / f"ledger-{number}.db"
        cure = "bring it back from a backup: `holdfast restore BACKUP --home DIR`"
        try:
            last = local_reader.last_call(path)
        except InputError as error:
            checks.append(fault(PART, one_line(str(error)), cure))
            continue
        if last.sectors != number:
            message = f"{path} is for {last.sectors} sectors a block, not for {number}"
            checks.append(fault(CONTRACT, message, cure))
            continue
        checks.append(ok(PART, f"{path} can be read: {last.block} calls so far"))
        ahead = last.time - clock()
        references.append(Reference(f"the last call in {path}", ahead, exact=False))
    if not sectors:
        checks.append(ok(PART, "a file in the home, made with the first holding"))
    return LedgerState(checks, max(references, key=lambda reference: reference.ahead, default=None))


def check_chain(
    home: Path, settings: Settings, evm: EvmSettings, sectors: set[int], clock: Callable[[], float]
) -> LedgerState:
    from holdfast.ledger import transactions  # noqa: PLC0415 - an extra, and a second of imports

    web3 = transactions.connect(evm.url)
    try:
        chain, block = web3.eth.chain_id, web3.eth.get_block("latest")
    except LedgerError as error:
        cure = "start the chain's node, or correct url in [ledger] of holdfast.toml"
        return LedgerState([fault(PART, one_line(str(error)), cure)])
    reference = Reference("the chain's last block", block["timestamp"] - clock(), exact=False)
    checks = [
        *_same_chain(home, settings, chain),
        *_contract(web3, evm, chain, sectors),
        *_account(web3, evm, sectors),
    ]
    return LedgerState(checks, reference)


def _same_chain(home: Path, settings: Settings, chain: int) -> Iterator[Check]:
    """Say whether the home's transactions so far were on this chain."""
    used = _chains(home, settings)
    if used and chain not in used:
        before = ", ".join(map(str, sorted(used)))
        message = f"its chain is {chain}, but the transactions so far were on chain {before}"
        yield fault(PART, message, f"name a node of chain {before} as url in [ledger]")
    else:
        yield ok(PART, f"its node answers, for chain {chain}")


def _chains(home: Path, settings: Settings) -> set[int]:
    from holdfast.ledger.journal import chains  # noqa: PLC0415 - as above

    address = address_in(home, settings.database)
    return chains(address) if standing_of(address)[0] is Standing.CURRENT else set()


def _contract(web3: "Web3", evm: EvmSettings, chain: int, sectors: set[int]) -> Iterator[Check]:
    from holdfast.ledger.evm import recognise  # noqa: PLC0415 - as above

    at = web3.to_checksum_address(evm.contract)
    wanted = min(sectors, default=16)
    cure = (
        "correct contract in [ledger] of holdfast.toml, or put this version's there: `holdfast "
        f"ledger deploy --chain URL --keystore {evm.keystore.name} --sectors {wanted}`"
    )
    if not web3.eth.get_code(at):
        yield fault(CONTRACT, f"there is no contract at {at} on chain {chain}", cure)
        return
    try:
        actual = recognise(web3, evm.contract)
    except InputError:
        what = f"the contract at {at} is of another version, or none of ours"
        yield fault(CONTRACT, what, cure)
        return
    if sectors - {actual}:
        others = ", ".join(map(str, sorted(sectors - {actual})))
        what = f"the contract at {at} is for {actual} sectors a block, but holdings have {others}"
        yield fault(CONTRACT, what, cure)
    else:
        yield ok(CONTRACT, f"{at} has this version's code, for {actual} sectors a block")


def _account(web3: "Web3", evm: EvmSettings, sectors: set[int]) -> Iterator[Check]:
    from holdfast.ledger.transactions import read_account  # noqa: PLC0415 - as above

    try:
        account = read_account(evm.keystore, keystore_passphrase(evm))
    except PassphraseError as error:
        cure = "set HOLDFAST_KEYSTORE_PASSPHRASE, or correct passphrase_file in [ledger]"
        yield fault(ACCOUNT, one_line(str(error)), cure)
        return
    except InputError as error:
        cure = "correct keystore and passphrase_file in [ledger] of holdfast.toml"
        yield fault(ACCOUNT, one_line(str(error)), cure)
        return
    gas = max(gas_of_an_audit(s, batched=False) for s in sectors & PASSING.keys() or {16})
    price = max(int(web3.eth.gas_price), 1)
    audits = int(web3.eth.get_balance(account.address)) // (price * gas)
    message = f"{account.address} can pay for {audits:,} audits at today's price of gas"
    if audits == 0:
        yield fault(ACCOUNT, f"{account.address} can't pay for one audit", "send it some ether")
    elif audits < MIN_AUDITS:
        yield warning(ACCOUNT, message, "send it some ether")
    else:
        yield ok(ACCOUNT, message)


def history_of(evm: EvmSettings, since: int) -> list[Receipt]:
    """Return the contract's receipts from that block on."""
    from holdfast.ledger.evm import contract_at, history, recognise  # noqa: PLC0415 - as above
    from holdfast.ledger.transactions import connect  # noqa: PLC0415

    web3 = connect(evm.url)
    return history(contract_at(web3, evm.contract, recognise(web3, evm.contract)), since, 1)
